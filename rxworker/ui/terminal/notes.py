"""Lanes that come whole: what people say, what hooks tell and decide, and what becomes of the run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.events import (
    AttemptRetract,
    Gap,
    HookMessage,
    HookVerdict,
    MessageAdd,
    Opaque,
    Record,
    RunAbort,
    RunPause,
    RunStart,
    WatcherDetach,
)
from rxworker.messages import Message
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_json
from rxworker.ui.terminal.lane import Lane, LaneKind
from rxworker.ui.terminal.parts import describe_parts
from rxworker.views import ItemStage

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


__all__ = ["note_of", "note_opaque", "user_lanes"]
