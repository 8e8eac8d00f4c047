"""Blocks, calls, notes and messages as AG-UI sends them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rxworker.events import BlockType, MessageAdd, Record, SharedStateChange, SignatureDelta
from rxworker.messages import (
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.protocols.ag_ui.wire import (
    ActivitySnapshot,
    AgUiEvent,
    Custom,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    StateDelta,
    StateSnapshot,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
    WireMessage,
    call_object,
    ours,
)
from rxworker.protocols.common import CallIds, arguments_of, type_name
from rxworker.views.changes import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallOffer,
    CallProgress,
    CallResult,
    CallStart,
    Note,
    Retract,
    ScopeClose,
    ScopeOpen,
    ShownBlock,
    WaitingCall,
)


class BlockEvents:
    """The events of blocks and calls, in the run itself and in its nested runs.

    A client runs a call of its tools at ``TOOL_CALL_END``, with the arguments that were sent until then, and nothing takes them back. So a call that
    is held is sent in one piece when the run offers it to the client. One that a hook or a person has answered is never sent; its result is a custom event, since the protocol has results for calls that were sent.

    Args:
        is_new: Whether the client declared version 1.0 or a later one.

    >>> from rxworker.views.changes import Scope
    >>> block = ShownBlock(Scope(), "text-1", "response-1", BlockType.TEXT)
    >>> [type(event).__name__ for event in BlockEvents(is_new=True).open(BlockOpen(block))]
    ['TextMessageStart']
    """

    def __init__(self, *, is_new: bool) -> None:
        self._is_new = is_new
        # By scope: the current response, and the message that its calls are part of.
        self._parents: dict[str, tuple[str, str]] = {}
        # The calls that are held, with the messages that they are part of.
        self._held: dict[str, str | None] = {}

    def hold(self, pending: Iterable[WaitingCall]) -> None:
        """Hold back the calls that a resumed run continues with and has not decided about."""
        self._held.update((each.id, None) for each in pending if each.is_held)

    def open_scope(self, change: ScopeOpen) -> Iterator[AgUiEvent]:
        """A nested run begins."""
        scope = change.scope
        name = scope.name or "run"
        yield SubagentStarted(scope.id, name, scope.parent or None, scope.call_id or None)

    def close_scope(self, change: ScopeClose) -> Iterator[AgUiEvent]:
        """A nested run has ended."""
        self._parents.pop(change.scope.id, None)
        if change.error is None:
            yield SubagentFinished(change.scope.id)
        else:
            yield SubagentError(change.scope.id, change.error, change.cause or None)

    def open(self, change: BlockOpen) -> Iterator[AgUiEvent]:
        """A block begins."""
        block = change.block
        scope_id = block.scope.id or None
        if block.block_type is BlockType.THINKING:
            yield ReasoningStart(_span(block), scope_id)
            yield ReasoningMessageStart(block.id, "reasoning", scope_id)
        elif block.is_call:
            parent = self._parent_of(block, block.response)
            if block.is_held:
                self._held[block.id] = parent
            else:
                yield ToolCallStart(block.id, block.tool, parent, scope_id)
        else:
            self._parent_of(block, block.id)  # the calls after a text are part of its message
            is_refusal = block.block_type is BlockType.REFUSAL
            metadata = ours({"refusal": True}) if is_refusal else None
            yield TextMessageStart(block.id, "assistant", scope_id, metadata)

    def _parent_of(self, block: ShownBlock, first: str) -> str:
        """The message that the calls of the block's response are part of: the first one, if there is none yet."""
        response, parent = self._parents.get(block.scope.id, ("", ""))
        if response != block.response:
            parent = first
            self._parents[block.scope.id] = (block.response, parent)
        return parent

    def grow(self, change: BlockGrow) -> Iterator[AgUiEvent]:
        """A block has more text."""
        block = change.block
        scope_id = block.scope.id or None
        if block.block_type is BlockType.THINKING:
            yield ReasoningMessageContent(block.id, change.text, scope_id)
        elif block.is_call:
            if not block.is_held:
                yield ToolCallArgs(block.id, change.text, scope_id)
        else:
            yield TextMessageContent(block.id, change.text, scope_id)

    def extra(self, change: BlockExtra) -> Iterator[AgUiEvent]:
        """A block has a signature or a citation."""
        block, event = change.block, change.event
        scope_id = block.scope.id or None
        if isinstance(event, SignatureDelta):
            yield ReasoningEncryptedValue("message", block.id, event.signature, scope_id)
        else:
            value = {"messageId": block.id, "citation": event.citation}
            yield Custom("rxworker.citation", value, scope_id)

    def close(self, change: BlockClose) -> Iterator[AgUiEvent]:
        """A block ends."""
        block = change.block
        scope_id = block.scope.id or None
        if block.block_type is BlockType.THINKING:
            yield ReasoningMessageEnd(block.id, scope_id)
            yield ReasoningEnd(_span(block), scope_id)
        elif block.is_call:
            if not block.is_held:
                yield ToolCallEnd(block.id, scope_id)
        else:
            metadata = None if change.aborted is None else ours({"aborted": change.aborted})
            yield TextMessageEnd(block.id, scope_id, metadata)

    def whole(self, change: BlockWhole) -> Iterator[AgUiEvent]:
        """A whole block arrives."""
        block = change.block
        value = {"type": block.block_type.value, "kind": change.kind, "echo": change.echo}
        yield Custom("rxworker.block", value, block.scope.id or None)

    def offer_call(self, change: CallOffer) -> Iterator[AgUiEvent]:
        """The run waits for the client to run a call. A client that has the call already is not sent it again."""
        return self._release(change)

    def start_call(self, change: CallStart) -> Iterator[AgUiEvent]:
        """A call starts."""
        call = change.call
        if not change.is_held:
            yield from self._release(change)
        value = {"toolCallId": change.id, "name": call.name, "input": call.input}
        yield Custom("rxworker.tool_start", value, change.scope.id or None)

    def _release(self, change: CallOffer | CallStart) -> Iterator[AgUiEvent]:
        """The events of a call that was held."""
        if change.id not in self._held:
            return
        parent, scope_id = self._held.pop(change.id), change.scope.id or None
        yield ToolCallStart(change.id, change.call.name, parent, scope_id)
        yield ToolCallArgs(change.id, arguments_of(change.call.input), scope_id)
        yield ToolCallEnd(change.id, scope_id)

    def end_call(self, change: CallResult) -> Iterator[AgUiEvent]:
        """A call has its result. A client before 1.0 gets only its text."""
        result, scope_id = change.result, change.scope.id or None
        content = result_content(result) if self._is_new else result_text(result)
        about: JsonObject = {"isError": result.is_error, "seconds": change.seconds}
        if change.id in self._held:  # the client does not have the call that a result belongs to
            del self._held[change.id]
            if not change.is_placeholder:
                value = {"toolCallId": change.id, "name": result.name, "content": content, **about}
                yield Custom("rxworker.tool_result", value, scope_id)
            return
        name = f"{change.id}.result"
        yield ToolCallResult(name, change.id, content, "tool", scope_id, ours(about))


