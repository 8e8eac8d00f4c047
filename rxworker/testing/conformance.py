"""Does a stream of an agent keep the rules that its watchers rely on?

`check` takes what begins a stream, of rxworker or of your own, tries each `Rule` on it, and returns a `Report`. What a
list of events or records shows, `check_records` finds without a source.

The rules about delivery are tried with watchers: a `Run` or an observable pushes to them, an asynchronous iterable is
iterated once by each. What has one reader alone, as an asynchronous generator, has no watchers to try.

The linter reads events or records one by one; the rules are those of `rxworker.state.grammar`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, TypeAlias, TypeVar, cast

import reactivex
from msgspec import Struct
from reactivex import Observable
from reactivex import operators as ops

from rxworker import events
from rxworker.errors import ConfigurationError
from rxworker.events import Event, Record
from rxworker.events.kinds import EVENTS
from rxworker.hub.history import merge
from rxworker.log.replica import Replica
from rxworker.operators.kernel import Operator
from rxworker.run.run import Run
from rxworker.state import fold_run
from rxworker.state.grammar import Fault, RecordGrammar, Rule, RunGrammar
from rxworker.turn.journal import Journal

Lintable: TypeAlias = Event | Record
E = TypeVar("E", bound=Lintable)


class Linter:
    """Reads events or records, one by one, and reports violations."""

    def __init__(self) -> None:
        # Not for records: a run may use the model of another program.
        self._events = RunGrammar(reasons=True)
        self._records = RecordGrammar()
        self._place = 0

    @property
    def is_open(self) -> bool:
        """Whether a run has begun, and has no end yet."""
        return self._events.is_open or self._records.is_open

    def feed(self, event: Lintable, /) -> list[Fault]:
        """Take the next one; return what is wrong with it, with its place in the stream."""
        place, self._place = self._place, self._place + 1
        if isinstance(event, Record):
            return _placed(f"seq {event.seq}", self._records.feed(event))
        return _placed(f"event {place}", self._events.feed(event))

    def finish(self) -> list[Fault]:
        """The stream ended; return what is missing."""
        return _placed("end", [*self._events.finish(), *self._records.finish()])


def _placed(place: str, faults: list[Fault]) -> list[Fault]:
    return [Fault(fault.rule, f"{place}: {fault.text}") for fault in faults]


def lint(events: Iterable[Lintable], *, complete: bool = True) -> list[str]:
    """The errors of a stream; empty for a sound one.

    Args:
        events: Events of one response, or records of runs.
        complete: Whether this is the whole stream; of a part, nothing counts as missing.

    >>> from rxworker.events import BlockStart, BlockType, TextDelta
    >>> lint([TextDelta(0, "Hello")], complete=False)
    ['event 0: TextDelta outside of a block: 0 is not open']
    """
    linter = Linter()
    faults = [fault for event in events for fault in linter.feed(event)]
    return [fault.text for fault in [*faults, *(linter.finish() if complete else [])]]


def check_balanced(events: Iterable[Lintable], *, complete: bool = True) -> None:
    """Assert that a stream keeps the rules; the arguments are those of `lint`.

    Raises:
        AssertionError: It does not; the message lists every complaint.

    >>> from rxworker.testing.reply import say
    >>> from rxworker.testing.reply import reply_events
    >>> check_balanced(reply_events(say("Hello")))
    """
    if complaints := lint(events, complete=complete):
        raise AssertionError("the stream breaks the protocol:\n  " + "\n  ".join(complaints))


def ensure_balanced() -> Operator[E, E]:
    """Pass a stream on, and end it with an `AssertionError` at the first event that breaks the rules.

        --s--d--d--|         s start, d delta, no stop
        [ ensure_balanced() ]
        --s--d--d--X

    A stream that fails is passed on as it is: what it could not finish, it could not finish.
    """

    def ensure(source: Observable[E]) -> Observable[E]:
        def begin(_: object) -> Observable[E]:
            linter = Linter()

            def check_event(event: E) -> None:
                _refuse(linter.feed(event))

            def check_end() -> None:
                _refuse(linter.finish())

            return source.pipe(ops.do_action(check_event, on_completed=check_end))

        return reactivex.defer(begin)

    return ensure


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise AssertionError("; ".join(map(str, faults)))


@contextmanager
def checked_records() -> Generator[list[str]]:
    """Check the records of all runs where they are numbered.

    A record that breaks the rules is refused: it is not emitted, and an `AssertionError` is raised by what emits it.

    A run may turn that error into its own. So an `AssertionError` that lists all faults is raised at the end of the
    block, too. For a fixture that all tests use.

    Raises:
        AssertionError: At the end: a record was refused.

    >>> import asyncio
    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> with checked_records() as faults:
    ...     result = Worker(ScriptedModel(["Hello."])).run_sync("Hi")
    >>> faults
    []
    """
    faults: list[str] = []
    before, Journal.faults = Journal.faults, faults
    try:
        yield faults
    finally:
        Journal.faults = before
    if faults:
        raise AssertionError("records break the rules:\n  " + "\n  ".join(faults))


REASONS = {
    Rule.BLOCKS_END: "Each block and each turn that starts ends once: a page shows another one as being written.",
    Rule.NOTHING_AFTER_END: "Nothing follows the end of a response or of a run: its watchers have left.",
    Rule.CUT_IS_NOT_SUCCESS: "What was cut off ends as that: half an answer is not stored and paid as a whole one.",
    Rule.RETRACTED_IS_MARKED: "Content that does not count is retracted: a page shows no half of it before the whole.",
    Rule.USAGE_ONCE: "Usage lies within its response, and the last one holds: a bill counts no tokens twice.",
    Rule.ERRORS_ARE_SEEN: "What fails has its error in the stream: its reader can decide whether to try it again.",
    Rule.CALLS_END: "Each call has an id, a name, and a result or an end: its reader knows what has had an effect.",
    Rule.NESTED_BY_PATH: "Records of a run inside another one have the path of its call: no two texts are mixed.",
    Rule.NUMBERS_WITHOUT_GAPS: "Records are numbered without gaps: a watcher that connects again names what it lacks.",
    Rule.TWO_WATCHERS: "Two watchers receive the same: a page and a log do not contradict each other.",
    Rule.LATE_WATCHER: "A late watcher has in the end what an early one has: a page may be opened again.",
    Rule.RAISING_WATCHER: "A watcher that raises costs the others nothing: a fault in a chart does not end the run.",
    Rule.SLOW_WATCHER: "A watcher that is slow costs the others nothing: no bad connection makes a run wait.",
}
"""Each rule, and why it holds, by number from 1."""
SHOWN_BY: dict[Rule, tuple[type[object], ...]] = {
    Rule.BLOCKS_END: (events.BlockStart, events.TurnStart),
    Rule.NOTHING_AFTER_END: (events.Status, events.RunStop, events.RunAbort, events.RunPause),
    Rule.CUT_IS_NOT_SUCCESS: (events.Status, events.RunStart, events.RunResume),
    Rule.RETRACTED_IS_MARKED: (events.AttemptRetract,),
    Rule.USAGE_ONCE: (events.Usage,),
    Rule.ERRORS_ARE_SEEN: (events.Error, events.RunAbort),
    Rule.CALLS_END: (events.ToolStart, events.ToolStop, events.InputJsonDelta, events.InputValueDelta),
    Rule.NESTED_BY_PATH: (tuple,),
    Rule.NUMBERS_WITHOUT_GAPS: (Record,),
}
"""What a stream has to contain to show whether it keeps a rule; a tuple: a path."""


FOREIGN = "map what the stream emits"
"""What to do about a stream of another library's objects."""


