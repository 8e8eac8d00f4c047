"""The parts of the UI Message Stream, version 1, as they go over the wire. A field that is absent is left out, never null."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.messages import Json, JsonObject


class _Wire(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of what goes over the wire."""


class Start(_Wire, frozen=True, tag="start"):
    """The message begins."""

    message_id: str | None = None


class StartStep(_Wire, frozen=True, tag="start-step"):
    """A turn begins."""


class FinishStep(_Wire, frozen=True, tag="finish-step"):
    """A turn is over."""


class ResetStep(_Wire, frozen=True, tag="reset-step"):
    """Everything since the turn began is taken back."""


class TextStart(_Wire, frozen=True, tag="text-start"):
    """A text begins."""

    id: str
    provider_metadata: JsonObject | None = None


class TextDeltaPart(_Wire, frozen=True, tag="text-delta"):
    """More of a text."""

    id: str
    delta: str


class TextEnd(_Wire, frozen=True, tag="text-end"):
    """A text ends, with the provider's seal on it."""

    id: str
    provider_metadata: JsonObject | None = None


class ReasoningStart(_Wire, frozen=True, tag="reasoning-start"):
    """A thought begins."""

    id: str


class ReasoningDelta(_Wire, frozen=True, tag="reasoning-delta"):
    """More of a thought."""

    id: str
    delta: str


class ReasoningEnd(_Wire, frozen=True, tag="reasoning-end"):
    """A thought ends, with the provider's seal on it."""

    id: str
    provider_metadata: JsonObject | None = None


class SourceUrl(_Wire, frozen=True, tag="source-url"):
    """What a text rests on."""

    source_id: str
    url: str
    title: str | None = None


class ToolInputStart(_Wire, frozen=True, tag="tool-input-start"):
    """A call begins."""

    tool_call_id: str
    tool_name: str
    input_encoding: str | None = None
    provider_executed: bool | None = None


class ToolInputDelta(_Wire, frozen=True, tag="tool-input-delta"):
    """More of a call's arguments, as JSON text."""

    tool_call_id: str
    input_text_delta: str


class ToolInputAvailable(_Wire, frozen=True, tag="tool-input-available"):
    """A call's arguments are whole."""

    tool_call_id: str
    tool_name: str
    input: Json
    provider_executed: bool | None = None


class ToolInputError(_Wire, frozen=True, tag="tool-input-error"):
    """A call's arguments will not become whole."""

    tool_call_id: str
    tool_name: str
    input: Json
    error_text: str


class ToolApprovalRequest(_Wire, frozen=True, tag="tool-approval-request"):
    """Somebody is asked whether a call may run."""

    approval_id: str
    tool_call_id: str
    reason: str | None = None
    is_automatic: bool | None = None


class ToolApprovalResponse(_Wire, frozen=True, tag="tool-approval-response"):
    """Nobody need be asked about a call now."""

    approval_id: str
    approved: bool


class ToolOutputAvailable(_Wire, frozen=True, tag="tool-output-available"):
    """What a call came to."""

    tool_call_id: str
    output: Json
    provider_executed: bool | None = None


class ToolOutputError(_Wire, frozen=True, tag="tool-output-error"):
    """A call failed."""

    tool_call_id: str
    error_text: str
    provider_executed: bool | None = None


class ToolOutputDenied(_Wire, frozen=True, tag="tool-output-denied"):
    """A call was refused by somebody."""

    tool_call_id: str


class Data(_Wire, frozen=True):
    """What the protocol has no part for; ``type`` begins with ``data-``.

    Attributes:
        type: Which.
        data: What.
        id: A later one of the same type and id replaces it.
        transient: Whether it is told and not kept in the message.
    """

    type: str
    data: object
    id: str | None = None
    transient: bool | None = None


class Finish(_Wire, frozen=True, tag="finish"):
    """The message is whole."""

    finish_reason: str | None = None


class Abort(_Wire, frozen=True, tag="abort"):
    """The message will not become whole."""

    reason: str | None = None


class ErrorPart(_Wire, frozen=True, tag="error"):
    """Something went wrong."""

    error_text: str


UiMessagePart: TypeAlias = (
    Start
    | StartStep
    | FinishStep
    | ResetStep
    | TextStart
    | TextDeltaPart
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | SourceUrl
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolInputError
    | ToolApprovalRequest
    | ToolApprovalResponse
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | Data
    | Finish
    | Abort
    | ErrorPart
)
