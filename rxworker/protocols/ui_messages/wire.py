"""The parts of the UI Message Stream, version 1, as they go over the wire.

A field that is absent is left out, never null.
"""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json, JsonObject


class UiMessagePart(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Any part of the UI Message Stream that is sent."""


class BlockPart(UiMessagePart, frozen=True):
    """A part of a text or of the reasoning.

    Attributes:
        id: The id of the block.
    """

    id: str


class CallPart(UiMessagePart, frozen=True):
    """A part of a call.

    Attributes:
        tool_call_id: The id of the call.
    """

    tool_call_id: str


class Start(UiMessagePart, frozen=True, tag="start"):
    """The message begins."""

    message_id: str | None = None


class StartStep(UiMessagePart, frozen=True, tag="start-step"):
    """A turn begins."""


class FinishStep(UiMessagePart, frozen=True, tag="finish-step"):
    """A turn has ended."""


class ResetStep(UiMessagePart, frozen=True, tag="reset-step"):
    """The parts since the turn began are retracted."""


class TextStart(BlockPart, frozen=True, tag="text-start"):
    """A text begins."""

    provider_metadata: JsonObject | None = None


class TextDeltaPart(BlockPart, frozen=True, tag="text-delta"):
    """More of a text."""

    delta: str


class TextEnd(BlockPart, frozen=True, tag="text-end"):
    """A text ends, with the provider's signature."""

    provider_metadata: JsonObject | None = None


class ReasoningStart(BlockPart, frozen=True, tag="reasoning-start"):
    """Reasoning begins."""


class ReasoningDelta(BlockPart, frozen=True, tag="reasoning-delta"):
    """More of the reasoning."""

    delta: str


class ReasoningEnd(BlockPart, frozen=True, tag="reasoning-end"):
    """Reasoning ends, with the provider's signature."""

    provider_metadata: JsonObject | None = None


class SourceUrl(UiMessagePart, frozen=True, tag="source-url"):
    """A source of a text."""

    source_id: str
    url: str
    title: str | None = None


class ToolInputStart(CallPart, frozen=True, tag="tool-input-start"):
    """A call begins."""

    tool_name: str
    input_encoding: str | None = None
    provider_executed: bool | None = None


class ToolInputDelta(CallPart, frozen=True, tag="tool-input-delta"):
    """More of a call's arguments, as JSON text."""

    input_text_delta: str


class ToolInputAvailable(CallPart, frozen=True, tag="tool-input-available"):
    """A call's arguments are complete."""

    tool_name: str
    input: Json
    provider_executed: bool | None = None


class ToolInputError(CallPart, frozen=True, tag="tool-input-error"):
    """A call's arguments are invalid or incomplete."""

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


class ToolOutputAvailable(CallPart, frozen=True, tag="tool-output-available"):
    """The result of a call."""

    output: Json
    provider_executed: bool | None = None


class ToolOutputError(CallPart, frozen=True, tag="tool-output-error"):
    """A call failed."""

    error_text: str
    provider_executed: bool | None = None


class ToolOutputDenied(CallPart, frozen=True, tag="tool-output-denied"):
    """A call was denied."""


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
