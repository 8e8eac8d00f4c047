"""Kinds: what a handler can be registered for, the typed events that it receives, and two handlers that collect. Pure.

The collectors compare the type of an event itself, since ``isinstance`` takes five times as long if it is false.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakMethod

from msgspec import Struct
from reactivex import abc
from reactivex.internal import noop

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Error,
    InputJsonDelta,
    InputValueDelta,
    Ping,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.arguments import whole_arguments
from rxworker.events.block import ToolResultMetadata
from rxworker.events.kinds import Deltas
from rxworker.messages import StopReason, ToolCall
from rxworker.messages.settings import check_plain
from rxworker.state.block import call_name

E_co = TypeVar("E_co", covariant=True)


class TextBlockStart(Struct, frozen=True):
    """A text block begins.

    Attributes:
        index: Its name within the response.
        tool_use_id: Which call it is the result of, for a tool result, whose text is text too.
    """

    index: int
    tool_use_id: str | None = None


class TextBlockStop(Struct, frozen=True):
    """A text block is whole.

    Attributes:
        index: Its name within the response.
        stop_reason: Why its choice ended, if the protocol reports it with the block.
    """

    index: int
    stop_reason: StopReason | None = None


class TextBlockAbort(Struct, frozen=True):
    """A text block will not become whole."""

    index: int
    reason: str = ""


TextBlockEvent: TypeAlias = TextBlockStart | TextDelta | CitationDelta | TextBlockStop | TextBlockAbort
"""Any event of a text block."""


class ThinkingBlockStart(Struct, frozen=True):
    """The model begins to think."""

    index: int


class ThinkingBlockStop(Struct, frozen=True):
    """The model has thought."""

    index: int


class ThinkingBlockAbort(Struct, frozen=True):
    """A thinking block will not become whole."""

    index: int
    reason: str = ""


ThinkingBlockEvent: TypeAlias = (
    ThinkingBlockStart | ThinkingDelta | SignatureDelta | ThinkingBlockStop | ThinkingBlockAbort
)
"""Any event of a thinking block."""


class ToolUseBlockStart(Struct, frozen=True):
    """A tool call begins.

    Attributes:
        index: Its name within the response.
        id: The id that the result must name.
        name: The tool's name.
    """

    index: int
    id: str
    name: str


class ToolUseBlockStop(Struct, frozen=True):
    """A tool call's arguments are whole.

    Attributes:
        index: Its name within the response.
        id: The id that the result must name.
        name: The tool's name.
        is_free_text: Whether they are a text that the tool takes as it is.
    """

    index: int
    id: str
    name: str
    is_free_text: bool = False


class ToolUseBlockAbort(Struct, frozen=True):
    """A tool call will not become whole, and must not run.

    Attributes:
        index: Its name within the response.
        id: The id that the result would have named.
        name: The tool's name.
        reason: Shown to users; not interpreted.
    """

    index: int
    id: str
    name: str
    reason: str = ""


ToolUseBlockEvent: TypeAlias = (
    ToolUseBlockStart | InputJsonDelta | InputValueDelta | ToolUseBlockStop | ToolUseBlockAbort
)
"""Any event of a tool call."""


class Kind(Generic[E_co]):
    """An event kind that a handler can be registered for.

    The type parameter is the type of the events it then receives.

    There are the seven of this module; a timeline takes no other.

    The deltas of a block kind are the very delta events of the stream, since they are its most frequent objects.

    Attributes:
        name: Its name, in messages.
        deltas: The deltas that a block of this kind may hold; empty for the kinds of meta events.
    """

    def __init__(self, name: str, *deltas: type[object]) -> None:
        self.name = name
        self.deltas = frozenset(deltas)

    def __repr__(self) -> str:
        return f"Kind({self.name})"


USAGE: Kind[Usage] = Kind("usage")
"""The kind of `Usage`."""
PING: Kind[Ping] = Kind("ping")
"""The kind of `Ping`."""
STATUS: Kind[Status] = Kind("status")
"""The kind of `Status`."""
ERROR: Kind[Error] = Kind("error")
"""The kind of `Error`."""
TEXT_BLOCK: Kind[TextBlockEvent] = Kind("text block", TextDelta, CitationDelta)
"""The kind of the events of a text block, and of the text of tool results."""
THINKING_BLOCK: Kind[ThinkingBlockEvent] = Kind("thinking block", ThinkingDelta, SignatureDelta)
"""The kind of the events of a thinking block."""
TOOL_USE_BLOCK: Kind[ToolUseBlockEvent] = Kind("tool use block", InputJsonDelta, InputValueDelta)
"""The kind of the events of a tool call."""
RETRACT: Kind[str] = Kind("retract")
"""The kind of the reasons of retractions; it has a method of its own."""

KIND_OF_META: dict[type[object], Kind[object]] = {Usage: USAGE, Ping: PING, Status: STATUS, Error: ERROR}
KIND_OF_BLOCK: dict[BlockType, Kind[object]] = {
    BlockType.TEXT: TEXT_BLOCK,
    BlockType.TOOL_RESULT: TEXT_BLOCK,  # text of a tool is read like text of the model
    BlockType.THINKING: THINKING_BLOCK,
    BlockType.TOOL_USE: TOOL_USE_BLOCK,
}

KINDS: tuple[Kind[object], ...] = (*KIND_OF_META.values(), *dict.fromkeys(KIND_OF_BLOCK.values()))


def typed_start(kind: Kind[object], start: BlockStart, _: BlockStart) -> object:
    """The start of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        result = start.metadata
        return TextBlockStart(start.index, result.tool_use_id if isinstance(result, ToolResultMetadata) else None)
    if kind is THINKING_BLOCK:
        return ThinkingBlockStart(start.index)
    return ToolUseBlockStart(start.index, *call_name(start.metadata))