class Row(Struct, frozen=True):
    """What was found of one rule.

    Attributes:
        rule: The rule.
        outcome: Whether it was ``kept``, ``broken`` or ``not tried``.
        reason: Why it was broken, or not tried.
        seqs: The numbers of the records that break it; of bare events, their places, from 0.
    """

    rule: Rule
    outcome: Literal["kept", "broken", "not tried"]
    reason: str = ""
    seqs: tuple[int, ...] = ()

    def __str__(self) -> str:
        found = f"{self.outcome}: {self.reason}" if self.reason else self.outcome
        return f"{[*Rule].index(self.rule) + 1:2}  {self.rule:<21}{found}"


class Report(Struct, frozen=True):
    """What was found of each rule, in their order. As a text it has a line for each.

    >>> from rxworker.events import ResponseStatus, Status
    >>> print(str(check_records([Status(ResponseStatus.STARTED)])).splitlines()[0])
    1 of 2 rules kept, 11 not tried
    """

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        by = {outcome: [row for row in self.rows if row.outcome == outcome] for outcome in ("kept", "not tried")}
        tried, untried = len(self.rows) - len(by["not tried"]), len(by["not tried"])
        head = f"{len(by['kept'])} of {tried} rules kept" + (f", {untried} not tried" if untried else "")
        return "\n".join([head, *map(str, self.rows)])

    def raise_for_broken(self) -> None:
        """Do nothing if no rule was broken.

        Raises:
            AssertionError: One was; the message is the whole report.
        """
        if any(row.outcome == "broken" for row in self.rows):
            raise AssertionError(str(self))


