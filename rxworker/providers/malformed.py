"""Frames that break the protocol: JSON that does not match its Struct, and text that is not JSON.

One unexpected member must not cost the members beside it, so a Struct is read field by field, and a list member by
member, down to the value that does not match; that value is reported. Every field of such a Struct has a default.
Members of a response's head that its decoder does not read are emitted when they are new (`Heads`), so that they are in
the log before a decoder knows them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import filterfalse
from types import UnionType
from typing import Any, ClassVar, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, field, structs

from rxworker.events import Error, Opaque, ResponseEvent
from rxworker.events.meta import NO_RESPONSE, TRUNCATED
from rxworker.framing.sse import STRAY, SseFrame
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import UNREADABLE, SurrogateJoiner, read_json, read_repaired
from rxworker.providers.batch_decoder import Events
from rxworker.providers.block_factory import CUT, BlockFactory
from rxworker.providers.failure import LONGEST_PAGE, Failure, classify, error_failure, readable

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Heads(Struct, eq=False):
    r"""The heads of one response: what surrounds its content. A member is emitted once, and again if its value changes.

    >>> heads = Heads()
    >>> heads.new_in(b'{"id": "1", "diagnostics": {"cache": "cold"}}', "chunk", frozenset({"id"}))
    [Opaque(kind='chunk', raw={'diagnostics': {'cache': 'cold'}})]
    >>> heads.new_in(b'{"id": "1", "diagnostics": {"cache": "cold"}, "tier": null}', "chunk", frozenset({"id"}))
    []
    """

    _emitted: dict[str, bytes] = {}

    def new_in(self, data: bytes, kind: str, known: frozenset[str], inside: str = "") -> list[Opaque]:
        """What is new in a head, as one event.

        Args:
            data: The JSON of the head. One that cannot be read has nothing new.
            kind: The kind of the event.
            known: The members that are read, or of no use.
            inside: The member that is the head, if it is not all of the JSON.
        """
        try:
            _only(known, inside)(data)
            return []  # as for nearly all
        except UNREADABLE:
            pass
        try:
            members = _members(data)
            members = _members(members.get(inside, b"{}")) if inside else members
            new: dict[str, Json] = {}
            for name in filterfalse(known.__contains__, members):
                raw = bytes(members[name])
                if raw not in (b"null", b"[]", b"{}", b'""', b"false") and self._emitted.get(name) != raw:
                    self._emitted[name] = raw
                    new[name] = msgspec.json.decode(raw)
        except UNREADABLE:
            return []
        return [Opaque(kind, new)] if new else []


@lru_cache(maxsize=64)  # a provider has a few
def _only(known: frozenset[str], inside: str) -> Callable[[bytes], object]:
    """Reads a head without other members, in a third of the time that a dict of them takes; raises for any other."""
    fields = [(f"member_{at}", Raw, field(name=name, default=Raw())) for at, name in enumerate(known)]
    head = msgspec.defstruct("Head", fields, forbid_unknown_fields=True, gc=False)
    if inside:
        head = msgspec.defstruct("Around", [("head", head | None, field(name=inside, default=None))], gc=False)
    return msgspec.json.Decoder(head).decode


A = TypeVar("A")

DONE = b"[DONE]"
ERROR = "error"


BROKEN = Failure("the provider sent JSON that cannot be read", "bad_json", "server")

EMPTY = Failure("the server's answer is empty: it ended before a response began", TRUNCATED, TRUNCATED)


def unreadable(data: bytes) -> bool:
    """Whether a frame that is not JSON was meant to be: a broken object, not a word such as ``keepalive``."""
    return data.lstrip().startswith(b"{")


def stream_failure(event: str, raw: Json) -> Failure | None:
    """The failure that a frame reports, by its event's name or by an ``error`` in it."""
    is_error = event == "error" or (isinstance(raw, dict) and (raw.get("error") or raw.get("type") == "error"))
    return error_failure(raw) if is_error else None


def error_frame_failure(frame: SseFrame) -> Failure:
    """The failure of a frame that is an error and may not be JSON."""
    return garbage_failure(frame) or error_failure(read_json(frame.data))


def _lines(data: bytes) -> list[bytes]:
    """The events of a frame between which the server left out the blank line; none if it is not made of events."""
    lines = [line for line in map(bytes.strip, data.split(b"\n")) if line]
    try:
        for line in lines:
            if line != DONE:
                msgspec.json.decode(line, type=Raw)
    except UNREADABLE:
        return []
    return lines


