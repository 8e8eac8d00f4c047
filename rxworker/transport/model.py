"""The seam between a worker and whatever answers it."""

from __future__ import annotations

from typing import Protocol

from reactivex import Observable

from rxworker.events import ResponseEvent
from rxworker.providers.base import Request


class Model(Protocol):
    """Something that answers requests with events: a `Client`, or a scripted one in tests."""

    @property
    def name(self) -> str:
        """The provider's name, as messages carry it."""
        ...

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The answer, cold: each subscription makes its own request, disposing it ends that.

        After an `Error` event and ``Status(FAILED)`` the observable ends with ``on_error`` and the matching exception.
        """
        ...


__all__ = ["Model"]
