"""Lanes: the items of a `RunView` as clean text, for the widgets of the terminal.

Each run of the conversation has its own view; a run that resumes a paused run continues the items of its calls. `Lanes`
drops a lane when its item cannot change any more; the widgets keep as many as they need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rxworker import events
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Message, ToolResult
from rxworker.tools.reports import FileEdit, Plan, PlanStep, read_report
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_arguments, describe_json, describe_parts, describe_sources, plural
from rxworker.views import BlockView, CallView, NoteView, RunView, ViewItem
from rxworker.views.changes import StepClose
from rxworker.views.run_view import OVER, ItemStage

LaneKind: TypeAlias = Literal["user", "thinking", "text", "call", "note", "pause", "error"]
TextKind: TypeAlias = Literal["thinking", "text"]
TEXT_KINDS: dict[events.BlockType, TextKind] = {
    events.BlockType.THINKING: "thinking",
    events.BlockType.TEXT: "text",
    events.BlockType.REFUSAL: "text",
}


@dataclass(slots=True, eq=False)
class Lane:
    """An item of the conversation: a message, text, thinking or a note. Compared by identity.

    Attributes:
        kind: The kind of the item.
        title: The heading.
        path: The ids of the tool calls that enclose it, the outermost first.
        stage: The stage of the item.
        began: When it began, in seconds since the epoch.
        ended: When it ended; ``None`` while it is open.
        pieces: Its text, in the pieces that arrived.
        sources: The sources that the text cites.
        times: How often it was repeated.
        choice: The index of the response's choice, from 0. The conversation keeps choice 0.
        cited: How many citations of its item it has.
    """

    kind: LaneKind
    title: str = ""
    path: tuple[str, ...] = ()
    stage: ItemStage = "open"
    began: float = 0.0
    ended: float | None = None
    pieces: list[str] = field(default_factory=list[str])
    sources: list[str] = field(default_factory=list[str])
    times: int = 1
    choice: int = 0
    cited: int = 0

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)

    @property
    def depth(self) -> int:
        """The number of tool calls that enclose it."""
        return len(self.path)

    @property
    def choice_label(self) -> str:
        """The label of a further choice; empty for the first.

        >>> Lane("text", choice=1).choice_label
        'Choice 2'
        """
        return f"Choice {self.choice + 1}" if self.choice else ""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.stage in OVER

    def end(self, now: float, stage: ItemStage = "done") -> None:
        """End it, unless it has ended already."""
        if not self.is_over:
            self.stage, self.ended = stage, now

    def seconds(self, now: float) -> float:
        """Its duration."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


@dataclass(slots=True, eq=False)
class CallLane(Lane):
    """A tool call: ``title`` is the name of the tool, ``pieces`` the arguments as they arrive.

    Attributes:
        call_id: The id of the call.
        arguments: The complete arguments in one line.
        progress: The latest progress report of the tool.
        reports: The number of progress reports.
        result: The result that the model receives; ``None`` before that.
        took: The duration of the call in seconds.
        edits: The edits of files that the tool reported.
        plan: The plan that the tool reported last.
    """

    call_id: str = ""
    arguments: str = ""
    progress: str = ""
    reports: int = 0
    result: str | None = None
    took: float = 0.0
    edits: list[FileEdit] = field(default_factory=list[FileEdit])
    plan: tuple[PlanStep, ...] = ()


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
    return Lane(kind, title, record.path, stage, at, at, [text] if text else [])


TITLES = {events.BlockType.IMAGE: "an image", events.BlockType.OPAQUE: "unknown content"}
"""The titles of blocks that a terminal cannot show."""
MAX_SOURCES = 50
KEPT = 200
"""Maximum number of items that are kept for the trace."""
ARGUMENTS = 400
"""Maximum number of characters of a call's arguments and of its progress."""


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
            panel.end(record.time)
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
        for lane in lanes:
            _update(lane, item)
        return lanes


def _update(lane: Lane, item: ViewItem) -> None:
    """Add what is new in the item of a lane."""
    if isinstance(item, NoteView):
        lane.times = item.times
        if item.stage == "retracted":
            lane.stage = item.stage
        return
    assert isinstance(item, BlockView)
    lane.stage, lane.ended = item.stage, item.ended
    if isinstance(item, CallView) and item.values:
        pieces = [_value(each) for each in item.values[len(lane.pieces) :]]
    else:
        pieces = [clean(piece) for piece in item.pieces[len(lane.pieces) :]]
    for piece in pieces:
        lane.pieces.append(piece if lane.pieces else piece.lstrip("\n"))
    if isinstance(item, CallView) and isinstance(lane, CallLane):
        _update_call(lane, item)
        return
    for citation in item.citations[lane.cited :]:
        for source in describe_sources(citation):
            if source not in lane.sources and len(lane.sources) < MAX_SOURCES:
                lane.sources.append(source)
    lane.cited = len(item.citations)


def _update_call(lane: CallLane, item: CallView) -> None:
    lane.title = one_line(item.block.tool) or item.block.block_type.value
    lane.began = item.began if item.started is None else item.started
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
    if item.result is not None:
        lane.result = _text_of(item.result)
    lane.took = item.seconds


def _lanes_of(item: ViewItem) -> list[Lane]:
    path, began = item.scope.path, item.began
    if isinstance(item, NoteView):
        return list(note_of(item.record))
    assert isinstance(item, BlockView)
    block, lane = item.block, Lane("note", path=path, began=began)
    if isinstance(item, CallView):
        lane = CallLane("call", path=path, began=began, call_id=block.call_id)
    elif block.block_type in TEXT_KINDS:
        lane.kind = TEXT_KINDS[block.block_type]
    else:
        lane.title = TITLES.get(block.block_type, "")
        lane.pieces += [one_line(item.kind)] if item.kind else []
    lane.choice = block.choice
    return [lane]


def _value(event: events.InputValueDelta) -> str:
    """Return the text of one value of the arguments."""
    value = event.value
    if event.append:
        return clean(value) if isinstance(value, str) else describe_json(value)
    return f"\n{one_line(event.path)} {describe_json(value)}"


def _text_of(result: ToolResult) -> str:
    content = result.content
    text = content if isinstance(content, str) else describe_parts(content)
    return clean(text) or "(no text)"
