"""The parts of the UI Message Stream, version 1, as they go over the wire. A field that is absent is left out, never null."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json, JsonObject


class UiMessagePart(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Any part of the UI Message Stream that is sent."""


class Start(UiMessagePart, frozen=True, tag="start"):
    """The message begins."""

    message_id: str | None = None


class StartStep(UiMessagePart, frozen=True, tag="start-step"):
    """A turn begins."""


class FinishStep(UiMessagePart, frozen=True, tag="finish-step"):
    """A turn has ended."""


class ResetStep(UiMessagePart, frozen=True, tag="reset-step"):
    """The parts since the turn began are retracted."""


class TextStart(UiMessagePart, frozen=True, tag="text-start"):
    """A text begins."""

    id: str
    provider_metadata: JsonObject | None = None


class TextDeltaPart(UiMessagePart, frozen=True, tag="text-delta"):
    """More of a text."""

    id: str
    delta: str


class TextEnd(UiMessagePart, frozen=True, tag="text-end"):
    """A text ends, with the provider's signature."""

    id: str
    provider_metadata: JsonObject | None = None


class ReasoningStart(UiMessagePart, frozen=True, tag="reasoning-start"):
    """Reasoning begins."""

    id: str


class ReasoningDelta(UiMessagePart, frozen=True, tag="reasoning-delta"):
    """More of the reasoning."""

    id: str
    delta: str


class ReasoningEnd(UiMessagePart, frozen=True, tag="reasoning-end"):
    """Reasoning ends, with the provider's signature."""

    id: str
    provider_metadata: JsonObject | None = None


class SourceUrl(UiMessagePart, frozen=True, tag="source-url"):
    """A source of a text."""

    source_id: str
    url: str
    title: str | None = None


class ToolInputStart(UiMessagePart, frozen=True, tag="tool-input-start"):
    """A call begins."""

    tool_call_id: str
    tool_name: str
    input_encoding: str | None = None
    provider_executed: bool | None = None


class ToolInputDelta(UiMessagePart, frozen=True, tag="tool-input-delta"):
    """More of a call's arguments, as JSON text."""

    tool_call_id: str
    input_text_delta: str


class ToolInputAvailable(UiMessagePart, frozen=True, tag="tool-input-available"):
    """A call's arguments are complete."""

    tool_call_id: str
    tool_name: str
    input: Json
    provider_executed: bool | None = None


class ToolInputError(UiMessagePart, frozen=True, tag="tool-input-error"):
    """A call's arguments are invalid or incomplete."""

    tool_call_id: str
    tool_name: str
    input: Json
    error_text: str


class ToolApprovalRequest(UiMessagePart, frozen=True, tag="tool-approval-request"):
    """A call requires approval."""

    approval_id: str
    tool_call_id: str
    reason: str | None = None
    is_automatic: bool | None = None


class ToolApprovalResponse(UiMessagePart, frozen=True, tag="tool-approval-response"):
    """A call is approved."""

    approval_id: str
    approved: bool


class ToolOutputAvailable(UiMessagePart, frozen=True, tag="tool-output-available"):
    """The result of a call."""

    tool_call_id: str
    output: Json
    provider_executed: bool | None = None


class ToolOutputError(UiMessagePart, frozen=True, tag="tool-output-error"):
    """A call failed."""

    tool_call_id: str
    error_text: str
    provider_executed: bool | None = None


class ToolOutputDenied(UiMessagePart, frozen=True, tag="tool-output-denied"):
    """A call was denied."""

    tool_call_id: str


class Data(UiMessagePart, frozen=True):
    """A part that the protocol does not have; ``type`` begins with ``data-``.

    Attributes:
        type: The type.
        data: The data.
        id: A later one of the same type and id replaces it.
        transient: Whether the client does not keep it in the message.
    """

    type: str
    data: object
    id: str | None = None
    transient: bool | None = None


class Finish(UiMessagePart, frozen=True, tag="finish"):
    """The message is complete."""

    finish_reason: str | None = None


class Abort(UiMessagePart, frozen=True, tag="abort"):
    """The message was aborted."""

    reason: str | None = None


class ErrorPart(UiMessagePart, frozen=True, tag="error"):
    """The run failed."""

    error_text: str
