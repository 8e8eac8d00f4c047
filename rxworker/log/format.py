"""The entries of a log.

An entry is a record, or a span of adjacent deltas of one block with every number, text and time. Pure.

The envelope of an entry has the numbers, the epoch, the kind and the time. Its body is JSON. As one line of JSON, as
`write_line` makes it::

    {"v":2,"epoch":1,"first":7,"last":9,"kind":"text_delta","time":12.5,"body":{"turn":1,"attempt":1,
     "event":{"type":"text_delta","index":0,"text":"An old pond."},"lengths":[2,4,6],"times":[0,20,41]}}

``lengths`` are those of the single texts in characters, ``times`` milliseconds since the first. Times have a resolution
of one millisecond.

Rules for readers: ignore unknown fields, except in a pause, whose fields may allow a call; and take an event of an
unknown kind as an `Opaque`. An entry changes the state of a run unless ``changes_state`` is false; a reader that
continues a run must refuse an unknown kind that changes the state.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import LogError
from rxworker.events import Event, Opaque, PausedCall, PauseState, Record
from rxworker.events.kinds import EVENT_KINDS, Deltas
from rxworker.events.pause import CLIENT_TOOL
from rxworker.hub.history import packed
from rxworker.log.values import is_storable
from rxworker.messages import Conversation, Json, ToolCall, ToolResult

VERSION = 2
"""The version of the envelope and the bodies that this rxworker writes.

Version 1 had the parts of a pause beside the other members of its events; it is read as well.
"""

BASED = 3
"""The version of a first entry that names a base."""
PLAIN, MARKED = b'"event":{"type":"', b'"event":{"type":"based_'
"""How its event begins as it is read, and as it is stored.

