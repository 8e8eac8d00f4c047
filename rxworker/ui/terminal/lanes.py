"""From the records of a conversation to its lanes: the items of a `RunView`, as clean text.

Each run of the conversation has a view of its own; the run that resumes a paused one continues the items of its calls. A lane is forgotten when
its item cannot change any more: the widgets keep as many as they like.

A lane: one thing that happens in a conversation, from its beginning to its end. Everything in it is clean text.

Lanes that come whole: what people say, what hooks tell and decide, and what becomes of the run. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockType,
    Gap,
    HookMessage,
    HookVerdict,
    InputValueDelta,
    MessageAdd,
    Opaque,
    Record,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    WatcherDetach,
)
from rxworker.messages import JsonObject, Message, ToolResult
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_arguments, describe_json, describe_parts, describe_sources
from rxworker.views import BlockView, CallView, ItemStage, NoteView, RunView, StepClose, ViewItem
from rxworker.views.run_view import OVER

LaneKind: TypeAlias = Literal["user", "thinking", "text", "call", "note", "pause", "error"]


@dataclass(slots=True, eq=False)
class Lane:
    """What is said, thought or noted. Compared by identity.

    Attributes:
        kind: What it is.
        title: What stands above it, or before it.
        depth: Within how many tool calls it happens.
        stage: How far it is.
        began: When it began, in seconds since the epoch.
        ended: When it ended; ``None``: it goes on.
        pieces: Its text, in the pieces in which it came.
        sources: What the text rests on.
        times: How often the like has happened.
        choice: Which choice of the response it belongs to, from 0. The conversation keeps the first.
    """

    kind: LaneKind
    title: str = ""
    depth: int = 0
    stage: ItemStage = "open"
    began: float = 0.0
    ended: float | None = None
    pieces: list[str] = field(default_factory=list[str])
    sources: list[str] = field(default_factory=list[str])
    times: int = 1
    choice: int = 0

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(self.pieces)

    @property
    def choice_label(self) -> str:
        """Marks what belongs to a further choice; empty for the first.

        >>> Lane("text", choice=1).choice_label
        'Choice 2'
        """
        return f"Choice {self.choice + 1}" if self.choice else ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens in it."""
        return self.stage in OVER

    def end(self, now: float, stage: ItemStage = "done") -> None:
        """It ends, unless it has."""
        if not self.is_over:
            self.stage, self.ended = stage, now

    def seconds(self, now: float) -> float:
        """How long it has gone on."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


@dataclass(slots=True, eq=False)
class CallLane(Lane):
    """A tool call: its ``title`` is the tool's name, its text the arguments as they come.

    Attributes:
        call_id: The call's id.
        arguments: The arguments in one line, once they are whole.
        progress: What the tool told last.
        told: How often it has told something.
        result: What the model reads of it; ``None`` before that.
        took: The seconds that it ran.
    """

    call_id: str = ""
    arguments: str = ""
    progress: str = ""
    told: int = 0
    result: str | None = None
    took: float = 0.0


PEOPLE = ("send", "resume")
"""The sources of messages that a person has added."""
OPAQUE = 200
"""Characters of what is not known."""
CANCELLED = "the run was cancelled: "


def user_lanes(record: Record) -> list[Lane]:
    """What the person said that a run begins with: the last message, since those before it may be of runs that failed."""
    event = record.event
    last = event.conversation.last if isinstance(event, RunStart) else None
    return [] if last is None or last.role != "user" else [_said(record, last)]


def note_of(record: Record) -> Iterable[Lane]:
    """The lane that says what a record means, where that is of interest.

    >>> record = Record(1, "r", 1, 1, 0.0, HookMessage("clock", "message", "it is late"))
    >>> [(lane.kind, lane.title, lane.text) for lane in note_of(record)]
    [('note', 'clock', 'it is late')]
    """
    event = record.event
    match event:
        case HookMessage(hook=hook, content=content, data=data):
            more = "" if data is None else f" {describe_json(data)}"
            return (_note(record, hook, content + more),)
        case HookVerdict(verdict="Pause"):
            return ()  # the pause says it all
        case HookVerdict(hook=hook, point=point, verdict=verdict, reason=reason, call_id=call):
            # The reason for skipping a call is the call's result, which its lane shows.
            is_elsewhere = not reason or (verdict == "Skip" and call is not None)
            text = f"{verdict} at {point}" + ("" if is_elsewhere else f": {reason}")
            return (_note(record, hook, text),)
        case AttemptRetract(reason=reason, delay=delay):
            when = f"in {delay:.0f} s" if delay >= 1 else "at once"
            return (_note(record, "new attempt", f"{reason}; asking again {when}"),)
        case MessageAdd(messages=messages, source=source):
            return _added(record, messages, source)
        case WatcherDetach(watcher=watcher, error=error):
            return (_note(record, "watcher", f"{watcher} failed and was detached: {error}"),)
        case Gap(first=first, last=last):
            return (_note(record, "gap", f"records {first} to {last} were too many for this view"),)
        case RunPause(hook=hook, reason=reason) if not record.path:
            told = f"{hook}: {reason}" if reason else hook
            return (_lane(record, "pause", "Waits for you", clean(told), "waiting"),)
        case RunAbort(cause=cause, reason=reason) if record.path or cause == "cancel":
            title = "cancelled" if cause == "cancel" else "ended"
            return (_note(record, title, reason.removeprefix(CANCELLED)),)
        case _:
            return ()


def _added(record: Record, messages: tuple[Message, ...], source: str) -> list[Lane]:
    if source == "tools":
        return []  # the calls' lanes have them
    if source in PEOPLE:
        return [_said(record, message) for message in messages]
    title = f"{source} tells the model"
    return [_note(record, title, describe_parts(message.content)) for message in messages]


def note_opaque(record: Record, event: Opaque) -> Lane:
    """The lane of something of the provider's that is not known here."""
    told = "" if event.raw is None else describe_json(event.raw, OPAQUE)
    return _note(record, f"not known here: {event.kind}", told)