def _span(block: ShownBlock) -> str:
    return f"{block.id}.span"


def call_progress(change: CallProgress) -> Iterator[AgUiEvent]:
    """A tool reports progress."""
    content: JsonObject = {"toolCallId": change.id, "progress": change.progress}
    name = f"{change.id}.progress"
    scope_id = change.scope.id or None
    yield ActivitySnapshot(name, "rxworker.tool_progress", content, scope_id)


def retract(change: Retract) -> Iterator[AgUiEvent]:
    """A response is retracted."""
    value = {
        "reason": change.reason,
        "messageIds": change.blocks,
        "toolCallIds": change.calls,
    }
    yield Custom("rxworker.retract", value, change.scope.id or None)


def note(change: Note) -> Iterator[AgUiEvent]:
    """Any other event."""
    record = change.record
    scope_id = change.scope.id or None
    event = record.event
    if isinstance(event, MessageAdd):
        yield from _added(record, event, scope_id)
        return
    if isinstance(event, SharedStateChange) and scope_id is None:
        yield _state(event)
        return
    yield Custom(f"rxworker.{type_name(event)}", event, scope_id)


def _state(event: SharedStateChange) -> AgUiEvent:
    if not event.path:
        return StateSnapshot(event.value)
    operation: JsonObject = {"op": event.op, "path": event.path}
    if event.op != "remove":
        operation["value"] = event.value
    return StateDelta((operation,))


