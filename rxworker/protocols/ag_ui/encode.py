"""From the records of a run to the events of AG-UI, and to the bytes of a response.

`HANDLERS` is the table from changes to events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from rxworker import events
from rxworker.decisions import distinct
from rxworker.events.pause import CLIENT_TOOL
from rxworker.messages import Conversation, Document, Image, JsonObject, Message, Refusal, Text, Thinking, ToolResult
from rxworker.messages.pairs import with_calls
from rxworker.protocols import common
from rxworker.protocols.common import Wire, present, tagged
from rxworker.state import RunState
from rxworker.views import changes

Names = tuple[str, str]
_NONE = ("", ""), events.Usage()


class UsageTotals:
    """The usage of all responses of a run and its nested runs, by provider and model.

    >>> from rxworker.events import AttemptStart, Record, Usage
    >>> totals = UsageTotals()
    >>> for place, event in enumerate([AttemptStart("acme", "large"), Usage(10, 5)], start=1):
    ...     totals.feed(Record(seq=place, run_id="r", turn=1, attempt=1, time=0.0, event=event))
    >>> totals.usage[0]["totalTokens"]
    15
    """

    def __init__(self) -> None:
        self._spent: defaultdict[Names, events.Usage] = defaultdict(events.Usage)
        # By path: the current response's provider and model, and its last report.
        self._open: dict[tuple[str, ...], tuple[Names, events.Usage]] = {}

    def feed(self, record: events.Record) -> None:
        """Take the next record."""
        event, path = record.event, record.path
        if not isinstance(event, events.Usage | events.AttemptStart | events.Status):
            return
        (provider, model), last = self._open.get(path, _NONE)
        if isinstance(event, events.Usage):
            self._open[path] = (provider, model), event
        elif isinstance(event, events.AttemptStart):
            self._spent[provider, model] += last
            self._open[path] = (event.provider, event.model), events.Usage()
        elif event.status is events.ResponseStatus.STARTED:
            if not event.provider:  # several models: the next usage has what all of them took
                self._spent[provider, model] += last
            self._open[path] = (event.provider or provider, event.model or model), events.Usage()

    def catch_up(self, state: RunState) -> None:
        """Start with the usage of a run so far. The usage of the current response is replaced by its next report."""
        response = state.response
        names = (state.provider, (response.model if response else None) or "")
        self._spent[names] = state.spent + state.inner.spent
        self._open[()] = names, (response.usage if response else None) or events.Usage()

    @property
    def usage(self) -> tuple[Wire, ...]:
        """The usage so far."""
        counts = self._spent.copy()
        for names, last in self._open.values():
            counts[names] += last
        return tuple(_token_usage(names, usage) for names, usage in counts.items() if usage != events.Usage())


def _token_usage(names: Names, usage: events.Usage) -> Wire:
    return present(
        provider=names[0] or None,
        model=names[1] or None,
        inputTokens=usage.input_tokens,
        outputTokens=usage.output_tokens,
        totalTokens=usage.total_tokens,
        reasoningTokens=usage.reasoning_tokens,
        cachedInputTokens=usage.cache_read_tokens,
        cacheWriteInputTokens=usage.cache_creation_tokens,
    )


def messages_of(conversation: Conversation, prefix: str) -> tuple[Wire, ...]:
    """The messages of a snapshot.

    Args:
        conversation: The conversation.
        prefix: The prefix of the message ids.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello")))
    >>> [(message["role"], message["content"]) for message in messages_of(conversation, "run-1")]
    [('user', 'hi'), ('assistant', 'hello')]
    """
    ids = common.CallIds()
    made: list[Wire] = []
    if conversation.system is not None:
        made.append({"id": f"{prefix}.system", "role": "system", "content": conversation.system})
    for place, message in enumerate(conversation.messages):
        made.extend(_messages(message, f"{prefix}.m{place}", ids))
    return tuple(made)


def _messages(message: Message, name: str, ids: common.CallIds) -> Iterator[Wire]:
    if message.role == "assistant":
        yield from _assistant(message, name, ids)
        return
    for place, result in enumerate(message.tool_results):
        shown = ids.of_result(result.tool_use_id)
        text = result_text(result)
        about = {"role": "tool", "content": text, "toolCallId": shown, "error": text if result.is_error else None}
        yield present(id=f"{name}.{place}.result", **about)
    parts = [part for block in message.content if (part := _part(block)) is not None]
    if all(part["type"] == "text" for part in parts):
        if message.text:
            yield {"id": name, "role": message.role, "content": message.text}
    else:
        yield {"id": name, "role": message.role, "content": parts}


def _assistant(message: Message, name: str, ids: common.CallIds) -> Iterator[Wire]:
    for place, block in enumerate(message.content):
        if isinstance(block, Thinking):
            about = {"role": "reasoning", "content": block.text, "encryptedValue": block.signature}
            yield present(id=f"{name}.{place}", **about)
    texts = [block.text for block in message.content if isinstance(block, Text | Refusal)]
    calls = tuple(common.function_call(ids.of_call(call.id), call) for call in message.tool_calls)
    if texts or calls:
        yield present(id=name, role="assistant", content="".join(texts) or None, toolCalls=calls or None)


def _part(block: object) -> JsonObject | None:
    """A text, an image or a document as a part; ``None`` for anything else, and for files that only a provider has."""
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, Image | Document) or (block.data is None and block.url is None):
        return None
    source: JsonObject = {
        "type": "url" if block.data is None else "data",
        "value": block.url if block.data is None else block.data,
        "mimeType": block.media_type,
    }
    return {"type": "image" if isinstance(block, Image) else "document", "source": source}


def result_text(result: ToolResult) -> str:
    """The text of a result, with the media type of each image or document in it.

    >>> result_text(ToolResult("call_1", (Text("Look: "), Image(url="https://example.com"))))
    'Look: (image/png)'
    """
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text if isinstance(part, Text) else f"({part.media_type})" for part in result.content)


def result_content(result: ToolResult) -> str | list[JsonObject]:
    """The content of a result: text, or parts if it contains more than text.

    >>> result_content(ToolResult("call_1", "sunny"))
    'sunny'
    """
    if isinstance(result.content, str) or all(isinstance(p, Text) for p in result.content):
        return result.text
    return [made for part in result.content if (made := _part(part)) is not None]


class AgUiEncoder(common.RecordEncoder[Wire]):
    """Encodes the records of one run as events of AG-UI. The events are valid for any records, also incomplete ones.

    A client runs a call of its tools at ``TOOL_CALL_END``, with the arguments that were sent until then, and nothing
    takes them back. So a call that is held is sent in one piece when the run offers it to the client. One that a hook
    or a person has answered is never sent; its result is a custom event, since the protocol has results for calls that
    were sent.

    Args:
        thread_id: The client's id of the conversation.
        run_id: The client's id of the run.
        protocol: The protocol version in the input of the client; ``None`` for clients before 1.0, which support
            neither cancelled runs nor results with pictures.
        snapshot: Whether to send the conversation so far first, for a client that does not have it.
        parent_run_id: The run that the client branched off, as in its input.
        answered: The ids of the calls whose results the client has sent itself, which are not sent back.

    Example:
        >>> from rxworker.events import Record, TextDelta
        >>> encoder = AgUiEncoder("thread-1", "run-1")
        >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [event["type"] for event in encoder.feed(record)]
        ['RUN_STARTED', 'STEP_STARTED', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT']
        >>> [event["type"] for event in encoder.close("the watcher left")]
        ['TEXT_MESSAGE_END', 'STEP_FINISHED', 'RUN_ERROR']
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        protocol: str | None = None,
        snapshot: bool = False,
        parent_run_id: str | None = None,
        answered: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._thread_id = thread_id
        self._run_id = run_id
        self._is_new = protocol is not None and not protocol.startswith("0.")
        self._snapshot = snapshot
        self._parent_run_id = parent_run_id
        self._answered = frozenset(answered)
        self._totals = UsageTotals()
        # By scope: the current response, and the message that its calls are part of.
        self._parents: dict[str, tuple[str, str]] = {}
        # The calls that are held, with the messages that they are part of.
        self._held: dict[str, str | None] = {}

    def catch_up(self, state: RunState, run_id: str) -> list[Wire]:
        """The events that bring a late watcher to this state, after a snapshot of the messages.

        The records after it come next.
        """
        self._snapshot = True
        self._totals.catch_up(state)
        return super().catch_up(state, run_id)

    def _encode(self, change: changes.Change) -> Iterable[Wire]:
        made, scope = HANDLERS[type(change)](self, change), common.scope_of(change)
        return ({**each, "subagentRunId": scope.id} for each in made) if scope.id else made

    # The run

    def _begin(self, change: changes.ViewBegin) -> Iterator[Wire]:
        # A client that did not declare a version may not know the field.
        about = {"protocolVersion": "1.0" if self._is_new else None, "parentRunId": self._parent_run_id}
        yield tagged("RUN_STARTED", threadId=self._thread_id, runId=self._run_id, **about)
        # The calls that a resumed run continues with and has not decided about.
        self._held.update((each.id, None) for each in change.pending if each.is_held)
        if self._snapshot:
            conversation = change.conversation or Conversation()
            left = {each.place: None if each.is_held else each.call for each in change.pending}
            messages = messages_of(with_calls(conversation, left), change.run_id)
            yield {"type": "MESSAGES_SNAPSHOT", "messages": messages}

    def _finish(self, _: changes.ViewFinish) -> Iterator[Wire]:
        yield self._finished({"type": "success"})

    def _pause(self, change: changes.ViewPause) -> Iterator[Wire]:
        """A run that waits for tools of the client has succeeded, as far as AG-UI is concerned."""
        if change.hook == CLIENT_TOOL:
            ids = tuple([call.id for call in change.pending])
            # Before 1.0, a run without an outcome waits for the results of calls, and one that has succeeded does not.
            yield self._finished({"type": "success", "pendingToolCallIds": ids} if self._is_new else None)
            return
        ids = distinct([pending.name for pending in change.pending])
        interrupts = tuple(
            _interrupt(change, pending, name)
            for pending, name in zip(change.pending, ids, strict=True)
            if pending.needs_decision
        )
        if not interrupts:
            name = common.interrupt_id(change.run_id, "")
            why = change.reason or f"{change.hook} has paused the run"
            about = {"message": why, "responseSchema": MESSAGE_SCHEMA, "metadata": ours({"hook": change.hook})}
            interrupts = ({"id": name, "reason": "input_required", **about},)
        yield self._finished({"type": "interrupt", "interrupts": interrupts})

    def _abort(self, change: changes.ViewAbort) -> Iterator[Wire]:
        if change.cause == "cancel" and self._is_new:
            yield self._finished({"type": "cancelled"})
        else:
            yield self._failed(change.reason or change.cause, change.cause)

    def _cut(self, change: changes.ViewCut) -> Iterator[Wire]:
        yield self._failed(change.reason, "detached")

    def _finished(self, outcome: Wire | None) -> Wire:
        about = {"outcome": outcome, "usage": self._totals.usage or None}
        return tagged("RUN_FINISHED", threadId=self._thread_id, runId=self._run_id, **about)

    def _failed(self, message: str, code: str) -> Wire:
        return tagged("RUN_ERROR", message=message, code=code, usage=self._totals.usage or None)

    # Turns, and runs inside the run

    def _close_scope(self, change: changes.ScopeClose) -> Iterator[Wire]:
        self._parents.pop(change.scope.id, None)
        if change.error is None:
            yield {"type": "SUBAGENT_FINISHED"}
        else:
            yield tagged("SUBAGENT_ERROR", message=change.error, code=change.cause or None)

    # Blocks

    def _open(self, change: changes.BlockOpen) -> Iterator[Wire]:
        block = change.block
        if block.block_type is events.BlockType.THINKING:
            yield _of_message("REASONING_START", _span(block))
            yield _of_message("REASONING_MESSAGE_START", block.id, role="reasoning")
        elif block.is_call:
            parent = self._parent_of(block, block.response)
            if block.is_held:
                self._held[block.id] = parent
            else:
                is_provided = block.block_type is events.BlockType.SERVER_TOOL_USE
                about = {"parentMessageId": parent, "metadata": ours({"provided": True}) if is_provided else None}
                yield _of_call("TOOL_CALL_START", block.id, toolCallName=block.tool, **about)
        else:
            self._parent_of(block, block.id)  # the calls after a text are part of its message
            metadata = ours({"refusal": True}) if block.block_type is events.BlockType.REFUSAL else None
            yield _of_message("TEXT_MESSAGE_START", block.id, role="assistant", metadata=metadata)

    def _parent_of(self, block: changes.ShownBlock, first: str) -> str:
        """The message that the calls of the block's response are part of: the first one, if there is none yet."""
        response, parent = self._parents.get(block.scope.id, ("", ""))
        if response != block.response:
            parent = first
            self._parents[block.scope.id] = (block.response, parent)
        return parent

    def _grow(self, change: changes.BlockGrow) -> Iterator[Wire]:
        block = change.block
        if block.block_type is events.BlockType.THINKING:
            yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": block.id, "delta": change.text}
        elif not block.is_call:
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": block.id, "delta": change.text}
        elif not block.is_held:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": block.id, "delta": change.text}

    def _close(self, change: changes.BlockClose) -> Iterator[Wire]:
        block = change.block
        if block.block_type is events.BlockType.THINKING:
            yield _of_message("REASONING_MESSAGE_END", block.id)
            yield _of_message("REASONING_END", _span(block))
        elif not block.is_call:
            metadata = None if change.aborted is None else ours({"aborted": change.aborted})
            yield _of_message("TEXT_MESSAGE_END", block.id, metadata=metadata)
        elif not block.is_held:
            yield _of_call("TOOL_CALL_END", block.id)

    # Calls

    def _start_call(self, change: changes.CallStart) -> Iterator[Wire]:
        call = change.call
        if not change.is_held:
            yield from self._release(change)
        yield _custom("rxworker.tool_start", {"toolCallId": change.id, "name": call.name, "input": call.input})

    def _release(self, change: changes.CallOffer | changes.CallStart) -> Iterator[Wire]:
        """The events of a call that was held. A client that has the call already is not sent it again."""
        if change.id in self._held:
            about = {"toolCallName": change.call.name, "parentMessageId": self._held.pop(change.id)}
            yield _of_call("TOOL_CALL_START", change.id, **about)
            yield _of_call("TOOL_CALL_ARGS", change.id, delta=common.arguments_of(change.call.input))
            yield _of_call("TOOL_CALL_END", change.id)

    def _end_call(self, change: changes.CallResult) -> Iterator[Wire]:
        """A client before 1.0 gets only the text of a result."""
        if change.id in self._answered:
            return
        result = change.result
        content = result_content(result) if self._is_new else result_text(result)
        about: JsonObject = {"isError": result.is_error, "seconds": change.seconds}
        if change.is_placeholder:
            about["placeholder"] = True  # its arguments were never complete
        if change.id not in self._held:
            sent = {"toolCallId": change.id, "content": content, "role": "tool", "metadata": ours(about)}
            yield _of_message("TOOL_CALL_RESULT", f"{change.id}.result", **sent)
            return
        del self._held[change.id]  # the client does not have the call that a result belongs to
        if not change.is_placeholder:
            value = {"toolCallId": change.id, "name": result.name, "content": content, **about}
            yield _custom("rxworker.tool_result", value)

    # Other events


def _of_message(kind: str, name: str, **members: object) -> Wire:
    return tagged(kind, messageId=name, **members)


def _of_call(kind: str, name: str, **members: object) -> Wire:
    return tagged(kind, toolCallId=name, **members)


def _custom(name: str, value: object) -> Wire:
    """An event that the protocol does not have."""
    return {"type": "CUSTOM", "name": name, "value": value}


def ours(value: JsonObject) -> JsonObject:
    """Metadata under our own key.

    >>> ours({"refusal": True})
    {'rxworker': {'refusal': True}}
    """
    return {"rxworker": value}


def _open_step(_: AgUiEncoder, change: changes.StepOpen) -> Iterator[Wire]:
    yield {"type": "STEP_STARTED", "stepName": f"turn {change.turn}"}


def _close_step(_: AgUiEncoder, change: changes.StepClose) -> Iterator[Wire]:
    yield {"type": "STEP_FINISHED", "stepName": f"turn {change.turn}"}


def _open_scope(_: AgUiEncoder, change: changes.ScopeOpen) -> Iterator[Wire]:
    scope = change.scope
    outer = {"parentSubagentRunId": scope.parent or None, "parentToolCallId": scope.call_id or None}
    yield tagged("SUBAGENT_STARTED", name=scope.name or "run", **outer)


def _extra(_: AgUiEncoder, change: changes.BlockExtra) -> Iterator[Wire]:
    block, event = change.block, change.event
    if isinstance(event, events.SignatureDelta):
        sealed = {"entityId": block.id, "encryptedValue": event.signature}
        yield {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", **sealed}
    else:
        yield _custom("rxworker.citation", {"messageId": block.id, "citation": event.citation})


def _whole(_: AgUiEncoder, change: changes.BlockWhole) -> Iterator[Wire]:
    value = {"type": change.block.block_type.value, "kind": change.kind, "echo": change.echo}
    yield _custom("rxworker.block", value)


def _call_progress(_: AgUiEncoder, change: changes.CallProgress) -> Iterator[Wire]:
    content: JsonObject = {"toolCallId": change.id, "progress": change.progress}
    about = {"activityType": "rxworker.tool_progress", "content": content}
    yield _of_message("ACTIVITY_SNAPSHOT", f"{change.id}.progress", **about)


def _retract(_: AgUiEncoder, change: changes.Retract) -> Iterator[Wire]:
    value = {"reason": change.reason, "messageIds": change.blocks, "toolCallIds": change.calls}
    yield _custom("rxworker.retract", value)


def _note(encoder: AgUiEncoder, change: changes.Note) -> Iterator[Wire]:
    record = change.record
    encoder._totals.feed(record)
    match record.event:
        case events.MessageAdd(messages=messages, source=source):
            for place, message in enumerate(messages):
                if message.text:
                    name = f"{record.run_id}.{record.seq}.{place}"
                    about = {"role": message.role, "metadata": ours({"source": source})}
                    yield _of_message("TEXT_MESSAGE_START", name, **about)
                    yield _of_message("TEXT_MESSAGE_CONTENT", name, delta=message.text)
                    yield _of_message("TEXT_MESSAGE_END", name)
        case events.SharedStateChange(op=op, path=path, value=value) if not change.scope.id:
            changed = {"op": op, "path": path} | ({} if op == "remove" else {"value": value})
            yield {"type": "STATE_DELTA", "delta": [changed]} if path else {"type": "STATE_SNAPSHOT", "snapshot": value}
        case events.BackgroundStart(background=call) if call.begun is not None and not change.scope.id:
            asked = common.asked_by(record.run_id, call)
            interrupts = [_interrupt(asked, each, each.name) for each in asked.pending]
            yield _custom("rxworker.waiting", {"id": call.id, "interrupts": interrupts})
        case events.Custom(name=name, data=data):
            yield _custom(name, data)
        case event:
            yield _custom(f"rxworker.{common.type_name(event)}", event)


HANDLERS: dict[type[object], Callable[[AgUiEncoder, Any], Iterator[Wire]]] = {
    changes.ViewBegin: AgUiEncoder._begin,
    changes.ViewFinish: AgUiEncoder._finish,
    changes.ViewPause: AgUiEncoder._pause,
    changes.ViewAbort: AgUiEncoder._abort,
    changes.ViewCut: AgUiEncoder._cut,
    changes.StepOpen: _open_step,
    changes.StepClose: _close_step,
    changes.ScopeOpen: _open_scope,
    changes.ScopeClose: AgUiEncoder._close_scope,
    changes.BlockOpen: AgUiEncoder._open,
    changes.BlockGrow: AgUiEncoder._grow,
    changes.BlockExtra: _extra,
    changes.BlockClose: AgUiEncoder._close,
    changes.BlockWhole: _whole,
    changes.CallStart: AgUiEncoder._start_call,
    changes.CallOffer: AgUiEncoder._release,
    changes.CallProgress: _call_progress,
    changes.CallResult: AgUiEncoder._end_call,
    changes.Retract: _retract,
    changes.Note: _note,
}
"""The events of each change."""


def _span(block: changes.ShownBlock) -> str:
    return f"{block.id}.span"


ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {
            "type": ["object", "string"],
            "description": "Other arguments for the call, all of them; a text for a tool that takes free text.",
        },
        "reason": {"type": "string", "description": "Why not, for the model."},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
MESSAGE_SCHEMA: JsonObject = {
    "type": ["string", "boolean"],
    "description": "A message for the model; true to go on without one, or false to end the run.",
}


def _interrupt(change: changes.ViewPause, pending: changes.WaitingCall, name: str) -> Wire:
    call, question = pending.call, pending.question
    about: JsonObject = {"hook": change.hook, "name": call.name}
    if pending.path:
        about["path"] = [*pending.path]
    if question is None:
        kind, schema, about["input"] = "tool_call", ANSWER_SCHEMA, call.input
        text = pending.reason or change.reason or f"May {call.name} be called?"
    else:
        properties: JsonObject = {"approved": {"type": "boolean"}}
        if question.schema is not None:
            properties["editedArgs"] = question.schema
        kind, schema, text = "input_required", {**ANSWER_SCHEMA, "properties": properties}, str(question)
        about["question"] = msgspec.to_builtins(question)
    return {
        "id": common.interrupt_id(change.run_id, name),
        "reason": kind,
        "message": text,
        "toolCallId": pending.id,
        "responseSchema": schema,
        "metadata": ours(about),
    }


async def ag_ui_stream(
    batches: common.Batches, encoder: AgUiEncoder, *, state: RunState | None = None, run_id: str = ""
) -> AsyncGenerator[bytes, None]:
    """The bytes of the response, one chunk for each batch of records. The content type is ``text/event-stream``.

    Everything that is open is closed at the end, also where the run fails, or its watcher is detached.

    Args:
        batches: The records, for example ``watch.batches()``.
        encoder: A new encoder, for this client.
        state: The state before the records, for a late watcher.
        run_id: The run's id, with ``state``.
    """
    if state is not None:
        yield b"".join(map(common.data_line, encoder.catch_up(state, run_id)))
    async with aclosing(common.pump(batches, encoder.feed, encoder.close)) as pieces:
        async for piece in pieces:
            yield b"".join(map(common.data_line, piece))
