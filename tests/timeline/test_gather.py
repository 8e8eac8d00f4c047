"""Handlers that are given deltas together: what holds for them when they come one by one holds then, too."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker.events import BlockStart, BlockType, TextDelta
from rxworker.events.deltas import Deltas
from rxworker.timeline import TextBlockCollector, Timeline


class Failing(TextBlockCollector):
    """One that cannot."""

    def gather(self, scope: list[str], deltas: Deltas[Any], /) -> None:
        """Raise."""
        raise ValueError("no more")


class Gathering(TextBlockCollector):
    """Keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def gather(self, scope: list[str], deltas: Deltas[Any], /) -> None:
        """Keep."""
        self.given += deltas.texts


@pytest.mark.parametrize(("failing", "raised"), [(1, ValueError), (2, ExceptionGroup)])
def test_one_that_raises_keeps_no_other_from_its_deltas(
    failing: int, raised: type[Exception]
) -> None:
    timeline, gathering = Timeline(), Gathering()
    for _ in range(failing):
        timeline.on_text_block(Failing())
    timeline.on_text_block(gathering)
    timeline.dispatch(BlockStart(0, BlockType.TEXT))
    with pytest.raises(raised):
        timeline.dispatch_many(Deltas(TextDelta(0, ""), ["a", "b"]))
    assert gathering.given == ["a", "b"]
