"""From the records of a run to a response of OpenAI's Responses API, and to its numbered events.

The id of a response is that of its run. The output has the texts and the thoughts of all turns; a call of the worker's own tools is an item
``mcp_call`` with its result, and a call of a tool of the client is a ``function_call``.

The events are a function of the records, one by one and in order, so that their numbers are the same for each client, also in another process
that reads the run from a log: a client continues behind the last number that it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Literal, TypeAlias

from msgspec import Struct

from rxworker.events import BlockType, Record
from rxworker.messages import Json, JsonObject, StopKind, Usage
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.common import pump
from rxworker.protocols.openai.chat import TEXTS
from rxworker.views import (
    BlockClose,
    BlockGrow,
    BlockOpen,
    CallResult,
    Change,
    Retract,
    ShownBlock,
    Tracker,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
)

Status: TypeAlias = Literal[
    "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"
]

_INCOMPLETE = {
    StopKind.MAX_TOKENS: "max_output_tokens",
    StopKind.REFUSAL: "content_filter",
    StopKind.CONTENT_FILTER: "content_filter",
}


class ResponseHead(Struct, frozen=True):
    """What of a response is known before its output.

    Attributes:
        id: Its id.
        created_at: When it began, in seconds since the epoch.
        model: The name of the worker.
        tools: The names of the client's tools.
        background: Whether it continues without its client.
        previous: The id of the response that it continues.
        metadata: The client's own data.
    """

    id: str
    created_at: float
    model: str
    tools: tuple[str, ...] = ()
    background: bool = False
    previous: str | None = None
    metadata: JsonObject = {}


def response_object(
    head: ResponseHead,
    status: Status,
    output: Sequence[JsonObject] = (),
    usage: Usage | None = None,
    error: JsonObject | None = None,
    incomplete: str = "",
) -> JsonObject:
    """A response.

    Args:
        head: What is known before its output.
        status: Its status.
        output: Its items.
        usage: Its usage.
        error: Why it failed.
        incomplete: Why it is incomplete.

    >>> response_object(ResponseHead("run-1", 0.0, "desk"), "queued")["status"]
    'queued'
    """
    return {
        "id": head.id,
        "object": "response",
        "created_at": int(head.created_at),
        "status": status,
        "background": head.background,
        "error": error,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": head.metadata,
        "model": head.model,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": head.previous,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [
            {"type": "function", "name": name, "parameters": {}, "strict": False}
            for name in head.tools
        ],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if usage is None else _usage(usage),
    }


def _usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens or 0,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_creation_tokens or 0,
        },
        "output_tokens": usage.output_tokens or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens,
    }


class _Part(Struct, frozen=True):
    """How an item with one part is written.

    Attributes:
        holder: The member of the item that holds its part.
        kind: The type of the part.
        key: The member of the part that holds its text.
        text: The name of the events of its text.
        added: The name of the event of its beginning.
        done: The name of the event of its end.
        index: The member of its events that holds its index.
        more: Further members of the events of its text.
    """

    holder: str
    kind: str
    key: str
    text: str
    added: str = "response.content_part.added"
    done: str = "response.content_part.done"
    index: str = "content_index"
    more: JsonObject = {}

    def value(self, text: str) -> JsonObject:
        """The part with a text."""
        empty: JsonObject = {"annotations": [], "logprobs": []} if self.more else {}
        return {"type": self.kind, self.key: text, **empty}

    def event(self, known: _Item, name: str, **members: Json) -> JsonObject:
        """An event of the part."""
        return _event(known, name, **{self.index: 0}, **members)


_PARTS = {
    BlockType.TEXT: _Part(
        "content", "output_text", "text", "response.output_text", more={"logprobs": []}
    ),
    BlockType.REFUSAL: _Part("content", "refusal", "refusal", "response.refusal"),
    BlockType.THINKING: _Part(
        "summary",
        "summary_text",
        "text",
        "response.reasoning_summary_text",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "summary_index",
    ),
}


class _Item:
    """An item of the output."""

    def __init__(self, index: int, item: JsonObject) -> None:
        self.index = index
        self.item = item
        self.texts: list[str] = []

    @property
    def id(self) -> str:
        return str(self.item["id"])


def _event(known: _Item, name: str, **members: Json) -> JsonObject:
    return {"type": name, "item_id": known.id, "output_index": known.index, **members}


def _calls(known: _Item) -> str:
    """The name of the events of a call's arguments."""
    kind = "mcp_call" if known.item["type"] == "mcp_call" else "function_call"
    return f"response.{kind}_arguments"


