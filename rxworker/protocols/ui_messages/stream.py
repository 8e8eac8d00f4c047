"""A watched run as the bytes of an answer in the UI Message Stream, version 1."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType

from rxworker.events import Record
from rxworker.protocols.common.lines import data_line
from rxworker.protocols.common.pump import pump
from rxworker.protocols.ui_messages.encode import UiMessageEncoder
from rxworker.protocols.ui_messages.wire import Finish, Start, UiMessagePart

DONE = b"data: [DONE]\n\n"
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-vercel-ai-ui-message-stream": "v1",
    }
)


def sse_bytes(part: UiMessagePart) -> bytes:
    r"""A part as a frame of server-sent events.

    >>> from rxworker.protocols.ui_messages.wire import TextEnd
    >>> sse_bytes(TextEnd("1"))
    b'data: {"type":"text-end","id":"1"}\n\n'
    """
    return data_line(part)


async def ui_message_stream(
    batches: AsyncIterable[Sequence[Record]],
    message_id: str | None = None,
    *,
    can_reset: bool = True,
    before: Sequence[AsyncIterable[Sequence[Record]]] = (),
) -> AsyncGenerator[bytes, None]:
    """The bytes to write, a piece for each batch of records, and `DONE` at the end. The answer has the headers `HEADERS`.

    Everything that is open is closed at the end, also where the run fails, or its watcher is detached. A client that comes
    back is sent all of the message again, from its first record.

    Args:
        batches: The records, for example ``watch.batches()``.
        message_id: The message's id; for a run that was resumed, that of the message that it goes on with. A client that comes back
            tells by it that it has the message.
        can_reset: Whether the client knows ``reset-step``.
        before: The records of the runs that it goes on with, in order: for a client that comes back, and for which all of them are one
            message.
    """
    last = len(before)
    for place, source in enumerate((*before, batches)):
        encoder = UiMessageEncoder(message_id, can_reset=can_reset)
        async with aclosing(pump(source, encoder.feed, encoder.close)) as pieces:
            async for parts in pieces:
                told = [p for p in parts if _is_told(p, is_first=place == 0, is_last=place == last)]
                yield b"".join(map(sse_bytes, told))
    yield DONE


def _is_told(part: UiMessagePart, *, is_first: bool, is_last: bool) -> bool:
    """Whether it is a part of the message: one that is made of several runs begins once, and ends once."""
    return (is_first or not isinstance(part, Start)) and (is_last or not isinstance(part, Finish))


__all__ = ["DONE", "HEADERS", "sse_bytes", "ui_message_stream"]
