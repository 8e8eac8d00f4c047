"""The arguments of tool calls as they arrive."""

from __future__ import annotations

from reactivex import Observable, abc

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    Record,
    ToolUseMetadata,
)
from rxworker.events.arguments import assemble_arguments, parse_arguments, parse_path
from rxworker.messages import Json, JsonObject
from rxworker.operators.members import MemberScanner
from rxworker.operators.records import expect_events, records_given
from rxworker.operators.stage import Sink, stage
from rxworker.operators.types import Operator


class ToolInput:
    """What is known of a tool call's arguments so far.

    Attributes:
        index: The block's name within the response.
        id: What the result must name.
        name: The tool's name.
        pieces: How many deltas have come.
        complete: Whether the block has stopped, so that nothing more will come.
    """

    __slots__ = ("_count", "_members", "_whole", "complete", "id", "index", "name", "pieces")

    def __init__(
        self,
        index: int,
        id: str,  # noqa: A002 - the word that messages use
        name: str,
        pieces: int,
        members: list[tuple[str, Json]],
        whole: JsonObject | str | None = None,
    ) -> None:
        self.index = index
        self.id = id
        self.name = name
        self.pieces = pieces
        self.complete = whole is not None
        # All views of one call share a list that only grows; each knows how much of it there was in its time.
        self._members = members
        self._count = len(members)
        self._whole = whole

    @property
    def input(self) -> JsonObject | None:
        """The members that are whole; at the end all of them, or ``None`` where the text was no JSON object."""
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
        self.members: list[tuple[str, Json]] = []
        self.texts: list[str] = []
        self.values: list[InputValueDelta] = []
        self.scanner = MemberScanner()
        self.settled = 0  # how many of the values belong to members that are whole

    def add(self, delta: InputJsonDelta | InputValueDelta) -> bool:
        """Take a delta; tell whether it completed a member."""
        before = len(self.members)
        if isinstance(delta, InputJsonDelta):
            self.texts.append(delta.text)
            self.members.extend(self.scanner.feed(delta.text))
        else:
            # A value by path tells that a member is whole only when the next member begins.
            if self.values and parse_path(self.values[-1].path)[:1] != parse_path(delta.path)[:1]:
                self.members.extend(assemble_arguments(self.values[self.settled :]).items())
                self.settled = len(self.values)
            self.values.append(delta)
        return len(self.members) > before

    def view(self, whole: JsonObject | str | None = None) -> ToolInput:
        pieces = len(self.texts) + len(self.values)
        return ToolInput(
            self.index, self.metadata.id, self.metadata.name, pieces, self.members, whole
        )

    def end(self) -> ToolInput:
        if self.values:
            return self.view(assemble_arguments(self.values))
        if self.scanner.is_broken:
            return self.view("".join(self.texts))
        text = "".join(self.texts)
        return self.view(text if self.metadata.is_free_text else parse_arguments(text))


def tool_inputs() -> Operator[Event, ToolInput]:
    r"""What is known of each tool call's arguments: whenever a member became whole, and when the block stops.

        -s-{"a":-1,"b-":2}-e-|     s start, e stop, between them the text of the arguments
        [ tool_inputs() ]
        --------1-----2----3-|     1 {a}, 2 {a, b}, 3 {a, b} and complete

    The text is read once, however many pieces it comes in. A call whose block is aborted emits nothing more.

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

    def apply(source: Observable[Event]) -> Observable[ToolInput]:
        expect_events(source, "tool_inputs()")
        return stage(source, _read)

    return apply


def _read(observer: abc.ObserverBase[ToolInput]) -> Sink[Event]:
    calls: dict[int, _Call] = {}

    def on_next(event: Event | Record) -> None:
        if isinstance(event, InputJsonDelta | InputValueDelta):
            call = calls.get(event.index)
            if call is not None and call.add(event):
                observer.on_next(call.view())
        elif isinstance(event, BlockStart):
            calls.pop(event.index, None)
            if event.block_type is BlockType.TOOL_USE:
                calls[event.index] = _Call(event.index, _metadata(event))
        elif isinstance(event, BlockStop):
            call = calls.pop(event.index, None)
            if call is not None:
                observer.on_next(call.end())
        elif isinstance(event, BlockAbort):
            calls.pop(event.index, None)
        elif isinstance(event, Record):
            raise records_given("tool_inputs()")

    return Sink(on_next, observer.on_error, observer.on_completed)


def _metadata(start: BlockStart) -> ToolUseMetadata:
    return (
        start.metadata if isinstance(start.metadata, ToolUseMetadata) else ToolUseMetadata("", "")
    )


__all__ = ["ToolInput", "tool_inputs"]
