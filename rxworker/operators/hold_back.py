"""What a model or a tool writes passes only after a check, for example by a moderation model.

Theory of operation. The text of each block, the JSON text of arguments among them, is cut into pieces of ``ahead``
characters, by default half a window. A window is the piece that passes with it, the piece that follows, and the text
before both, as far as there is room. So a character passes when as many characters follow it in a window that has
passed, or when its block ends, and a phrase of up to so many characters is seen whole by one check before any of it
passes. The windows stand in a `Row`, with all other events, which pass in order: several windows are checked at once.
What a window that was refused shares with the next ones is replaced with it, so these are checked again, without that.

The windows of a reader: escapes in arguments are decoded before they are checked, and a block of text is also checked
together with the end of the one before it, since both are read as one text.

Whatever else carries text (`_WHOLE`) is one value, which passes or is replaced, or is dropped where nothing can replace
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, ProviderError, TextRejectedError
from rxworker.events import (
    BackgroundProgress,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Custom,
    Error,
    Event,
    GateVerdict,
    HookMessage,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    RefusalDelta,
    ResponseStatus,
    SharedStateChange,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolUseMetadata,
)
from rxworker.events.arguments import REFUSED
from rxworker.events.custom import event_name
from rxworker.messages.settings import check_number, check_type
from rxworker.operators.expect import EVENTS, operator, refusal
from rxworker.operators.gate import SEALS, Check, Gate, Piece, Row, Tally, Window, pieces_of, texts_in
from rxworker.operators.kernel import Both, Call, Ending, Operator, Scheduler, Sink, connect
from rxworker.operators.text import Replaced, is_broken_off, with_text
from rxworker.state.block import OpenBlocks

E = TypeVar("E", bound=Event)

_KINDS: dict[type[object], str] = {
    TextDelta: "text",
    RefusalDelta: "refusal",
    ThinkingDelta: "thinking",
    InputJsonDelta: "arguments",
    InputValueDelta: "arguments",
}
_Delta: TypeAlias = TextDelta | RefusalDelta | ThinkingDelta | InputJsonDelta | InputValueDelta
_NOTHING: Piece = ("", "")


def hold_back(
    *checks: Check | Sequence[Check],
    window: int = 400,
    ahead: int | None = None,
    replacement: str | None = None,
    thinking: bool = True,
    at_most: int = 8,
    limit: int = 1_000_000,
) -> Operator[E, E]:
    """Let what a model writes pass only after checks of the window around it have passed.

        -s-a-b-c-e-|           s BlockStart, e BlockStop; a, b, c hold half a window each
        [ hold_back(check) ]
        -s---a-b-(c,v,e)-|     checked: a, ab, bc; v is the verdict

    In ``Worker(operators=[...])`` it is a gate for all that the run records: text, thinking, refusals, the arguments,
    progress and results of tools, citations, custom events, and the same of the runs inside tool calls. Nothing that a
    check refuses reaches a watcher, the log or the conversation; a call whose arguments were refused does not run, and
    the model receives an error. It must be an item of ``operators`` itself: inside another operator, and in a pipe, it
    checks the events of responses alone.

    A check sees up to ``window`` characters of one block, and windows overlap, by default by half: a phrase of up to
    half a window is seen whole before any of it passes. All checks of a window run at once, and so do ``at_most``
    windows; what they allow passes in the order of the events. Escapes in the JSON text of arguments are
    decoded for the check. Held text is dropped when its block is aborted, its response starts again, fails or is
    cancelled, its attempt is retracted, or the source fails. The verdict about each block is a `GateVerdict`.

    Args:
        checks: Functions of a text that return whether it may pass; coroutine functions; functions that return an
            observable; lists of these. All must agree. Make one with `rxworker.worker.model_check`, or of a hook with
            `rxworker.worker.hook_check`.
        window: How many characters a check sees, at least 2.
        ahead: How many characters of text a character waits for, up to half a window; by default half a window. With
            less, text passes earlier, each check still sees a whole window, which begins with text that has passed, and
            there are more checks. The longest phrase of which no part passes is as long.
        replacement: The text that replaces held text that must not pass; the block then continues. What can have no
            such text, such as a custom event, is dropped. By default the stream fails.
        thinking: Whether thinking is checked, too. The signature of thinking that was replaced is dropped, since it no
            longer fits. A provider's copy of a replaced text, which the end of a block may carry, is dropped in any
            case.
        at_most: How many windows are checked at once; further ones wait.
        limit: How many characters may wait. In a run, the connection to the model is not read while half as many do;
            one read may bring 256 KiB. If more wait, since the source cannot wait, the stream fails.

    Raises:
        ConfigurationError: There is no check, one is not callable, the window is less than 2, or a number less than 1.
        TextRejectedError: Through ``on_error``: a text must not pass, and there is no replacement.
        RxWorkerError: Through ``on_error``: a check was cancelled, or too much waits.

    >>> from reactivex import of
    >>> from rxworker.operators import text_deltas
    >>> def is_clean(text: str) -> bool:
    ...     return "hunter2" not in text
    >>> events = of(TextDelta(0, "It is hun"), TextDelta(0, "ter2."), TextDelta(1, "Bye."))
    >>> clean = events.pipe(hold_back(is_clean, window=20, replacement="***"), text_deltas())
    >>> clean.subscribe(print) and None
    ***
    Bye.
    """
    several = _several(checks)
    check_number("hold_back(window)", window, least=2, whole=True)
    ahead = window // 2 if ahead is None else ahead
    check_number("hold_back(ahead)", ahead, least=1, whole=True)
    if window < 2 * ahead:
        raise ConfigurationError(f"hold_back(ahead)={ahead}: give at most half the window, which is {window}")
    check_type("hold_back(replacement)", replacement, str, 'replacement="***"', optional=True)
    check_number("hold_back(at_most)", at_most, least=1, whole=True)
    check_number("hold_back(limit)", limit, least=1, whole=True)
    named = tuple([(getattr(check, "__name__", type(check).__name__), check) for check in several])
    gate = Gate(named, window, ahead, replacement, thinking, at_most, limit)

    def subscribe(source: Observable[E], observer: abc.ObserverBase[E], scheduler: Scheduler) -> abc.DisposableBase:
        ending = Ending(observer)
        blocks = _Blocks[E](Row(gate, observer.on_next, ending.on_error), ending)
        return Both(connect(source, Sink(blocks.take, blocks.fail, blocks.finish), scheduler), Call(blocks.dispose))

    made: Operator[E, E] = operator(subscribe, "hold_back(...)", *several, takes_events=True)
    vars(made)["gate"] = gate
    return made


def _several(checks: Sequence[Check | Sequence[Check]]) -> list[Check]:
    several: list[Check] = []
    for each in checks:
        several += each if isinstance(each, Sequence) else (each,)
    for check in several or (None,):
        if not callable(check):
            raise ConfigurationError(f"hold_back({check!r:.60}): give a function that takes a text and returns a bool")
    return several


@dataclass(slots=True, eq=False)
class _Stream:
    """The text of one block that does not stand in the row.

    Attributes:
        like: A delta of the block, with any text.
        tally: The windows of the block so far.
        context: The end of the text before the block, which a reader joins with it.
        behind: The text that the next window sees and that does not pass with it.
        once: The piece that stands in the row and passes with the next window.
        last: The last window.
        pieces: The text after these.
        length: The characters in it.
        is_json: Whether escapes of JSON in it stand for characters.
        has_passed: Whether any of it has.
    """

    like: _Delta
    tally: Tally
    context: str = ""
    behind: str = ""
    once: Piece = _NOTHING
    last: _Part | None = None
    pieces: list[str] = field(default_factory=list[str])
    length: int = 0
    is_json: bool = False
    has_passed: bool = False


class _Part(Window):
    """A window of the text of a block: a piece that passes with it, the piece that follows, and what is behind both."""

    __slots__ = ("after", "before", "behind", "context", "next", "stream")

    def __init__(self, stream: _Stream, after: Piece, *, is_last: bool) -> None:
        self.stream = stream
        self.behind, self.before = stream.behind, stream.once
        self.after = after
        self.context = stream.context if stream.last is None else ""
        self.next: _Part | None = None
        super().__init__(self.seen, stream.tally, is_last=is_last)

    @property
    def seen(self) -> tuple[str, ...]:
        """What the checks receive. A piece that nothing follows was checked."""
        text = self.behind + self.before[1] + self.after[1]
        if not self.after[1]:
            return ()
        return (text, self.context + text) if self.context else (text,)


class _Blocks(Generic[E]):
    """Cuts the events of a response into windows. One subscription's."""

    def __init__(self, row: Row[E], ending: Ending) -> None:
        self._row = row
        self._ending = ending
        self._gate = row.gate
        self._ahead = row.gate.ahead
        kinds = {kind: None for kind in _KINDS if row.gate.thinking or kind is not ThinkingDelta}
        self._streamed = frozenset(kinds)
        self._streams: dict[tuple[int, type[object]], _Stream] = {}
        self._ends: dict[tuple[type[object], int], str] = {}  # of the texts that a reader joins
        self._whole: dict[int, list[str]] = {}  # the text of each block so far, by its index
        # A signature is held until the thinking before it has passed.
        self._signatures: dict[int, list[E]] = {}
        self._unsigned: set[int] = set()
        self._free_text: set[int] = set()
        self._refused: set[int] = set()  # the blocks whose arguments were
        self._names: set[str] = set()  # of tools, that have passed
        self._replaced = Replaced()
        self._response = OpenBlocks[object]()  # knows when it begins anew

    def take(self, item: E) -> None:
        """Hold the text of an event, or let the event pass in its turn."""
        event: Any = item
        kind = event.__class__
        if kind in self._streamed:
            self._add(event, kind)
        elif kind is BlockStop:
            self._end(event.index)
            self._stop(event)
        elif kind is SignatureDelta and self._gate.thinking:
            self._signatures.setdefault(event.index, []).append(item)
        elif (row := whole_of(event)) is not None:
            if kind is BlockStart:
                self._start(event)
            self._put_whole(item, row)
        else:
            self._pass_on(item)

    def _pass_on(self, item: E) -> None:
        event: object = item
        if self._response.begins_anew(item) is not None or is_broken_off(event):
            self._streams.clear()
            self._signatures.clear()
            self._ends.clear()
            self._row.then(self._replaced.clear)
        elif isinstance(event, BlockAbort):
            self._drop(event.index)
        elif isinstance(event, Status):
            if event.status is ResponseStatus.COMPLETED:
                self._end_all()
            self._put_whole(item, _STATUS)
            return
        elif event.__class__ not in EVENTS:
            self._row.then(partial(self._row.fail, refusal("hold_back(...)", "events", event)))
            return
        self._row.pass_on(item)

    def fail(self, error: Exception) -> None:
        """Forward the error of the source in its turn; that of a provider may have text of the model."""
        texts = [str(error)] if isinstance(error, ProviderError) else []
        failed = partial(self._row.fail, error)
        self._row.put_value(texts, Tally("error"), failed, partial(self._row.fail, TextRejectedError(_ERROR)))

    def finish(self) -> None:
        """Check all that is held, let it pass, and complete."""
        self._end_all()
        self._row.then(self._ending.on_completed)

    def dispose(self) -> None:
        """Cancel the checks, and emit nothing more."""
        self._ending.end()
        self._row.dispose()

    def _start(self, start: BlockStart) -> None:
        index, metadata = start.index, start.metadata
        self._drop(index)
        if isinstance(metadata, ToolUseMetadata) and metadata.is_free_text:
            self._free_text.add(index)
        if self._unsigned or self._refused:
            self._row.then(partial(self._unsigned.discard, index))
            self._row.then(partial(self._refused.discard, index))

    def _drop(self, index: int) -> None:
        self._signatures.pop(index, None)
        self._whole.pop(index, None)
        self._free_text.discard(index)
        for kind in self._streamed:
            self._streams.pop((index, kind), None)

    def _add(self, event: Any, kind: type[object]) -> None:
        key = (event.index, kind)
        stream = self._streams.get(key)
        if kind is InputValueDelta:
            if stream is not None and not (event.append and event.path == cast("Any", stream.like).path):
                self._cut(self._streams.pop(key), is_last=True)
                stream = None
            if not isinstance(event.value, str):
                self._put_whole(event, _VALUE)
                return
        if stream is None:
            stream = self._streams[key] = self._stream(event, kind)
        text = event.value if kind is InputValueDelta else event.text
        stream.pieces.append(text)
        stream.length += len(text)
        if stream.length >= self._ahead:
            self._cut(stream)

    def _stream(self, event: Any, kind: type[object]) -> _Stream:
        tally = Tally(_KINDS[kind], event.index)
        if kind is InputJsonDelta:
            return _Stream(event, tally, is_json=event.index not in self._free_text)
        if kind is InputValueDelta:
            return _Stream(event, tally, event.path, has_passed=event.append)
        return _Stream(event, tally, self._ends.get((kind, event.choice), ""))

    def _cut(self, stream: _Stream, *, is_last: bool = False) -> None:
        text = "".join(stream.pieces)
        pieces, rest = pieces_of(text, self._ahead, is_json=stream.is_json, is_last=is_last)
        stream.pieces, stream.length = [rest], len(rest)
        self._whole.setdefault(stream.like.index, []).append(text[: len(text) - len(rest)])
        like = stream.like
        for number, piece in enumerate(pieces, 1):
            part = _Part(stream, piece, is_last=is_last and number == len(pieces))
            part.passed = partial(self._pass, part)
            part.refused = partial(self._refuse, part)
            if stream.last is not None:
                stream.last.next = part
            stream.behind = self._behind(stream.behind, stream.once)
            stream.last, stream.once = part, piece
            if isinstance(like, TextDelta | ThinkingDelta | RefusalDelta):
                key = (type(like), like.choice)
                self._ends[key] = (self._ends.get(key, "") + piece[1])[-self._ahead :]
            self._row.put(part)

    def _end_all(self) -> None:
        for index in {index for index, _ in self._streams} | set(self._signatures):
            self._end(index)

    def _end(self, index: int) -> None:
        for key in [key for key in self._streams if key[0] == index]:
            self._cut(self._streams.pop(key), is_last=True)
        if signatures := self._signatures.pop(index, None):
            self._row.then(partial(self._sign, index, signatures))

    def _sign(self, index: int, signatures: list[E]) -> None:
        if index not in self._unsigned:
            for signature in signatures:
                self._row.emit(signature)

    def _pass(self, part: _Part) -> None:
        self._emit(part.stream, part.before[0] + (part.after[0] if part.is_last else ""))

    def _refuse(self, part: _Part) -> None:
        stream, like, text = part.stream, part.stream.like, part.before[0] + part.after[0]
        self._replaced.add(like.index, text)
        if isinstance(like, InputJsonDelta | InputValueDelta):
            if like.index not in self._refused:
                self._refused.add(like.index)
                self._row.emit(cast("E", InputJsonDelta(like.index, REFUSED)))
            return
        if isinstance(like, ThinkingDelta):
            self._unsigned.add(like.index)
        self._emit(stream, self._gate.replacement or "")
        behind, before, following = "", _NOTHING, part.next
        while following is not None and (following.behind, following.before) != (behind, before):
            following.behind, following.before = behind, before
            self._row.again(following, following.seen)
            behind, before, following = self._behind(behind, before), following.after, following.next
        if following is None:
            stream.behind, stream.once = behind, before

    def _behind(self, behind: str, passed: Piece) -> str:
        """What a window sees that does not pass with it, after another piece."""
        size = self._gate.window - 2 * self._ahead
        return (behind + passed[1])[-size:] if size else ""

    def _emit(self, stream: _Stream, text: str) -> None:
        like = stream.like
        if not text or like.index in self._refused:
            return
        made: object
        if isinstance(like, InputJsonDelta):
            made = InputJsonDelta(like.index, text)
        elif isinstance(like, InputValueDelta):
            made = InputValueDelta(like.index, like.path, text, append=stream.has_passed)
        else:
            made = with_text(like, text)
        stream.has_passed = True
        self._row.emit(cast("E", made))

    def _stop(self, stop: BlockStop) -> None:
        whole = "".join(self._whole.pop(stop.index, ()))
        echo = stop.echo if self._gate.thinking or stop.block_type is not BlockType.THINKING else None
        carried = texts_in((echo, stop.stop_reason and stop.stop_reason.detail, _name(stop)), SEALS)
        texts = [text for text in carried if text not in whole and text not in self._names]

        def passed() -> None:
            self._row.emit(cast("E", self._replaced.strip(stop)))

        def refused() -> None:
            reason = stop.stop_reason and replace(stop.stop_reason, detail=None)
            self._row.emit(cast("E", replace(_renamed(stop), echo=None, stop_reason=reason)))

        self._row.put_value(texts, Tally("echo", stop.index), passed, refused)

    def _put_whole(self, item: E, row: Whole) -> None:
        """Check an event that is whole, but for the names of tools that have passed."""
        event: Any = item
        kind, texts_of, replaced = row
        seals = SEALS if kind in _ECHOES else ()
        texts = [text for text in texts_in(texts_of(event), seals) if text not in self._names]
        tally = Tally(kind, getattr(event, "index", None), getattr(event, "call_id", ""))

        def passed() -> None:
            name = _name(event)
            if name and len(self._names) < _NAMES:
                self._names.add(name)
            if kind != "arguments" or event.index not in self._refused:
                self._row.emit(item)

        def refused() -> None:
            if kind == "arguments" and event.index in self._refused:
                return
            left = replaced(event, self._gate.replacement or "")
            if left is not None:
                self._row.emit(left)
            if kind == "arguments":
                self._refused.add(event.index)

        self._row.put_value(texts, tally, passed, refused)


