"""Any observable as an asynchronous iterator, with a bounded buffer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Literal, TypeAlias, TypeVar

from reactivex import Observable

from rxworker.errors import LocalProtocolError

A = TypeVar("A")

WhenFull: TypeAlias = Literal["fail", "drop_oldest"]


async def iterate(
    source: Observable[A], *, limit: int = 1024, when_full: WhenFull = "fail"
) -> AsyncGenerator[A, None]:
    """The items of an observable, one by one. Leaving the loop disposes the subscription.

    A `Run` needs none of this: it can be iterated as it is, without a buffer, since it keeps what it published.

    Args:
        source: What to read. It pushes; it cannot be asked to wait.
        limit: The most items to hold for a reader that is slower.
        when_full: ``fail`` ends the iteration with an error that says so, ``drop_oldest`` forgets the oldest item.

    Raises:
        LocalProtocolError: The buffer was full.

    Example:
        >>> import asyncio, reactivex
        >>> async def collect() -> list[int]:
        ...     return [item async for item in iterate(reactivex.of(1, 2, 3))]
        >>> asyncio.run(collect())
        [1, 2, 3]
    """
    held: deque[A] = deque()
    arrived = asyncio.Event()
    ended: list[Exception | None] = []

    def on_next(item: A) -> None:
        if len(held) >= limit:
            if when_full == "fail":
                on_error(LocalProtocolError(f"the reader is more than {limit} items behind"))
                return
            held.popleft()
        held.append(item)
        arrived.set()

    def on_error(error: Exception) -> None:
        if not ended:
            ended.append(error)
        arrived.set()

    def on_completed() -> None:
        if not ended:
            ended.append(None)
        arrived.set()

    subscription = source.subscribe(on_next, on_error, on_completed)
    try:
        while True:
            while held:
                yield held.popleft()
            if ended:
                if ended[0] is not None:
                    raise ended[0]
                return
            arrived.clear()
            await arrived.wait()
    finally:
        subscription.dispose()


__all__ = ["WhenFull", "iterate"]
