"""The response that is being received in one scope, and how its blocks are called."""

from __future__ import annotations

from collections import Counter

from rxworker.protocols.common.changes import Scope


class Response:
    """One response of a scope.

    Args:
        scope: Whose it is.
        prefix: What its name begins with.
        turn: Its turn.
        attempt: Its attempt.
        again: Tells it from an earlier one of the same attempt.

    Attributes:
        scope: Whose it is.
        turn: Its turn.
        attempt: Its attempt.
        again: Tells it from an earlier one of the same attempt.
        is_all_seen: Whether nothing of it was missed.
        said: The blocks of text that were shown.
        asked: The calls that were shown.

    >>> response = Response(Scope(), "run-1", turn=2, attempt=1)
    >>> response.name, response.name_text(0), response.name_text(0)
    ('run-1.2.1', 'run-1.2.1.0', 'run-1.2.1.0~2')
    """

    def __init__(
        self, scope: Scope, prefix: str, *, turn: int = 0, attempt: int = 0, again: int = 0
    ) -> None:
        self.scope = scope
        self._prefix = prefix
        self.turn = turn
        self.attempt = attempt
        self.again = again
        self.is_all_seen = False
        self.said: list[str] = []
        self.asked: list[str] = []
        self._used: Counter[int] = Counter()

    @property
    def name(self) -> str:
        """Its name, the same for every watcher."""
        name = f"{self._prefix}.{self.turn}.{self.attempt}"
        return f"{name}.{self.again}" if self.again else name

    def name_text(self, index: int) -> str:
        """The name of a new block of text at this place."""
        self._used[index] += 1
        again = self._used[index]
        name = f"{self.name}.{index}" + (f"~{again}" if again > 1 else "")
        self.said.append(name)
        return name


__all__ = ["Response"]