def check_records(items: Iterable[object], *, error: BaseException | None = None) -> Report:
    """Try the rules that a list of events or records shows. Those about delivery are not tried.

    A rule is not tried, either, if the list has nothing that it is about.

    Args:
        items: The whole stream.
        error: The error that it has ended with.

    >>> from rxworker.events import BlockStart, BlockType, ResponseStatus, Status
    >>> items = [Status(ResponseStatus.STARTED), BlockStart(0, BlockType.TEXT), Status(ResponseStatus.COMPLETED)]
    >>> print(check_records(items).rows[0])
     1  blocks-end           broken: event 2: block 0 (text) is still open at Status(COMPLETED)
    """
    linter, shown = Linter(), set[type[object]]() if error is None else {events.Error}
    found: list[tuple[Fault, list[int]]] = []
    for place, item in enumerate(items):
        seq, event, path = (item.seq, item.event, item.path) if isinstance(item, Record) else (place, item, ())
        if type(event) not in EVENTS:
            reason = f"a {type(item).__name__} is neither an event nor a record: {FOREIGN}"
            return Report(tuple([Row(rule, "not tried", reason) for rule in Rule]))
        found += [(fault, [seq]) for fault in linter.feed(cast("Event | Record", item))]
        shown |= {type(event), type(item), type(path or None)}
    if error is None:  # what has failed could not finish what was open
        found += [(fault, []) for fault in linter.finish()]
        if linter.is_open:
            found.append((Fault(Rule.CUT_IS_NOT_SUCCESS, "end: no error, and the run has no end"), []))
    rows: list[Row] = []
    for rule in Rule:
        kinds = SHOWN_BY.get(rule, ())
        if texts := [fault.text for fault, _ in found if fault.rule is rule]:
            seqs = [seq for fault, some in found if fault.rule is rule for seq in some]
            rows.append(Row(rule, "broken", "; ".join(texts), tuple(seqs)))
        elif shown.isdisjoint(kinds):
            names = " or ".join(["path" if kind is tuple else kind.__name__ for kind in kinds])
            rows.append(Row(rule, "not tried", f"the stream has no {names}" if names else "a list has no watchers"))
        else:
            rows.append(Row(rule, "kept"))
    return Report(tuple(rows))