def _said(record: Record, message: Message) -> Lane:
    return _lane(record, "user", "", describe_parts(message.content))


def _note(record: Record, title: str, text: str) -> Lane:
    return _lane(record, "note", one_line(title), clean(text))


def _lane(record: Record, kind: LaneKind, title: str, text: str, stage: ItemStage = "done") -> Lane:
    at = record.time
    return Lane(kind, title, len(record.path), stage, at, at, [text] if text else [])


KINDS: dict[BlockType, LaneKind] = {
    BlockType.THINKING: "thinking",
    BlockType.TEXT: "text",
    BlockType.REFUSAL: "text",
}
TITLES = {
    BlockType.IMAGE: "a picture",
    BlockType.OPAQUE: "something that is not known here",
}
"""The titles of blocks that a terminal cannot show."""
MOST_SOURCES = 50
ARGUMENTS = 400
"""Characters of the line that shows a call's arguments, and of its progress."""


class Lanes:
    """Makes lanes of records.

    >>> from rxworker.events import TextDelta
    >>> lanes = Lanes()
    >>> record = Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=TextDelta(0, "Hello"))
    >>> [(lane.kind, lane.text) for lane in lanes.feed([record])]
    [('text', 'Hello')]
    """

    def __init__(self) -> None:
        self._view = RunView(keep=0)
        self._shown: dict[ViewItem, _Shown] = {}
        self._panels: list[Lane] = []

    def feed(self, records: Iterable[Record]) -> list[Lane]:
        """Take records; return the lanes that are new or have changed, the new ones in order."""
        changed: dict[Lane, None] = {}
        for record in records:
            changed.update(dict.fromkeys(self._take(record)))
        return list(changed)

    def _take(self, record: Record) -> list[Lane]:
        event = record.event
        lanes: list[Lane] = []
        if isinstance(event, RunStart | RunResume) and not record.path:
            lanes += self._begin(record)
        step = self._view.step(record)
        for item in step.items:
            lanes += self._show(item)
        if isinstance(event, RunPause | RunAbort):
            told = list(note_of(record))
            self._panels += [lane for lane in told if lane.kind == "pause"]
            lanes += told
        is_new_attempt = isinstance(event, AttemptStart) and not record.path
        if is_new_attempt or any(
            isinstance(change, StepClose) and not change.scope.path for change in step.changes
        ):
            self._shown = {i: shown for i, shown in self._shown.items() if not i.is_over}
        return lanes

    def _begin(self, record: Record) -> list[Lane]:
        """A run begins: the pause before it is over, and what waited does so no longer unless this run resumes it."""
        lanes, self._panels = self._panels, []
        for panel in lanes:
            panel.end(record.time)
        if self._view.began is None:
            return [*lanes, *user_lanes(record)]
        if isinstance(record.event, RunResume):
            self._view = RunView(keep=0, resumes=self._view)
            return lanes
        for item in self._shown:
            if not item.is_over:
                item.end(record.time, "refused")
                lanes += self._show(item)
        self._shown = {}
        self._view = RunView(keep=0)
        return [*lanes, *user_lanes(record)]

    def _show(self, item: ViewItem) -> list[Lane]:
        shown = self._shown.get(item)
        if shown is None:
            shown = self._shown[item] = _Shown(item)
        shown.update(item)
        return shown.lanes