class ResponseEncoder:
    """Encodes the records of one run as the events of one response.

    Args:
        head: What is known before the output.
        usage: Returns the usage of the run when it has ended.

    >>> from rxworker.events import TextDelta
    >>> encoder = ResponseEncoder(ResponseHead("run-1", 0.0, "desk"))
    >>> record = Record(seq=1, run="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
    >>> [event["type"].removeprefix("response.") for event in encoder.feed(record)]
    ['created', 'in_progress', 'output_item.added', 'content_part.added', 'output_text.delta']
    """

    def __init__(self, head: ResponseHead, usage: Callable[[], Usage] = Usage) -> None:
        self._head = head
        self._usage = usage
        self._tracker = Tracker()
        self._number = 0
        self._count = 0
        self._items: dict[str, _Item] = {}
        self._status: Status = "in_progress"
        self._error: JsonObject | None = None
        self._incomplete = ""

    @property
    def response(self) -> JsonObject:
        """The response so far."""
        output = [known.item for known in self._items.values()]
        usage = None if self._status == "in_progress" else self._usage()
        return response_object(
            self._head, self._status, output, usage, self._error, self._incomplete
        )

    def feed(self, record: Record) -> list[JsonObject]:
        """Encode a record, which may give no events."""
        return self._numbered(self._tracker.feed(record))

    def close(self, reason: str) -> list[JsonObject]:
        """Report the reason why no more records come, unless the run has ended."""
        return self._numbered(self._tracker.close(reason))

    def _numbered(self, changes: list[Change]) -> list[JsonObject]:
        events = [event for change in changes for event in self._events(change)]
        for event in events:
            event["sequence_number"] = self._number
            self._number += 1
        return events

    def _events(self, change: Change) -> Iterator[JsonObject]:
        match change:
            case ViewBegin():
                yield {"type": "response.created", "response": self.response}
                yield {"type": "response.in_progress", "response": self.response}
            case BlockOpen(block=block) if not block.scope.id:
                yield from self._open(block)
            case BlockGrow(block=block, text=text) if block.id in self._items:
                yield from self._grow(block, text)
            case BlockClose(block=block, aborted=aborted) if block.id in self._items:
                yield from self._close(block, aborted)
            case CallResult(id=name) if name in self._items and not change.scope.id:
                yield from self._result(self._items[name], change)
            case Retract(blocks=blocks, calls=calls):
                for name in (*blocks, *calls):
                    self._items.pop(name, None)
            case ViewPause(pending=pending, reason=reason):
                asked = [
                    waiting.call.name
                    for waiting in pending
                    if waiting.call.name not in self._head.tools
                ]
                if asked:
                    names = ", ".join(asked)
                    self._error = {
                        "code": "server_error",
                        "message": f"the run waits for a decision about {names}: {reason}",
                    }
                yield self._end("failed" if asked else "completed")
            case ViewFinish(stop_reason=stop):
                self._incomplete = "" if stop is None else _INCOMPLETE.get(stop.kind, "")
                yield self._end("incomplete" if self._incomplete else "completed")
            case ViewAbort(cause="cancel"):
                yield self._end("cancelled")
            case ViewAbort(reason=reason) | ViewCut(reason=reason):
                self._error = {"code": "server_error", "message": reason}
                yield self._end("failed")
            case _:
                pass

    def _open(self, block: ShownBlock) -> Iterator[JsonObject]:
        item: JsonObject
        if block.is_call:
            item = {"id": block.id, "name": block.tool, "arguments": ""}
            if block.tool in self._head.tools:
                item |= {
                    "type": "function_call",
                    "call_id": block.call_id or block.id,
                    "status": "in_progress",
                }
            else:
                item |= {
                    "type": "mcp_call",
                    "server_label": self._head.model,
                    "output": None,
                    "error": None,
                }
        elif block.block_type is BlockType.THINKING:
            item = {"id": block.id, "type": "reasoning", "summary": [], "status": "in_progress"}
        elif block.block_type in TEXTS:
            item = {
                "id": block.id,
                "type": "message",
                "role": "assistant",
                "content": [],
                "status": "in_progress",
            }
        else:
            return
        known = self._items[block.id] = _Item(self._count, item)
        self._count += 1
        yield {
            "type": "response.output_item.added",
            "output_index": known.index,
            "item": dict(item),
        }
        part = _PARTS.get(block.block_type)
        if part is not None:
            yield part.event(known, part.added, part=part.value(""))
        elif item["type"] == "mcp_call":
            yield _event(known, "response.mcp_call.in_progress")

    def _grow(self, block: ShownBlock, text: str) -> Iterator[JsonObject]:
        known = self._items[block.id]
        known.texts.append(text)
        part = _PARTS.get(block.block_type)
        if part is None:
            yield _event(known, f"{_calls(known)}.delta", delta=text)
        else:
            yield part.event(known, f"{part.text}.delta", delta=text, **part.more)

    def _close(self, block: ShownBlock, aborted: str | None) -> Iterator[JsonObject]:
        known = self._items[block.id]
        text = "".join(known.texts)
        part = _PARTS.get(block.block_type)
        status: Json = "completed" if aborted is None else "incomplete"
        if part is not None:
            parts: Json = [part.value(text)]
            known.item = {**known.item, part.holder: parts, "status": status}
            yield part.event(known, f"{part.text}.done", **{part.key: text}, **part.more)
            yield part.event(known, part.done, part=part.value(text))
        else:
            known.item = {**known.item, "arguments": text or "{}"}
            done = _event(known, f"{_calls(known)}.done", arguments=text or "{}")
            yield {**done, "name": block.tool}
            if known.item["type"] == "mcp_call":
                return  # until its result
            known.item = {**known.item, "status": status}
        yield _event(known, "response.output_item.done", item=known.item)

    def _result(self, known: _Item, change: CallResult) -> Iterator[JsonObject]:
        if known.item["type"] != "mcp_call" or known.item["output"] is not None:
            return
        text = change.result.text
        is_error = change.result.is_error
        known.item = {**known.item, "output": text, "error": text if is_error else None}
        yield _event(known, f"response.mcp_call.{'failed' if is_error else 'completed'}")
        yield _event(known, "response.output_item.done", item=known.item)

    def _end(self, status: Status) -> JsonObject:
        self._status = status
        # There is no event of its own for a response that was cancelled.
        name = "incomplete" if status == "cancelled" else status
        return {"type": f"response.{name}", "response": self.response}


async def response_stream(
    batches: AsyncIterable[Sequence[Record]],
    encoder: ResponseEncoder,
    after: int = -1,
) -> AsyncGenerator[bytes, None]:
    """The server-sent events of a streamed response.

    Args:
        batches: The records of the run from the first, one by one: merged deltas would have other numbers.
        encoder: Encodes them.
        after: The number of the last event that the client has.
    """
    async with aclosing(pump(batches, encoder.feed, encoder.close)) as pieces:
        async for events in pieces:
            frames = [_frame(event) for event in events if _number(event) > after]
            if frames:
                yield b"".join(frames)


def _number(event: JsonObject) -> int:
    number = event["sequence_number"]
    assert isinstance(number, int)
    return number


def _frame(event: JsonObject) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), encode_lenient(event))