def typed_stop(kind: Kind[object], start: BlockStart, stop: BlockStop) -> object:
    """The stop of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        return TextBlockStop(start.index, stop.stop_reason)
    if kind is THINKING_BLOCK:
        return ThinkingBlockStop(start.index)
    metadata = stop.metadata or start.metadata
    is_free_text = isinstance(metadata, ToolUseMetadata) and metadata.is_free_text
    return ToolUseBlockStop(start.index, *call_name(metadata), is_free_text)


def typed_abort(kind: Kind[object], start: BlockStart, abort: BlockAbort) -> object:
    """The abort of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        return TextBlockAbort(start.index, abort.reason)
    if kind is THINKING_BLOCK:
        return ThinkingBlockAbort(start.index, abort.reason)
    return ToolUseBlockAbort(start.index, *call_name(start.metadata), abort.reason)


TYPED: dict[type[object], Callable[[Kind[object], BlockStart, Any], object]] = {
    BlockStart: typed_start,
    BlockStop: typed_stop,
    BlockAbort: typed_abort,
}


C = TypeVar("C")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
S = TypeVar("S")


class Handler(Protocol[E_contra, S]):
    """Something that handles the events of one kind, with a scope of its own choosing.

    For a block kind each block has its own scope, from its start to its stop or abort. For a meta kind there is one,
    from the registration on.

    It may have more methods. ``on_retract(reason)`` is called when the response so far is retracted, and
    ``begin_response()`` when one begins, before its first event. ``gather(scope, deltas)`` takes deltas of a block that
    came together, as one `Deltas`, if all handlers of the block have it.

    >>> class Shout:
    ...     def scope(self) -> list[str]:
    ...         return []
    ...     def on_event(self, scope: list[str], event: str) -> None:
    ...         scope.append(event.upper())
    >>> shout: Handler[str, list[str]] = Shout()
    """

    def scope(self) -> S:
        """A fresh scope."""
        ...

    def on_event(self, scope: S, event: E_contra, /) -> None:
        """An event, and the scope that it belongs to."""
        ...