def garbage_failure(frame: SseFrame) -> Failure | None:
    """The failure that a frame without JSON reports."""
    if frame.event == STRAY:
        # Perhaps with the name of a field before it, such as ``error: {...}``.
        raw = read_repaired(frame.data)
        if raw is None:
            raw = read_repaired(frame.data.partition(b":")[2])
        return stream_failure(STRAY, raw)
    if frame.event == "error" and not unreadable(frame.data):
        return Failure(frame.data.decode("utf-8", "replace"), "error")
    return None


class LenientDecoder(ABC):
    """The base of the decoders from frames to events.

    What they do with a frame that is not JSON, and how a response fails.

    Attributes:
        blocks: Makes the beginnings and ends of its blocks.
    """

    _growing: tuple[str, ...]
    """The fields whose texts go on in the next frame."""
    _is_careful = False  # something could not be read as it stood
    _broken = False
    _over = False
    _has_begun = False  # the head of the response has come
    _odd_text = ""  # what came that is not of the protocol

    def __init__(self) -> None:
        self.blocks = BlockFactory()
        self._heads = Heads()

    @cached_property
    def _joiner(self) -> SurrogateJoiner:
        """Repairs what could not be read; made at its first use, as for few responses."""
        return SurrogateJoiner(*self._growing)

    def finish(self) -> Events:
        """The bytes ended. Before the end of the response, that is an error."""
        return () if self._over else self._fail(self._cut())

    def _cut(self) -> Failure:
        """The failure of a response that ended too early.

        If nothing of it came, the failure names what came in its place.
        """
        if self._has_begun or self.blocks.is_used:
            return CUT
        text = readable(self._odd_text)
        if not text:
            return EMPTY
        return Failure(f"the server sent no response but {text!r}", NO_RESPONSE, classify([], 200, text))

    def _all_of(self, datas: Sequence[bytes], decode: Callable[[bytes], A]) -> list[A] | None:
        """What the frames of a read hold; ``None`` where they must be taken one by one."""
        try:
            return None if self._is_careful or self._over else [*map(decode, datas)]
        except UNREADABLE:
            return None

    @abstractmethod
    def feed(self, frame: Any, /) -> Events:
        """Take the next frame; return what happened."""

    def _take_unread(self, frame: SseFrame, error: Exception) -> Events:
        """A frame that the Struct of its protocol does not read."""
        return (self._take_loose if isinstance(error, msgspec.ValidationError) else self._take_garbage)(frame)

    def _take_loose(self, frame: SseFrame) -> Events:
        """JSON that does not match its Struct."""
        raw = read_json(frame.data)
        if raw is None:
            return self._take_garbage(frame)
        failure = stream_failure(frame.event, raw)
        return self._take_error(failure) if failure else [*self._take_raw(raw, frame)]

    def _take_error(self, failure: Failure) -> Events:
        """Take an error of the service."""
        return self._fail(failure)

    @abstractmethod
    def _take_raw(self, raw: Json, frame: SseFrame) -> Iterable[ResponseEvent]:
        """Take such a frame that reports no failure, as far as it can be read."""

    def _take_garbage(self, frame: SseFrame) -> Events:
        lines = _lines(frame.data)
        if lines and lines != [frame.data]:
            return [event for line in lines for event in self.feed(structs.replace(frame, data=line))]
        self._is_careful = True
        if (repaired := self._joiner.repaired(frame.data)) is not None:
            return self._take_loose(structs.replace(frame, data=repaired))
        if failure := garbage_failure(frame):
            return self._fail(failure)
        if frame.event == STRAY or not unreadable(frame.data):
            text = frame.data.decode("utf-8", "replace")
            if len(self._odd_text) < LONGEST_PAGE:
                self._odd_text += f"{text}\n"
            return self._odd(Opaque(frame.event, text))
        # Half a frame at the very end is a truncated stream; anywhere else it is the provider's fault.
        self._broken = True
        return ()

    def _odd(self, event: ResponseEvent) -> Events:
        return [event]

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        self._over = True
        return self.blocks.fail(failure, stop or self._stop_reason())

    def _stop_reason(self) -> StopReason | None:
        """Why the response ended, as far as is known."""
        return None


Handlers: TypeAlias = Mapping[str, Callable[[Any, Any, list[ResponseEvent]], None]]