async def check(source: object, *, rules: Collection[Rule] = tuple(Rule), seconds: float = 10.0) -> Report:
    """Try the rules on a source.

    It is begun once for all rules about records, and anew for each rule about delivery.

    Args:
        source: A function that begins the stream: a plain or coroutine function, or one that makes an asynchronous
            context manager. It returns a `Run` or a `Replica`, an observable or an asynchronous iterable of events or
            records, or a list. Any of these may be given itself.
        rules: The rules to try.
        seconds: How long a watcher waits for the end of its stream.

    Raises:
        ConfigurationError: The source gives something else.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> report = asyncio.run(check(lambda: Worker(ScriptedModel(["Hello!"])).run("Hi")))
        >>> print(str(report).splitlines()[0])
        9 of 9 rules kept, 4 not tried
        >>> report.raise_for_broken()
    """
    _, [alone], _ = await _follow(source, ("plain",), seconds)
    rows = {row.rule: row for row in check_records(alone.items, error=alone.error).rows}
    for rule, kinds in DELIVERY.items():
        if rule in rules or (rule is Rule.TWO_WATCHERS and not DELIVERY.keys().isdisjoint(rules)):
            opened, watchers, untried = await _follow(source, kinds, seconds)
            wrong = _difference(opened, watchers, alone)
            if rule in (Rule.RAISING_WATCHER, Rule.SLOW_WATCHER) and rows[Rule.TWO_WATCHERS].outcome == "broken":
                untried = "two watchers without a third do not receive the same, either"
            rows[rule] = Row(rule, "not tried" if untried else "broken" if wrong else "kept", untried or wrong)
    return Report(tuple([rows[rule] for rule in Rule if rule in rules]))


Stream: TypeAlias = Run[Any] | Replica | Observable[Any] | AsyncIterable[Any] | Iterable[Any]
"""What a source begins."""


@asynccontextmanager
async def _open(source: object) -> AsyncGenerator[Stream]:
    async with AsyncExitStack() as stack:
        made: Any = source() if callable(source) else source
        if inspect.iscoroutine(made):
            made = await made
        if isinstance(made, AbstractAsyncContextManager):
            made = await stack.enter_async_context(cast("AbstractAsyncContextManager[Any]", made))
        if not isinstance(made, Run | Replica | Observable | AsyncIterable | Iterable):
            name = type(made).__name__
            raise ConfigurationError(f"a {name} is not a stream: give a run, an observable or an asynchronous iterable")
        yield cast("Stream", made)


class _Watcher:
    """What a watcher has received, and how its stream has ended.

    Args:
        opened: What it watches.
        kind: One of those of `DELIVERY`.
        first: The first item of another watcher; one that ``resumes`` begins after it.
    """

    def __init__(self, opened: Stream, kind: str, first: Sequence[object] = ()) -> None:
        self.items: list[object] = []
        self.error: BaseException | None = None
        self.first, self.ended = asyncio.Event(), asyncio.Event()
        self.kind = kind
        self.leave: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        if isinstance(opened, Run | Replica):
            self.items += first if kind == "resumes" else ()
            after = cast("list[Record]", self.items)[0].seq if self.items else 0
            opened = opened.watch(after=after) if kind in ("resumes", "stops") else opened.records
        if isinstance(opened, Observable) and kind != "stops":
            with suppress(OSError):  # a cold one raises here what its observer raises
                self.leave = opened.subscribe(self._next, self._end, self._end).dispose
        else:
            self.leave = self._loop.create_task(self._read(cast("AsyncIterable[object]", opened))).cancel

    def _next(self, item: object) -> None:
        self.items.append(item)
        self._loop.call_soon_threadsafe(self.first.set)
        if self.kind == "raises":
            raise OSError("this watcher raises, to try a rule")

    def _end(self, error: BaseException | None = None) -> None:
        self.error = error
        for event in (self.first, self.ended):
            self._loop.call_soon_threadsafe(event.set)

    async def _read(self, stream: AsyncIterable[object] | Iterable[object]) -> None:
        error = None
        try:
            if isinstance(stream, AsyncIterable):
                async for item in stream:
                    self._next(item)
                    if self.kind == "stops":
                        await asyncio.Event().wait()
            else:
                self.items += stream
        except Exception as raised:
            error = raised
        self._end(error)


