"""The events of AG-UI as they go over the wire. A field that is absent is left out, never null."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json, JsonObject


class _Wire(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of what goes over the wire."""


class AgUiEvent(_Wire, frozen=True, kw_only=True):
    """Any event of AG-UI that is sent.

    Attributes:
        subagent_run_id: The nested run that it belongs to. `AgUiEncoder` fills it in.
    """

    subagent_run_id: str | None = None


class MessageEvent(AgUiEvent, frozen=True):
    """An event of a message.

    Attributes:
        message_id: The id of the message.
    """

    message_id: str


class CallEvent(AgUiEvent, frozen=True):
    """An event of a call.

    Attributes:
        tool_call_id: The id of the call.
    """

    tool_call_id: str


class WireMessage(_Wire, frozen=True):
    """A message of a snapshot, of any role.

    Attributes:
        id: Its name.
        role: ``user``, ``assistant``, ``system``, ``tool`` or ``reasoning``.
        content: Its text, or its parts.
        tool_calls: The calls of an assistant message.
        tool_call_id: The call that a tool's message belongs to.
        error: The error of the tool.
        encrypted_value: The provider's signature of the reasoning.
    """

    id: str
    role: str
    content: str | list[JsonObject] | None = None
    tool_calls: tuple[JsonObject, ...] = ()
    tool_call_id: str | None = None
    error: str | None = None
    encrypted_value: str | None = None


class TokenUsage(_Wire, frozen=True):
    """The tokens of one provider's model."""

    provider: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class Interrupt(_Wire, frozen=True):
    """A decision or input that a paused run waits for.

    Attributes:
        id: The id, for the reply.
        reason: ``tool_call``, or ``input_required`` at the end of a turn.
        message: Shown to users; not interpreted.
        tool_call_id: The call that waits.
        response_schema: The JSON schema of the reply's payload.
        metadata: Further data.
    """

    id: str
    reason: str
    message: str | None = None
    tool_call_id: str | None = None
    response_schema: JsonObject | None = None
    metadata: JsonObject | None = None


class Outcome(_Wire, frozen=True):
    """How a run that did not fail has ended: ``success``, ``interrupt`` or ``cancelled``.

    Attributes:
        type: Which of these.
        interrupts: The decisions that an interrupted run waits for.
        pending_tool_call_ids: The calls that the client runs; the run continues with their results.
    """

    type: str
    interrupts: tuple[Interrupt, ...] = ()
    pending_tool_call_ids: tuple[str, ...] = ()


class RunStarted(AgUiEvent, frozen=True, tag="RUN_STARTED"):
    """The first event."""

    thread_id: str
    run_id: str
    protocol_version: str | None = None
    parent_run_id: str | None = None


class RunFinished(AgUiEvent, frozen=True, tag="RUN_FINISHED"):
    """The last event of a run that did not fail."""

    thread_id: str
    run_id: str
    outcome: Outcome | None = None
    usage: tuple[TokenUsage, ...] = ()


class RunError(AgUiEvent, frozen=True, tag="RUN_ERROR"):
    """The last event of a run that failed, or whose events stop here."""

    message: str
    code: str | None = None
    usage: tuple[TokenUsage, ...] = ()


class StepStarted(AgUiEvent, frozen=True, tag="STEP_STARTED"):
    """A turn begins."""

    step_name: str


class StepFinished(AgUiEvent, frozen=True, tag="STEP_FINISHED"):
    """A turn has ended."""

    step_name: str


class TextMessageStart(MessageEvent, frozen=True, tag="TEXT_MESSAGE_START"):
    """A text begins."""

    role: str | None = None
    metadata: JsonObject | None = None


class TextMessageContent(MessageEvent, frozen=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of a text."""

    delta: str


class TextMessageEnd(MessageEvent, frozen=True, tag="TEXT_MESSAGE_END"):
    """A text ends."""

    metadata: JsonObject | None = None


class ReasoningStart(MessageEvent, frozen=True, tag="REASONING_START"):
    """Reasoning begins."""


class ReasoningMessageStart(MessageEvent, frozen=True, tag="REASONING_MESSAGE_START"):
    """A text of reasoning begins."""

    role: str


class ReasoningMessageContent(MessageEvent, frozen=True, tag="REASONING_MESSAGE_CONTENT"):
    """More of a text of reasoning."""

    delta: str


class ReasoningMessageEnd(MessageEvent, frozen=True, tag="REASONING_MESSAGE_END"):
    """A text of reasoning ends."""


class ReasoningEnd(MessageEvent, frozen=True, tag="REASONING_END"):
    """Reasoning ends."""


class ReasoningEncryptedValue(AgUiEvent, frozen=True, tag="REASONING_ENCRYPTED_VALUE"):
    """The provider's signature of the reasoning."""

    subtype: str
    entity_id: str
    encrypted_value: str


class ToolCallStart(CallEvent, frozen=True, tag="TOOL_CALL_START"):
    """A call begins."""

    tool_call_name: str
    parent_message_id: str | None = None
    metadata: JsonObject | None = None


class ToolCallArgs(CallEvent, frozen=True, tag="TOOL_CALL_ARGS"):
    """More of a call's arguments, as JSON text."""

    delta: str


class ToolCallEnd(CallEvent, frozen=True, tag="TOOL_CALL_END"):
    """A call's arguments end."""


class ToolCallResult(MessageEvent, frozen=True, tag="TOOL_CALL_RESULT"):
    """The result of a call."""

    tool_call_id: str
    content: str | list[JsonObject]
    role: str | None = None
    metadata: JsonObject | None = None


class SubagentStarted(AgUiEvent, frozen=True, tag="SUBAGENT_STARTED"):
    """A nested run begins."""

    name: str
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None


class SubagentFinished(AgUiEvent, frozen=True, tag="SUBAGENT_FINISHED"):
    """A nested run has finished."""


class SubagentError(AgUiEvent, frozen=True, tag="SUBAGENT_ERROR"):
    """A nested run failed."""

    message: str
    code: str | None = None


class ActivitySnapshot(MessageEvent, frozen=True, tag="ACTIVITY_SNAPSHOT"):
    """The progress of a tool."""

    activity_type: str
    content: JsonObject


class MessagesSnapshot(AgUiEvent, frozen=True, tag="MESSAGES_SNAPSHOT"):
    """The conversation so far."""

    messages: tuple[WireMessage, ...]


class StateSnapshot(AgUiEvent, frozen=True, tag="STATE_SNAPSHOT"):
    """The whole shared state."""

    snapshot: Json


class StateDelta(AgUiEvent, frozen=True, tag="STATE_DELTA"):
    """A change of the shared state, as JSON Patch."""

    delta: tuple[JsonObject, ...]


class Custom(AgUiEvent, frozen=True, tag="CUSTOM"):
    """An event that the protocol does not have."""

    name: str
    value: object


def ours(value: JsonObject) -> JsonObject:
    """Metadata under our own key.

    >>> ours({"refusal": True})
    {'rxworker': {'refusal': True}}
    """
    return {"rxworker": value}
