"""Text that passes only after a check, for example by a moderation model.

Theory of operation. The text of each block is checked in windows that overlap by half. A character passes when a window
has passed in which at least half a window of text follows it, or in which its block ends. So a phrase of up to half a
window is seen whole by one check before any of it passes. Events are handled one at a time: while a check is awaited,
whatever arrives waits after it, in order.

Whatever is not checked never passes: a check that raises, answers with something other than a bool, or is cancelled,
and an item that is not an event, end the stream with an error, and what was held is dropped.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeAlias, TypeVar, cast

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, RxWorkerError, TextRejectedError, as_exception
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    Event,
    Record,
    RefusalDelta,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
)
from rxworker.messages.settings import check_number
from rxworker.operators.expect import EVENTS, operator, refusal
from rxworker.operators.kernel import Both, Call, Ending, Operator, Scheduler, Sink, connect
from rxworker.operators.text import WRITTEN, BlockKey, Replaced, WrittenDelta, is_broken_off, with_text
from rxworker.state.open_blocks import OpenBlocks

E = TypeVar("E", bound=Event)

Check: TypeAlias = Callable[[str], bool | Awaitable[bool]]
"""Whether a text may pass. An observable of a bool can be awaited, so it will do as well."""

_Checking: TypeAlias = Generator[str, bool, None]
"""The handling of one event: yields the texts to check, and is sent whether each may pass."""


def hold_back(
    check: Check, *, window: int = 400, replacement: str | None = None, thinking: bool = False
) -> Operator[E, E]:
    """Let text pass only after a check of the window around it has passed.

        -s-a-b-c-e-|           s BlockStart, e BlockStop; a, b, c hold half a window each
        [ hold_back(check) ]
        -s---a-b-(c,e)-|       checked: a, ab, bc

    The check sees up to ``window`` characters of one block, and each window overlaps the one before it by half: a
    phrase of up to half a window is seen whole before any of it passes. At the end of a block the rest is checked and
    passes. Held text is dropped when its block is aborted, its response starts again, fails or is cancelled, its
    attempt is retracted, or the source fails. Other events pass at once, in order; while an asynchronous check is
    awaited, everything that follows waits, so at most one response is held.

    Tool arguments are not checked; a hook at ``before_tool_call`` sees them whole.

    Args:
        check: Whether a text may pass: a function, or a coroutine function.
        window: How many characters a check sees, at least 2. Text is delayed by half of it.
        replacement: The text that replaces held text that must not pass; the block then continues. By default the
            stream fails.
        thinking: Whether thinking is checked, too. By default it passes unchecked. The signature of thinking that was
            replaced is dropped, since it no longer fits. A provider's copy of a replaced text, which the end of a block
            may carry, is dropped in any case.

    Raises:
        ConfigurationError: The check is not callable, or the window is less than 2.
        TextRejectedError: Through ``on_error``: a text must not pass, and there is no replacement.

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
    if not callable(check):
        raise ConfigurationError(f"hold_back({check!r:.60}): give a function that takes a text and returns a bool")
    check_number("hold_back(window)", window, least=2, whole=True)

    def subscribe(source: Observable[E], observer: abc.ObserverBase[E], scheduler: Scheduler) -> abc.DisposableBase:
        blocks = _HeldBlocks[E](observer.on_next, window // 2, replacement, thinking)
        return _Checks(check, blocks, observer).follow(source, scheduler)

    return operator(subscribe, "hold_back(...)", check, takes_events=True)


@dataclass(slots=True)
class _HeldText:
    """The text of one block that has not passed.

    Attributes:
        like: A delta of the block, with any text.
        once: Half a window that one check has seen; the next check sees it again, in front of what follows.
        pieces: The text that no check has received.
        length: The characters in these.
    """

    like: WrittenDelta
    once: str = ""
    pieces: list[str] = field(default_factory=list[str])
    length: int = 0

    def add(self, text: str) -> None:
        """Hold another piece."""
        self.pieces.append(text)
        self.length += len(text)

    def take(self) -> str:
        """Return the text that no check has received, as one text, and no longer hold it."""
        text = "".join(self.pieces)
        self.pieces.clear()
        self.length = 0
        return text


class _HeldBlocks(Generic[E]):
    """Decides what is checked and when, and emits what passes. One subscription's."""

    def __init__(self, push: Callable[[E], None], half: int, replacement: str | None, thinking: bool) -> None:
        self._push = push
        self._half = half
        self._replacement = replacement
        self._kinds = WRITTEN if thinking else (TextDelta, RefusalDelta)
        self._held: dict[BlockKey, _HeldText] = {}
        self._checks_thinking = thinking
        # A signature is held until the thinking before it has passed.
        self._signatures: dict[int, list[E]] = {}
        self._unsigned: set[int] = set()
        self._replaced = Replaced()
        self._response = OpenBlocks[object]()  # knows when it begins anew

    def handle(self, item: E) -> _Checking:
        """Hold the text of an event, or let the event pass."""
        event: object = item
        if isinstance(event, self._kinds):
            key = (event.index, type(event))
            held = self._held.get(key) or self._held.setdefault(key, _HeldText(event))
            held.add(event.text)
            if held.length >= self._half:
                yield from self._check_halves(held)
            return
        if self._response.begins_anew(item) is not None or is_broken_off(event):
            self._held.clear()
            self._signatures.clear()
            self._replaced.clear()
        elif isinstance(event, BlockStop):
            yield from self._end(event.index)
            item = cast(E, self._replaced.strip(event))
        elif isinstance(event, BlockStart | BlockAbort):
            self._unsigned.discard(event.index)
            self._signatures.pop(event.index, None)
            for kind in self._kinds:
                self._held.pop((event.index, kind), None)
        elif isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            yield from self.finish()
        elif isinstance(event, SignatureDelta) and self._checks_thinking:
            self._signatures.setdefault(event.index, []).append(item)
            return
        elif event.__class__ not in EVENTS:
            raise refusal("hold_back(...)", "events", event)
        self._push(item)

    def finish(self) -> _Checking:
        """Check all that is held, and let it pass."""
        for index in {index for index, _ in self._held} | set(self._signatures):
            yield from self._end(index)

    def _end(self, index: int) -> _Checking:
        for key in [key for key in self._held if key[0] == index]:
            held = self._held.pop(key)
            rest = held.take()
            if not rest or (yield held.once + rest):
                self._emit(held, held.once + rest)
            else:
                self._reject(held, held.once + rest)
        signatures = self._signatures.pop(index, ())
        if index not in self._unsigned:
            for signature in signatures:
                self._push(signature)

    def _check_halves(self, held: _HeldText) -> _Checking:
        text = held.take()
        begin = 0
        while len(text) - begin >= self._half:
            half = text[begin : begin + self._half]
            begin += self._half
            if (yield held.once + half):
                self._emit(held, held.once)
                held.once = half
            else:
                self._reject(held, held.once + half)
                held.once = ""
        held.add(text[begin:])

    def _reject(self, held: _HeldText, text: str) -> None:
        if self._replacement is None:
            raise TextRejectedError("a text was held back: the check of hold_back rejected it")
        self._replaced.add(held.like.index, text)
        if isinstance(held.like, ThinkingDelta):
            self._unsigned.add(held.like.index)
        self._emit(held, self._replacement)

    def _emit(self, held: _HeldText, text: str) -> None:
        if text:
            self._push(cast(E, with_text(held.like, text)))


class _Checks(Ending, Generic[E]):
    """One subscription: handles the events one after the other, and calls the check."""

    def __init__(self, check: Check, blocks: _HeldBlocks[E], observer: abc.ObserverBase[E]) -> None:
        super().__init__(observer, self._stop)
        self._check = check
        self._blocks = blocks
        self._waiting: deque[_Checking] = deque()
        self._texts: _Checking | None = None  # of the events that wait, while they are handled
        self._awaited: asyncio.Future[bool] | None = None

    def follow(self, source: Observable[E], scheduler: Scheduler) -> abc.DisposableBase:
        """Subscribe to the source."""

        def on_next(item: E) -> None:
            self._handle(self._blocks.handle(item))

        def end(error: Exception | None = None) -> None:
            self._handle(self._finish(error))

        return Both(connect(source, Sink(on_next, end, end), scheduler), Call(self.end))

    def _finish(self, error: Exception | None) -> _Checking:
        """The end of the source, after the events before it."""
        if error is None:
            yield from self._blocks.finish()
            self.on_completed()
        else:
            self.on_error(error)

    def _handle(self, checking: _Checking) -> None:
        if not self.is_over:
            self._waiting.append(checking)
            if self._texts is None:
                self._texts = self._handle_waiting()
                self._go_on(self._texts, None)

    def _handle_waiting(self) -> _Checking:
        """The texts that the events need checked, one event after the other."""
        try:
            while self._waiting:
                yield from self._waiting.popleft()
        finally:  # also when an observer raises
            self._texts = None

    def _go_on(self, texts: _Checking, passes: bool | None) -> None:
        """Handle what waits, until a check is awaited.

        Args:
            texts: What is handled.
            passes: The answer to the check that was awaited, if one was.
        """
        while not self.is_over:
            try:
                text = next(texts) if passes is None else texts.send(passes)
            except StopIteration:
                return
            except (ConfigurationError, TextRejectedError) as error:
                self.on_error(error)
                return
            passes = self._ask(texts, text)
            if passes is None:
                return

    def _ask(self, texts: _Checking, text: str) -> bool | None:
        """Whether the text may pass; ``None`` while that is awaited, and where the check failed."""
        try:
            answer = self._check(text)
            if not inspect.isawaitable(answer):
                return _expect_bool(answer)
            self._awaited = future_of("hold_back(...)", answer)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.on_error(as_exception(error))
            return None
        self._awaited.add_done_callback(partial(self._answered, texts))
        return None

    def _answered(self, texts: _Checking, awaited: asyncio.Future[bool]) -> None:
        self._awaited = None
        try:
            passes = _expect_bool(awaited.result())
        except asyncio.CancelledError:
            self.on_error(RxWorkerError("the check of hold_back was cancelled"))
        except BaseException as error:
            self.on_error(as_exception(error))
        else:
            self._go_on(texts, passes)

    def _stop(self) -> None:
        self._waiting.clear()
        if self._awaited is not None:
            self._awaited.cancel()


def _expect_bool(answer: object) -> bool:
    if isinstance(answer, bool):
        return answer
    raise ConfigurationError(
        f"the check of hold_back returned {type(answer).__name__}: return True to let the text pass, False to hold it "
        "back"
    )


T = TypeVar("T")


def future_of(verb: str, answer: Awaitable[T]) -> asyncio.Future[T]:
    """The future of what a function of an operator has returned.

    Raises:
        ConfigurationError: There is no running event loop.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as error:
        if inspect.iscoroutine(answer):
            answer.close()
        raise ConfigurationError(
            f"the coroutine function of {verb} needs a running event loop: subscribe within asyncio.run(...), or give "
            "a plain function"
        ) from error
    return asyncio.ensure_future(answer, loop=loop)


A = TypeVar("A", bound=Record | Event)