_ERROR = "the check of hold_back rejected the text of an error of the provider"
_ECHOES = ("block", "end", "citation")
"""What a provider requires back, among others: it has seals."""
_NAMES = 1000
"""How many names of tools are remembered."""


def _name(event: object) -> str:
    metadata = getattr(event, "metadata", None)
    return metadata.name if isinstance(metadata, ToolUseMetadata) else ""


def _renamed(event: Any) -> Any:
    metadata = event.metadata
    return replace(event, metadata=replace(metadata, name="held_back")) if _name(event) else event


def _dropped(_: object, __: str) -> None:
    """Nothing stands for it but the verdict."""


Whole: TypeAlias = tuple[str, Callable[[Any], object], Callable[[Any, str], Any]]
"""What an event is, its texts, and what stands for it where they are refused."""

_VALUE: Whole = ("arguments", lambda e: (e.path, e.value), lambda e, _: InputJsonDelta(e.index, REFUSED))
_STATUS: Whole = (
    "end",
    lambda e: (e.stop_reason and e.stop_reason.detail, e.echo),
    lambda e, _: replace(e, echo=None, stop_reason=e.stop_reason and replace(e.stop_reason, detail=None)),
)
_WHOLE: dict[type[object], Whole] = {
    BlockStart: ("block", lambda e: (_name(e), e.echo), lambda e, _: replace(_renamed(e), echo=None)),
    CitationDelta: ("citation", lambda e: e.citation, _dropped),
    Opaque: ("event", lambda e: e.raw, _dropped),
    Error: ("error", lambda e: e.message, lambda e, text: replace(e, message=text)),
    Custom: ("event", lambda e: (e.name, e.data), _dropped),
    ToolProgress: ("progress", lambda e: e.progress, _dropped),
    BackgroundProgress: ("progress", lambda e: e.progress, _dropped),
    HookMessage: ("event", lambda e: (e.content, e.data), _dropped),
    SharedStateChange: ("state", lambda e: (e.path, e.value), _dropped),
}
"""The events that are checked whole."""
_VERDICT = event_name(GateVerdict)


def whole_of(event: object) -> Whole | None:
    """How an event is checked whole; ``None`` if it is not, such as a verdict.

    >>> whole_of(ToolProgress("call_1", "half"))[0]
    'progress'
    """
    is_verdict = isinstance(event, Custom) and event.name == _VERDICT
    return None if is_verdict else _WHOLE.get(event.__class__)
