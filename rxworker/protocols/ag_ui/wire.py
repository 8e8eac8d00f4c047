"""The events of AG-UI as they go over the wire. A field that is absent is left out, never null."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.messages import Json, JsonObject


class _Wire(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of what goes over the wire."""


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
        message: For people.
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


class RunStarted(_Wire, frozen=True, tag="RUN_STARTED"):
    """The first event."""

    thread_id: str
    run_id: str
    protocol_version: str | None = None
    parent_run_id: str | None = None


class RunFinished(_Wire, frozen=True, tag="RUN_FINISHED"):
    """The last event of a run that did not fail."""

    thread_id: str
    run_id: str
    outcome: Outcome | None = None
    usage: tuple[TokenUsage, ...] = ()


class RunError(_Wire, frozen=True, tag="RUN_ERROR"):
    """The last event of a run that failed, or whose events stop here."""

    message: str
    code: str | None = None
    usage: tuple[TokenUsage, ...] = ()


class StepStarted(_Wire, frozen=True, tag="STEP_STARTED"):
    """A turn begins."""

    step_name: str
    subagent_run_id: str | None = None


class StepFinished(_Wire, frozen=True, tag="STEP_FINISHED"):
    """A turn has ended."""

    step_name: str
    subagent_run_id: str | None = None


class TextMessageStart(_Wire, frozen=True, tag="TEXT_MESSAGE_START"):
    """A text begins."""

    message_id: str
    role: str | None = None
    subagent_run_id: str | None = None
    metadata: JsonObject | None = None


class TextMessageContent(_Wire, frozen=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of a text."""

    message_id: str
    delta: str
    subagent_run_id: str | None = None


class TextMessageEnd(_Wire, frozen=True, tag="TEXT_MESSAGE_END"):
    """A text ends."""

    message_id: str
    subagent_run_id: str | None = None
    metadata: JsonObject | None = None


class ReasoningStart(_Wire, frozen=True, tag="REASONING_START"):
    """Reasoning begins."""

    message_id: str
    subagent_run_id: str | None = None


class ReasoningMessageStart(_Wire, frozen=True, tag="REASONING_MESSAGE_START"):
    """A text of reasoning begins."""

    message_id: str
    role: str
    subagent_run_id: str | None = None


class ReasoningMessageContent(_Wire, frozen=True, tag="REASONING_MESSAGE_CONTENT"):
    """More of a text of reasoning."""

    message_id: str
    delta: str
    subagent_run_id: str | None = None


class ReasoningMessageEnd(_Wire, frozen=True, tag="REASONING_MESSAGE_END"):
    """A text of reasoning ends."""

    message_id: str
    subagent_run_id: str | None = None


class ReasoningEnd(_Wire, frozen=True, tag="REASONING_END"):
    """Reasoning ends."""

    message_id: str
    subagent_run_id: str | None = None


class ReasoningEncryptedValue(_Wire, frozen=True, tag="REASONING_ENCRYPTED_VALUE"):
    """The provider's signature of the reasoning."""

    subtype: str
    entity_id: str
    encrypted_value: str
    subagent_run_id: str | None = None


class ToolCallStart(_Wire, frozen=True, tag="TOOL_CALL_START"):
    """A call begins."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str | None = None
    subagent_run_id: str | None = None


class ToolCallArgs(_Wire, frozen=True, tag="TOOL_CALL_ARGS"):
    """More of a call's arguments, as JSON text."""

    tool_call_id: str
    delta: str
    subagent_run_id: str | None = None


class ToolCallEnd(_Wire, frozen=True, tag="TOOL_CALL_END"):
    """A call's arguments end."""

    tool_call_id: str
    subagent_run_id: str | None = None


class ToolCallResult(_Wire, frozen=True, tag="TOOL_CALL_RESULT"):
    """The result of a call."""

    message_id: str
    tool_call_id: str
    content: str | list[JsonObject]
    role: str | None = None
    subagent_run_id: str | None = None
    metadata: JsonObject | None = None


class SubagentStarted(_Wire, frozen=True, tag="SUBAGENT_STARTED"):
    """A nested run begins."""

    subagent_run_id: str
    name: str
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None


class SubagentFinished(_Wire, frozen=True, tag="SUBAGENT_FINISHED"):
    """A nested run has finished."""

    subagent_run_id: str


class SubagentError(_Wire, frozen=True, tag="SUBAGENT_ERROR"):
    """A nested run failed."""

    subagent_run_id: str
    message: str
    code: str | None = None


class ActivitySnapshot(_Wire, frozen=True, tag="ACTIVITY_SNAPSHOT"):
    """The progress of a tool."""

    message_id: str
    activity_type: str
    content: JsonObject
    subagent_run_id: str | None = None


class MessagesSnapshot(_Wire, frozen=True, tag="MESSAGES_SNAPSHOT"):
    """The conversation so far."""

    messages: tuple[WireMessage, ...]


class StateSnapshot(_Wire, frozen=True, tag="STATE_SNAPSHOT"):
    """The whole shared state."""

    snapshot: Json


class StateDelta(_Wire, frozen=True, tag="STATE_DELTA"):
    """A change of the shared state, as JSON Patch."""

    delta: tuple[JsonObject, ...]


class Custom(_Wire, frozen=True, tag="CUSTOM"):
    """An event that the protocol does not have."""

    name: str
    value: object
    subagent_run_id: str | None = None


AgUiEvent: TypeAlias = (
    RunStarted
    | RunFinished
    | RunError
    | StepStarted
    | StepFinished
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ReasoningStart
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ReasoningMessageEnd
    | ReasoningEnd
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallResult
    | SubagentStarted
    | SubagentFinished
    | SubagentError
    | ActivitySnapshot
    | MessagesSnapshot
    | StateSnapshot
    | StateDelta
    | Custom
)
"""Any event of AG-UI that is sent."""


def call_object(call_id: str, name: str, arguments: str) -> JsonObject:
    """A call as a message has it.

    >>> call_object("call_1", "look", "{}")["type"]
    'function'
    """
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def ours(value: JsonObject) -> JsonObject:
    """Metadata under our own key.

    >>> ours({"refusal": True})
    {'rxworker': {'refusal': True}}
    """
    return {"rxworker": value}
