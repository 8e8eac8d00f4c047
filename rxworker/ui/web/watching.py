"""A client's watch of a run, with a place among those that there are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager

from rxworker.events import Record
from rxworker.hub import Delivery, DropOldest, Latest, Reliable, Watch
from rxworker.protocols import DeliveryName
from rxworker.ui.web.answers import ApiError
from rxworker.ui.web.entry import RunEntry
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore

DELIVERIES: dict[DeliveryName, Delivery] = {
    # A client that is too far behind is sent away, to come back to where it was: no client makes a run wait.
    "reliable": Reliable(when_full="detach"),
    "latest": Latest(),
    "drop_oldest": DropOldest(),
}


class Places:
    """How many clients watch, and how many may.

    Args:
        settings: The limits.
        store: Is informed when a watcher of a run has come or gone.
    """

    def __init__(self, settings: Settings, store: RunStore) -> None:
        self._store = store
        self._most = settings.max_watchers
        self._most_of_run = settings.max_watchers_per_run
        self._taken = 0

    @contextmanager
    def take(self, entry: RunEntry | None = None) -> Generator[None, None, None]:
        """A place for one watcher of a run, or for a connection that watches none yet.

        Raises:
            ApiError: There is none.
        """
        if self._taken >= self._most:
            message = "too many clients watch: close a page, or raise max_watchers"
            raise ApiError(429, "too_many_watchers", message)
        if entry is not None and entry.watching >= self._most_of_run:
            message = "too many clients watch this run: close a page, or raise max_watchers_per_run"
            raise ApiError(429, "too_many_watchers", message)
        self._taken += 1
        if entry is not None:
            entry.watching += 1
        try:
            yield
        finally:
            self._taken -= 1
            if entry is not None:
                entry.watching -= 1
                entry.settle()
                self._store.changed(entry)


def watch_run(
    entry: RunEntry, after: int, delivery: DeliveryName = "coalesce", name: str = ""
) -> Watch:
    """A watch of a run. By default its deltas are merged, and come at the pace of the server's clients.

    Raises:
        ApiError: The run is not that far.
    """
    if after > entry.run.last_seq:
        message = f"the run has come to record {entry.run.last_seq}, so nobody has seen {after}"
        raise ApiError(400, "bad_cursor", message)
    chosen = DELIVERIES.get(delivery, entry.delivery)
    return entry.run.watch(delivery=chosen, after=after, name=name)


async def batches_of(entry: RunEntry, watch: Watch) -> AsyncGenerator[list[Record], None]:
    """What a watch is given, to the run's end, however the run ended.

    Raises:
        RxWorkerError: The watcher was detached while the run goes on.
    """
    async with aclosing(watch.batches()) as batches:
        try:
            async for batch in batches:
                yield batch
        except Exception:
            # What ended the run stands in its last record.
            if not entry.run.done():
                raise


__all__ = ["DELIVERIES", "Places", "batches_of", "watch_run"]
