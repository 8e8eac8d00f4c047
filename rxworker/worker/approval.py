"""What may be decided about a call that waits."""

from __future__ import annotations

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

__all__ = ["Answer", "Approve", "Decision", "Deny"]
