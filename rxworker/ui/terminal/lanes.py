"""Lanes: the items of a `RunView` as clean text, for the widgets of the terminal.

Each run of the conversation has its own view; a run that resumes a paused run continues the items of its calls. `Lanes`
drops a lane when its item cannot change any more; the widgets keep as many as they need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from rxworker import events
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Message
from rxworker.tools.reports import FileEdit, Plan, PlanStep, read_report
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_arguments, describe_json, describe_parts, describe_sources, plural
from rxworker.views import BlockView, CallView, NoteView, RunView, ViewItem
from rxworker.views.changes import Scope, StepClose
from rxworker.views.run_view import ItemStage

LaneKind: TypeAlias = Literal["user", "thinking", "text", "call", "note", "pause", "error"]
TextKind: TypeAlias = Literal["thinking", "text"]
TEXT_KINDS: dict[events.BlockType, TextKind] = {
    events.BlockType.THINKING: "thinking",
    events.BlockType.TEXT: "text",
    events.BlockType.REFUSAL: "text",
}


TITLES = {events.BlockType.IMAGE: "an image", events.BlockType.OPAQUE: "unknown content"}
"""The titles of blocks that a terminal cannot show."""
MAX_SOURCES = 50
KEPT = 200
"""Maximum number of items that are kept for the trace."""
ARGUMENTS = 400
"""Maximum number of characters of a call's arguments and of its progress."""


@dataclass(slots=True, eq=False)
class Lane:
    """An item of the conversation, as clean text: a message, text, thinking, a call or a note. Compared by identity.

    Attributes:
        kind: The kind of the item.
        item: The item: its stage and its times, its run, and the text and the citations of a block.
        title: The heading.
        note: The text, if the item has none.
        arguments: The complete arguments of a call in one line.
        progress: The latest progress report of its tool.
        reports: The number of progress reports.
        edits: The edits of files that the tool reported.
        plan: The plan that the tool reported last.
    """

    kind: LaneKind
    item: ViewItem
    title: str = ""
    note: str = ""
    arguments: str = ""
    progress: str = ""
    reports: int = 0
    edits: list[FileEdit] = field(default_factory=list[FileEdit])
    plan: tuple[PlanStep, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """The ids of the tool calls that enclose it, the outermost first."""
        return self.item.scope.path

    @property
    def call(self) -> CallView:
        """The item of a call."""
        assert isinstance(self.item, CallView)
        return self.item

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces())

    def pieces(self, after: int = 0) -> list[str]:
        """The pieces in which its text arrived, after so many."""
        item = self.item
        if self.kind == "note" or not isinstance(item, BlockView):
            return [self.note][after:] if self.note else []
        if isinstance(item, CallView) and item.values:
            pieces = [*map(_value, item.values[after:])]
        else:
            pieces = [*map(clean, item.pieces[after:])]
        return pieces if after or not pieces else [pieces[0].lstrip("\n"), *pieces[1:]]

    @property
    def sources(self) -> list[str]:
        """The sources that the text cites."""
        cited = self.item.citations if isinstance(self.item, BlockView) else []
        return [*dict.fromkeys(source for each in cited for source in describe_sources(each))][:MAX_SOURCES]

    @property
    def result(self) -> str | None:
        """The result of a call that the model receives; ``None`` before that."""
        if (result := self.call.result) is None:
            return None
        content = result.content
        return clean(content if isinstance(content, str) else describe_parts(content)) or "(no text)"

    @property
    def choice_label(self) -> str:
        """The label of a further choice of the response; empty for the first, which the conversation keeps."""
        choice = self.item.block.choice if isinstance(self.item, BlockView) else 0
        return f"Choice {choice + 1}" if choice else ""

    def seconds(self, now: float) -> float:
        """Its duration."""
        item = self.item
        began = item.started if isinstance(item, CallView) and item.started is not None else item.began
        return max(0.0, (now if item.ended is None else item.ended) - began)


PEOPLE = ("send", "resume")
"""The sources of messages that the user added."""
OPAQUE = 200
"""Maximum number of characters of an unknown block."""
CANCELLED = "the run was cancelled: "


