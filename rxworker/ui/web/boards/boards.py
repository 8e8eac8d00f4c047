"""Dashboards on the server: what their panels show of a run, a conversation or all runs, now and in the past.

Theory of operation. What is shown of one scope is computed once for all clients, by a `BoardFeed`, for as long as it
has clients; that of all runs is kept. A change of a panel is encoded once. A client receives every panel, and then
those that have changed, so that a slow one misses states and no panel.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from math import isnan
from time import perf_counter
from typing import Annotated, Any, ClassVar, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker import panels
from rxworker.boards import AlertChange, Board, Dashboard, PanelState, View, XRay, explain, read_selection
from rxworker.boards.dashboard import IN_ORDER, TURN, Fold
from rxworker.boards.moments import Moments
from rxworker.boards.panel import Alert
from rxworker.boards.stored import LogRecords, MadeBy, Makers, take_stored
from rxworker.errors import ConfigurationError
from rxworker.events import Event, Record
from rxworker.hub import Coalesce, Hub, Item, Reliable
from rxworker.hub.history import expand
from rxworker.log import EventLog, Replica
from rxworker.messages.settings import shared_fields
from rxworker.operators import Records, merge_runs
from rxworker.operators.kernel import Scheduler, Sink, Stage, connect
from rxworker.protocols.native import encode_json
from rxworker.redact import json_redactor
from rxworker.run.run import Run
from rxworker.tools.cancellation import retrieve
from rxworker.ui.web.http.responses import ApiError, refused
from rxworker.ui.web.runs.entry import RunEntry, without_labels
from rxworker.ui.web.runs.of_user import Runs
from rxworker.ui.web.runs.store import RunStore
from rxworker.ui.web.streams.streams import Followed

MAX_MAKERS = 50
"""The maximum number of runs that are named as those that have made a value."""
GRID = 15
"""Parts of a time before now, on which its beginning is rounded."""
MAX_LAST = 400 * 86400.0
AGAIN = 10.0
"""Seconds after which a board for alerts is made again whose records have failed."""


PanelStates: TypeAlias = tuple[PanelState, ...]
BoardStates: TypeAlias = tuple[Dashboard, PanelStates]
"""A dashboard, and what its panels show."""


_Moment: TypeAlias = tuple[str, str, float | None]
"""The name of a dashboard and its scope, what is selected, and the moment."""

_FeedKey: TypeAlias = tuple[str | None, str, str]
"""A user, the key of a dashboard, and its scope."""

_FoldTask: TypeAlias = asyncio.Task[PanelStates]


MAX_FOLDS = 8
"""The maximum number of moments of a scope that are computed, or wait for that."""
MAX_PAST = 32
"""How many moments of the past are kept."""
MAX_MOMENTS = 4
"""Of how many dashboards, selections and beginnings copies are kept, from which moments are folded."""
SETTLED = 10.0
"""Seconds after which no more records of a moment come."""

LOOK = 0.5
"""Seconds between two looks at the operators of a panel."""


class PanelInfo(Struct, frozen=True, omit_defaults=True):
    """A panel in a few words.

    Attributes:
        name: Its name.
        title: Its title.
        view: How its values are shown.
        unit: The unit of its numbers.
        alert: Their limit.
        width: Its columns on the page.
        height: Its rows on the page.
    """

    name: str
    title: str
    view: View
    unit: str
    alert: Alert | None = None
    width: int = 0
    height: int = 1


class BoardInfo(Struct, frozen=True):
    """A dashboard in a few words.

    Attributes:
        name: Its name.
        title: Its title.
        panels: Its panels.
        xray: Whether the client may see the operators of its panels.
        reach: How many seconds ago the runs of a log have begun that it shows, where no time is chosen.
    """

    name: str
    title: str
    panels: list[PanelInfo]
    xray: bool = False
    reach: float | None = None


class BoardQuery(Struct, frozen=True):
    """What a dashboard is shown of, and when.

    Attributes:
        run: The id of a run.
        conversation: The id of a conversation. Without one and without a run: all runs.
        time: A moment of the past, in seconds since the epoch.
        last: So many seconds before the moment, or before now. Its beginning is then on a grid of a fifteenth of it, so
            that clients share what is computed.
        since: Only records of this time or later, in seconds since the epoch.
        until: Only records before this time.
        label: Only runs with these labels, such as ``customer=c-17``.
        tenant: Only runs of this tenant.
        user: Only runs of this user.
        worker: Only runs of this worker.
        model: As of `Selection`, and so are the others.
    """

    several: ClassVar[tuple[str, ...]] = ("label",)
    beside: ClassVar[frozenset[str]] = frozenset({"panel", "group", "after", "token", "link"})

    run: str = ""
    conversation: str = ""
    time: float | None = None
    last: Annotated[float, Meta(ge=1, le=MAX_LAST)] | None = None
    since: float | None = None
    until: float | None = None
    label: tuple[str, ...] = ()
    tenant: str | None = None
    user: str | None = None
    worker: str | None = None
    model: str | None = None
    tool: str | None = None
    status: str | None = None
    text: str | None = field(default=None, name="q")

    def narrow(self, dashboard: Dashboard, *, of_link: bool = False) -> Dashboard:
        """The dashboard over the records that are selected, among those of its own selection.

        Args:
            dashboard: The dashboard.
            of_link: Whether a read-only link shows it: then its time may be chosen, and nothing else, since what a
                filter lets through shows what the records have.

        Raises:
            ApiError: The parameters are not valid, or the link does not show that.
        """
        since, until = self.since, self.until
        if self.last is not None:
            if since is not None or until is not None:
                raise ApiError(400, "bad_query", "give last=, or since= and until=")
            step = self.last / GRID
            since = (time.time() if self.time is None else self.time) // step * step - self.last
        names = ("tenant", "user", "worker", "model", "tool", "status", "text")
        filters = [("label", each) for each in self.label]
        filters += [(name, value) for name in names if (value := getattr(self, name)) is not None]
        if of_link and filters:
            raise ApiError(403, "not_shared", "this link does not show that")
        with refused(ConfigurationError, 400, "bad_query"):
            selected = read_selection(filters, since=since, until=until)
            return replace(dashboard, selection=selected.within(dashboard.selection))

    @property
    def scope(self) -> str:
        """What it is shown of, as a key."""
        return f"run {self.run}" if self.run else self.conversation and f"in {self.conversation}"

    def moment(self, dashboard: Dashboard) -> float:
        """The moment that a client looks at, at most now.

        At most the end of the time that is selected, unless later records give a status, or a model, by which runs are.
        """
        if self.time is not None and isnan(self.time):
            raise ApiError(400, "bad_query", "time is not a number: give seconds since the epoch")
        selection = dashboard.selection
        times = (self.time, None if selection.filters_runs else selection.until, time.time())
        return min(each for each in times if each is not None)

    def log_of(self, runs: Runs) -> EventLog | None:
        """The log, if all its runs are shown."""
        return runs.store.log if not self.scope and runs.owner is None else None

    async def entries(self, runs: Runs) -> Sequence[RunEntry]:
        """The runs that it is shown of.

        Raises:
            ApiError: There is no such run or conversation.
            LogError: The log cannot be read.
        """
        if self.run:
            found = [await runs.find(self.run)]
            while (paused := found[0].resumes) is not None:  # shown as one
                try:
                    found.insert(0, await runs.find(paused))
                except ApiError:
                    break  # it is deleted, or not kept
            return found
        entries = [*runs][::-1]
        if self.conversation:
            conversation = runs.existing(self.conversation)
            entries = [each for each in entries if each.conversation is conversation]
        return entries


States: TypeAlias = tuple[tuple[str, bytes], ...]
"""The names of panels, and the state of each as JSON."""


class BoardFeed:
    """A board for its clients.

    What changes at the same time is one item of a hub, so that clients are served as those of a run are.

    Args:
        board: The board.
        history: Set when it has taken the stored records.
        since: Of all runs of a log, when those began that it shows; ``None`` for all.

    Attributes:
        board: The board.
        history: As above.
        since: As above.
        began: When it was made.
        clients: How many clients receive it.
        hub: The changes.
    """

    def __init__(self, board: Board, history: asyncio.Event | None = None, since: float | None = None) -> None:
        self.board = board
        self.history = history or asyncio.Event()
        self.since = since
        self.began = time.time()
        self.clients = 0
        self.hub = Hub(keep=1)
        self._redact = json_redactor()
        self._newest: dict[str, bytes] = {}
        self._pending: dict[str, bytes] = {}
        for state in board.soon():
            self._newest[state.panel] = self._encode(state)
        board.changes.subscribe(self._note, on_completed=self._end)

    def close(self) -> None:
        """Compute no more; the streams of clients end."""
        self.board.dispose()

    def first(self) -> bytes:
        """All panels, as a server-sent event."""
        return frame_of(self._newest.values())

    def followed(self, name: str) -> Followed:
        """The board for a client."""
        return Followed(self.hub, self.encode, Coalesce(), name)

    def encode(self, records: Sequence[Record]) -> bytes:
        """The newest state of each panel in changes. A client that has missed changes receives all panels."""
        events: list[Any] = [record.event for record in records]
        if records[-1].seq - records[0].seq >= len(records) or any(event.__class__ is not Item for event in events):
            return self.first()
        changed: dict[str, bytes] = {}
        for event in events:
            changed.update(event.value)
        return frame_of(changed.values())

    def _encode(self, state: PanelState) -> bytes:
        return self._redact(encode_state(state))

    def _note(self, state: PanelState) -> None:
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._push)
        self._pending[state.panel] = self._newest[state.panel] = self._encode(state)

    def _end(self) -> None:
        """Its records have failed, or the server stops: the clients connect again."""
        self._push()
        self.hub.end()

    def _push(self) -> None:
        if not self._pending:
            return
        changed, self._pending = tuple(self._pending.items()), {}
        seq, now = self.hub.last_seq + 1, time.time()
        item = cast("Event", Item[States](seq, now, changed))
        self.hub.push(Record(seq, self.board.dashboard.name, 0, 0, now, item))


class ExplainedFeed(BoardFeed):
    """A board whose operators are received, and not what its panels show.

    Args:
        board: The board, made with ``xray=True``.
    """

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)

    def _encode(self, state: PanelState) -> bytes:
        return encode_operators(state.panel, self.board.xray(state.panel), self._redact)

    def _note(self, state: PanelState) -> None:
        """Operators count also what changes no panel, and so are looked at now and then."""

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)
        for state in self.board.soon():  # what is left of a long history is taken in turns
            encoded = self._encode(state)
            if encoded != self._newest[state.panel]:
                self._pending[state.panel] = self._newest[state.panel] = encoded
        self._push()

    def _end(self) -> None:
        self._timer.cancel()
        super()._end()


def encode_operators(panel: str, xray: XRay[Record, object], redact: Callable[[bytes], bytes]) -> bytes:
    """The operators of a panel as JSON.

    Args:
        panel: The name of the panel.
        xray: Its operators.
        redact: Removes secrets from JSON.
    """

    def without_secrets(text: str) -> str:
        return msgspec.json.decode(redact(encode_json(text)))

    return redact(encode_json({"panel": panel, "operators": xray.redacted(without_secrets)}))


def encode_state(state: PanelState) -> bytes:
    """A state as JSON, or why it has none, such as a whole number of too many digits in a row.

    The other panels are shown.
    """
    try:
        return encode_json(state)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return encode_json(PanelState(state.panel, state.time, error=f"{type(error).__name__}: {error}"))


def frame_of(states: Iterable[bytes]) -> bytes:
    """States as a server-sent event."""
    return b"data: [" + b",".join(states) + b"]\n\n"


async def _title_of(run: str, runs: Runs) -> str:
    if (entry := runs.get(run)) is not None:
        return entry.summary().title
    info = await runs.store.listed(run)
    return "" if info is None else info.row.title


class Folds:
    """What dashboards show at moments, by folding the records again.

    Args:
        feeds: The boards that are computed now.
    """

    def __init__(self, feeds: Mapping[_FeedKey, BoardFeed]) -> None:
        self._feeds = feeds
        self._folds: dict[_Moment, _FoldTask] = {}
        self._waiting = Counter[_Moment]()
        self._past: dict[_Moment, PanelStates] = {}
        self._moments: dict[tuple[str, float | None], Moments] = {}
        self._turn = asyncio.Lock()
        self._alone = asyncio.Semaphore(MAX_FOLDS)  # those that are computed for one client

    async def explain(self, dashboard: Dashboard, runs: Runs, query: BoardQuery) -> bytes:
        """The operators of a panel at a moment, by folding the records again.

        Args:
            dashboard: Of one panel; see `find_panel`.
            runs: The runs of the client.
            query: The scope and the moment.

        Raises:
            ApiError: There is no such run or conversation.
            LogError: The log cannot be read.
        """
        panel = dashboard.panels[0]
        xray = explain(panel.pipeline)
        explained = replace(dashboard, panels=[replace(panel, pipeline=xray)])
        await self._take(Fold(explained), explained, runs, query)
        return encode_operators(panel.name, xray, json_redactor())

    async def made_by(self, dashboard: Dashboard, runs: Runs, query: BoardQuery, group: str) -> list[MadeBy]:
        """The runs that have made the values of a panel until a moment, by folding the records again.

        Args:
            dashboard: Of one panel; see `find_panel`.
            runs: The runs of the client.
            query: The scope, the records and the moment.
            group: The name of a group; empty for all.

        Raises:
            ApiError: There is no such run or conversation.
            LogError: The log cannot be read.
        """
        fold = Fold(dashboard)
        makers = Makers(fold, group)
        await self._take(fold, dashboard, runs, query)
        return [replace(each, title=await _title_of(each.run, runs)) for each in makers.newest(MAX_MAKERS)]

    async def _take(self, fold: Fold, dashboard: Dashboard, runs: Runs, query: BoardQuery) -> None:
        """Let a fold that is made for one client take the records until a moment."""
        log, now = query.log_of(runs), query.moment(dashboard)
        if self._alone.locked():
            raise _too_many()
        async with self._alone:
            if log is None:
                await self._of_runs(fold, await query.entries(runs), now)
                return
            async with self._turn:
                await take_stored(fold, log, now, self._since_of(dashboard, None, now))
            fold.at(now)

    async def at(self, dashboard: Dashboard, runs: Runs, query: BoardQuery) -> PanelStates:
        """What the panels show at a moment, by folding the records again.

        Raises:
            ApiError: There is no such run or conversation.
            LogError: The log cannot be read.
        """
        log, now = query.log_of(runs), query.moment(dashboard)
        if log is not None:
            return await self._of_log(dashboard, log, query.time, now)
        entries = await query.entries(runs)
        key = f"{dashboard.name} {runs.owner} {query.scope}", dashboard.selection.key, query.time
        if (known := self._past.get(key)) is None:
            known = await self._shared(key, lambda: self._of_runs(Fold(dashboard), entries, now))
            if query.time is not None and now < time.time() - SETTLED:
                self._past[key] = known
                if len(self._past) > MAX_PAST:
                    del self._past[next(iter(self._past))]
        return known

    async def _of_runs(self, fold: Fold, entries: Sequence[RunEntry], now: float) -> PanelStates:
        """What the panels show of runs at a moment, in turns of the event loop and one moment after the other."""
        records: list[Record] = []
        for entry in entries:
            records += await _records_until(entry, now)
        async with self._turn:
            end = perf_counter() + TURN
            for record in sorted(records, key=IN_ORDER):
                fold.take(record)
                if perf_counter() > end:
                    await asyncio.sleep(0)
                    end = perf_counter() + TURN
        return fold.at(now)

    async def _of_log(self, dashboard: Dashboard, log: EventLog, moment: float | None, now: float) -> PanelStates:
        """What the panels show of all runs.

        Of the past: what they showed then, computed once for all who want it at the same time, and for one moment after
        the other.
        """
        feed = self._feeds.get((None, _key_of(dashboard), ""))
        if feed is not None and feed.board.error is None and moment is None and feed.history.is_set():
            return feed.board.states
        since = self._since_of(dashboard, feed, now)

        async def fold() -> PanelStates:
            async with self._turn:
                return await self.moments_of(dashboard, log, since).at(now)

        return await self._shared((dashboard.name, dashboard.selection.key, moment), fold)

    def _since_of(self, dashboard: Dashboard, feed: BoardFeed | None, now: float) -> float | None:
        """Since when the runs have begun that a moment shows: those of the board, or those of the time before it.

        Before the board began, on a grid, so that moments share what is folded; and as of the board, if that is the
        same.
        """
        if (since := _created_since(dashboard, now)) is None:
            return None
        step = dashboard.reach / GRID
        since = since // step * step
        if feed is None or feed.since is None:
            return since
        moments = self._moments.get((_key_of(dashboard), feed.since))
        is_same = moments is not None and moments.has_since(since)
        return feed.since if is_same or now >= feed.began else since

    def moments_of(self, dashboard: Dashboard, log: EventLog, since: float | None) -> Moments:
        """The moments of a dashboard over the runs that began since a time; the last ones used are kept."""
        key = _key_of(dashboard), since
        found = self._moments.pop(key, None) or Moments(dashboard, log, since)
        self._moments[key] = found
        if len(self._moments) > MAX_MOMENTS:
            del self._moments[next(iter(self._moments))]
        return found

    async def _shared(self, key: _Moment, fold: Callable[[], Coroutine[object, object, PanelStates]]) -> PanelStates:
        """What a fold returns, for all who want the same at the same time.

        Raises:
            ApiError: Too many other moments of it are computed.
        """
        if (task := self._folds.get(key)) is None:
            if sum(each[0] == key[0] for each in self._folds) >= MAX_FOLDS:
                raise _too_many()
            task = self._folds[key] = asyncio.create_task(fold())
            task.add_done_callback(partial(self._folded, key))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:  # no client waits for it any more
                del self._waiting[key]
                task.cancel()
                if self._folds.get(key) is task:
                    del self._folds[key]

    def _folded(self, key: _Moment, task: _FoldTask) -> None:
        if self._folds.get(key) is task:
            del self._folds[key]
        retrieve(task)  # it is raised for those who wait

    def close(self) -> None:
        """Compute no moment any more."""
        for task in self._folds.values():
            task.cancel()


class Boards:
    """The dashboards of a server.

    Args:
        dashboards: The dashboards; by default those of the product. One of them that has the name of one of these is
            shown in its place.
        store: The runs.

    Attributes:
        feeds: The boards that are computed now, by user, dashboard and scope.
        folds: What they show at moments.

    Raises:
        ConfigurationError: An item is not a dashboard, or two have the same name.
    """

    def __init__(self, dashboards: Sequence[Dashboard] | None, store: RunStore) -> None:
        prices = store.settings.prices
        meters = panels.usage(prices)  # also for metrics
        of_log = () if store.log is None else [panels.fleet(period, prices) for period in panels.PERIODS]
        self._dashboards: dict[str, Dashboard] = {}
        for each in (meters, panels.runs(prices)) if dashboards is None else dashboards:
            if not isinstance(each, Dashboard):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
                raise ConfigurationError(f"{each!r:.60} is not a dashboard: give dashboards=[Dashboard([panel(...)])]")
            if each.name in self._dashboards:
                raise ConfigurationError(f"two dashboards have the name {each.name!r}: give one of them name=")
            self._dashboards[each.name] = each
        self._store = store
        name = meters.name
        while dashboards is not None and name in self._dashboards:
            name = f"{name}-of-metrics"
        self._meters = replace(meters, name=name)
        self._served = self._dashboards.copy()
        for each in (meters, *of_log):
            self._served.setdefault(each.name, each)
        self._of_links = {each.name: _for_links(each) for each in self._served.values()}
        self._lasting = frozenset(map(_key_of, (*self._served.values(), *self._of_links.values())))
        self.feeds: dict[_FeedKey, BoardFeed] = {}
        self.folds = Folds(self.feeds)
        self._is_closed = False

    def infos(self, *, of_link: bool = False) -> list[BoardInfo]:
        """The dashboards in a few words. A read-only link shows no operators."""
        found, has_xray = list[BoardInfo](), self._store.settings.xray and not of_link
        for each in self._served.values():
            shown = [PanelInfo(**shared_fields(one, PanelInfo)) for one in each.panels]
            reach = each.reach if self._store.log is not None and each.selection.since is None else None
            found.append(BoardInfo(each.name, each.title, shown, has_xray, reach))
        return found

    def find(self, name: str, *, of_link: bool = False) -> Dashboard:
        """The dashboard of this name.

        Args:
            name: The name.
            of_link: Whether a read-only link shows it: then it is computed over records without labels, of which one
                may be the name of a user.

        Raises:
            ApiError: There is none.
        """
        if (found := (self._of_links if of_link else self._served).get(name)) is None:
            known = ", ".join(self._served)
            raise ApiError(404, "no_board", f"the server has no such dashboard; it has {known}")
        return found

    def find_panel(self, name: str, panel: str, *, explains: bool = True) -> Dashboard:
        """A dashboard of one panel of a dashboard.

        What it computes is computed already, and reports no alert.

        Args:
            name: The name of the dashboard.
            panel: The name of the panel.
            explains: Whether its operators are to be shown.

        Raises:
            ApiError: There is no such dashboard or panel, or the operators are not shown.
        """
        dashboard = self.find(name)
        if explains and not self._store.settings.xray:
            raise ApiError(404, "no_xray", "the server does not show operators: Settings(xray=True)")
        known = {each.name: each for each in dashboard.panels}
        if panel not in known:
            names = ", ".join(known)
            raise ApiError(404, "no_panel", f"give panel= the name of one: {names}")
        found = known[panel]
        while isinstance(found.pipeline, XRay):  # the program's own, which counts for the program
            own = cast("XRay[Record, object]", found.pipeline)
            found = replace(found, pipeline=own.pipeline)
        return replace(dashboard, panels=[replace(found, alert=None)])

    @contextmanager
    def feed(
        self,
        dashboard: Dashboard,
        runs: Runs,
        query: BoardQuery,
        entries: Sequence[RunEntry],
        *,
        explains: bool = False,
    ) -> Generator[BoardFeed, None, None]:
        """Context manager: a client of the board of this scope, or of the operators of a panel.

        Operators are counted for as long as one looks at them, and on a board of their own: the others are computed as
        they are.

        Args:
            dashboard: The dashboard; to explain, one of one panel: see `find_panel`.
            runs: The runs of the client.
            query: The scope.
            entries: The runs that are in it now; see `open`.
            explains: Whether the operators are shown.
        """
        is_all, name = query.log_of(runs) is not None, _key_of(dashboard)
        key = runs.owner, f"{name} {dashboard.panels[0].name}" if explains else name, query.scope
        feed = self.feeds.get(key)
        if is_all and not explains:
            feed = self._of_all(dashboard)
        elif feed is None or feed.board.error is not None:
            records = self._all_records(dashboard, noop) if is_all else self._source(runs, query, entries)
            board = dashboard.show(records, xray=explains)
            feed = self.feeds[key] = ExplainedFeed(board) if explains else BoardFeed(board)
        is_lasting = not explains and not query.scope and runs.owner is None and name in self._lasting
        feed.clients += 1
        try:
            yield feed
        finally:
            feed.clients -= 1
            is_current = self.feeds.get(key) is feed
            if not (feed.clients or (is_current and is_lasting)):
                if is_current:
                    del self.feeds[key]
                feed.close()

    def report(self, on_alert: Callable[[AlertChange], None]) -> None:
        """Report the alerts of the dashboards over all runs, of all users.

        Args:
            on_alert: Called with each.
        """
        for dashboard in self._dashboards.values():
            if any(panel.alert is not None for panel in dashboard.panels):
                self._report(dashboard, on_alert)

    def _report(self, dashboard: Dashboard, on_alert: Callable[[AlertChange], None]) -> None:
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()

        def begin_again() -> None:
            if board.error is not None:
                loop.call_later(AGAIN, self._report, dashboard, on_alert)

        board = self._begin(dashboard).board
        board.alerts.subscribe(on_alert, on_completed=begin_again)

    def shown(self) -> list[BoardStates]:
        """What the dashboards show of all runs.

        One that has not taken the stored records yet is left out; the first call begins that.
        """
        found = [(each, self._states(each)) for each in self._dashboards.values()]
        return [each for each in found if each[1]]

    def metered(self) -> PanelStates:
        """What the dashboard for metrics shows of all runs; nothing if it has not taken the stored records yet."""
        return self._states(self._meters)

    def _states(self, dashboard: Dashboard) -> PanelStates:
        feed = self._of_all(dashboard)
        return feed.board.states if feed.history.is_set() else ()

    def _of_all(self, dashboard: Dashboard) -> BoardFeed:
        feed = self.feeds.get((None, _key_of(dashboard), ""))
        return self._begin(dashboard) if feed is None or feed.board.error is not None else feed

    def _begin(self, dashboard: Dashboard) -> BoardFeed:
        """Compute a dashboard over all runs."""
        is_read, key = asyncio.Event(), (None, _key_of(dashboard), "")
        log, since = self._store.log, _created_since(dashboard, time.time())
        moments = None if log is None else self.folds.moments_of(dashboard, log, since)
        feed = BoardFeed(dashboard.show(self._all_records(dashboard, is_read.set, moments)), is_read, since)
        before, self.feeds[key] = self.feeds.get(key), feed
        if before is not None and not before.clients:  # otherwise its last client closes it
            before.close()
        return feed

    async def open(self, runs: Runs, query: BoardQuery) -> Sequence[RunEntry]:
        """The runs of a scope, ready to be watched.

        Raises:
            ApiError: There is no such run or conversation.
            LogError: The log cannot be read.
        """
        if query.log_of(runs) is not None:
            return ()
        entries = await query.entries(runs)
        for entry in entries:
            await entry.open()
        return entries

    def close(self) -> None:
        """Compute no board any more."""
        self._is_closed = True
        self.folds.close()
        for feed in self.feeds.values():
            feed.close()
        self.feeds.clear()

    def _source(self, runs: Runs, query: BoardQuery, entries: Iterable[RunEntry]) -> Observable[Record]:
        """The records of the runs of a scope, and of those that begin in it later."""
        known = {entry.id for entry in entries}
        shown = [_records_of(entry) for entry in entries]

        def is_new(run: Run[object]) -> bool:
            entry = runs.get(run.id)
            is_in = entry is not None and query.conversation in ("", entry.conversation.id)
            return is_in and run.id not in known

        if query.run:
            return merge_runs(shown)
        return merge_runs(self._store.runs.pipe(ops.filter(is_new), ops.map(_unseen), ops.start_with(*shown)))

    def _all_records(
        self, dashboard: Dashboard, on_read: Callable[[], object], moments: Moments | None = None
    ) -> Observable[Record]:
        """The records of all runs of all users."""
        if (log := self._store.log) is not None:
            since = _created_since(dashboard, time.time()) if moments is None else moments.since
            return LogRecords(log, since, dashboard.selection, on_read, moments)
        return merge_runs(self._store.runs.pipe(ops.map(_unseen)))


def _key_of(dashboard: Dashboard) -> str:
    """A name for what is computed of a dashboard, also over other records."""
    return f"{dashboard.name} {dashboard.selection.key}".rstrip()


def _too_many() -> ApiError:
    return ApiError(429, "too_many_moments", "too many moments of it are computed: wait for one of them")


def _created_since(dashboard: Dashboard, now: float) -> float | None:
    """Since when the runs of a log have begun that are read; ``None`` where the selection has a time."""
    since, until = dashboard.selection.since, dashboard.selection.until
    return min(now, now if until is None else until) - dashboard.reach if since is None else None


def _for_links(dashboard: Dashboard) -> Dashboard:
    """A dashboard as read-only links show it. Its own name keeps what is computed for it apart."""
    panels = [replace(each, through=without_labels) for each in dashboard.panels]
    return replace(dashboard, panels=panels, name=f"x-{secrets.token_hex(8)}")


def _records_of(entry: RunEntry) -> Records:
    """The records of a run. A stored one is read: its replica is closed where no client watches the run itself."""
    return _unseen(entry.run) if entry.log is None else entry.log.records(entry.id)


def _unseen(run: Run[object] | Replica) -> Records:
    """The records of a run.

    A board does not count as a watcher: a run that has no other may be cancelled, and a page does not list the board.
    """
    if not isinstance(run, Run):
        return run

    def subscribe(observer: abc.ObserverBase[Record], scheduler: Scheduler = None) -> abc.DisposableBase:
        def push(entry: Record) -> None:
            for record in expand(entry):
                observer.on_next(record)

        return connect(run.entries(name="board"), Sink(push, observer.on_error, observer.on_completed), scheduler)

    return Stage(subscribe)


async def _records_until(entry: RunEntry, moment: float) -> list[Record]:
    """The records of a run until a moment, as far as there are any now."""
    await entry.open()
    found: list[Record] = []
    run, last = entry.run, entry.run.last_seq
    if not last:
        return found
    async with aclosing(run.watch(Reliable(limit=None), name="board").batches()) as batches:
        async for batch in batches:
            found += [each for each in batch if each.time <= moment]
            if batch[-1].seq >= last or batch[-1].time > moment:
                break
            await asyncio.sleep(0)
    return found
