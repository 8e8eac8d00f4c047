"""The JSON of the Interactions stream.

All events share one Struct. Steps and deltas stay plain objects, since they are kept as they came. What the server
should not get wrong, but might, is ``Json`` and checked where it is read, so that no content is lost for it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from rxworker.messages import Json, JsonObject

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
