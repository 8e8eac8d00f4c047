"""Any observable as an async iterator, with a buffer of a size that is named."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Literal, TypeAlias, TypeVar

from reactivex import Observable, abc

from rxworker.errors import LocalProtocolError

A = TypeVar("A")

WhenFull: TypeAlias = Literal["fail", "drop_oldest"]
"""What a full buffer does: ``fail`` with an error, or ``drop_oldest``."""


def iterate(
    source: Observable[A], *, limit: int = 1024, when_full: WhenFull = "fail", at_once: bool = False
) -> AsyncGenerator[A, None]:
    """The items of an observable, one by one. Leaving the loop disposes the subscription.

    A `Run` does not need this: it can be iterated without a buffer, since it keeps its records.

    Args:
        source: The observable. It pushes, and cannot be made to wait.
        limit: The maximum number of items to buffer for a slower reader.
        when_full: ``fail`` ends the iteration with an error, ``drop_oldest`` drops the oldest item.
        at_once: Whether the source is subscribed to now, and not when the first item is read.

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
                end(LocalProtocolError(f"the reader is more than {limit} items behind"))
                return
            held.popleft()
        held.append(item)
        arrived.set()

    def end(error: Exception | None = None) -> None:
        ended.append(error)
        arrived.set()

    async def items(subscription: abc.DisposableBase | None) -> AsyncGenerator[A, None]:
        subscription = source.subscribe(on_next, end, end) if subscription is None else subscription
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

    return items(source.subscribe(on_next, end, end) if at_once else None)