class EventDecoder(LenientDecoder):
    """The base of those whose frames are events, each with its type.

    Some events hold the response as a whole.
    """

    _decode: ClassVar[Callable[[bytes], Any]]
    _event: ClassVar[type[Any]]
    """The Struct of an event, which has a ``type`` and an ``error``."""
    _handlers: ClassVar[Handlers]
    """What an event does, by its type; any other travels on as `Opaque`."""
    _whole: ClassVar[str]
    """The member of an event that is the response as a whole."""
    _known: ClassVar[frozenset[str]]
    """The members of that which are read or of no use."""
    _started: str | None = None  # the response's id, once it has started; perhaps empty

    @property
    def response_id(self) -> str:
        """The service's name for the response; empty where it has not come."""
        return self._started or ""

    @property
    def is_over(self) -> bool:
        """Whether the response has ended or failed."""
        return self._over or self._broken

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if frame.data == DONE:
            return self._take_done()
        if self._is_careful:
            if self._broken:
                return self._fail(BROKEN)
            frame = structs.replace(frame, data=self._joiner.joined(frame.data))
        try:
            event = type(self)._decode(frame.data)
        except UNREADABLE as error:
            return self._take_unread(frame, error)
        events: list[ResponseEvent] = []
        self._take(event if event.type else named_event(event, frame), frame.data, events)
        return events

    def _take_raw(self, raw: Json, frame: SseFrame) -> Events:
        """Take the part that matches its Struct, and emit the rest as `Opaque`."""
        events: list[ResponseEvent] = []
        event, rest = read_loosely(raw, self._event) if isinstance(raw, dict) else (self._event(), {})
        event = named_event(event, frame)
        if rest and self._knows(event.type):  # any other event goes on whole
            events.append(Opaque(event.type, rest))
        self._take(event, frame.data, events)
        return events

    def _take_done(self) -> Events:
        """The mark at the end of some streams."""
        return ()

    def _knows(self, kind: str) -> bool:
        """Whether events of this type are taken."""
        return kind in self._handlers

    def _take(self, event: Any, data: bytes, events: list[ResponseEvent]) -> object:
        """Take an event."""
        kind = event.type
        if kind == ERROR or (event.error and not kind):
            events += self._take_error(error_failure(read_json(data)))
        elif kind in self._handlers:
            self._handlers[kind](self, event, events)
            if getattr(event, self._whole) is not None:
                new = self._heads.new_in(data, kind, self._known, self._whole)
                before_end = len(events) - self._over
                if self._over and before_end and isinstance(events[before_end - 1], Error):
                    before_end -= 1  # nothing but the end follows an error
                events[before_end:before_end] = new
        else:
            raw = read_json(data)
            if isinstance(raw, dict) and raw.get("object") == self._whole:
                events += self.feed(self._last_frame(raw))
            else:
                events.append(Opaque(kind, raw))

    @staticmethod
    @abstractmethod
    def _last_frame(response: JsonObject) -> SseFrame:
        """The last event of a response that came whole, from a server that does not stream."""


def named_event(event: Any, frame: SseFrame) -> Any:
    """An event under its own type, or under its frame's name where it has none."""
    if event.type or (event.error and frame.event == "message"):
        return event
    return structs.replace(event, type=frame.event)


S = TypeVar("S", bound=Struct)

UNIONS = (Union, UnionType)


def read_loosely(raw: JsonObject, kind: type[S]) -> tuple[S, JsonObject]:
    """Split an object into the part that fits the Struct and the rest. Numbers may be texts.

    A value without content, such as ``null``, is not a loss. A name that the Struct does not know counts as one that
    does not fit only if the Struct forbids such names.

    >>> class Message(Struct):
    ...     text: str = ""
    ...     calls: list[dict[str, str]] = []
    >>> read_loosely({"text": "Hi", "calls": [3, {"name": "look"}]}, Message)
    (Message(text='Hi', calls=[{'name': 'look'}]), {'calls': [3]})
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    strict = kind.__struct_config__.forbid_unknown_fields
    fitting: dict[str, Any] = {}
    rest: JsonObject = {}
    for name, value in raw.items():
        field = fields.get(name)
        if field is not None:
            taken, left = _read(value, field.type)
            if taken is not UNSET:
                fitting[field.name] = taken
            if left:
                rest[name] = left
        elif strict and value:
            rest[name] = value
    return kind(**fitting), rest


def _read(value: Json, kind: Any) -> tuple[Any, Json]:
    """Split a value into the part that fits the type and the rest."""
    if kind is Raw:
        return Raw(msgspec.json.encode(value)), None
    try:
        return msgspec.convert(value, kind, strict=False), None
    except msgspec.ValidationError:
        pass
    for one in get_args(kind) if get_origin(kind) in UNIONS else (kind,):
        if isinstance(value, dict) and isinstance(one, type) and issubclass(one, Struct):
            return read_loosely(value, one)
        if isinstance(value, list) and get_origin(one) is list:
            return _read_list(value, get_args(one)[0])
    return UNSET, value


def _read_list(values: list[Json], kind: Any) -> tuple[list[Any], list[Json]]:
    read = [_read(value, kind) for value in values]
    taken = [one for one, _ in read if one is not UNSET]
    return taken, [left for _, left in read if left]
