"""Why a response ended."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class StopKind(Enum):
    """The normal forms of the providers' reasons.

    ``INCOMPLETE`` is an end before its time that has no form of its own, such as a cancel by the server.
    """

    __hash__ = object.__hash__  # that of an Enum is a function in Python, called at each look into a table

    END_TURN = "EndTurn"
    MAX_TOKENS = "MaxTokens"
    STOP_SEQUENCE = "StopSequence"
    TOOL_USE = "ToolUse"
    REFUSAL = "Refusal"
    PAUSE_TURN = "PauseTurn"
    CONTENT_FILTER = "ContentFilter"
    MALFORMED = "Malformed"
    INCOMPLETE = "Incomplete"
    OTHER = "Other"


AGAINST_CALLS = frozenset(
    {StopKind.MAX_TOKENS, StopKind.REFUSAL, StopKind.CONTENT_FILTER, StopKind.MALFORMED, StopKind.INCOMPLETE}
)
"""The reasons with which no call of a response runs, since the response is cut, malformed or withheld."""


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
        """Whether the whole tool calls of the response run: never those of a cut, malformed or withheld one.

        Without a reason they run, too.
        """
        return self.kind not in AGAINST_CALLS
