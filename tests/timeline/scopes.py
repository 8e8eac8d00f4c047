"""A handler that keeps what it is called with."""

from __future__ import annotations


class Scopes:
    """Keeps the events of each scope, the reasons of retractions, and both as they came."""

    def __init__(self) -> None:
        self.scopes: list[list[object]] = []
        self.seen: list[object] = []
        self.reasons: list[str] = []

    def scope(self) -> list[object]:
        self.scopes.append([])
        return self.scopes[-1]

    def on_event(self, scope: list[object], event: object, /) -> None:
        scope.append(event)
        self.seen.append(event)

    def on_retract(self, reason: str, /) -> None:
        self.reasons.append(reason)
        self.seen.append(reason)
