"""Why a response ended."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class StopKind(Enum):
    """The normal forms of the providers' reasons."""

    END_TURN = "EndTurn"
    MAX_TOKENS = "MaxTokens"
    STOP_SEQUENCE = "StopSequence"
    TOOL_USE = "ToolUse"
    REFUSAL = "Refusal"
    PAUSE_TURN = "PauseTurn"
    CONTENT_FILTER = "ContentFilter"
    MALFORMED = "Malformed"
    OTHER = "Other"


TOOL_USE = StopKind.TOOL_USE  # here, since a member of an enumeration is dear to look up


class StopReason(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a response ended.

    Attributes:
        kind: The normal form, the same for all providers.
        raw: The provider's own word; ``None`` where it sent none.
        detail: Further details from the provider: the stop sequence that matched, or an explanation.
    """

    kind: StopKind
    raw: str | None = None
    detail: str | None = None

    @property
    def runs_tools(self) -> bool:
        """Whether the tool calls of the response may be run: never those of a cut or malformed one."""
        return self.kind is TOOL_USE
