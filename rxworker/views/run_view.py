"""A run as people see it: its blocks, calls, notes and attempts, in the order in which they appeared.

Theory of operation. A `RunView` owns a `Tracker` and applies each change that this returns to its items, so that the
changes and the items come from one step and cannot differ. Numbers (status, usage, turns) are not folded a second time:
they are those of a `RunState`, which the view also steps. Items are appended and never removed, unless ``keep`` limits
how many are kept; what may still change is found by its id. Whatever has ended before the present turn or attempt of
the run itself cannot change any more, and the view forgets its id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from rxworker import events
from rxworker.events import Record
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.messages import Conversation, Json, JsonObject, ToolCall, ToolResult
from rxworker.state import RunState, step_run
from rxworker.state.inner import RequestTokens, step_request
from rxworker.views import changes
from rxworker.views.changes import Change
from rxworker.views.tracker import Tracker

ItemStage: TypeAlias = Literal["open", "waiting", "running", "done", "failed", "refused", "stopped", "retracted"]
"""Where an item stands.

A call is ``waiting`` when its arguments are complete, ``refused`` when it did not run, ``stopped`` when it was cut off.
"""

_STAGES: dict[events.ResponseStatus, ItemStage] = {
    events.ResponseStatus.COMPLETED: "done",
    events.ResponseStatus.FAILED: "failed",
    events.ResponseStatus.CANCELLED: "stopped",
}
"""The stages of attempts."""
OVER: frozenset[ItemStage] = frozenset(("done", "failed", "refused", "stopped", "retracted"))


@dataclass(slots=True, eq=False)
class ViewItem:
    """Something that a person is shown. Compared by identity.

    Attributes:
        scope: The run that it belongs to: the run itself, or a run inside it.
        turn: The turn's number in that scope; 0 where it is not known.
        began: When it began, in seconds since the epoch.
        ended: When it ended; ``None`` while it goes on.
        stage: Its stage.
    """

    scope: changes.Scope
    turn: int
    began: float
    ended: float | None = None
    stage: ItemStage = "open"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.stage in OVER

    def end(self, now: float, stage: ItemStage = "done") -> None:
        """Set how and when it ended, unless it has."""
        if not self.is_over:
            self.stage, self.ended = stage, now


@dataclass(slots=True, eq=False)
class BlockView(ViewItem):
    """A block of a response.

    Attributes:
        block: Which.
        pieces: Its text, or the JSON text of a call's arguments, in pieces as they came.
        citations: The sources that the provider gave for the text.
        signature: The provider's signature of the thoughts.
        reason: Why it is not whole, where it was aborted.
        kind: The provider's name for a block that comes in one piece.
        echo: The members that the provider sent with such a block.
    """

    block: changes.ShownBlock = field(kw_only=True)
    pieces: list[str] = field(default_factory=list[str])
    citations: list[JsonObject] = field(default_factory=list[JsonObject])
    signature: str | None = None
    reason: str = ""
    kind: str = ""
    echo: JsonObject | None = None

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(self.pieces)


@dataclass(slots=True, eq=False)
class CallView(BlockView):
    """A tool call, from its arguments to its result.

    Attributes:
        call: The call as it runs, once it has started or waits; hooks may have changed its arguments.
        values: Arguments that came by their paths.
        written: When its arguments were complete.
        started: When its tool started.
        progress: The last report of the tool.
        reports: How often it has reported progress.
        result: The result for the model; ``None`` before it, and where the call never gets one.
        seconds: How long the tool ran.
        is_denied: Whether a person denied it.
    """

    call: ToolCall | None = None
    values: list[events.InputValueDelta] = field(default_factory=list[events.InputValueDelta])
    written: float | None = None
    started: float | None = None
    progress: Json = None
    reports: int = 0
    result: ToolResult | None = None
    seconds: float = 0.0
    is_denied: bool = False


@dataclass(slots=True, eq=False)
class NoteView(ViewItem):
    """Something to know that stands by itself, such as a message of a hook or an error.

    Attributes:
        record: The record.
        times: How often it happened in this attempt: only for events of an unknown type, of which there may be one in
            each frame.
    """

    record: Record = field(kw_only=True)
    times: int = 1


@dataclass(slots=True, eq=False)
class AttemptView(ViewItem):
    """A request to a provider. It is not an item of the conversation; see `RunView.attempts`.

    Attributes:
        tokens: Its tokens, as they are folded for `RunState`.
    """

    tokens: RequestTokens = field(kw_only=True)

    @property
    def number(self) -> int:
        """Its number in the turn, from 1."""
        return self.tokens.number[1]

    @property
    def provider(self) -> str:
        """The name of the provider; empty where its start was missed."""
        return self.tokens.provider

    @property
    def model(self) -> str:
        """For which model; empty where its start was missed."""
        return self.tokens.model

    @property
    def usage(self) -> events.Usage | None:
        """The tokens of all its responses, since one may begin anew; ``None`` before a count."""
        return self.tokens.tokens


class ViewStep(Struct, frozen=True):
    """The changes of a view by one record.

    Attributes:
        changes: The changes, in order.
        items: The items that are new or have changed, the new ones in order.
    """

    changes: list[Change]
    items: list[ViewItem]


class RunView:
    """A view of a run that users look at: a fold of its records.

    Args:
        keep: How many items and attempts are kept, the last ones; ``None`` for all of them.
        resumes: The view of the paused run that this one goes on with: the calls that wait go on in its items.

    Attributes:
        items: The blocks, calls and notes, in the order in which they appeared.
        attempts: The requests, in order.
        conversation: The conversation before the run, where it is known.
        state: The status, the usage and the numbers of the run.
        end: The last change, once the run has ended or was paused.
        began: The time of the first record; ``None`` before it.
        now: The time of the last record. It does not go back where the clock does.

    Example:
        >>> from rxworker.events import TextDelta
        >>> view = RunView()
        >>> step = view.step(Record(seq=1, run_id="r", turn=1, attempt=1, time=5.0, event=TextDelta(0, "hi")))
        >>> [item.text for item in view.blocks()], len(step.changes)
        (['hi'], 4)
    """

    def __init__(self, *, keep: int | None = None, resumes: RunView | None = None) -> None:
        self.items: deque[ViewItem] = deque(maxlen=keep)
        self.attempts: deque[AttemptView] = deque(maxlen=keep)
        self.conversation: Conversation | None = None
        self.state = RunState()
        self.end: changes.ViewEnd | None = None
        self.began: float | None = None
        self.now = 0.0
        self._tracker = Tracker(is_detailed=True, goes_on=True)
        self._resumes = resumes
        # Items that may still change or be retracted, by the id of their scope and their own.
        self._live: dict[tuple[str, str], BlockView] = {}
        # The latest call of each id that the model gave, by the id of its scope.
        self._calls: dict[tuple[str, str], CallView] = {}
        self._unknown: dict[tuple[str, str], NoteView] = {}
        self._turns: dict[str, int] = {}
        self._changed: dict[ViewItem, None] = {}

    @property
    def seconds(self) -> float:
        """The seconds from the first record to the last."""
        return 0.0 if self.began is None else self.now - self.began

    def step(self, record: Record) -> ViewStep:
        """Take the next record. One that was seen already changes nothing."""
        if record.seq > self._tracker.seq:
            self.began = record.time if self.began is None else self.began
            # An annotation makes no run longer.
            if not (self._tracker.is_over and isinstance(record.event, events.Custom)):
                self.now = max(self.now, record.time)
            self.state = step_run(self.state, record)
        return self._apply(self._tracker.feed(record))

    def catch_up(self, state: RunState, run_id: str, now: float = 0.0) -> ViewStep:
        """Begin in the middle of a run; only before the first record.

        Args:
            state: The state before the first record that will come.
            run_id: The run's id.
            now: The present time, in seconds since the epoch.
        """
        self.state, self.now = state, now
        return self._apply(self._tracker.catch_up(state, run_id))

    def close(self, reason: str) -> ViewStep:
        """There are no more records; whatever is open ends.

        Args:
            reason: Shown to users; not interpreted.
        """
        return self._apply(self._tracker.close(reason))

    def blocks(self, path: tuple[str, ...] = ()) -> list[BlockView]:
        """The blocks and calls of the run itself, or of a run inside it.

        Args:
            path: The tool calls that lead to the run inside.
        """
        return [item for item in self.items if isinstance(item, BlockView) and item.scope.path == path]

    def calls(self, path: tuple[str, ...] = ()) -> list[CallView]:
        """The calls of the run itself, or of a run inside it."""
        return [item for item in self.blocks(path) if isinstance(item, CallView)]

    def _apply(self, made: list[Change]) -> ViewStep:
        for change in made:
            if (applier := _APPLIERS.get(type(change))) is not None:
                applier(self, change)
        items, self._changed = list(self._changed), {}
        return ViewStep(made, items)

    def _add(self, item: ViewItem) -> None:
        self.items.append(item)
        self._changed[item] = None
        if isinstance(item, BlockView):
            self._live[item.scope.id, item.block.id] = item
        if isinstance(item, CallView):
            self._calls[item.scope.id, item.block.call_id] = item

    def _void(self, item: ViewItem) -> None:
        item.stage = "retracted"
        item.ended = self.now if item.ended is None else item.ended
        self._changed[item] = None

    def _last_attempt(self, scope: changes.Scope) -> AttemptView | None:
        return next((each for each in reversed(self.attempts) if each.scope == scope), None)

    def _step_attempt(self, scope: changes.Scope, record: Record) -> None:
        """Step the last attempt of a scope, or begin another one, also where its start was missed."""
        last = self._last_attempt(scope)
        tokens = step_request(None if last is None else last.tokens, record)
        if tokens is None:
            return
        if last is None or last.tokens.is_over(tokens, record.event):
            if last is not None:
                last.end(self.now, "retracted")
            last = AttemptView(scope, record.turn, self.now, tokens=tokens)
            self.attempts.append(last)
        last.tokens = tokens
        if isinstance(record.event, events.Status):
            last.stage = stage = _STAGES.get(record.event.status, "open")
            last.ended = None if stage == "open" else self.now

    def _stop_call(self, scope: changes.Scope, event: events.ToolStop) -> None:
        """A tool has returned; its result comes later, when hooks have seen it, or the call may run again."""
        if (item := self._calls.get((scope.id, event.call_id))) is None:
            return
        self._changed[item] = None
        if event.result is not None and event.result.content == DISCARDED_EARLY:
            item.stage, item.started, item.ended = "waiting", None, None
            return
        item.stage = "failed" if event.is_error else "done"
        item.ended, item.seconds = self.now, event.seconds

    def _count(self, scope: changes.Scope, record: Record, kind: str) -> None:
        if (note := self._unknown.get((scope.id, kind))) is None:
            self._unknown[scope.id, kind] = self._add_note(scope, record)
        else:
            note.times += 1
            self._changed[note] = None

    def _add_note(self, scope: changes.Scope, record: Record) -> NoteView:
        note = NoteView(scope, record.turn, self.now, self.now, "done", record=record)
        self._add(note)
        return note

    def _turn(self, scope: changes.Scope) -> int:
        return self._turns.get(scope.id, 0)

    def _find(self, scope: changes.Scope, name: str) -> BlockView | None:
        if (item := self._live.get((scope.id, name))) is not None:
            self._changed[item] = None
        return item

    def _call(self, scope: changes.Scope, shown_id: str, call_id: str, tool: str) -> CallView:
        """Return the call of this id.

        Where it was not shown in this run, the item of the paused run, or else a new one.
        """
        item = self._find(scope, shown_id)
        if isinstance(item, CallView):
            return item
        block = changes.ShownBlock(scope, shown_id, "", events.BlockType.TOOL_USE, tool, call_id=call_id)
        before = self._resumes
        earlier = None if before is None else before._calls.pop((scope.id, call_id), None)
        if earlier is None:
            item = CallView(scope, self._turn(scope), self.now, block=block)
        else:
            item, item.block = earlier, block
        self._add(item)
        return item

    def _forget(self) -> None:
        """Forget the items that have ended.

        They cannot change any more, since the present attempt of the run has ended.
        """
        self._live = {key: item for key, item in self._live.items() if not item.is_over}
        self._calls = {key: item for key, item in self._calls.items() if not item.is_over}
        self._unknown.clear()


def _begin(view: RunView, change: changes.ViewBegin) -> None:
    view.conversation = change.conversation
    _wait(view, change.pending)


def _wait(view: RunView, pending: tuple[changes.WaitingCall, ...]) -> None:
    for waiting in pending:
        if waiting.path:
            continue  # it is shown in the run inside
        item = view._call(changes.Scope(), waiting.id, waiting.call.id, waiting.call.name)
        item.call, item.stage, item.ended = waiting.call, "waiting", None


def _open_step(view: RunView, change: changes.StepOpen) -> None:
    view._turns[change.scope.id] = change.turn


def _close_step(view: RunView, change: changes.StepClose) -> None:
    if not change.scope.path:
        view._forget()


def _open_block(view: RunView, change: changes.BlockOpen) -> None:
    block = change.block
    kind = CallView if block.is_call else BlockView
    view._add(kind(block.scope, view._turn(block.scope), view.now, block=block))


def _grow(view: RunView, change: changes.BlockGrow) -> None:
    if (item := view._find(change.block.scope, change.block.id)) is not None:
        item.pieces.append(change.text)


def _extend(view: RunView, change: changes.BlockExtra) -> None:
    if (item := view._find(change.block.scope, change.block.id)) is None:
        return
    if isinstance(change.event, events.SignatureDelta):
        item.signature = change.event.signature
    else:
        item.citations.append(change.event.citation)


def _take_value(view: RunView, change: changes.ArgumentValue) -> None:
    if isinstance(item := view._find(change.block.scope, change.block.id), CallView):
        item.values.append(change.event)


def _close_block(view: RunView, change: changes.BlockClose) -> None:
    block = change.block
    if (item := view._find(block.scope, block.id)) is None:
        return
    if isinstance(item, CallView):
        item.written = view.now
    if change.aborted is not None:
        item.reason = change.aborted
        item.end(view.now, "stopped")
    elif block.block_type is not events.BlockType.TOOL_USE:
        item.end(view.now)
    elif block.choice:
        item.end(view.now, "refused")  # only calls of the first choice run
    elif item.stage == "open":
        item.stage = "waiting"


def _whole(view: RunView, change: changes.BlockWhole) -> None:
    block = change.block
    item = BlockView(block.scope, view._turn(block.scope), view.now, block=block)
    item.kind, item.echo = change.kind, change.echo
    item.end(view.now)
    view._add(item)


def _start_call(view: RunView, change: changes.CallStart) -> None:
    item = view._call(change.scope, change.id, change.call.id, change.call.name)
    item.call, item.stage, item.started, item.ended = change.call, "running", view.now, None


def _report(view: RunView, change: changes.CallProgress) -> None:
    item = view._call(change.scope, change.id, change.id.rpartition("/")[2].partition("~")[0], "")
    item.progress, item.reports = change.progress, item.reports + 1


def _take_result(view: RunView, change: changes.CallResult) -> None:
    result = change.result
    item = view._call(change.scope, change.id, result.tool_use_id, result.name)
    if change.is_placeholder:
        # It stands for a result that never comes.
        item.end(view.now, "refused" if item.started is None else "stopped")
        return
    item.result, item.is_denied = change.result, change.is_denied
    item.seconds = change.seconds or item.seconds
    failed: ItemStage = "refused" if item.started is None and not change.is_provided else "failed"
    if item.stage != "retracted":
        item.stage = failed if change.result.is_error else "done"
    item.ended = view.now if item.ended is None else item.ended


def _retract(view: RunView, change: changes.Retract) -> None:
    for name in (*change.blocks, *change.calls):
        if (item := view._live.get((change.scope.id, name))) is None:
            continue
        view._void(item)
        if isinstance(item, CallView):
            inside = (*item.scope.path, item.block.call_id)
            for other in view._live.values():
                if other.scope.path[: len(inside)] == inside:
                    view._void(other)
    for key, note in list(view._unknown.items()):
        if key[0] == change.scope.id:
            view._void(note)
            del view._unknown[key]


def _note(view: RunView, change: changes.Note) -> None:
    record, scope = change.record, change.scope
    event = record.event
    match event:
        case events.AttemptStart() | events.Usage() | events.Status():
            if isinstance(event, events.AttemptStart) and not record.path:
                view._forget()
            view._step_attempt(scope, record)
        case events.ToolStop():
            view._stop_call(scope, event)
        case events.Opaque():
            view._count(scope, record, event.kind)
        case _:
            if isinstance(event, events.AttemptRetract) and (last := view._last_attempt(scope)) is not None:
                last.stage, last.ended = "retracted", last.ended or view.now
            view._add_note(scope, record)


def _finish(view: RunView, change: changes.ViewEnd) -> None:
    view.end = change
    for attempt in view.attempts:
        attempt.end(view.now, "stopped")
    if isinstance(change, changes.ViewPause):
        _wait(view, change.pending)


_APPLIERS: dict[type[object], Callable[[RunView, Any], None]] = {
    changes.ViewBegin: _begin,
    changes.StepOpen: _open_step,
    changes.StepClose: _close_step,
    changes.BlockOpen: _open_block,
    changes.BlockGrow: _grow,
    changes.BlockExtra: _extend,
    changes.ArgumentValue: _take_value,
    changes.BlockClose: _close_block,
    changes.BlockWhole: _whole,
    changes.CallStart: _start_call,
    changes.CallProgress: _report,
    changes.CallResult: _take_result,
    changes.Retract: _retract,
    changes.Note: _note,
    **dict.fromkeys(get_args(changes.ViewEnd), _finish),
}
