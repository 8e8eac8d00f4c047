"""What a tap costs the program that it taps; the figures are for `taps.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.tap import peers

spec = importlib.util.spec_from_file_location("taps", Path(__file__).with_name("taps.py"))
assert spec is not None
assert spec.loader is not None
taps = importlib.util.module_from_spec(spec)
spec.loader.exec_module(taps)


@pytest.mark.bench
@pytest.mark.timeout(peers.PATIENCE + 300)
@pytest.mark.parametrize("name", [*taps.PROGRAMS])
def test_a_tap_calls_few_functions_beside_its_program(name: str) -> None:
    # Time is printed, not held: what else uses the machine adds more than a tap does.
    _, calls = taps.compare(name, peers.python_of(name), 3)
    assert calls.added < taps.MAX_CALLS[name]