def user_lanes(record: events.Record) -> list[Lane]:
    """The user message that a run begins with: only the last one, because earlier ones may belong to failed runs."""
    event = record.event
    last = event.conversation.last if isinstance(event, events.RunStart) else None
    return [] if last is None or last.role != "user" else [_user_lane(record, last)]


def note_of(record: events.Record) -> Iterable[Lane]:
    """Return the lanes of a record that has a lane of its own.

    >>> record = events.Record(1, "r", 1, 1, 0.0, events.HookMessage("clock", "message", "it is late"))
    >>> [(lane.kind, lane.title, lane.text) for lane in note_of(record)]
    [('note', 'clock', 'it is late')]
    """
    match record.event:
        case events.HookMessage(hook=hook, content=content, data=data):
            more = "" if data is None else f" {describe_json(data)}"
            return (_note(record, hook, content + more),)
        case events.Custom(name="rxworker.gate", data={"verdict": "pass"}):
            return ()
        case events.Custom(name=name, data=data):
            return (_note(record, name, describe_json(data)),)
        case events.HookVerdict(verdict="Pause"):
            return ()  # the lane of the pause contains it
        case events.HookVerdict(hook=hook, point=point, verdict=verdict, reason=reason, call_id=call):
            # The reason for skipping a call is the result of the call, which the call's lane shows.
            is_elsewhere = not reason or (verdict == "Skip" and call is not None)
            text = f"{verdict} at {point}" + ("" if is_elsewhere else f": {reason}")
            return (_note(record, hook, text),)
        case events.AttemptRetract(reason=reason, delay=delay):
            when = f"in {delay:.0f} s" if delay >= 1 else "at once"
            return (_note(record, "new attempt", f"{reason}; retrying {when}"),)
        case events.MessageAdd(messages=messages, source=source):
            return _added(record, messages, source)
        case events.BackgroundStart(background=call):
            return (_note(record, "background", f"{call.call.name} goes on in the background, as {call.id}"),)
        case events.ConversationCompact(replaced=count):
            what = f"{plural(count, 'message')} sent in a shorter form from here on"
            return (_note(record, "shortened", what if count else "no summary was written"),)
        case events.LoopHold(kind=kind, name=name, seconds=seconds):
            return (_note(record, kind, f"{name} held the event loop for {seconds:.2f} s"),)
        case events.WatcherDetach(watcher=watcher, error=error):
            return (_note(record, "watcher", f"{watcher} failed and was detached: {error}"),)
        case events.SharedStateChange(op=op, path=path, value=value):
            what = "removed" if op == "remove" else describe_json(value)
            return (_note(record, f"shared state {path}".strip(), what),)
        case events.Opaque(kind=kind, raw=raw):
            what = "" if raw is None else describe_json(raw, OPAQUE)
            return (_note(record, f"unknown: {kind}", what),)
        case events.Gap(first=first, last=last):
            return (_note(record, "gap", f"records {first} to {last} were too many for this view"),)
        case events.RunPause(pause=events.PauseState(hook=hook, reason=reason)) if not record.path:
            text = f"{hook}: {reason}" if reason else hook
            return (_lane(record, "pause", "Paused", clean(text), "waiting"),)
        case events.RunAbort(cause=cause, reason=reason) if record.path or cause == "cancel":
            return (_note(record, "cancelled" if cause == "cancel" else "ended", reason.removeprefix(CANCELLED)),)
        case _:
            return ()


def _added(record: events.Record, messages: tuple[Message, ...], source: str) -> list[Lane]:
    if source == "tools":
        return []  # the lanes of the calls show them
    if source in PEOPLE:
        return [_user_lane(record, message) for message in messages]
    title = f"{source} to the model"
    return [_note(record, title, describe_parts(message.content)) for message in messages]


def _user_lane(record: events.Record, message: Message) -> Lane:
    return _lane(record, "user", "", describe_parts(message.content))


def _note(record: events.Record, title: str, text: str) -> Lane:
    return _lane(record, "note", one_line(title), clean(text))


def _lane(record: events.Record, kind: LaneKind, title: str, text: str, stage: ItemStage = "done") -> Lane:
    at = record.time
    return Lane(kind, ViewItem(Scope(path=record.path), record.turn, at, at, stage), title, text)


