"""What the mappers of the libraries share, whose items are of one run. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rxworker.tap.builder import RunBuilder, Tapped


class RunMapper(ABC):
    """Makes a run of the items of a library. Where the stream fails, the run does.

    Args:
        run: Its builder.
    """

    def __init__(self, run: RunBuilder) -> None:
        self._run = run

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an item."""
        self._take(item)
        return self._run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The events of the end of the stream, which has failed if there is an error."""
        self._end(error)
        return self._run.take()

    @abstractmethod
    def _take(self, item: object) -> None:
        """Take an item."""

    def _end(self, error: Exception | None) -> None:
        """Take the end. Most streams report that of their run themselves, unless they have failed."""
        if error is not None:
            self._run.abort_with(error)
