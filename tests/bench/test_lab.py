"""Stored runs run again in little time: `tests.bench.lab` measures how little."""

from __future__ import annotations

import pytest

from tests.bench import lab


@pytest.mark.bench
def test_a_turn_that_is_run_again_takes_milliseconds() -> None:
    """500 runs of ten turns are to take less than 10 s, 2 ms a turn; half as much again for a busy machine."""
    same, reading, running = lab.measure(40)
    assert same == 40
    assert (reading + running) / 40 / lab.TURNS < 0.003
