"""JSON as it arrives: the value that a text has made so far, the arguments of tool calls, and whole calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TypeVar, overload

import msgspec
import reactivex
from msgspec import Struct
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
)
from rxworker.events.arguments import REFUSED, assemble_arguments, parse_arguments, parse_path
from rxworker.framing import Decoder
from rxworker.messages import Json, JsonObject, ToolCall
from rxworker.messages.custom_types import JsonDecoder
from rxworker.messages.json_reader import JsonReader
from rxworker.operators.decode import decoding
from rxworker.operators.expect import EVENTS, expect_choice, refusal
from rxworker.operators.group import announce_blocks, fold_scope
from rxworker.operators.kernel import Operator
from rxworker.state import BlockState, content_of, step_block
from rxworker.state.block import OpenBlocks

T = TypeVar("T")


def partial_json() -> Operator[str, Json]:
    r"""The value that the text has made so far, each time that it has changed.

        --{"a":-"x--y"-,"b":1--}--|
        [ partial_json() ]
        --0-----1--2-----------3--|    0 {}, 1 {a: x}, 2 {a: xy}, 3 {a: xy, b: 1}

    It emits one object that grows: copy it to keep what it was. The cost is linear in the text. Text that is not JSON
    ends it with nothing more to show; the text itself goes its own way.

    >>> from reactivex import of
    >>> of('{"city": "Os', 'lo", "da', 'ys": 3}').pipe(partial_json()).subscribe(print) and None
    {'city': 'Os'}
    {'city': 'Oslo'}
    {'city': 'Oslo', 'days': 3}
    """
    return decoding(_PartialJson, "partial_json()")


class _PartialJson(Decoder[str, Json]):
    """For `partial_json`."""

    def __init__(self) -> None:
        self._reader = JsonReader()

    def feed(self, data: str) -> Sequence[Json]:
        """Take the next piece of the text."""
        if not isinstance(data, str):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise refusal("partial_json()", "texts", data)
        return (self._reader.value,) if self._reader.feed(data) else ()

    def finish(self) -> Sequence[Json]:
        """The text has ended."""
        return (self._reader.value,) if self._reader.finish() else ()


@overload
def partial_values(type_: None = None, *, choice: int = 0) -> Operator[Event, Json]: ...
@overload
def partial_values(type_: type[T], *, choice: int = 0) -> Operator[Event, T]: ...
def partial_values(type_: type[T] | None = None, *, choice: int = 0) -> Operator[Event, Json] | Operator[Event, T]:
    r"""The value that the answer has made so far, when the answer is JSON. Each response begins anew.

        -s-[1,-2]-e-s-{}-e-|    s Status(STARTED), e its end, between them text
        [ partial_values() ]
        ---1----2-----3----|    1 [1], 2 [1, 2], 3 {}

    What holds for `partial_json` holds here: it is one object that grows. With a type, each is a value of its own of
    that type: the most of the value so far that is one. The last member and the last item are left out where they do
    not fit yet, at any depth, and nothing is emitted before the required members are there. A long value is converted
    again when its text has grown by a thirty-second, and at its end, so that the cost is linear in the text. An output
    of a run that is not an object is the ``value`` of its answer, and is taken out.

    Args:
        type_: What the output of a run may be: a Struct, a dataclass, a pydantic model, a list of these.
        choice: The index of the choice whose text is emitted, if the request has several.

    Raises:
        ConfigurationError: It is not a type, or one that cannot be decoded.

    >>> from reactivex import of
    >>> from rxworker.events import TextDelta
    >>> texts = TextDelta(0, '{"city": "Ky'), TextDelta(0, 'oto", "days": [1'), TextDelta(0, '7, 19], "wet')
    >>> of(*texts).pipe(partial_values()).subscribe(print) and None
    {'city': 'Ky'}
    {'city': 'Kyoto', 'days': []}
    {'city': 'Kyoto', 'days': [17, 19]}
    >>> class Forecast(Struct):
    ...     city: str
    ...     days: list[int] = []
    >>> of(*texts).pipe(partial_values(Forecast)).subscribe(print) and None
    Forecast(city='Ky', days=[])
    Forecast(city='Kyoto', days=[])
    Forecast(city='Kyoto', days=[17, 19])
    """
    expect_choice("partial_values", choice)
    if type_ is None:
        return decoding(partial(_PartialValues, choice), "partial_values()", takes_events=True)
    try:
        decoder = JsonDecoder(type_)
    except TypeError as error:
        text = f"partial_values cannot make a {type_!r}: give a type, such as a Struct, a dataclass or a pydantic model"
        raise ConfigurationError(text) from error
    return decoding(lambda: _TypedValues(choice, decoder), "partial_values()", type_, takes_events=True)


class _PartialValues(Decoder[Event, Json]):
    """For `partial_values`.

    Attributes:
        length: How much text there has been.
    """

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._reader = JsonReader()
        self.length = 0

    def feed(self, data: Event) -> Sequence[Json]:
        """Take an event of a response."""
        reader, changed = self._reader, False
        if type(data) is TextDelta:
            if data.choice == self._choice:
                self.length += len(data.text)
                changed = reader.feed(data.text)
        elif isinstance(data, Status):
            changed = reader.finish()
            if data.status is ResponseStatus.STARTED:
                self._reader, self.length = JsonReader(), 0
        elif data.__class__ not in EVENTS:
            raise refusal("partial_values()", "events", data)
        return (reader.value,) if changed else ()


class _TypedValues(Decoder[Event, T]):
    """For `partial_values` with a type."""

    def __init__(self, choice: int, decoder: JsonDecoder[T]) -> None:
        self._values = _PartialValues(choice)
        self._decoder = decoder
        self._changed: Sequence[Json] = ()
        self._next = 0
        self._emitted: Sequence[T] = ()

    def feed(self, data: Event) -> Sequence[T]:
        """Take an event of a response."""
        self._changed = self._values.feed(data) or self._changed
        if isinstance(data, Status):
            found = self.finish()
            self._next, self._emitted = 0, ()
            return found
        length = self._values.length
        if not self._changed or length < self._next:
            return ()
        self._next = length + length // 32
        return self.finish()

    def finish(self) -> Sequence[T]:
        """The value, if there is one that was not emitted."""
        changed, self._changed = self._changed, ()
        try:
            found = [self._longest(value) for value in changed]
        except RecursionError:  # it is nested too deeply
            return ()
        if not found or not found[0] or found[0] == self._emitted:
            return ()
        self._emitted = found[0]
        return found[0]

    def _longest(self, value: Json) -> Sequence[T]:
        """The most of a value that is one of the type; nothing if none of it is."""
        inner = [value["value"]] if isinstance(value, dict) and [*value] == ["value"] else []
        for whole in chain.from_iterable((each, *_shorter(each)) for each in (value, *inner)):
            with suppress(msgspec.ValidationError):
                return (self._decoder.decode(msgspec.json.encode(whole)),)
        return ()


def _shorter(value: Json) -> Iterator[Json]:
    """The value without what came last: the innermost member or item first, then what is around it."""
    if isinstance(value, dict) and value:
        last = next(reversed(value))
        for shorter in _shorter(value[last]):
            yield {**value, last: shorter}
        yield {name: each for name, each in value.items() if name != last}
    elif isinstance(value, list) and value:
        for shorter in _shorter(value[-1]):
            yield [*value[:-1], shorter]
        yield value[:-1]


class ToolInput(Struct, frozen=True, eq=False):
    """The arguments of a tool call so far.

    Attributes:
        index: The block's name within the response.
        id: The id that the result must name.
        name: The tool's name.
        pieces: How many deltas have come.
    """

    index: int
    id: str
    name: str
    pieces: int
    # All views of one call share a list that only grows; each knows how much of it there was in its time.
    _members: list[tuple[str, Json]]
    _count: int
    _whole: JsonObject | str | None = None

    @property
    def complete(self) -> bool:
        """Whether the block has stopped, so that nothing more will come."""
        return self._whole is not None

    @property
    def input(self) -> JsonObject | None:
        """The members that are whole; at the end all of them, or ``None`` where the text was not a JSON object."""
        if self._whole is None:
            return dict(self._members[: self._count])
        return self._whole if isinstance(self._whole, dict) else None

    def __repr__(self) -> str:
        return (
            f"ToolInput(index={self.index}, id={self.id!r}, name={self.name!r}, pieces={self.pieces}, "
            f"complete={self.complete}, input={self.input})"
        )


class _Call:
    """The arguments of one open call."""

    def __init__(self, index: int, metadata: ToolUseMetadata) -> None:
        self.index = index
        self.metadata = metadata
        self.reader = JsonReader()
        self.members = self.reader.members
        self.texts: list[str] = []
        self.values: list[InputValueDelta] = []
        self.settled = 0  # how many of the values belong to members that are whole

    def add(self, delta: InputJsonDelta | InputValueDelta) -> bool:
        """Take a delta; return whether it completed a member."""
        before = len(self.members)
        if isinstance(delta, InputJsonDelta):
            self.texts.append(delta.text)
            self.reader.feed(delta.text)
        else:
            # With values by path, a member is known to be complete only when the next member begins.
            if self.values and parse_path(self.values[-1].path)[:1] != parse_path(delta.path)[:1]:
                self.members.extend(assemble_arguments(self.values[self.settled :]).items())
                self.settled = len(self.values)
            self.values.append(delta)
        return len(self.members) > before

    def view(self, whole: JsonObject | str | None = None) -> ToolInput:
        pieces, call, members = len(self.texts) + len(self.values), self.metadata, self.members
        return ToolInput(self.index, call.id, call.name, pieces, members, len(members), whole)

    def end(self) -> ToolInput:
        text = "".join(self.texts)
        if self.values and not text.endswith(REFUSED):
            return self.view(assemble_arguments(self.values))
        return self.view(text if self.reader.is_broken or self.metadata.is_free_text else parse_arguments(text))


def tool_inputs() -> Operator[Event, ToolInput]:
    r"""The arguments of each tool call so far: whenever a member is complete, and when the block stops.

        -s-{"a":-1,"b-":2}-e-|     s start, e stop, between them the text of the arguments
        [ tool_inputs() ]
        --------1-----2----3-|     1 {a}, 2 {a, b}, 3 {a, b} and complete

    The text is read once, however many pieces it comes in. A call whose block is aborted, or whose response begins
    anew, emits nothing more.

    >>> from reactivex import of
    >>> events = of(
    ...     BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look")),
    ...     InputJsonDelta(0, '{"city": "Os'), InputJsonDelta(0, 'lo", "days"'), InputJsonDelta(0, ": 3}"),
    ... )
    >>> def show(view: ToolInput) -> None:
    ...     print(view.name, view.input)
    >>> events.pipe(tool_inputs()).subscribe(show) and None
    look {'city': 'Oslo'}
    look {'city': 'Oslo', 'days': 3}
    """
    return decoding(_ToolInputs, "tool_inputs()", takes_events=True)


def tool_calls() -> Operator[Event, ToolCall]:
    """The tool calls of a response, each whole, when its block stops.

        -s-d-s'-d'-e-e'-|     s start, d arguments, e stop, of two calls
        [ tool_calls() ]
        -----------1-2--|

    A call whose block is aborted is not emitted. The input of a call whose text is not a JSON object is the text. With
    several choices, those of the first count. An attempt may be retracted after its calls were emitted; ``committed(),
    tool_calls()`` emits none of these.

    >>> from reactivex import of
    >>> events = of(
    ...     BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look")),
    ...     InputJsonDelta(0, '{"city": "Os'), InputJsonDelta(0, 'lo"}'), BlockStop(0, BlockType.TOOL_USE),
    ... )
    >>> events.pipe(tool_calls()).subscribe(print) and None
    ToolCall(id='1', name='look', input={'city': 'Oslo'}, ...)
    """
    blocks = announce_blocks("tool_calls()")

    def apply(source: Observable[Event]) -> Observable[ToolCall]:
        return source.pipe(blocks, fold_scope(step_block, None), ops.flat_map(_calls_of_block))

    return apply


def _calls_of_block(state: BlockState | None) -> Observable[ToolCall]:
    made = None if state is None or state.choice else content_of(state)
    return reactivex.just(made) if isinstance(made, ToolCall) else reactivex.empty()


class _ToolInputs(Decoder[Event, ToolInput]):
    """For `tool_inputs`."""

    def __init__(self) -> None:
        self._calls: OpenBlocks[_Call] = OpenBlocks()

    def feed(self, data: Event) -> Sequence[ToolInput]:
        """Take an event of a response."""
        calls = self._calls
        calls.end_before(data)
        if isinstance(data, InputJsonDelta | InputValueDelta):
            call = calls.get(data.index)
            return (call.view(),) if call is not None and call.add(data) else ()
        if isinstance(data, BlockStart) and data.block_type is BlockType.TOOL_USE:
            calls[data.index] = _Call(data.index, _metadata(data))
        elif isinstance(data, BlockStop | BlockAbort):
            call = calls.pop(data.index, None)
            return (call.end(),) if call is not None and isinstance(data, BlockStop) else ()
        elif data.__class__ not in EVENTS:
            raise refusal("tool_inputs()", "events", data)
        return ()


def _metadata(start: BlockStart) -> ToolUseMetadata:
    return start.metadata if isinstance(start.metadata, ToolUseMetadata) else ToolUseMetadata("", "")
