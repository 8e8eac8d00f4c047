"""Tool calls: their arguments as they arrive, one member of the object at a time, and the calls when they are whole.

And the value that JSON text has made so far.
"""

from __future__ import annotations

import reactivex
from msgspec import Struct
from reactivex import Observable, abc
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
from rxworker.events.arguments import assemble_arguments, parse_arguments, parse_path
from rxworker.messages import Json, JsonObject, ToolCall
from rxworker.messages.json_reader import JsonReader
from rxworker.operators.expect import EVENTS, expect_choice, no_event, no_text, observing
from rxworker.operators.group import announce_blocks, fold_scope
from rxworker.operators.kernel import Ending, Operator, Sink
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
    return observing(_read_text, "partial_json()")


def _read_text(observer: abc.ObserverBase[Json]) -> Sink[str]:
    reader = JsonReader()
    ending = Ending(observer)

    def on_next(text: str) -> None:
        if ending.is_over:
            return
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            ending.on_error(no_text("partial_json()", text))
        elif reader.feed(text):
            observer.on_next(reader.value)

    def on_completed() -> None:
        if not ending.is_over and reader.finish():
            observer.on_next(reader.value)
        ending.on_completed()

    return Sink(on_next, ending.on_error, on_completed)


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

    def make(observer: abc.ObserverBase[Json]) -> Sink[Event]:
        reader = JsonReader()
        ending = Ending(observer)

        def on_next(event: Event) -> None:
            nonlocal reader
            if ending.is_over:
                return
            changed = False
            if type(event) is TextDelta:
                changed = event.choice == choice and reader.feed(event.text)
            elif isinstance(event, Status):
                changed = reader.finish()
                if event.status is ResponseStatus.STARTED:
                    reader = JsonReader()
            elif event.__class__ not in EVENTS:
                ending.on_error(no_event("partial_values()", event))
            if changed:
                observer.on_next(reader.value)

        return Sink(on_next, ending.on_error, ending.on_completed)

    return observing(make, "partial_values()", takes_events=True)


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
        if self.values:
            return self.view(assemble_arguments(self.values))
        if self.reader.is_broken:
            return self.view("".join(self.texts))
        text = "".join(self.texts)
        return self.view(text if self.metadata.is_free_text else parse_arguments(text))


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
    return observing(_read, "tool_inputs()", takes_events=True)


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


def _read(observer: abc.ObserverBase[ToolInput]) -> Sink[Event]:
    calls: OpenBlocks[_Call] = OpenBlocks()
    ending = Ending(observer)

    def on_next(event: Event) -> None:
        if ending.is_over:
            return
        calls.end_before(event)
        if isinstance(event, InputJsonDelta | InputValueDelta):
            call = calls.get(event.index)
            if call is not None and call.add(event):
                observer.on_next(call.view())
        elif isinstance(event, BlockStart):
            if event.block_type is BlockType.TOOL_USE:
                calls[event.index] = _Call(event.index, _metadata(event))
        elif isinstance(event, BlockStop):
            call = calls.pop(event.index, None)
            if call is not None:
                observer.on_next(call.end())
        elif isinstance(event, BlockAbort):
            calls.pop(event.index, None)
        elif event.__class__ not in EVENTS:
            ending.on_error(no_event("tool_inputs()", event))

    return Sink(on_next, ending.on_error, ending.on_completed)


def _metadata(start: BlockStart) -> ToolUseMetadata:
    return start.metadata if isinstance(start.metadata, ToolUseMetadata) else ToolUseMetadata("", "")
