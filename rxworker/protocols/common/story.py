"""What is known of a run that is being told: shared by those who make changes of its records."""

from __future__ import annotations

from rxworker.protocols.common.rooms import Rooms


class Story:
    """Where the telling of one run stands.

    Attributes:
        run: The run's id.
        seq: The number of the last record.
        has_begun: Whether the first change has been made.
        is_over: Whether the last one has.
        rooms: The scopes that are open.
        refused: The calls that somebody has refused, and whose results are still to come.
    """

    def __init__(self) -> None:
        self.run = ""
        self.seq = 0
        self.has_begun = False
        self.is_over = False
        self.rooms = Rooms()
        self.refused: set[str] = set()


__all__ = ["Story"]