def _added(record: Record, event: MessageAdd, scope_id: str | None) -> Iterator[AgUiEvent]:
    for place, message in enumerate(event.messages):
        if message.text:
            name = f"{record.run_id}.{record.seq}.{place}"
            yield TextMessageStart(name, message.role, scope_id, ours({"source": event.source}))
            yield TextMessageContent(name, message.text, scope_id)
            yield TextMessageEnd(name, scope_id)


def messages_of(conversation: Conversation, prefix: str) -> tuple[WireMessage, ...]:
    """The messages of a snapshot.

    Args:
        conversation: The conversation.
        prefix: The prefix of the message ids.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello")))
    >>> [(message.role, message.content) for message in messages_of(conversation, "run-1")]
    [('user', 'hi'), ('assistant', 'hello')]
    """
    ids = CallIds()
    made: list[WireMessage] = []
    if conversation.system is not None:
        made.append(WireMessage(f"{prefix}.system", "system", conversation.system))
    for place, message in enumerate(conversation.messages):
        made.extend(_messages(message, f"{prefix}.m{place}", ids))
    return tuple(made)


def _messages(message: Message, name: str, ids: CallIds) -> Iterator[WireMessage]:
    if message.role == "assistant":
        yield from _assistant(message, name, ids)
        return
    for place, result in enumerate(message.tool_results):
        shown = ids.of_result(result.tool_use_id)
        text = result_text(result)
        error = text if result.is_error else None
        yield WireMessage(f"{name}.{place}.result", "tool", text, tool_call_id=shown, error=error)
    parts = [part for block in message.content if (part := _part(block)) is not None]
    if all(part["type"] == "text" for part in parts):
        if message.text:
            yield WireMessage(name, message.role, message.text)
    else:
        yield WireMessage(name, message.role, parts)


def _assistant(message: Message, name: str, ids: CallIds) -> Iterator[WireMessage]:
    for place, block in enumerate(message.content):
        if isinstance(block, Thinking):
            yield WireMessage(
                f"{name}.{place}", "reasoning", block.text, encrypted_value=block.signature
            )
    texts = [block.text for block in message.content if isinstance(block, Text | Refusal)]
    calls = tuple(_call(call, ids) for call in message.tool_calls)
    if texts or calls:
        yield WireMessage(name, "assistant", "".join(texts) or None, tool_calls=calls)


def _call(call: ToolCall, ids: CallIds) -> JsonObject:
    return call_object(ids.of_call(call.id), call.name, arguments_of(call.input))


def _part(block: object) -> JsonObject | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image() | Document():
            source = source_of(block)
            kind = "image" if isinstance(block, Image) else "document"
            return None if source is None else {"type": kind, "source": source}
        case _:
            return None


def source_of(block: Image | Document) -> JsonObject | None:
    """The source of an image or a document; ``None`` if only its provider has it.

    >>> source_of(Image(url="https://example.com/cat.png"))
    {'type': 'url', 'value': 'https://example.com/cat.png', 'mimeType': 'image/png'}
    """
    if block.data is not None:
        return {"type": "data", "value": block.data, "mimeType": block.media_type}
    if block.url is not None:
        return {"type": "url", "value": block.url, "mimeType": block.media_type}
    return None


def result_text(result: ToolResult) -> str:
    """The text of a result, with the media type of each image or document in it.

    >>> result_text(ToolResult("call_1", (Text("Look: "), Image(url="https://example.com"))))
    'Look: (image/png)'
    """
    if isinstance(result.content, str):
        return result.content
    return "".join(
        part.text if isinstance(part, Text) else f"({part.media_type})" for part in result.content
    )


def result_content(result: ToolResult) -> str | list[JsonObject]:
    """The content of a result: text, or parts if it contains more than text.

    >>> result_content(ToolResult("call_1", "sunny"))
    'sunny'
    """
    if isinstance(result.content, str) or all(isinstance(p, Text) for p in result.content):
        return result.text
    return [made for part in result.content if (made := _part(part)) is not None]
