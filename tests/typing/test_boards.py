"""What the type checker knows of a published stream; pyright is the judge, pytest only runs it."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker.boards import Published, WatchItems, publish
from rxworker.hub import Item


def half(value: int) -> float:
    return value / 2


async def test_a_stream_has_the_type_of_its_observable() -> None:
    stream = publish("count", reactivex.of(1, 2), keep="all")
    assert_type(stream, Published[int])
    assert_type(stream.latest, Item[int] | None)
    assert_type(stream.watch(), WatchItems[int])
    assert_type(stream.pipe(ops.map(half)), Observable[float])
    async for value in stream:
        assert_type(value, int)
    async for item in stream.watch():
        assert_type(item.value, int)
