"""Several runs of one source, and a run beside a program that reads the source itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from typing import Generic, TypedDict, TypeVar, Unpack

from reactivex import Observable, Subject

from rxworker.errors import ConfigurationError, RunCancelledError, as_exception
from rxworker.events import RunAbort, RunPause, RunStop
from rxworker.log.base import EventLog
from rxworker.run.run import Run, Tracing, end_of
from rxworker.tap.builder import Mapper, Tapped
from rxworker.tap.run import AsEvents, Source, Together, batches_of, tap
from rxworker.tools.cancellation import keep

S = TypeVar("S")
GATHER = 0.01
"""The seconds for which a tee gathers items for its run."""

LIMIT = 4096
"""How many events of a run wait at most until it has read them."""


class TapOptions(TypedDict, total=False):
    """The options that `tap`, `tap_each` and `tee` share."""

    name: str
    log: EventLog | None
    labels: Mapping[str, str] | None
    tracing: Tracing | None


class _Waiting:
    """The events of a run that it has not read. They have a bound, at which the source waits for the run.

    Attributes:
        end: Waits for the end of the run, after which nothing waits.
    """

    end: asyncio.Task[None]

    def __init__(self) -> None:
        self._items: asyncio.Queue[Tapped | Exception | None] = asyncio.Queue(LIMIT)

    async def give(self, item: Tapped | Exception | None) -> None:
        """Add an event, an error of the source, or its end."""
        if not self._items.full():
            self._items.put_nowait(item)
            return
        giving = asyncio.ensure_future(self._items.put(item))
        try:
            await asyncio.wait({giving, self.end}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving.cancel()

    async def __aiter__(self) -> AsyncGenerator[Tapped, None]:
        """The events."""
        while (item := await self._items.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item


class TapEach(Generic[S]):
    """The runs of a source that has several, by the ``run`` of its events; see `tap_each`.

    Attributes:
        runs: The observable of the runs, each as it begins.
        open: The runs that go on, by their ids.
    """

    def __init__(self, source: Source[S], mapper: Mapper[S], prefix: str, options: TapOptions) -> None:
        self._subject: Subject[Run[None]] = Subject()
        self.runs: Observable[Run[None]] = self._subject
        self.open: dict[str, Run[None]] = {}
        self._feeds: dict[str, _Waiting] = {}
        self._prefix = prefix
        self._options = options
        self._ends: set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(
            self._follow(batches_of(source, mapper)), name="rxworker tap"
        )

    async def _follow(self, batches: AsyncGenerator[list[Tapped], None]) -> None:
        failed: Exception | None = None
        try:
            async with aclosing(batches):
                async for batch in batches:
                    for each in batch:
                        await self._give(each)
                    await asyncio.sleep(0)  # a file is read without a wait: its runs take what was read
        except Exception as error:
            failed = error
            raise
        finally:
            for feed in [*self._feeds.values()]:
                await feed.give(failed)
            self._feeds.clear()
            if self._ends:
                await asyncio.wait(self._ends)
            self._subject.on_completed() if failed is None else self._subject.on_error(failed)

    async def _give(self, each: Tapped) -> None:
        key = each.run
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = _Waiting()
            run = self.open[key] = tap(feed, run_id=self._prefix + key, **self._options)
            feed.end = keep(end_of(run), self._ends)
            feed.end.add_done_callback(lambda _: self.open.pop(key, None) if self.open.get(key) is run else None)
            self._subject.on_next(run)
        await feed.give(each)
        if isinstance(each.event, RunStop | RunAbort | RunPause) and not each.path:
            del self._feeds[key]
            await feed.give(None)

    async def __aenter__(self) -> TapEach[S]:
        """Itself; at the end of the context it is closed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def ended(self) -> None:
        """Wait until the source and all of its runs have ended.

        Raises:
            Exception: The source has failed, or the mapper.
        """
        await asyncio.shield(self._task)

    async def close(self) -> None:
        """Stop. Runs that go on are handed over where they have a log, so that another tap goes on with them."""
        runs = [*self.open.values()]
        for run in runs:
            if self._options.get("log") is not None:
                run.hand_over(reason="its tap was closed")
            else:
                run.cancel(reason="its tap was closed")
        self._feeds.clear()
        self._task.cancel()
        await asyncio.wait({self._task, *(asyncio.ensure_future(end_of(run)) for run in runs)})


