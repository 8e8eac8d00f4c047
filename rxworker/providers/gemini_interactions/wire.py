"""The JSON of the Interactions stream, and how an interaction ends: its status and its usage.

All events share one Struct. Steps and deltas stay plain objects, since they are kept as they came. What the server
should not get wrong, but might, is ``Json`` and checked where it is read, so that no content is lost for it. Cached
input is part of the prompt; thoughts, and what tools read, are counted beside the rest.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.failure import CANCELLED
from rxworker.providers.usage import numbers_in, total

FAILED = "failed"
CONTINUES = "requires_continuation"
# An interaction is ``incomplete`` where it reached its most tokens: https://ai.google.dev/gemini-api/docs/thinking
STOPS = {
    "completed": StopKind.END_TURN,
    "requires_action": StopKind.TOOL_USE,
    "incomplete": StopKind.MAX_TOKENS,
    "budget_exceeded": StopKind.MAX_TOKENS,
    CONTINUES: StopKind.PAUSE_TURN,
}
ENDS = (*STOPS, FAILED, CANCELLED)
WHOLE = ("completed", "requires_action")
"""The statuses with which what is still open is whole."""


def read_stop(status: str, *, called: bool, malformed: bool) -> StopReason:
    """The normal form.

    Args:
        status: The last status.
        called: Whether a call of a client's tool was completed.
        malformed: Whether there was a call that names no tool.

    >>> read_stop("requires_action", called=True, malformed=False).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    kind = STOPS.get(status, StopKind.OTHER)
    if kind not in (StopKind.END_TURN, StopKind.TOOL_USE, StopKind.OTHER):
        return StopReason(kind, status)
    if called:
        return StopReason(StopKind.TOOL_USE, status)
    if malformed:
        return StopReason(StopKind.MALFORMED, status)
    if kind is StopKind.TOOL_USE:
        return StopReason(StopKind.OTHER, status, "waits for the client")
    return StopReason(kind, status)


NUMBERS = ("total_input_tokens", "total_output_tokens", "total_cached_tokens")
APART = ("total_tool_use_tokens", "total_thought_tokens")


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"total_input_tokens": 5, "total_output_tokens": 2, "total_thought_tokens": 3}).total_tokens
    10
    """
    prompt, written, cached, beside, reasoning = numbers_in(raw, *NUMBERS, *APART)
    return Usage(total(prompt, beside), total(written, reasoning), cached, None, reasoning, raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as they were sent: the output is without thoughts."""
    return numbers_in(raw, *NUMBERS)


# The kinds of steps that are read; any other is kept whole.
OUTPUT, THOUGHT, CALL = "model_output", "thought", "function_call"


class WireInteraction(Struct, frozen=True, gc=False):
    """The interaction as a whole, which the first and the last events carry.

    Attributes:
        id: Its name; empty where the service stores nothing.
        model: The model that answers.
        agent: The agent that answers, in place of a model.
        status: Where it stands.
        usage: The tokens it took.
        steps: Its steps, which are usually sent in events of their own.
        errors: Why it failed.
        continuation_token: With it, the same request continues an interaction that was cut by the limit of one request.
    """

    id: Json = None
    model: Json = None
    agent: Json = None
    status: Json = None
    usage: Json = None
    steps: Json = None
    errors: Json = None
    continuation_token: Json = None


# The types of the official package
_REPEATED = (
    "agent_config background cached_content created environment generation_config input labels object "
    "previous_interaction_id response_format response_mime_type response_modalities role safety_settings "
    "service_tier store stream system_instruction tools updated webhook_config"
)
INTERACTION = frozenset((*WireInteraction.__struct_fields__, *_REPEATED.split()))
"""The members of an interaction that are read, or that repeat the request."""


class WireEvent(Struct, frozen=True, gc=False):
    """One frame of the stream.

    Attributes:
        type: Its type; empty where only the frame's name has it.
        index: Which step.
        step: The step that starts, which may hold content already.
        delta: What is new of the step.
        interaction: The interaction.
        status: Its status, of an update.
        usage: The tokens so far, of an update and of the end of a step.
        metadata: The tokens so far, of a delta.
        error: The error.
        interaction_id: The name of the interaction, of an update.
        continuation_token: As that of an interaction, of an update.
    """

    type: str = field(default="", name="event_type")
    index: int | None = None
    step: JsonObject | None = None
    delta: JsonObject | None = None
    interaction: WireInteraction | None = None
    status: Json = None
    usage: Json = None
    metadata: Json = None
    error: Json = None
    interaction_id: Json = None
    continuation_token: Json = None


decode_event = msgspec.json.Decoder(WireEvent).decode
