"""A conversation as the initial messages of ``useChat``."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from rxworker.events import RunPause
from rxworker.messages import (
    Conversation,
    Document,
    Image,
    Json,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.common import CallIds, interrupt_id
from rxworker.protocols.ui_messages.parts import output_of
from rxworker.views.scopes import NOT_RUN
from rxworker.worker.paused import CLIENT


class UiMessage(Struct, frozen=True):
    """A message as ``useChat`` keeps it: a ``UIMessage``.

    Attributes:
        id: Its id.
        role: ``user`` or ``assistant``.
        parts: Its parts.
    """

    id: str
    role: str
    parts: list[JsonObject]


def ui_messages_of(
    conversation: Conversation,
    prefix: str,
    *,
    run: str = "",
    pause: RunPause | None = None,
    shared_state: Json = None,
) -> list[UiMessage]:
    """The messages of a conversation, for the initial ``messages`` of ``useChat``.

    The turns of one answer are one message, with a ``step-start`` part before each. System messages are left out. A call without a
    result that does not wait is shown as one that was not run.

    Args:
        conversation: The conversation.
        prefix: The prefix of the message ids. The same conversation always has the same ids.
        run: The id of the paused run.
        pause: The pause of the run: the call that it waits at has the state ``approval-requested``; calls that the client runs have the
            state ``input-available``.
        shared_state: The state that tools and hooks share with user interfaces, for a ``data-state`` part at the end of the last answer.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello")))
    >>> [(message.id, message.role, message.parts[-1]["text"]) for message in ui_messages_of(conversation, "chat-1")]
    [('chat-1.0', 'user', 'hi'), ('chat-1.1', 'assistant', 'hello')]
    """
    history = _History(prefix)
    for message in conversation.messages:
        history.add(message)
    waiting = () if pause is None else tuple(call.id for call in pause.pending)
    if pause is not None and pause.hook != CLIENT:
        history.ask(run, pause, waiting)
    for call in history.unanswered(waiting):
        call.update(state="output-error", errorText=NOT_RUN)
    if shared_state is not None:
        answers = [message for message in history.messages if message.role == "assistant"]
        for last in answers[-1:]:
            last.parts.append({"type": "data-state", "id": "state", "data": shared_state})
    return history.messages


class _History:
    """The messages so far, and the calls in them."""

    def __init__(self, prefix: str) -> None:
        self.messages: list[UiMessage] = []
        self._prefix = prefix
        self._ids = CallIds()
        self._calls: dict[str, JsonObject] = {}
        self._last: dict[str, JsonObject] = {}

    def add(self, message: Message) -> None:
        for result in message.tool_results:
            self._answer(result)
        if message.role == "user":
            parts = [part for block in message.content if (part := _part(block)) is not None]
            if parts:
                self._begin("user").extend(parts)
        elif message.role == "assistant":
            last = self.messages[-1] if self.messages else None
            is_same = last is not None and last.role == "assistant"
            parts = last.parts if last is not None and is_same else self._begin("assistant")
            parts.append({"type": "step-start"})
            for block in message.content:
                parts.extend(self._said(block, f"{self._prefix}.{len(self.messages) - 1}"))

    def ask(self, run: str, pause: RunPause, waiting: tuple[str, ...]) -> None:
        """Mark the pending calls like the stream of a paused run."""
        for place, native in enumerate(waiting):
            part = self._last.get(native)
            if part is None:
                continue
            approval: JsonObject = {"id": interrupt_id(run, native)}
            part["approval"] = approval
            if pause.paused_at is not None and place == pause.approved_count:
                part["state"] = "approval-requested"
                if pause.reason:
                    approval["requestReason"] = pause.reason
            else:
                part["state"] = "approval-responded"
                approval.update(isAutomatic=True, approved=True)

    def unanswered(self, waiting: tuple[str, ...]) -> Iterator[JsonObject]:
        """The calls that have no result and do not wait for one."""
        wait = [id(self._last[native]) for native in waiting if native in self._last]
        for part in self._calls.values():
            if part["state"] == "input-available" and id(part) not in wait:
                yield part

    def _begin(self, role: str) -> list[JsonObject]:
        message = UiMessage(f"{self._prefix}.{len(self.messages)}", role, [])
        self.messages.append(message)
        return message.parts

    def _answer(self, result: ToolResult) -> None:
        part = self._calls.get(self._ids.of_result(result.tool_use_id))
        if part is None:
            return
        if result.is_error:
            part.update(state="output-error", errorText=result.text or "it failed")
        else:
            part.update(state="output-available", output=output_of(result))

    def _said(self, block: object, name: str) -> Iterator[JsonObject]:
        match block:
            case Text(text=text, citations=citations):
                yield {"type": "text", "text": text, "state": "done"}
                for place, citation in enumerate(citations):
                    url, title = citation.get("url"), citation.get("title")
                    if isinstance(url, str):
                        source: JsonObject = {"type": "source-url", "url": url}
                        source["sourceId"] = f"{name}.source.{place}"
                        if isinstance(title, str):
                            source["title"] = title
                        yield source
            case Thinking(text=text, signature=signature):
                thought: JsonObject = {"type": "reasoning", "text": text, "state": "done"}
                if signature is not None:
                    thought["providerMetadata"] = {"rxworker": {"signature": signature}}
                yield thought
            case Refusal(text=text):
                metadata: JsonObject = {"rxworker": {"refusal": True}}
                yield {"type": "text", "text": text, "state": "done", "providerMetadata": metadata}
            case ToolCall() | ServerToolCall():
                yield self._call(block)
            case ServerToolResult(tool_use_id=native, echo=echo):
                text = "" if echo is None else encode_lenient(echo).decode()
                self._answer(ToolResult(native, text))
            case OpaqueBlock(kind=kind, echo=echo):
                yield {"type": "data-block", "data": {"kind": kind, "echo": echo}}
            case _:
                part = _part(block)
                if part is not None:
                    yield part

    def _call(self, call: ToolCall | ServerToolCall) -> JsonObject:
        shown = self._ids.of_call(call.id)
        part: JsonObject = {
            "type": f"tool-{call.name}",
            "toolCallId": shown,
            "state": "input-available",
            "input": call.input,
        }
        if isinstance(call, ServerToolCall):
            part["providerExecuted"] = True
        self._calls[shown] = self._last[call.id] = part
        return part


def _part(block: object) -> JsonObject | None:
    """Text, an image or a document as a part; ``None`` for anything else, and for files that only a provider has."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image() | Document():
            url = block.url
            if block.data is not None:
                url = f"data:{block.media_type};base64,{block.data}"
            if url is None:
                return None
            part: JsonObject = {"type": "file", "mediaType": block.media_type, "url": url}
            if isinstance(block, Document) and block.title is not None:
                part["filename"] = block.title
            return part
        case _:
            return None
