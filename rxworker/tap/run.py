"""A run of any stream: another library's, a session file's, a proxy's.

Theory of operation. A tapped run is a `Run` whose events come from a source instead of from the loop of turns. So it
has what a run has: watchers, a log with its claim, an end, a cancellation, the page, boards. It is loaded with the
first event of its source. Where the log has it already, the source is read again from its beginning, and what is stored
is left out: a mapper makes the same events of the same items.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeAlias, TypeVar

from msgspec.structs import replace
from reactivex import Observable

from rxworker import events
from rxworker.errors import (
    ConfigurationError,
    InputRefusedError,
    LeaseHeldError,
    LimitExceededError,
    RunAbortedError,
    RunCancelledError,
    TruncatedError,
    WorkerError,
    describe,
)
from rxworker.events import Event, Record, RunAbort, RunStart, RunStop
from rxworker.events.kinds import EVENTS, MERGEABLE, gather
from rxworker.hooks import AbortContext, Hook, HookPoint
from rxworker.hub.iterate import iterate
from rxworker.log.base import EventLog, claim_or_release, release_shielded
from rxworker.log.values import NO_INPUT, TAPPED, Claim, recorded_labels
from rxworker.messages import Conversation, Message
from rxworker.messages.settings import awaited
from rxworker.resume.stored import LoggedRun, read_run, title_of
from rxworker.run.run import Beginning, Run, Tracing, end_of
from rxworker.tap.builder import OWN, Mapper, Tapped
from rxworker.tools.coroutines import CoroutineObservable, Emitter
from rxworker.turn.context import TurnScope
from rxworker.worker.session import Elsewhere, Session, Worker

S = TypeVar("S")
LIMIT = 65_536
"""How many items of an observable wait at most until its run has begun, or its log has taken what came before."""


class Together(list[S]):
    """Items that came together."""


Source: TypeAlias = Observable[S] | AsyncIterable[S]


class AsEvents(Mapper[Event | Record | Tapped]):
    """The mapper of a source of events, or of records: they stay as they are."""

    def feed(self, item: Event | Record | Tapped, /) -> Iterable[Tapped | Event]:
        """The event."""
        if isinstance(item, Record):
            return (Tapped(item.event, item.path, item.time),)
        return (item,)


def tap(
    source: Source[S],
    mapper: Mapper[S] | None = None,
    *,
    name: str = "agent",
    log: EventLog | None = None,
    run_id: str = "",
    title: str = "",
    labels: Mapping[str, str] | None = None,
    tracing: Tracing | None = None,
    cancel: Callable[[], object] | None = None,
) -> Run[None]:
    """Make a run of any stream: of events, or of what another program reports, with a mapper.

        source --a---b---c--|
        [ tap(source, mapper) ]
        run    --r-r-r---r-r|     r a record

    The run begins with the first event. It has watchers, and where it has a log it is written there while it goes on,
    as a run of a worker is. It takes no messages and no pause; a cancellation ends it now. If the log has a run of this
    id that was cut off, it goes on: the source is read from its beginning, and what is stored already is left out.

    Args:
        source: An observable, which is subscribed to at once, or an asynchronous iterator, which is read by the run.
        mapper: Makes events of its items; by default they are events or records.
        name: The name of the program in lists.
        log: Stores the run.
        run_id: The id of the run; by default one is made.
        title: The title in lists; by default the input of the run.
        labels: Labels of the run.
        tracing: Observes the run, as that of a `Worker` does.
        cancel: Ends the program when the run is cancelled; it may be a coroutine function.

    Raises:
        RuntimeError: No event loop runs.
        ConfigurationError: The source is neither an observable nor an asynchronous iterator, or an option is wrong.

    Example:
        >>> from collections.abc import AsyncIterator
        >>> from rxworker.tap import RunBuilder
        >>> class Words:
        ...     def __init__(self) -> None:
        ...         self.run = RunBuilder()
        ...     def feed(self, item: str) -> list[Tapped]:
        ...         self.run.text(item)
        ...         return self.run.take()
        ...     def finish(self, error: Exception | None = None) -> list[Tapped]:
        ...         self.run.end()
        ...         return self.run.take()
        >>> async def words() -> AsyncIterator[str]:
        ...     yield "Hello, "
        ...     yield "world."
        >>> async def main() -> None:
        ...     result = await tap(words(), Words())
        ...     print(result.text, result.usage.output_tokens)
        >>> asyncio.run(main())
        Hello, world. None
    """
    if cancel is not None and not callable(cancel):
        raise ConfigurationError(f"tap(cancel) is a {type(cancel).__name__}: give a function that ends the program")
    worker = Worker(
        Elsewhere(name, NO_INPUT),
        name=TAPPED + name,
        hooks=() if cancel is None else (_ending(cancel),),
        log=log,
        labels=labels or {},
        tracing=tracing,
        map_input=_refuse,
    )
    return _TapSession(worker).follow(source, mapper or AsEvents(), run_id, title, cancel)  # pyright: ignore[reportArgumentType] - events, without a mapper


def _refuse(_: Message) -> Message:
    raise InputRefusedError(NO_INPUT)


def _ending(cancel: Callable[[], object]) -> Hook[AbortContext]:
    async def end_program(context: AbortContext) -> None:
        if context.cause == "cancel":
            await awaited(cancel())

    return Hook(end_program, HookPoint.ON_ABORT)


class _TapSession(Session):
    """The session of a tapped run."""

    def follow(
        self, source: Source[S], mapper: Mapper[S], run_id: str, title: str, cancel: Callable[[], object] | None
    ) -> Run[None]:
        """Begin the run."""
        feed = _Feed(batches_of(source, mapper))

        async def load() -> Beginning:
            try:
                return await self._beginning(feed, run_id, title)
            except BaseException as error:
                await feed.close()
                if cancel is not None and isinstance(error, asyncio.CancelledError):
                    await awaited(cancel())  # no hook is called before the run has begun
                raise

        run: Run[None] = self._begin(load, run_id, CoroutineObservable(feed.follow, set()))
        run._context.pause_request.refusal = NO_INPUT
        feed.attach(run)

        async def leave() -> None:
            await end_of(run)
            if not feed.is_followed:  # it was cancelled before it could
                await feed.close()

        feed.leaving = asyncio.get_running_loop().create_task(leave(), name="rxworker tap leaves its source")
        return run

    async def _beginning(self, feed: _Feed, run_id: str, title: str) -> Beginning:
        """What the run begins with, or goes on from, when its source has reported its first event."""
        first = await feed.first()
        if self.log is not None and run_id and (again := await _again(feed, self.log, run_id)) is not None:
            return again
        start, began = first[0].event, first[0].time or 0.0
        if not isinstance(start, RunStart | events.RunResume) or first[0].path:
            start = RunStart(Conversation())
        else:
            del first[0]
        labels = {**start.labels, **self.run_labels}
        start = replace(start, labels=recorded_labels(labels), worker=self.name)
        messages = start.conversation.messages
        added = messages[len(messages) - start.added :] if isinstance(start, RunStart) else messages[-1:]
        row = replace(self._row(title or title_of(added)), labels=labels, began=began)
        return Beginning((start,), TurnScope(), stored=None if self.log is None else LoggedRun(self.log, row))


async def _again(feed: _Feed, log: EventLog, run_id: str) -> Beginning | None:
    """With what a run goes on that the log has; this process claims it, and what is stored is left out of the feed."""
    info = await log.info(run_id)
    if info is None:
        return None
    claim = await _claim(log, run_id)
    if not info.last_seq:  # the tap before was killed after it had claimed the run: it begins anew
        await release_shielded(log, claim)
        return None
    try:
        info = await log.existing(run_id)
        loaded = await read_run(log, run_id, info.row)
    except BaseException:
        await release_shielded(log, claim)
        raise
    if feed.time is not None:
        feed.time = loaded.records[-1].time  # the source has times: none is before the one before it
    for each in loaded.records:
        feed.skip[each.path] += 0 if isinstance(each.event, OWN) else each.covers
    row = replace(info.row, recoveries=info.row.recoveries + 1)
    recover = events.RunRecover(claim.epoch, claim.owner, "its tap was started again")
    return Beginning((recover,), TurnScope(), stored=LoggedRun(log, row, claim, loaded))


async def _claim(log: EventLog, run_id: str) -> Claim:
    """Claim a run. The tap before may have been killed: its lease ends then."""
    while True:
        try:
            return await claim_or_release(log, run_id)
        except LeaseHeldError as error:
            await asyncio.sleep(max(error.until - time.time(), log.lease / 10))


def batches_of(source: Source[S], mapper: Mapper[S]) -> AsyncGenerator[list[Tapped], None]:
    """What a mapper makes of a source, for each item that it makes anything of. An observable is subscribed to now.

    Raises:
        ConfigurationError: The source is neither an observable nor an asynchronous iterator.
        WorkerError: The mapper has raised.
    """
    if isinstance(source, Observable):
        return _batches(iterate(source, limit=LIMIT, at_once=True), mapper)
    if isinstance(source, AsyncIterable):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        return _batches(source, mapper)
    raise ConfigurationError(
        f"the source of a tap is an observable or an asynchronous iterator, not {source!r:.60}: for a list of "
        "events use reactivex.from_iterable(events)"
    )


async def _batches(source: AsyncIterable[S], mapper: Mapper[S]) -> AsyncGenerator[list[Tapped], None]:
    items = aiter(source)
    try:
        while True:
            try:
                item = await anext(items)
            except StopAsyncIteration:
                break
            except Exception as error:
                ends = [*map(_tapped, mapper.finish(error))]
                last = ends.pop().event if ends and isinstance(ends[-1].event, RunAbort) else None
                if ends:
                    yield ends
                if isinstance(last, RunAbort) and last.cause == "cancel" and not isinstance(error, RunCancelledError):
                    raise _error_of(last) from error
                raise  # with which the run ends
            batch: list[Tapped] = []
            try:
                for each in _each_of(item):
                    batch += map(_tapped, mapper.feed(each))
            except Exception as error:
                if batch:
                    yield batch
                what = f"{type(mapper).__name__} cannot read what the source reports: {describe(error)}"
                raise WorkerError(what) from error
            if batch:
                yield batch
    finally:
        if (close := getattr(items, "aclose", None)) is not None:
            await close()
    if batch := [*map(_tapped, mapper.finish())]:
        yield batch


class _Feed:
    """What a source reports, event by event.

    Attributes:
        skip: How many events of each path are stored already: of a source of several files, such as those of a
            session and its sub-agents, the events of one path alone have the same order each time.
        time: The time of the last event; ``None``: now.
        is_followed: Whether the run reads it; from then on it is left when the run ends.
        leaving: Leaves the source of a run that has ended before.
    """

    leaving: asyncio.Task[None]

    def __init__(self, batches: AsyncGenerator[list[Tapped], None]) -> None:
        self.skip = Counter[tuple[str, ...]]()
        self.is_followed = False
        self._limit: events.LimitReached | None = None  # that the source has reported last
        self._batches = batches
        self._waiting: list[Tapped] = []
        self._inner: dict[tuple[str, ...], tuple[int, int]] = {}
        self.time: float | None = None

    def attach(self, run: Run[None]) -> None:
        """Set the run, before it is loaded."""
        self._journal, self._mailbox = run._context.journal, run._context.mailbox
        self._journal.clock = self._now

    def _now(self) -> float:
        return time.time() if self.time is None else self.time

    async def first(self) -> list[Tapped]:
        """The first events."""
        async for batch in self._batches:
            self._waiting = batch
            self.time = batch[0].time
            return batch
        raise TruncatedError("the source ended before its first event")

    async def close(self) -> None:
        """Leave the source."""
        await self._batches.aclose()

    async def follow(self, emitter: Emitter[Event]) -> None:
        """Emit all until the end of the run."""
        self.is_followed = True
        try:
            async with aclosing(self._batches):
                if self._emit_all(self._waiting, emitter):
                    return
                async for batch in self._batches:
                    if self._emit_all(batch, emitter):
                        return
                    self._ignore_commands()
                    held = None if self._journal.writer is None else self._journal.writer.hold()
                    if held is not None:
                        await held
        except asyncio.CancelledError:
            if not self._journal.is_left:
                self.time = None  # it ends now, whatever the time of its last event
            raise
        finally:
            self._ignore_commands()
        self.time = None
        raise TruncatedError("the source ended before the end of its run")

    def _ignore_commands(self) -> None:
        """Record the commands that it has refused, as a worker does before its next request."""
        if self._mailbox.waiting and self._journal.state.status == "running":
            self._mailbox.deliver(self._journal.emit)

    def _emit_all(self, batch: Sequence[Tapped], emitter: Emitter[Event]) -> bool:
        """Emit events; whether the run is over."""
        deltas: list[Event] = []
        for each in batch:
            event = each.event
            if event.__class__ in MERGEABLE and not (each.path or each.time or self.skip[()] > 0):
                deltas.append(event)
                continue
            self._emit_deltas(deltas, emitter)
            self.time = each.time
            if isinstance(event, events.LimitReached) and not each.path:
                self._limit = event
            turn = self._counted(each) if each.path else (0, 0)
            if self.skip[each.path] > 0:
                self.skip[each.path] -= not isinstance(event, OWN)
            elif each.path:
                inner = Record(0, "", *turn, self._now(), event, each.path[1:])
                self._journal.relay(each.path[0], inner)
            elif isinstance(event, RunAbort):
                raise _error_of(event, self._limit)
            else:
                emitter.emit(event)
                if isinstance(event, RunStop | events.RunPause):
                    return True
        self._emit_deltas(deltas, emitter)
        return False

    def _emit_deltas(self, deltas: list[Event], emitter: Emitter[Event]) -> None:
        """Emit deltas that came together, those of one block as one record, and forget them."""
        if not deltas:
            return
        self.time = None
        if len(deltas) > 1 and emitter.on_many is not None:
            emitter.on_many(gather(deltas))
        else:
            for each in deltas:
                emitter.emit(each)
        deltas.clear()

    def _counted(self, each: Tapped) -> tuple[int, int]:
        turn, attempt = self._inner.get(each.path, (0, 0))
        if isinstance(each.event, events.TurnStart):
            turn, attempt = turn + 1, 0
        elif isinstance(each.event, events.AttemptStart):
            attempt += 1
        self._inner[each.path] = turn, attempt
        return turn, attempt


def _each_of(item: S) -> Sequence[S]:
    """The item, or those that came together."""
    return item if isinstance(item, Together) else (item,)  # pyright: ignore[reportUnknownVariableType]


def _tapped(item: Tapped | Event) -> Tapped:
    if isinstance(item, Tapped):
        return item
    if type(item) not in EVENTS:
        raise ConfigurationError(
            f"a {type(item).__name__} is neither an event nor a record: give a mapper that makes events of it"
        )
    return Tapped(item)


def _error_of(event: RunAbort, limit: events.LimitReached | None = None) -> Exception:
    """The error that a run ends with which its source reports as aborted."""
    if event.cause == "cancel":
        return RunCancelledError(event.reason)
    if event.cause == "limit" and limit is not None:
        return LimitExceededError(limit.limit, limit.value)
    return RunAbortedError(event.reason) if event.cause == "abort" else WorkerError(event.reason)