HandlerLike: TypeAlias = Handler[E, S] | Callable[[E], None]
"""A handler, or a function that needs no scope."""


class Registration(abc.DisposableBase):
    """A handler where it is registered. Types are known again at both ends.

    Disposing it calls what it was given for that.

    Attributes:
        kind: Which events the handler is for.
        name: Its name, if it holds the event loop.
        scope: Makes a scope.
        on_event: Takes an event, with its scope.
        gather: Takes several deltas of a block together, with its scope; ``None`` where they have to come one by one.
        on_retract: Called with the reason when a response is retracted; ``None`` where the handler has no such method.
        begin: Called when a response begins; ``None`` where the handler has no such method.
    """

    __slots__ = ("_remove", "begin", "gather", "kind", "name", "on_event", "on_retract", "scope")

    def __init__(
        self, kind: Kind[object], handler: HandlerLike[Any, Any], remove: WeakMethod[Callable[[Registration], None]]
    ) -> None:
        self.kind = kind
        known: Any = handler
        if isinstance(handler, type) and hasattr(known, "on_event"):
            name = handler.__name__
            raise ConfigurationError(f"{name} is a class: give a handler, for example {name}()")
        is_handler = hasattr(known, "on_event")
        if is_handler and not hasattr(known, "scope"):
            message = f"{handler!r} has on_event and no scope(), which a handler makes a scope with"
            raise ConfigurationError(message)
        if not is_handler and not callable(handler):
            message = (
                f"{handler!r} is not a handler: give a function of an event, or an object with scope() and on_event()"
            )
            raise ConfigurationError(message)

        self.name = str(getattr(handler, "__name__", type(handler).__name__))
        check_plain(f"the handler {self.name}", known.on_event if is_handler else known)

        def without_scope(_: None, event: Any) -> None:
            known(event)

        self.scope: Callable[[], Any] = known.scope if is_handler else noop
        self.on_event: Callable[[Any, Any], None] = known.on_event if is_handler else without_scope
        self.gather: Callable[[Any, Sequence[Any]], None] | None = getattr(known, "gather", None)
        self.on_retract: Callable[[str], None] | None = getattr(known, "on_retract", None)
        self.begin: Callable[[], None] | None = getattr(known, "begin_response", None)
        self._remove = remove  # weak: the timeline holds this

    def dispose(self) -> None:
        """Remove the handler and its scopes."""
        remove = self._remove()
        if remove is not None:
            remove(self)


def raise_all(failures: list[BaseException]) -> None:
    """Raise the exceptions of the handlers, if any, as one; an interrupt unchanged."""
    for failure in failures:
        if len(failures) == 1 or isinstance(failure, KeyboardInterrupt):
            raise failure
    if failures:
        raise BaseExceptionGroup("several handlers failed", failures)


class _Collector(Generic[C]):
    """A list of collected items. One thread may take it while another collects.

    Args:
        read: Called before the items are read, to collect the items since the last reading.
    """

    def __init__(self, read: Callable[[], None] | None = None) -> None:
        check_plain("read", read)
        self._read = read or noop
        self._collected: list[C | partial[C]] = []  # a partial makes the item when it is read
        self._lock = threading.Lock()
        self._before = 0  # how many of them are from responses before this one

    def collected(self) -> list[C]:
        """A copy of the items collected so far."""
        self._read()
        with self._lock:
            collected = list(self._collected)
        return [_made(item) for item in collected]

    def take_collected(self) -> list[C]:
        """Return the items collected so far, and remove them from the collector."""
        self._read()
        with self._lock:
            taken, self._collected, self._before = self._collected, [], 0
        return [_made(item) for item in taken]

    def clear(self) -> None:
        """Forget what was collected."""
        self._read()
        with self._lock:
            self._collected, self._before = [], 0

    def begin_response(self) -> None:
        """Another response begins: what is collected so far stays."""
        with self._lock:
            self._before = len(self._collected)

    def on_retract(self, reason: str, /) -> None:  # noqa: ARG002 - part of the protocol
        """Drop what was collected of the retracted response, except items that were taken already."""
        with self._lock:
            del self._collected[self._before :]

    def _add(self, item: C | partial[C]) -> None:
        with self._lock:
            self._collected.append(item)


