"""What may be decided about a call that waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from rxworker.messages import JsonObject, ResultContent


class Approve(Struct, frozen=True):
    """Run the call.

    Attributes:
        input: Other arguments than the model's, a text for a tool that takes free text; ``None`` runs it with exactly those that
            were shown.
    """

    input: JsonObject | str | None = None


class Deny(Struct, frozen=True):
    """Do not run the call.

    Attributes:
        reason: For the model.
    """

    reason: str = "This call was not approved."


class Answer(Struct, frozen=True):
    """Do not run the call; this is its result.

    Attributes:
        content: What the model reads.
        is_error: Whether it reads it as a failure.
    """

    content: ResultContent
    is_error: bool = False


Decision: TypeAlias = Approve | Deny | Answer
Decisions: TypeAlias = Mapping[str, Decision] | Sequence[Decision | None]
"""Decisions about pending calls: by the ids of the calls, or one for each call in order, ``None`` where nothing is decided."""

APPROVAL = "requires_approval"
"""What stands in a `RunPause` in the place of a hook's name where the policy of a tool asks for approval."""

__all__ = ["APPROVAL", "Answer", "Approve", "Decision", "Decisions", "Deny"]