A rxworker that knows no bases takes it as unknown, and continues no such run with a part of its conversation.
"""
ABORTED, REQUEUED = "run_abort", "run_requeue"
"""The kinds of the entries that abort a run, and put it back."""
MAX_NUMBER = 2**53
"""The largest number of a record or an epoch: up to there all programs that read JSON have the same numbers."""

NO_JSON = "this event has no JSON form"


class Entry(Struct, frozen=True, gc=False):
    """A stored record, or a stored span of deltas.

    Attributes:
        first: The number of its first record.
        last: The number of its last record.
        epoch: The epoch of the owner that wrote it.
        kind: The type of its events, as in their JSON, for example ``text_delta``.
        time: When its first record was made, in seconds since the epoch.
        body: The rest, as JSON; with a codec whatever that made of it.
        changes_state: Whether the state of a run depends on it.
        version: The version of the format.
    """

    first: int
    last: int
    epoch: int
    kind: str
    time: float
    body: bytes
    changes_state: bool = True
    version: int = VERSION


class Base(Struct, frozen=True, omit_defaults=True):
    """What the conversation of a run begins with, in the first entry of a run that is stored by reference.

    See `rxworker.log.bases`.

    Attributes:
        run: The id of the run that has it.
        seq: The number of the record of that run.
        messages: How many messages of its conversation at that record.
        head: Whether the rest of the conversation, such as its instructions, is that of then, too.
    """

    run: str
    seq: int
    messages: int
    head: bool = False


class Private(Struct, frozen=True, omit_defaults=True):
    """Data that a run needs to continue, and that no watcher receives.

    It is stored in the body of an entry, as ``private``.

    Attributes:
        held: The result of a tool as the tool returned it. No longer written here: see ``held`` of `RunRow`.
        variables: The variables of hooks and tools that JSON can hold.
        answered: Results that a person has given in place of running calls, with the places of these. No longer written
            here either.
        agreed: The names of the hooks that were in force when a call started; all of them have agreed to it.
        approved: Whether a person had approved the call that started.
        kept: With what the tool goes on with the call that reports progress.
        base: What the conversation of the run begins with.
    """

    held: ToolResult | None = None
    variables: dict[str, object] | None = None
    answered: tuple[tuple[int, ToolResult], ...] = ()
    agreed: tuple[str, ...] = ()
    approved: bool = False
    kept: Json = None
    base: Base | None = None


class Body(Struct, frozen=True, omit_defaults=True):
    """The body of an entry. That of a span has the whole text, the lengths of the single ones, and their times."""

    turn: int
    attempt: int
    event: Event
    path: tuple[str, ...] = ()
    lengths: list[int] | None = None
    times: list[int] | None = None
    private: Private | None = None


class _UnknownBody(Struct, frozen=True):
    turn: int
    attempt: int
    event: msgspec.Raw
    path: tuple[str, ...] = ()


class _Line(Struct, frozen=True, omit_defaults=True):
    v: int
    epoch: int
    first: int
    last: int
    kind: str
    time: float
    body: msgspec.Raw
    changes_state: bool = True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Body).decode
_decode_unknown = msgspec.json.Decoder(_UnknownBody).decode
_decode_line = msgspec.json.Decoder(_Line).decode


def _tag(type_: Any) -> str:
    return type_.__struct_config__.tag


_KINDS = {_tag(kind.type): kind for kind in EVENT_KINDS}


def kind_of(event: Event) -> str:
    """The kind of the entry of an event.

    >>> from rxworker.events import TextDelta
    >>> kind_of(TextDelta(0, "hi"))
    'text_delta'
    """
    given: Any = event
    return _tag((given.like if given.__class__ is Deltas else given).__class__)


def type_of(kind: str) -> type[object] | None:
    """The class of the events of the entries of a kind; ``None`` for one that this rxworker does not know.

    >>> type_of("text_delta").__name__
    'TextDelta'
    """
    return _KINDS[kind].type if kind in _KINDS else None


def is_known(kind: str) -> bool:
    """Whether this rxworker knows events of this kind."""
    return kind in _KINDS


def round_time(seconds: float) -> float:
    """A time with the resolution of a log."""
    return round(seconds, 3)


def entries_of(records: Iterable[Record], epoch: int, private: Mapping[int, Private] | None = None) -> list[Entry]:
    """The entries of adjacent records of a run; adjacent deltas of one block become one span.

    Args:
        records: The records, in order.
        epoch: The epoch of the owner.
        private: Private data, by the number of the last record of its entry.

    Raises:
        LogError: An event that the state depends on has no JSON form.

    >>> from rxworker.events import TextDelta
    >>> records = [Record(1, "r", 1, 1, 2.5, TextDelta(0, "hel")), Record(2, "r", 1, 1, 2.52, TextDelta(0, "lo"))]
    >>> [entry] = entries_of(records, 3)
    >>> entry.body.decode()
    '{"turn":1,"attempt":1,"event":{"type":"text_delta","index":0,"text":"hello"},"lengths":[3,2],"times":[0,20]}'
    """
    beside = private or {}
    return [_entry_of(record, epoch, beside.get(record.seq)) for record in packed(records)]


def _entry_of(record: Record, epoch: int, private: Private | None) -> Entry:
    event: Any = record.event
    time = round_time(record.time)
    lengths = times = None
    if event.__class__ is Deltas:
        deltas: Deltas[Any] = event
        event = deltas.with_text(deltas.text())
        lengths = deltas.lengths()
        if deltas.times is not None:
            time = round_time(deltas.times[0])
            times = [round((each - time) * 1000) for each in deltas.times]
    elif record.covers > 1:
        raise LogError(f"record {record.seq} is merged: store the single records of a run")
    kind = _tag(event.__class__)
    body = Body(record.turn, record.attempt, event, record.path, lengths, times, private)
    try:
        data = _bytes_of(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if _KINDS[kind].changes_state:
            raise LogError(f"record {record.seq}, {kind}, cannot be stored: {error}") from error
        data = _encode(Body(record.turn, record.attempt, Opaque(kind, NO_JSON), record.path))
    entry = Entry(record.first, record.seq, epoch, kind, time, data, _KINDS[kind].changes_state)
    return entry if private is None or private.base is None else _based(entry)


def _based(entry: Entry) -> Entry:
    return replace(entry, body=entry.body.replace(PLAIN, MARKED, 1), version=BASED)


def record_of(entry: Entry, run_id: str) -> Record:
    """The record of an entry. That of a span covers several numbers, and its event is a `Deltas`.

    Raises:
        LogError: The entry is damaged, or of a newer version that cannot be read.
    """
    body = body_of(entry, run_id)
    event: Any = body.event
    covers, time = entry.last - entry.first + 1, entry.time
    if body.lengths is not None:
        text: str = event.text
        if len(body.lengths) != covers or sum(body.lengths) != len(text):
            raise _damaged(entry, run_id, "the lengths of its texts do not fit")
        ends = list(accumulate(body.lengths))
        texts = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        times = None
        if body.times is not None:
            if len(body.times) != covers:
                raise _damaged(entry, run_id, "the number of its times does not fit")
            start = round(time * 1000)
            times = array("d", [(start + each) / 1000 for each in body.times])
            time = times[-1]
        event = Deltas(event, texts, times)
    elif covers != 1:
        raise _damaged(entry, run_id, f"it covers {covers} records without their texts")
    return Record(entry.last, run_id, body.turn, body.attempt, time, event, body.path, covers)


def records_of(entries: Iterable[Entry], run_id: str, after: int = 0) -> Iterator[Record]:
    """The records of adjacent entries; see `record_of`.

    Args:
        entries: The entries, in order.
        run_id: The run's id.
        after: The number of the last entry before them.

    Raises:
        LogError: An entry is damaged, or a number is missing.
    """
    for entry in entries:
        if entry.first != after + 1 or entry.last < entry.first:
            raise LogError(
                f"the log of {run_id} is damaged: record {after + 1} is missing, and {entry.first} to {entry.last} "
                "follow"
            )
        after = entry.last
        yield record_of(entry, run_id)


def private_of(entry: Entry, run_id: str) -> Private | None:
    """The private data of an entry, if it has any.

    Raises:
        LogError: The entry is damaged.
    """
    return body_of(entry, run_id).private if b'"private":' in entry.body else None


def base_of(entry: Entry, run_id: str) -> Base | None:
    """The base of a first entry; ``None`` if it is whole.

    Raises:
        LogError: The entry is damaged.
    """
    private = private_of(entry, run_id) if b'"base":' in entry.body else None
    return None if private is None else private.base


def with_conversation(entry: Entry, conversation: Conversation, base: Base | None = None) -> Entry:
    """A first entry with another conversation, and another base."""
    body = _read_body(entry)
    event: Any = body.event
    private = replace(body.private or Private(), base=base)
    changed = replace(
        body, event=replace(event, conversation=conversation), private=None if private == Private() else private
    )
    whole = replace(entry, body=_bytes_of(changed), version=VERSION)
    return whole if base is None else _based(whole)


def without_results(entry: Entry) -> Entry:
    """The entry without results that ``after_tool_call`` hooks had not seen, which an older rxworker stored with it.

    Raises:
        LogError: The entry is damaged.
    """
    private = private_of(entry, "")
    if private is None or (private.held is None and not private.answered):
        return entry
    left = replace(private, held=None, answered=())
    data = _bytes_of(replace(_read_body(entry), private=left))
    return replace(entry, body=data, version=max(entry.version, VERSION))  # the form as read


def _bytes_of(body: Body) -> bytes:
    try:
        return _encode(body)
    except UnicodeEncodeError:
        # Half of a surrogate pair, which a model may write and UTF-8 cannot encode: JSON can, as an escape.
        return json.dumps(msgspec.to_builtins(body), separators=(",", ":")).encode()


def body_of(entry: Entry, run_id: str) -> Body:
    """The body of an entry.

    Raises:
        LogError: It is damaged.
    """
    try:
        return _read_body(entry)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _damaged(entry, run_id, error) from error


def _read_body(entry: Entry) -> Body:
    if entry.version == BASED and MARKED in entry.body:
        entry = replace(entry, body=entry.body.replace(MARKED, PLAIN, 1), version=VERSION)
    if entry.version > VERSION:
        return _unknown(entry)
    try:
        if entry.version == 1 and entry.kind in ("run_pause", "run_resume"):
            body = msgspec.convert(_loads(entry.body), dict[str, object])
            event = msgspec.convert(body.get("event"), dict[str, object])
            return msgspec.convert({**body, "event": upgrade_pause(event)}, Body)
        return _decode(entry.body)
    except msgspec.ValidationError:
        if is_known(entry.kind):
            raise
        return _unknown(entry)
    except msgspec.DecodeError:
        return msgspec.convert(_loads(entry.body), Body)


class _Pause1(Struct, frozen=True):
    """The members of a pause in version 1."""

    hook: str = ""
    pending: tuple[ToolCall, ...] = ()
    paused_at: str | None = None
    reason: str = ""
    refused: tuple[ToolResult, ...] = ()
    let_through: int = 0
    key: str = ""
    places: tuple[int, ...] = ()
    hooks: tuple[str, ...] = ()
    asked: int = 0
    unknown: tuple[int, ...] = ()
    spared: tuple[tuple[tuple[str, int], ...], ...] | None = None
    approved: tuple[int, ...] = ()
    offered: bool = False

    def pause(self) -> PauseState:
        """The pause in the present version.

        Raises:
            ValueError: The members contradict each other.
        """
        pending, approved, at = self.pending, self.let_through, None
        hook = self.hook or (CLIENT_TOOL if self.offered else "")
        for name, most in ("let_through", len(pending)), ("asked", len(self.hooks)):
            number: int = getattr(self, name)
            if not 0 <= number <= most:
                raise ValueError(f"{name} is {number}, of {most}")
        if self.paused_at is not None:
            at = approved
            if at == len(pending) or pending[at].id != self.paused_at:
                raise ValueError(f"paused_at is {self.paused_at!r}, which is not pending call {at}")
        elif hook != CLIENT_TOOL:
            approved = 0  # the hooks have not agreed to any
        if not set(self.unknown).issubset(self.places):
            raise ValueError(f"unknown: {list(self.unknown)} are not places of pending calls")
        names = self.hooks
        before = tuple([(name, names[:index].count(name)) for index, name in enumerate(names)])
        reached = before[: self.asked]
        calls = [
            PausedCall(place, call, before, is_approved=True)
            if index < approved
            else PausedCall(place, call, reached if index == at else ())
            for index, (place, call) in enumerate(zip(self.places, pending, strict=True))
        ]
        if self.spared is not None:
            calls = [
                replace(each, spared=spared, is_approved=each.place in self.approved)
                for each, spared in zip(calls, self.spared, strict=True)
            ]
        # All other calls of the response have results.
        free = (place for place in count() if place not in self.places)
        return PauseState(
            hook,
            tuple(calls),
            tuple([i for i, each in enumerate(calls) if i == at or each.place in self.unknown]),
            self.reason,
            dict(zip(free, self.refused, strict=False)),
            self.key,
            () if calls else reached,
        )


def upgrade_pause(members: Mapping[str, object]) -> dict[str, Any]:
    """The members of a paused run, or of an event of one, as they are since version 2 of the entries.

    The parts of the pause are one of them.

    Args:
        members: As version 1 had them, decoded. What is not part of a pause stays as it is.

    Raises:
        ValueError: They are invalid, or contradict each other.

    >>> upgrade_pause({"type": "run_pause", "hook": "permit", "hooks": ["permit"], "asked": 1})
    {'type': 'run_pause', 'pause': PauseState(hook='permit', ..., spared=(('permit', 0),), held=None, background=())}
    """
    rest = {name: each for name, each in members.items() if name not in _Pause1.__struct_fields__}
    return {**rest, "pause": msgspec.convert(members, _Pause1).pause()}


def _unknown(entry: Entry) -> Body:
    """The body of an entry that a newer rxworker wrote: what is readable of it."""
    try:
        return _decode(entry.body)
    except msgspec.ValidationError:
        body = _decode_unknown(entry.body)
        raw = msgspec.json.decode(body.event)
        return Body(body.turn, body.attempt, Opaque(entry.kind, raw), body.path)


def _damaged(entry: Entry, run_id: str, why: object) -> LogError:
    numbers = str(entry.first) if entry.first == entry.last else f"{entry.first} to {entry.last}"
    newer = ""
    if entry.version > VERSION:
        newer = (
            f" It was written in version {entry.version}, and this rxworker reads versions up to {VERSION}: use a "
            "newer one."
        )
    return LogError(f"the log of {run_id} cannot be read at record {numbers} ({entry.kind}): {why}.{newer}")


def check_continuable(entries: Sequence[Entry], run_id: str) -> None:
    """Refuse entries that change the state of a run in a way that this rxworker does not know.

    Raises:
        LogError: There is one. The run can still be watched.
    """
    for entry in entries:
        is_read = is_known(entry.kind) and (
            entry.version <= VERSION or not isinstance(record_of(entry, run_id).event, Opaque)
        )
        if entry.changes_state and not is_read:
            raise LogError(
                f"{run_id} cannot be continued: its record {entry.first} is a {entry.kind!r}, which this rxworker does "
                "not know. Continue it with the rxworker that wrote it, or a newer one; this one can show it"
            )


def write_line(entry: Entry) -> bytes:
    """An entry as one line of JSON, without its newline. The output of a codec is written as base64."""
    is_json = entry.body[:1] == b"{"
    body = msgspec.Raw(entry.body if is_json else b'"' + b64encode(entry.body) + b'"')
    return _encode(
        _Line(entry.version, entry.epoch, entry.first, entry.last, entry.kind, entry.time, body, entry.changes_state)
    )


def read_line(line: bytes | str) -> Entry:
    """Read the output of `write_line`.

    Raises:
        LogError: It is not an entry.
    """
    try:
        read = _read_line(line)
        body = bytes(read.body)
        if body.startswith(b'"'):
            body = b64decode(body[1:-1], validate=True)
        if not is_storable(read.kind):
            raise ValueError(f"{read.kind!r} is not a kind of event")
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
        raise LogError(f"this is not an entry of a log: {error}") from error
    is_numbered = 0 < read.first <= read.last <= MAX_NUMBER and 0 <= read.epoch <= MAX_NUMBER
    if not (is_numbered and isfinite(read.time) and 0 < read.v <= MAX_NUMBER):
        raise LogError(
            f"this is not an entry of a log: records {read.first} to {read.last} of epoch {read.epoch}, at {read.time},"
            f" in version {read.v}"
        )
    return Entry(read.first, read.last, read.epoch, read.kind, read.time, body, read.changes_state, read.v)


def _read_line(line: bytes | str) -> _Line:
    try:
        return _decode_line(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Half of a surrogate pair, which msgspec does not read.
        read = _loads(line)
        if not isinstance(read, dict):
            raise
        body = json.dumps(read.get("body"), separators=(",", ":")).encode()
        return msgspec.convert({**read, "body": msgspec.Raw(body)}, _Line)


def _loads(data: bytes | str) -> Json:
    """JSON that may have half of a surrogate pair, which msgspec does not read."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(data, parse_constant=refuse)