def _made(item: Any) -> Any:
    return item() if item.__class__ is partial else item


class TextBlockCollector(_Collector[str]):
    """Gathers the text of each text block when it stops. Empty and aborted blocks are ignored.

    >>> from rxworker.events import BlockStop, BlockType
    >>> from rxworker.timeline.timeline import Timeline
    >>> timeline, texts = Timeline(), TextBlockCollector()
    >>> registration = timeline.on_text_block(texts)
    >>> timeline.dispatch(TextDelta(0, "hel")); timeline.dispatch(TextDelta(0, "lo"))
    >>> timeline.dispatch(BlockStop(0, BlockType.TEXT))
    >>> texts.collected()
    ['hello']
    """

    def has_content(self) -> bool:
        """Whether a text waits to be taken."""
        self._read()
        return bool(self._collected)

    def scope(self) -> list[str]:
        """The pieces of one block's text."""
        return []

    def on_event(self, scope: list[str], event: TextBlockEvent, /) -> None:
        """Take an event of a text block."""
        if type(event) is TextDelta:
            scope.append(event.text)
        elif type(event) is TextBlockStart:
            scope.clear()
        elif type(event) is TextBlockStop:
            text = "".join(scope)
            if text:
                self._add(text)

    def gather(self, scope: list[str], deltas: Deltas[Any], /) -> None:
        """Take several deltas of a text block."""
        scope.extend(deltas.texts)


class ToolCallCollector(_Collector[ToolCall]):
    """Gathers each tool call when its block stops. Aborted blocks are ignored.

    The input of a call is an object; a call without any text has the input ``{}``. Where the text is not a JSON object,
    the input is the text: that distinguishes a call whose arguments cannot be read.

    >>> from rxworker.events import BlockStart, BlockStop, BlockType, ToolUseMetadata
    >>> from rxworker.timeline.timeline import Timeline
    >>> timeline, calls = Timeline(), ToolCallCollector()
    >>> registration = timeline.on_tool_use_block(calls)
    >>> timeline.dispatch(BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look")))
    >>> timeline.dispatch(InputJsonDelta(0, '{"city": "Oslo"}'))
    >>> timeline.dispatch(BlockStop(0, BlockType.TOOL_USE))
    >>> calls.take_collected()
    [ToolCall(id='1', name='look', input={'city': 'Oslo'}, echo=None)]
    """

    def has_pending_calls(self) -> bool:
        """Whether a call waits to be taken."""
        self._read()
        return bool(self._collected)

    def scope(self) -> list[InputJsonDelta | InputValueDelta]:
        """The pieces of one call's arguments."""
        return []

    def on_event(self, scope: list[InputJsonDelta | InputValueDelta], event: ToolUseBlockEvent, /) -> None:
        """Take an event of a tool call."""
        if type(event) is InputJsonDelta or type(event) is InputValueDelta:
            scope.append(event)
        elif type(event) is ToolUseBlockStop:
            self._add(partial(_call_of, event, scope))

    def gather(self, scope: list[InputJsonDelta | InputValueDelta], deltas: Deltas[Any], /) -> None:
        """Take several pieces of a tool call's arguments."""
        scope.append(InputJsonDelta(deltas.like.index, "".join(deltas.texts)))


def _call_of(event: ToolUseBlockStop, scope: Sequence[InputJsonDelta | InputValueDelta]) -> ToolCall:
    return ToolCall(event.id, event.name, whole_arguments(scope, is_free_text=event.is_free_text))
