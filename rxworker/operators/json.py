"""Tool calls: their arguments as they arrive, one member of the object at a time, and the calls when they are whole.

And the value that JSON text has made so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import reactivex
from msgspec import Struct
from reactivex import Observable
from reactivex import operators as ops

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
from rxworker.messages.json_reader import JsonReader
from rxworker.operators.decode import decoding
from rxworker.operators.expect import EVENTS, expect_choice, refusal
from rxworker.operators.group import announce_blocks, fold_scope
from rxworker.operators.kernel import Operator
from rxworker.state import BlockState, content_of, step_block
from rxworker.state.open_blocks import OpenBlocks


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


def partial_values(choice: int = 0) -> Operator[Event, Json]:
    r"""The value that the answer has made so far, when the answer is JSON. Each response begins anew.

        -s-[1,-2]-e-s-{}-e-|    s Status(STARTED), e its end, between them text
        [ partial_values() ]
        ---1----2-----3----|    1 [1], 2 [1, 2], 3 {}

    What holds for `partial_json` holds here: it is one object that grows.

    Args:
        choice: The index of the choice whose text is emitted, if the request has several.

    >>> from reactivex import of
    >>> from rxworker.events import TextDelta
    >>> texts = of(TextDelta(0, '{"city": "Ky'), TextDelta(0, 'oto"}'))
    >>> texts.pipe(partial_values()).subscribe(print) and None
    {'city': 'Ky'}
    {'city': 'Kyoto'}
    """
    expect_choice("partial_values", choice)
    return decoding(partial(_PartialValues, choice), "partial_values()", takes_events=True)


class _PartialValues(Decoder[Event, Json]):
    """For `partial_values`."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._reader = JsonReader()

    def feed(self, data: Event) -> Sequence[Json]:
        """Take an event of a response."""
        changed = False
        if type(data) is TextDelta:
            changed = data.choice == self._choice and self._reader.feed(data.text)
        elif isinstance(data, Status):
            changed = self._reader.finish()
            if data.status is ResponseStatus.STARTED:
                self._reader = JsonReader()
        elif data.__class__ not in EVENTS:
            raise refusal("partial_values()", "events", data)
        return (self._reader.value,) if changed else ()


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
