"""From batches of records to the events of a protocol, with its last events whatever happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from typing import TypeVar

from rxworker.errors import RxWorkerError
from rxworker.events import Record

E = TypeVar("E")

ENDED = "the records stopped before the run had ended"


async def pump(
    batches: AsyncIterable[Sequence[Record]],
    feed: Callable[[Record], list[E]],
    close: Callable[[str], list[E]],
) -> AsyncGenerator[list[E], None]:
    """The events of each batch that makes any, and at the end those that close what is open.

    A run that failed ends its watch with what ended it. Its last record has told so already; what ends a watch otherwise is
    told as the reason. Whoever stops reading ends the watch.

    Args:
        batches: The records.
        feed: Makes the events of a record.
        close: Makes the last events.
    """
    reason = ENDED
    source = aiter(batches)
    try:
        async for batch in source:
            events = [event for record in batch for event in feed(record)]
            if events:
                yield events
    except RxWorkerError as error:
        reason = error.message
    except Exception as error:  # what it says may be meant for nobody outside
        reason = f"{ENDED}: {type(error).__name__}"
    finally:
        leave = getattr(source, "aclose", None)
        if leave is not None:
            await leave()
    last = close(reason)
    if last:
        yield last


__all__ = ["pump"]