DELIVERY: dict[Rule, tuple[str, ...]] = {
    Rule.TWO_WATCHERS: ("plain", "plain"),
    Rule.LATE_WATCHER: ("plain", "joins", "late", "resumes"),
    Rule.RAISING_WATCHER: ("plain", "raises", "plain"),
    Rule.SLOW_WATCHER: ("plain", "stops", "plain"),
}
"""The watchers of each rule about delivery, in the order in which they are attached.

One ``joins`` after the first item; one is ``late``, after the end, and so is one that ``resumes`` after the first
record; one ``raises`` at its first item, and one ``stops`` after it.
"""


async def _follow(source: object, kinds: Iterable[str], seconds: float) -> tuple[Stream, list[_Watcher], str]:
    """Begin a stream, attach watchers, and wait for the ends of their streams; also why there are no more watchers."""
    watchers: list[_Watcher] = []
    untried = ""
    async with _open(source) as opened:
        stream: object = opened
        is_read = isinstance(stream, Run | Replica | AsyncIterable)
        has_one = isinstance(stream, AsyncIterator) or not (is_read or isinstance(stream, Observable))
        try:
            with suppress(TimeoutError):  # what is missing is reported
                async with asyncio.timeout(seconds):
                    for kind in kinds:
                        if kind in ("joins", "late", "resumes"):
                            await (watchers[0].first if kind == "joins" else watchers[0].ended).wait()
                        if watchers and has_one:
                            untried = f"a {type(opened).__name__} has one reader"
                        elif kind == "stops" and not is_read:
                            untried = "an observable pushes: a slow observer holds its thread"
                        else:
                            watchers.append(_Watcher(opened, kind, watchers[0].items[:1] if watchers else ()))
                    for watcher in watchers:
                        await (watcher.first if watcher.kind in ("raises", "stops") else watcher.ended).wait()
        finally:
            for watcher in watchers:
                watcher.leave()
        return opened, [watcher for watcher in watchers if watcher.kind not in ("raises", "stops")], untried


def _difference(opened: Stream, watchers: list[_Watcher], alone: _Watcher) -> str:
    """How the watchers differ from the first, or end otherwise than one that was alone."""
    first = watchers[0].items
    for number, watcher in enumerate(watchers, 1):
        items = watcher.items
        if not watcher.ended.is_set():
            return f"the stream of watcher {number} does not end"
        if _content(items) != _content(first):
            at = next((n for n, (one, two) in enumerate(zip(first, items, strict=False)) if one != two), len(items))
            return f"watcher 1 received {len(first)} items, watcher {number} {len(items)}; item {at} differs"
        if _end_of(watcher) != _end_of(alone):
            return f"the stream of watcher {number} ends with {_end_of(watcher)}, one alone with {_end_of(alone)}"
    if isinstance(opened, Run | Replica) and fold_run(cast("list[Record]", first)) != opened.state:
        return "the state of the run is not the fold of its records"
    return ""


def _end_of(watcher: _Watcher) -> str:
    last = watcher.error or (watcher.items or [None])[-1]
    return "nothing" if last is None else type(last.event if isinstance(last, Record) else last).__name__


def _content(items: list[object]) -> list[object]:
    """The items, with neighbouring deltas as one, since a delivery may merge them."""
    if not all(type(item.event if isinstance(item, Record) else item) in EVENTS for item in items):
        return items
    known = cast("list[Event | Record]", items)
    records = [item if isinstance(item, Record) else Record(0, "", 0, 0, 0.0, item) for item in known]
    return [(record.path, record.event) for record in merge(records, 0)]
