"""From the input of an AG-UI client to messages and decisions."""

from __future__ import annotations

from msgspec import Struct

from rxworker.decisions import PAYLOAD, Deny, Dismiss, check_members, read_payload, read_payload_at_end, read_struct
from rxworker.errors import DecisionError, LocalProtocolError
from rxworker.messages import Content, Json, JsonObject, Message, Text
from rxworker.protocols import common
from rxworker.state.shared_state import checked_json


class AgUiContext(Struct, frozen=True):
    """Context that the client provides for the model."""

    description: str = ""
    value: str = ""


class AgUiInput(common.RunRequest, frozen=True, kw_only=True):
    """The input of a client: a request, of which ``conversation_id`` is the thread.

    Its conversation is without reasoning, which a client cannot vouch for.

    Attributes:
        run_id: The client's id of the run.
        context: The context that the client provides.
        forwarded: Its forwarded properties, any JSON.
        protocol: The version of AG-UI; ``None`` before 1.0.
        parent_run_id: The run that it branches off.
    """

    run_id: str
    context: tuple[AgUiContext, ...] = ()
    forwarded: Json = None
    protocol: str | None = None
    parent_run_id: str | None = None


class _Tool(Struct, frozen=True):
    name: str
    description: str = ""
    parameters: JsonObject | None = None


class _Source(Struct, frozen=True, rename="camel"):
    type: str
    value: str = ""
    mime_type: str | None = None


class _Part(Struct, frozen=True, rename="camel"):
    type: str
    text: str = ""
    source: _Source | None = None
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    filename: str | None = None


class _Message(Struct, frozen=True, rename="camel"):
    role: str
    id: str | None = None
    # An activity's content is an object that is only shown to users.
    content: Json = None
    tool_calls: tuple[common.FunctionCall, ...] | None = None
    tool_call_id: str | None = None
    error: str | None = None


class _Resume(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    interrupt_id: str
    status: str
    payload: Json = None


class _Replies(Struct, frozen=True, forbid_unknown_fields=True):
    resume: tuple[_Resume, ...]


class _Input(Struct, frozen=True, rename="camel"):
    thread_id: str
    run_id: str
    messages: tuple[_Message, ...] = ()
    tools: tuple[_Tool, ...] | None = None
    context: tuple[AgUiContext, ...] | None = None
    state: Json = None
    forwarded_props: Json = None
    resume: Json = None
    protocol_version: str | None = None
    parent_run_id: str | None = None


def read_run_input(data: bytes) -> AgUiInput:
    """Read a ``RunAgentInput``.

    Raises:
        LocalProtocolError: It is not one, or has content that is not supported.

    >>> given = read_run_input(b'{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}')
    >>> given.messages[0].text
    'hi'
    """
    read = common.decode_request(data, _Input, "RunAgentInput of AG-UI")
    collector = common.MessageCollector()
    names: dict[str, str] = {}
    for message in read.messages:
        _collect(message, collector, names)
    conversation, latest, results = collector.finish()
    return AgUiInput(
        read.thread_id,
        latest,
        conversation,
        _replies(read.resume, data),
        results,
        tuple([common.tool_meta(t.name, t.description, t.parameters) for t in read.tools or ()]),
        checked_json(read.state) or None,
        run_id=read.run_id,
        context=read.context or (),
        forwarded=read.forwarded_props,
        protocol=read.protocol_version,
        parent_run_id=read.parent_run_id,
    )


def _replies(resume: object, data: bytes) -> tuple[common.InterruptReply, ...]:
    if resume is None:
        return ()
    check_members(data, "the input")
    read = read_struct({"resume": resume}, _Replies, "the input", PAYLOAD)
    return tuple([reply_of(one.interrupt_id, one.status, one.payload) for one in read.resume])


def _collect(message: _Message, collector: common.MessageCollector, names: dict[str, str]) -> None:
    match message.role:
        case "user":
            collector.add("user", _content(message.content))
        case "assistant":
            content = _content(message.content)
            for call in message.tool_calls or ():
                names[call.id] = call.function.name
                content.append(call.call)
            collector.add("assistant", content)
        case "system" | "developer":
            collector.add("system", _content(message.content))
        case "tool":
            if message.tool_call_id is None:
                raise LocalProtocolError("a message of a tool has no toolCallId: name the call that it answers")
            result = common.tool_result(
                message.tool_call_id,
                _content(message.content),
                is_error=message.error is not None,
                name=names.get(message.tool_call_id, ""),
            )
            collector.add_result(result)
        case "reasoning" | "activity":
            return
        case role:
            roles = "user, assistant, system, developer, tool, reasoning or activity"
            raise LocalProtocolError(f"a message has the role {role!r}: it must be {roles}")


def _content(content: object) -> list[Content]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    problem = "the content of a message is neither a text nor a list of parts"
    parts = common.converted(content, tuple[_Part, ...], problem)
    return [_block(part) for part in parts]


def _block(part: _Part) -> Content:
    if part.type == "text":
        return Text(part.text)
    if part.type == "binary":  # clients before 1.0
        return common.media(part.mime_type or "", data=part.data or "", url=part.url or "", title=part.filename)
    source = part.source
    if source is None:
        raise LocalProtocolError(f"a part of type {part.type!r} has no source, and is not text")
    if source.type not in ("data", "url"):
        raise LocalProtocolError(
            f"a file whose source is {source.type!r} cannot be read: send its bytes or its address"
        )
    media_type = source.mime_type or _MEDIA_TYPES.get(part.type, "")
    if source.type == "data":
        return common.media(media_type, data=source.value)
    return common.media(media_type, url=source.value)


_MEDIA_TYPES = {"image": "image/png", "document": "application/pdf", "audio": "audio/mpeg", "video": "video/mp4"}


def reply_of(name: str, status: str, payload: object) -> common.InterruptReply:
    """The reply to one interrupt.

    Args:
        name: The interrupt's id.
        status: ``resolved`` or ``cancelled``.
        payload: For a call: a boolean, an object with the member ``approved``, or a text, which is then the
            call's result. At the end of a turn: a message for the model, or whether the run goes on.

    Raises:
        DecisionError: It is invalid; the message names the member, and shows a valid one.

    >>> reply_of("run-1:call_1", "resolved", {"approved": False, "reason": "too dear"}).decision
    Deny(reason='too dear')
    """
    run, call_id = common.split_interrupt(name)
    if status not in ("resolved", "cancelled"):
        raise DecisionError(f"status is {status!r:.40}: it must be 'resolved' or 'cancelled'")
    if not call_id:
        read = Dismiss() if status == "cancelled" else read_payload_at_end(payload)
        if isinstance(read, Dismiss):
            return common.InterruptReply(run, dismiss=read)
        return common.InterruptReply(run, message=Message.user(read) if read else None)
    if status == "cancelled":
        return common.InterruptReply(run, call_id, Deny("The user did not want to decide."))
    return common.InterruptReply(run, call_id, read_payload(payload))
