from __future__ import annotations

import asyncio

import pytest
import reactivex
from reactivex.subject import Subject

from rxworker.errors import LocalProtocolError
from rxworker.hub import iterate


async def test_items_are_in_order_and_completion_ends_the_loop() -> None:
    assert [item async for item in iterate(reactivex.of(1, 2, 3))] == [1, 2, 3]


async def test_an_error_is_raised_after_the_items_before_it() -> None:
    source = reactivex.concat(reactivex.of(1), reactivex.throw(ValueError("over")))
    items = iterate(source)
    assert await anext(items) == 1
    with pytest.raises(ValueError, match="over"):
        await anext(items)


async def test_a_full_buffer_raises_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="more than 2 items behind"):
        _ = [item async for item in iterate(reactivex.range(0, 5), limit=2)]


async def test_drop_oldest_keeps_the_newest_items() -> None:
    items = iterate(reactivex.range(0, 5), limit=2, when_full="drop_oldest")
    assert [item async for item in items] == [3, 4]


async def test_leaving_the_loop_disposes_the_subscription() -> None:
    source = Subject[int]()
    items = iterate(source)
    first = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    source.on_next(1)
    assert await first == 1
    await items.aclose()
    assert not source.observers