def tap_each(
    source: Source[S], mapper: Mapper[S] | None = None, *, prefix: str = "", **options: Unpack[TapOptions]
) -> TapEach[S]:
    """Make a run of each ``run`` that the events of a source name, such as each session of a folder.

        source --a1--b1--a2----|       a, b: the runs that events are of
        [ tap_each(source, mapper) ]
        runs   --A---B---------|

    Args:
        source: As for `tap`.
        mapper: Makes events with ``Tapped(run=...)``; by default they are such events.
        prefix: What the ids of the runs begin with, before that name.
        options: As for `tap`: ``name``, ``log``, ``labels``, ``tracing``. A run that the log has goes on there; one
            that has ended stays as it is.

    Raises:
        RuntimeError: No event loop runs.
        ConfigurationError: As for `tap`.

    Example:
        >>> import asyncio, reactivex
        >>> from rxworker.tap import RunBuilder
        >>> async def main() -> None:
        ...     one, two = RunBuilder(run="1"), RunBuilder(run="2")
        ...     one.text("Hello"), two.text("Hi"), one.end(), two.end()
        ...     each = tap_each(reactivex.from_iterable([*one.take(), *two.take()]))
        ...     each.runs.subscribe(lambda run: print(run.id))
        ...     await each.ended()
        >>> asyncio.run(main())
        1
        2
    """
    return TapEach(source, mapper or AsEvents(), prefix, options)  # pyright: ignore[reportArgumentType] - events, without a mapper


class Tee(Generic[S]):
    """The items of a source, unchanged, with a run beside them; see `tee`.

    Attributes:
        run: The run.
    """

    def __init__(self, source: AsyncIterable[S], mapper: Mapper[S], options: TapOptions) -> None:
        if not isinstance(source, AsyncIterable):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"the source of a tee is an asynchronous iterator, not {source!r:.60}")
        self._source = source
        self._feed: Subject[S] = Subject()
        self._held: Together[S] = Together()
        self.run = tap(self._feed, mapper, **options)

    async def __aiter__(self) -> AsyncGenerator[S, None]:
        """The items."""
        loop = asyncio.get_running_loop()
        try:
            async for item in self._source:
                if not self._held:
                    loop.call_later(GATHER, self._pass_on)
                self._held.append(item)
                yield item
        except BaseException as error:
            has_left = isinstance(error, GeneratorExit | asyncio.CancelledError)
            self._pass_on()
            self._feed.on_error(RunCancelledError("its reader has left") if has_left else as_exception(error))
            raise
        self._pass_on()
        self._feed.on_completed()

    def _pass_on(self) -> None:
        """Give the run what it has not yet; each wake of its task costs as much as an item."""
        held, self._held = self._held, Together()
        if held:
            self._feed.on_next(held)  # pyright: ignore[reportArgumentType] - as `batches_of` reads them


def tee(source: AsyncIterable[S], mapper: Mapper[S], **options: Unpack[TapOptions]) -> Tee[S]:
    """Read a source as before, and have a run of what it reports.

        source --a--b--|
        [ tee(source, mapper) ]
               --a--b--|
        .run   --rr-r-r|

    The items pass unchanged. What happens to the run does not affect the reader: a mapper that raises ends the run.

    Args:
        source: An asynchronous iterator.
        mapper: As for `tap`.
        options: As for `tap`: ``name``, ``log``, ``labels``, ``tracing``.

    Raises:
        ConfigurationError: The source is not an asynchronous iterator.

    Example:
        >>> import asyncio
        >>> from rxworker.tap import RunBuilder
        >>> class Words:
        ...     def __init__(self) -> None:
        ...         self.run = RunBuilder()
        ...     def feed(self, item):
        ...         self.run.text(item)
        ...         return self.run.take()
        ...     def finish(self, error=None):
        ...         self.run.end()
        ...         return self.run.take()
        >>> async def words():
        ...     yield "Hello, "
        ...     yield "world."
        >>> async def main() -> None:
        ...     both = tee(words(), Words())
        ...     print([word async for word in both], (await both.run).text)
        >>> asyncio.run(main())
        ['Hello, ', 'world.'] Hello, world.
    """
    return Tee(source, mapper, options)