class _Shown:
    """The lanes of an item, and how much of it they show.

    Args:
        item: What is shown.
    """

    __slots__ = ("_cited", "_taken", "lanes")

    def __init__(self, item: ViewItem) -> None:
        self._taken = self._cited = 0
        self.lanes = _lanes_of(item)

    def update(self, item: ViewItem) -> None:
        """Show what is new in the item."""
        for lane in self.lanes:
            if isinstance(item, NoteView):
                lane.times = item.times
                if item.stage == "retracted":
                    lane.stage = item.stage
                continue
            lane.stage, lane.ended = item.stage, item.ended
            if isinstance(item, CallView) and isinstance(lane, CallLane):
                self._update_call(item, lane)
            elif isinstance(item, BlockView):
                self._update_text(item, lane)

    def _update_text(self, item: BlockView, lane: Lane) -> None:
        self._add([clean(piece) for piece in item.pieces[self._taken :]], lane)
        for citation in item.citations[self._cited :]:
            for source in describe_sources(citation):
                if source not in lane.sources and len(lane.sources) < MOST_SOURCES:
                    lane.sources.append(source)
        self._cited = len(item.citations)

    def _update_call(self, item: CallView, lane: CallLane) -> None:
        if item.values:
            self._add([_value(each) for each in item.values[self._taken :]], lane)
        else:
            self._add([clean(piece) for piece in item.pieces[self._taken :]], lane)
        lane.title = one_line(item.block.tool) or item.block.block_type.value
        lane.began = item.began if item.started is None else item.started
        if item.call is not None:
            # After the hooks, or the person who was asked.
            lane.arguments = describe_arguments(item.call.input, ARGUMENTS)
        elif item.written is not None and not lane.arguments:
            lane.arguments = describe_arguments(_read(item.text), ARGUMENTS)
        if item.reports != lane.told:
            lane.progress, lane.told = describe_json(item.progress, ARGUMENTS), item.reports
        if item.result is not None:
            lane.result = _text_of(item.result)
        lane.took = item.seconds

    def _add(self, pieces: list[str], lane: Lane) -> None:
        self._taken += len(pieces)
        for piece in pieces:
            lane.pieces.append(piece if lane.pieces else piece.lstrip("\n"))


def _lanes_of(item: ViewItem) -> list[Lane]:
    depth, began = len(item.scope.path), item.began
    if isinstance(item, NoteView):
        record = item.record
        if isinstance(record.event, Opaque):
            return [note_opaque(record, record.event)]
        return list(note_of(record))
    assert isinstance(item, BlockView)
    block, lane = item.block, Lane("note", depth=depth, began=began)
    if isinstance(item, CallView):
        lane = CallLane("call", depth=depth, began=began, call_id=block.call_id)
    elif block.block_type in KINDS:
        lane.kind = KINDS[block.block_type]
    else:
        lane.title = TITLES.get(block.block_type, "")
        lane.pieces += [one_line(item.kind)] if item.kind else []
    lane.choice = block.choice
    return [lane]


def _value(event: InputValueDelta) -> str:
    """One value of the arguments, as it comes."""
    value = event.value
    if event.append:
        return clean(value) if isinstance(value, str) else describe_json(value)
    return f"\n{one_line(event.path)} {describe_json(value)}"


def _read(text: str) -> JsonObject | str:
    """The arguments of a call, from their JSON text; the text itself where it is no JSON object."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=JsonObject)
    except msgspec.DecodeError:
        return text


def _text_of(result: ToolResult) -> str:
    content = result.content
    text = content if isinstance(content, str) else describe_parts(content)
    return clean(text) or "(no text)"
