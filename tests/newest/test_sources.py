"""The mappers of the streams of other libraries, with the newest versions of these."""

from __future__ import annotations

import pytest

from tests.tap import peers
from tests.tap.test_sources import recordings


@pytest.mark.timeout(peers.PATIENCE + 300)
@pytest.mark.parametrize("name", [*peers.PEERS])
def test_the_tap_of_the_newest_version_has_its_figures(name: str) -> None:
    """The library runs in a process of its own, with a scripted model, and the tap with it."""
    cases = peers.report(name, peers.python_of(name))
    known = [each.values[0] for each in recordings()]
    assert [case["case"] for case in cases] == [each.case for each in known if each.name == name]
    for case in cases:
        assert {figure: case["tapped"][figure] for figure in case["own"]} == case["own"], case["case"]
