"""From the records of a run to a response of OpenAI's Responses API, and to its numbered events.

The id of a response is that of its run. The output has the texts and the thoughts of all turns; a call of the worker's
own tools is an item ``mcp_call`` with its result, and a call of a tool of the client is a ``function_call``. Sources:
https://platform.openai.com/docs/api-reference/responses-streaming, https://www.openresponses.org/specification

The events are a function of the records, one by one and in order, so that their numbers are the same for each client,
also in another process that reads the run from a log: a client continues after the last number that it has. A
``function_call`` is done only when the run waits for its result: clients make a call as soon as it is done, also one
that a hook has answered or that a failed attempt has left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import BlockType, Record
from rxworker.messages import Json, JsonObject, StopKind
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.settings import check_plain
from rxworker.messages.usage import Usage
from rxworker.protocols.common import DONE, ENDED, Batches, RecordEncoder, arguments_of, pump
from rxworker.protocols.native import sse_frame
from rxworker.protocols.openai.chat import TEXTS, calls_of_client, waits_for
from rxworker.views import changes

Status: TypeAlias = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

_INCOMPLETE = {
    StopKind.MAX_TOKENS: "max_output_tokens",
    StopKind.REFUSAL: "content_filter",
    StopKind.CONTENT_FILTER: "content_filter",
}


class ResponseHead(Struct, frozen=True):
    """The fields of a response that are known before its output.

    Attributes:
        id: Its id.
        created_at: When it began, in seconds since the epoch.
        model: The name of the worker.
        tools: The names of the client's tools.
        repeated: The members of the request that it repeats; see `OpenAIRequest`.
    """

    id: str
    created_at: float
    model: str
    tools: tuple[str, ...] = ()
    repeated: JsonObject = {}


def response_object(head: ResponseHead, status: Status, **members: Json) -> JsonObject:
    """A response.

    Args:
        head: The members that are known before its output.
        status: Its status.
        members: The known members: ``output``, ``usage``, ``error``, ``incomplete_details`` and ``completed_at``.

    >>> response_object(ResponseHead("run-1", 0.0, "desk"), "queued")["status"]
    'queued'
    """
    return {
        "id": head.id,
        "object": "response",
        "created_at": int(head.created_at),
        "status": status,
        "model": head.model,
        "tools": [
            {"type": "function", "name": name, "description": None, "parameters": None, "strict": None}
            for name in head.tools
        ],
        **_DEFAULTS,
        **head.repeated,
        **members,
    }


_DEFAULTS: JsonObject = {
    "background": False,
    "completed_at": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "output": [],
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
}
"""The members that each response has; Open Responses requires them."""


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
        name: The name of the events of its beginning and its end.
        index: The member of its events that holds its index.
        more: Further members of the events of its text.
    """

    holder: str
    kind: str
    key: str
    text: str
    name: str = "response.content_part"
    index: str = "content_index"
    more: JsonObject = {}

    def value(self, text: str) -> JsonObject:
        """The part with a text."""
        empty: JsonObject = {"annotations": [], "logprobs": []} if self.more else {}
        return {"type": self.kind, self.key: text, **empty}


_PARTS = {
    BlockType.TEXT: _Part("content", "output_text", "text", "response.output_text", more={"logprobs": []}),
    BlockType.REFUSAL: _Part("content", "refusal", "refusal", "response.refusal"),
    BlockType.THINKING: _Part(
        "summary",
        "summary_text",
        "text",
        "response.reasoning_summary_text",
        "response.reasoning_summary_part",
        "summary_index",
    ),
}


class _Item:
    """An item of the output.

    Attributes:
        index: Its index.
        item: Its JSON.
        part: How its one part is written; ``None`` for a call.
        texts: The pieces of its text, or of its arguments.
    """

    def __init__(self, index: int, item: JsonObject, part: _Part | None) -> None:
        self.index = index
        self.item = item
        self.part = part
        self.texts: list[str] = []
        self._text = f"response.{item['type']}_arguments" if part is None else part.text
        self._more: JsonObject = {} if part is None else part.more

    @property
    def is_shown(self) -> bool:
        """Whether the whole response has it: a call that the client is not to make is left out."""
        return self.item["type"] != "function_call" or self.item["status"] == "completed"

    def event(self, kind: str, **members: Json) -> JsonObject:
        """An event of the item, or of its part."""
        place: JsonObject = {} if self.part is None else {self.part.index: 0}
        about: JsonObject = {"type": kind, "item_id": self.item["id"], "output_index": self.index}
        return {**about, **place, **members}

    def grow(self, text: str) -> JsonObject:
        """The event of more text."""
        self.texts.append(text)
        return self.event(f"{self._text}.delta", delta=text, **self._more)

    def text_done(self, **members: Json) -> JsonObject:
        """The event of the whole text."""
        return self.event(f"{self._text}.done", **members, **self._more)

    def whole(self, moment: Literal["added", "done"]) -> JsonObject:
        """The event of its beginning or its end."""
        return {"type": f"response.output_item.{moment}", "output_index": self.index, "item": self.item}

    def done(self, status: str, **members: Json) -> JsonObject:
        """The event of its end."""
        self.item = {**self.item, **members, "status": status}
        return self.whole("done")


