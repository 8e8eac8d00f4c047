"""The messages of ``useChat``: its requests to messages and decisions, and a conversation as its initial messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rxworker.decisions import APPROVAL, Answer, PendingCalls, check_members, kind_of, read_approval
from rxworker.errors import DecisionError, LocalProtocolError
from rxworker.events import PauseState
from rxworker.events.pause import CLIENT_TOOL
from rxworker.messages import (
    Content,
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
from rxworker.messages.lenient_json import encode_lenient, word
from rxworker.messages.pairs import with_calls
from rxworker.protocols import common
from rxworker.protocols.ui_messages.parts import INSIDE, file_part, inside, output_of, source_part
from rxworker.state.shared_state import checked_json
from rxworker.views.scopes import NOT_RUN


class _Part(Struct, frozen=True, rename="camel"):
    type: str
    text: str = ""
    media_type: str = ""
    url: str = ""
    filename: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    state: str | None = None
    input: Json = None
    raw_input: Json = None
    output: Json = None
    error_text: str | None = None
    preliminary: bool | None = None
    approval: Json = None


class _Message(Struct, frozen=True):
    role: str
    parts: tuple[_Part, ...]
    id: str | None = None


class _Tool(Struct, frozen=True):
    description: str = ""
    parameters: JsonObject | None = None


class _Request(Struct, frozen=True, rename="camel"):
    id: str
    messages: tuple[_Message, ...]
    trigger: str = "submit-message"
    message_id: str | None = None
    # No part of the protocol: what a page adds to the body. The tools are as assistant-ui sends them.
    tools: dict[str, _Tool] | None = None
    state: Json = None


def read_chat_request(data: bytes) -> common.RunRequest:
    """Read a request. Its conversation is without reasoning, which a client cannot vouch for.

    Raises:
        LocalProtocolError: It is not one, or has content that is not supported.

    >>> given = read_chat_request(
    ...     b'{"id":"c","messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"hi"}]}]}')
    >>> given.messages[0].text
    'hi'
    """
    read = common.decode_request(data, _Request, "request of useChat")
    if read.trigger not in ("submit-message", "regenerate-message"):
        raise LocalProtocolError(f"the trigger is {read.trigger!r}: it must be submit-message or regenerate-message")
    collector = common.MessageCollector()
    for message in read.messages:
        _collect(message, collector)
    conversation, latest, results = collector.finish()
    last = read.messages[-1] if read.messages else None
    is_answer = last is not None and last.role == "assistant"
    replies = tuple(_replies(last.parts)) if last is not None and is_answer else ()
    if replies:
        check_members(data, "the request")
    continues = last is not None and is_answer and (replies or results)
    return common.RunRequest(
        read.id,
        latest,
        conversation,
        replies,
        results,
        tuple([common.tool_meta(n, t.description, t.parameters) for n, t in (read.tools or {}).items()]),
        checked_json(read.state) or None,
        replaces=read.trigger == "regenerate-message" or read.message_id is not None,
        message_id=last.id if last is not None and continues else None,
    )


def _collect(message: _Message, collector: common.MessageCollector) -> None:
    if message.role not in ("user", "assistant", "system"):
        raise LocalProtocolError(f"a message has the role {message.role!r}: it must be user, assistant or system")
    content: list[Content] = []
    results: list[ToolResult] = []
    for part in message.parts:
        if _is_call(part) and (part.tool_call_id or "").startswith(INSIDE):
            continue  # it is in the conversation of a run inside
        if part.type == "step-start" or (results and not _is_call(part) and _block(part)):
            _add(collector, message.role, content, results)
            content, results = [], []
        if _is_call(part):
            call = _call(part)
            content.append(call)
            if (result := _result(part, call)) is not None:
                results.append(result)
        elif (block := _block(part)) is not None:
            content.append(block)
    _add(collector, message.role, content, results)


def _add(collector: common.MessageCollector, role: str, content: list[Content], results: list[ToolResult]) -> None:
    if content:
        collector.add(role, content)
    for result in results:
        collector.add_result(result)


def _block(part: _Part) -> Content | None:
    if part.type == "text":
        return Text(part.text) if part.text else None
    if part.type == "file":
        return common.media(part.media_type, url=part.url, title=part.filename)
    return None  # reasoning, sources, data, and what is not known


def _is_call(part: _Part) -> bool:
    return part.type == "dynamic-tool" or part.type.startswith("tool-")


def _call(part: _Part) -> ToolCall:
    if not part.tool_call_id:
        raise LocalProtocolError(f"a part of type {part.type!r} has no toolCallId")
    name = part.tool_name or part.type.removeprefix("tool-")
    value = part.input if part.input is not None else part.raw_input
    if value is None:
        return ToolCall(part.tool_call_id, name, {})
    if not isinstance(value, dict | str):
        raise LocalProtocolError(f"the input of {name} is neither an object nor a text")
    return ToolCall(part.tool_call_id, name, value)


def _result(part: _Part, call: ToolCall) -> ToolResult | None:
    """The result of a call; ``None`` if it is pending."""
    match part.state:
        case "output-available" if not part.preliminary:
            return ToolResult(call.id, _text(part.output), name=call.name)
        case "output-error":
            return ToolResult(call.id, part.error_text or "", is_error=True, name=call.name)
        case "output-denied":
            return ToolResult(call.id, _reason(part) or "This call was not approved.", is_error=True, name=call.name)
        case _:
            return None


def _replies(parts: tuple[_Part, ...]) -> Iterator[common.InterruptReply]:
    """The replies about the calls of the last answer."""
    for part in parts:
        approval = _approval(part)
        if not _is_call(part) or approval.get("isAutomatic") is True:
            continue
        name = approval.get("id")
        if part.state == "approval-responded":
            decision = read_approval(approval)  # the first to name what is missing
            yield common.InterruptReply(*common.split_interrupt(str(name)), decision)
        elif part.state == "output-available" and name and approval.get("approved") is None:
            # The client has given the result itself.
            yield common.InterruptReply(*common.split_interrupt(str(name)), Answer(_text(part.output)))


def _approval(part: _Part) -> JsonObject:
    """What is in a part about the approval of its call."""
    value = part.approval
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecisionError(f"approval is {kind_of(value)}: {APPROVAL}")
    return value


def _reason(part: _Part) -> str:
    return word(_approval(part).get("reason"))


def _text(output: Json) -> str:
    return output if isinstance(output, str) else encode_lenient(output).decode()


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
    run_id: str = "",
    pause: PauseState | None = None,
    shared_state: Json = None,
) -> list[UiMessage]:
    """The messages of a conversation, for the initial ``messages`` of ``useChat``.

    The turns of one answer are one message, with a ``step-start`` part before each. System messages are left out. A
    call without a result that does not wait is shown as one that was not run.

    Args:
        conversation: The conversation.
        prefix: The prefix of the message ids. The same conversation always has the same ids.
        run_id: The id of the paused run.
        pause: The pause of the run: the call that it waits at has the state ``approval-requested``; calls that the
            client runs have the state ``input-available``.
        shared_state: The state that tools and hooks share with user interfaces, for a ``data-state`` part at the end of
            the last answer.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello")))
    >>> [(message.id, message.role, message.parts[-1]["text"]) for message in ui_messages_of(conversation, "chat-1")]
    [('chat-1.0', 'user', 'hi'), ('chat-1.1', 'assistant', 'hello')]
    """
    if pause is not None:  # they wait with these arguments, which a hook may have changed
        conversation = with_calls(conversation, {each.place: each.call for each in pause.calls})  # those of the run
    history = _History(prefix)
    for message in conversation.messages:
        history.add(message)
    waiting = [] if pause is None else history.waiting(pause)
    if pause is not None and pause.hook != CLIENT_TOOL and not pause.waits:
        history.add_approvals(run_id, pause, waiting)
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
        self._ids = common.CallIds()
        self._calls: dict[str, JsonObject] = {}
        self._made: list[tuple[ToolCall, JsonObject]] = []  # by the last response

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
            self._made = []
            for block in message.content:
                parts.extend(self._said(block, f"{self._prefix}.{len(self.messages) - 1}"))

    def waiting(self, pause: PauseState) -> list[JsonObject | None]:
        """The part of each pending call; ``None`` if the conversation does not have it."""
        made, own = self._made, iter(pause.calls)
        waiting: list[JsonObject | None] = []
        for node in pause.tree:
            if not node.path:
                place = next(own).place
                waiting.append(made[place][1] if place < len(made) else None)
            elif self.messages and self.messages[-1].role == "assistant":
                part: JsonObject = {"type": f"tool-{node.call.name}", "toolCallId": inside(node.name)}
                part.update(state="input-available", input=node.call.input)
                self.messages[-1].parts.append(part)
                waiting.append(part)
            else:
                waiting.append(None)
        return waiting

    def add_approvals(self, run_id: str, pause: PauseState, waiting: Sequence[JsonObject | None]) -> None:
        """Mark the pending calls like the stream of a paused run."""
        pending = PendingCalls.of(pause)
        for index, (part, name) in enumerate(zip(waiting, pending.ids, strict=True)):
            if part is None:
                continue
            approval: JsonObject = {"id": common.interrupt_id(run_id, name)}
            part["approval"] = approval
            if index in pending.required:
                part["state"] = "approval-requested"
                if reason := pending.node(index).reason:
                    approval["requestReason"] = reason
            else:
                part["state"] = "approval-responded"
                approval.update(isAutomatic=True, approved=True)

    def unanswered(self, waiting: Sequence[JsonObject | None]) -> Iterator[JsonObject]:
        """The calls that have no result and do not wait for one."""
        wait = [id(part) for part in waiting if part is not None]
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
                    if source := source_part(citation, f"{name}.source.{place}"):
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
                if (part := _part(block)) is not None:
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
        else:
            self._made.append((call, part))
        self._calls[shown] = part
        return part


def _part(block: object) -> JsonObject | None:
    """Text, an image or a document as a part; ``None`` for anything else, and for files that only a provider has."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image() | Document():
            part = file_part(block)
            if isinstance(block, Document) and block.title is not None:
                part["filename"] = block.title
            return part if "url" in part else None
        case _:
            return None