class Lanes:
    """Folds records into lanes.

    Attributes:
        view: The last run, with its last items.

    >>> from rxworker.events import Record, TextDelta
    >>> lanes = Lanes()
    >>> record = Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=TextDelta(0, "Hello"))
    >>> [(lane.kind, lane.text) for lane in lanes.feed([record])]
    [('text', 'Hello')]
    """

    def __init__(self) -> None:
        self.view = RunView(keep=KEPT)
        self._shown: dict[ViewItem, list[Lane]] = {}
        self._panels: list[Lane] = []

    def feed(self, records: Iterable[events.Record]) -> list[Lane]:
        """Take records; return the lanes that are new or changed, new ones in order."""
        changed: dict[Lane, None] = {}
        for record in records:
            changed.update(dict.fromkeys(self._take(record)))
        return list(changed)

    def _take(self, record: events.Record) -> list[Lane]:
        event = record.event
        lanes: list[Lane] = []
        if isinstance(event, events.RunStart | events.RunResume) and not record.path:
            lanes += self._begin(record)
        step = self.view.step(record)
        for item in step.items:
            lanes += self._show(item)
        if isinstance(event, events.RunPause | events.RunAbort):
            notes = list(note_of(record))
            self._panels += [lane for lane in notes if lane.kind == "pause"]
            lanes += notes
        is_new_attempt = isinstance(event, events.AttemptStart) and not record.path
        if is_new_attempt or any(isinstance(change, StepClose) and not change.scope.path for change in step.changes):
            self._shown = {i: lanes for i, lanes in self._shown.items() if not i.is_over}
        return lanes

    def _begin(self, record: events.Record) -> list[Lane]:
        """Start a run: end the previous pause, and end the calls that waited unless this run resumes them."""
        lanes, self._panels = self._panels, []
        for panel in lanes:
            panel.item.end(record.time)
        if self.view.began is None:
            return [*lanes, *user_lanes(record)]
        if isinstance(record.event, events.RunResume):
            self.view = RunView(keep=KEPT, resumes=self.view)
            return lanes
        for item in self._shown:
            if not item.is_over:
                item.end(record.time, "refused")
                lanes += self._show(item)
        self._shown = {}
        self.view = RunView(keep=KEPT)
        return [*lanes, *user_lanes(record)]

    def _show(self, item: ViewItem) -> list[Lane]:
        lanes = self._shown.get(item)
        if lanes is None:
            lanes = self._shown[item] = _lanes_of(item)
        if isinstance(item, CallView):
            _update_call(lanes[0], item)
        return lanes


def _update_call(lane: Lane, item: CallView) -> None:
    lane.title = one_line(item.block.tool) or item.block.block_type.value
    if item.call is not None:
        # The arguments after hooks or an approval may differ from what the model wrote.
        lane.arguments = describe_arguments(item.call.input, ARGUMENTS)
    elif item.written is not None and not lane.arguments:
        lane.arguments = describe_arguments(parse_arguments(item.text), ARGUMENTS)
    if item.reports != lane.reports:
        lane.reports = item.reports
        match read_report(item.progress):
            case FileEdit() as edit:
                lane.edits.append(edit)
            case Plan(steps=steps):
                lane.plan = steps
            case None:
                lane.progress = describe_json(item.progress, ARGUMENTS)


def _lanes_of(item: ViewItem) -> list[Lane]:
    if isinstance(item, NoteView):
        return [replace(lane, item=item) for lane in note_of(item.record)]
    assert isinstance(item, BlockView)
    kind = item.block.block_type
    if isinstance(item, CallView):
        return [Lane("call", item)]
    if kind in TEXT_KINDS:
        return [Lane(TEXT_KINDS[kind], item)]
    return [Lane("note", item, TITLES.get(kind, ""), one_line(item.kind))]


def _value(event: events.InputValueDelta) -> str:
    """Return the text of one value of the arguments."""
    value = event.value
    if event.append:
        return clean(value) if isinstance(value, str) else describe_json(value)
    return f"\n{one_line(event.path)} {describe_json(value)}"