class ResponseEncoder(RecordEncoder[JsonObject]):
    """Encodes the records of one run as the events of one response.

    Args:
        head: The members that are known before the output.
        usage: Returns the usage of the run when it has ended.

    Attributes:
        status: The status of the response.

    >>> from rxworker.events import Record, TextDelta
    >>> encoder = ResponseEncoder(ResponseHead("run-1", 0.0, "desk"))
    >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
    >>> [event["type"].removeprefix("response.") for event in encoder.feed(record)]
    ['created', 'in_progress', 'output_item.added', 'content_part.added', 'output_text.delta']
    """

    def __init__(self, head: ResponseHead, usage: Callable[[], Usage] = Usage) -> None:
        super().__init__()
        self.status: Status = "in_progress"
        self._head = head
        check_plain("ResponseEncoder(usage)", usage)
        self._usage = usage
        self._time = head.created_at
        self._number = 0
        self._count = 0
        self._items: dict[str, _Item] = {}
        self._ended: JsonObject = {}

    @property
    def response(self) -> JsonObject:
        """The response so far."""
        output: list[Json] = [known.item for known in self._items.values()]
        return response_object(self._head, self.status, output=output, **self._ended)

    def feed(self, record: Record) -> list[JsonObject]:
        """Encode a record, which may give no events."""
        self._time = record.time
        return super().feed(record)

    def _encoded(self, several: Iterable[changes.Change], /) -> list[JsonObject]:
        events = super()._encoded(several)
        for event in events:
            event["sequence_number"] = self._number
            self._number += 1
        return events

    def _encode(self, change: changes.Change) -> Iterator[JsonObject]:
        match change:
            case changes.ViewBegin():
                self._head = replace(self._head, created_at=self._time)
                yield {"type": "response.created", "response": self.response}
                yield {"type": "response.in_progress", "response": self.response}
            case changes.BlockOpen(block=block) if not block.scope.id:
                yield from self._open(block)
            case changes.BlockGrow(block=block, text=text) if block.id in self._items:
                yield self._items[block.id].grow(text)
            case changes.BlockClose(block=block, aborted=aborted) if block.id in self._items:
                yield from self._close(self._items[block.id], aborted)
            case changes.CallResult(id=name) if name in self._items and not change.scope.id:
                yield from self._result(self._items[name], change)
            case changes.Retract(blocks=blocks, calls=calls):
                for name in (*blocks, *calls):
                    self._items.pop(name, None)
            case changes.ViewPause():
                yield from self._pause(change)
            case changes.ViewFinish(stop_reason=stop):
                reason = None if stop is None else _INCOMPLETE.get(stop.kind)
                if reason is None:
                    yield self._end("completed", completed_at=int(self._time))
                else:
                    yield self._end("incomplete", incomplete_details={"reason": reason})
            case changes.ViewAbort(cause="cancel"):
                yield self._end("cancelled")
            case changes.ViewAbort(reason=reason):
                yield self._end("failed", error=_error(reason))
            case _:
                pass

    def _open(self, block: changes.ShownBlock) -> Iterator[JsonObject]:
        item: JsonObject = {"id": block.id, "status": "in_progress"}
        if block.is_call:
            item |= {"name": block.tool, "arguments": ""}
            if block.tool in self._head.tools:
                item |= {"type": "function_call", "call_id": block.call_id or block.id}
            else:
                item |= {"type": "mcp_call", "server_label": self._head.model, "output": None, "error": None}
        elif block.block_type is BlockType.THINKING:
            item |= {"type": "reasoning", "summary": []}
        elif block.block_type in TEXTS:
            item |= {"type": "message", "role": "assistant", "content": []}
        else:
            return
        part = _PARTS.get(block.block_type)
        known = self._items[block.id] = _Item(self._count, item, part)
        self._count += 1
        yield known.whole("added")
        if part is not None:
            yield known.event(f"{part.name}.added", part=part.value(""))
        elif item["type"] == "mcp_call":
            yield known.event("response.mcp_call.in_progress")

    def _close(self, known: _Item, aborted: str | None) -> Iterator[JsonObject]:
        text, part = "".join(known.texts), known.part
        if part is not None:
            parts: Json = [part.value(text)]
            yield known.text_done(**{part.key: text})
            yield known.event(f"{part.name}.done", part=part.value(text))
            status = "completed" if aborted is None else "incomplete"
            yield known.done(status, **{part.holder: parts})
        elif known.item["type"] == "mcp_call":  # which is done with its result
            yield self._arguments(known, text or "{}")

    def _arguments(self, known: _Item, text: str) -> JsonObject:
        """The event of the whole arguments of a call."""
        known.item = {**known.item, "arguments": text}
        return known.text_done(arguments=text, name=known.item["name"])

    def _result(self, known: _Item, change: changes.CallResult) -> Iterator[JsonObject]:
        if known.item["type"] != "mcp_call" or known.item["output"] is not None:
            return
        text, is_error = change.result.text, change.result.is_error
        status = "failed" if is_error else "completed"
        yield known.event(f"response.mcp_call.{status}")
        error: Json = None
        if is_error:
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        yield known.done(status, output=text, error=error)

    def _pause(self, pause: changes.ViewPause) -> Iterator[JsonObject]:
        """The response is complete if the run waits for its client, and failed if it waits for a person's decision."""
        of_client = calls_of_client(pause, self._head.tools)
        for waiting in of_client:
            yield from self._client_call(waiting)
        if of_client:
            yield self._end("completed", completed_at=int(self._time))
        else:
            yield self._end("failed", error=_error(waits_for(pause)))

    def _client_call(self, waiting: changes.WaitingCall) -> Iterator[JsonObject]:
        """The events of a call that the client makes. Its arguments are those after the hooks."""
        name, arguments = waiting.call.name, arguments_of(waiting.call.input)
        if waiting.id not in self._items:  # a call of the run that this one resumes
            yield from self._open(
                changes.ShownBlock(changes.Scope(), waiting.id, "", BlockType.TOOL_USE, name, call_id=waiting.call.id)
            )
        known = self._items[waiting.id]
        if known.item["status"] != "in_progress":
            return  # its item is complete, and cannot begin again
        if not known.texts:
            yield known.grow(arguments)
        yield self._arguments(known, arguments)
        yield known.done("completed")

    def _end(self, status: Status, **members: Json) -> JsonObject:
        self.status = status
        self._ended = {**members, "usage": _usage(self._usage())}
        self._items = {name: known for name, known in self._items.items() if known.is_shown}
        for known in self._items.values():
            if known.item["status"] == "in_progress":  # a call without a result
                known.item = {**known.item, "status": "incomplete"}
        # There is no event of its own for a response that was cancelled.
        name = "incomplete" if status == "cancelled" else status
        return {"type": f"response.{name}", "response": self.response}


def _error(message: str) -> JsonObject:
    return {"code": "server_error", "message": message}


async def response_stream(batches: Batches, encoder: ResponseEncoder, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The server-sent events of a streamed response.

    Args:
        batches: The records of the run from the first, one by one: merged deltas would have other numbers.
        encoder: Encodes them.
        after: The number of the last event that the client has.

    Raises:
        ConnectionError: The records stopped before the run had ended. No event reports that, since the next number
            belongs to the next record.
    """
    async with aclosing(response_events(batches, encoder)) as pieces:
        async for events in pieces:
            if new := [each for each in events if _number(each) > after]:
                yield b"".join([sse_frame(encode_lenient(each), event=str(each["type"])) for each in new])
    if encoder.status == "in_progress":
        raise ConnectionAbortedError(ENDED)
    yield DONE


def response_events(batches: Batches, encoder: ResponseEncoder) -> AsyncGenerator[list[JsonObject], None]:
    """The events of a response, as long as records come."""
    return pump(batches, encoder.feed, lambda _: [])


def _number(event: JsonObject) -> int:
    number = event["sequence_number"]
    assert isinstance(number, int)
    return number
