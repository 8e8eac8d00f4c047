"""One session for each event loop: shared while the loop runs, closed when it ends, whatever way that is."""

from __future__ import annotations

import asyncio
import gc
import weakref

from rxworker.transport import close_session
from rxworker.transport.session import shared_session


async def test_a_loop_has_one_session() -> None:
    first, second = await asyncio.gather(shared_session(), shared_session())
    assert first is second
    await close_session()
    assert first.closed


async def test_after_it_was_closed_there_is_another() -> None:
    first = await shared_session()
    await close_session()
    second = await shared_session()
    assert second is not first
    await second.close()  # by somebody else
    assert not (await shared_session()).closed
    await close_session()


async def test_closing_none_does_nothing() -> None:
    await close_session()


def test_it_is_closed_with_its_loop_and_the_loop_is_let_go() -> None:
    seen: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def use() -> bool:
        seen.append(weakref.ref(asyncio.get_running_loop()))
        return (await shared_session()).closed

    assert not asyncio.run(use())
    assert not asyncio.run(use())
    gc.collect()
    assert [loop() for loop in seen] == [None, None]
