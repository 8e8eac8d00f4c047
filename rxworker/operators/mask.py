r"""Parts of the text replaced before they are emitted, for example personal data.

Theory of operation. The text of each block goes through a `Masker` of its own. A place in the text is decided when at
least ``limit`` characters after it are known, or when its block has ended: a match of up to ``limit`` characters that
begins there, with what its lookaheads read, is then known whole. Places are decided in steps of a fixed number of
characters, each with a view of a fixed number of characters, so that the result does not depend on how the text was cut
into deltas. As many characters before a place stay visible to ``\b``, ``^`` and lookbehinds.

A match that reaches the end of the view may be longer. It is held, and looked at again each time that the text has
doubled, until it ends before the end of the view; then it is replaced as one. A match that becomes longer than
`LONGEST` ends the stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from rxworker.errors import ConfigurationError, TextRejectedError
from rxworker.events import BlockStop, Event, RefusalDelta, SignatureDelta, TextDelta, ThinkingDelta
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.decode import decoding
from rxworker.operators.kernel import Operator
from rxworker.operators.text import MANY, WRITTEN, Replaced, Splitter, Units

E = TypeVar("E", bound=Event)

Span: TypeAlias = tuple[int, int]
Find: TypeAlias = Callable[[str], Iterable[Span]]
"""The parts of a text to replace: where each begins and ends."""

_Search: TypeAlias = Callable[[str, int, int], Iterator[Span]]
"""The parts of a text between two positions, in order."""

LONGEST = 65536
"""How many characters of a match are held at most, or ``limit``, if that is more."""


def mask(
    pattern: str | re.Pattern[str] | Find, replacement: str = "***", *, limit: int = 100, thinking: bool = True
) -> Operator[E, E]:
    r"""Replace the parts of the text that match, before anything of them is emitted.

        -s-a-b-c-e-|           s BlockStart, e BlockStop; a "call 555-", b "1234 no", c "w"
        [ mask(r"\d{3}-\d{4}") ]
        -s-------(A,e)-|       A "call *** now"

    A match may be divided among any number of deltas. The joined text of a block is ``pattern.sub`` of the model's
    text, where no match is longer than ``limit``, and text is delayed by a little more than ``limit`` characters. A
    longer match is replaced too, as one, if its first ``limit`` characters match by themselves, as in ``\d+``; if they
    do not, as in ``BEGIN.*END``, it is not found. Matches are not joined across blocks. Held text is dropped when its
    block is aborted, its response starts again, fails or is cancelled, its attempt is retracted, or the source fails.
    Other events pass at once, but for the signature of thinking, which waits for the end of its block.

    Tool arguments and results, citations and whole messages in turn events are not changed: a tool gets what the model
    has written. A hook at ``before_tool_call`` or ``after_tool_call`` may change arguments and results.

    Args:
        pattern: A regular expression; or a function that takes a text and returns where the parts to replace begin and
            end. It receives a few hundred characters of a block at a time, and each place several times.
        replacement: The text that replaces a match, as it is.
        limit: The length of the longest match, with what its lookaheads read.
        thinking: Whether thinking is masked, too. The signature of thinking that was changed is dropped, since it no
            longer fits, and so is a provider's copy of a changed text, which the end of a block may carry.

    Raises:
        ConfigurationError: The pattern is neither, is not valid or matches the empty text, or the limit is less than 1.
            As ``on_error``: the function has returned something other than positions in the text.
        TextRejectedError: Through ``on_error``: a match is longer than 65,536 characters.

    >>> from reactivex import of
    >>> from rxworker.operators import text_deltas
    >>> events = of(TextDelta(0, "Call 55"), TextDelta(0, "5-12"), TextDelta(0, "34 now."))
    >>> events.pipe(mask(r"\d{3}-\d{4}"), text_deltas()).subscribe(print) and None
    Call *** now.
    """
    search = _search_of(pattern)
    if not isinstance(replacement, str):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError("mask(..., replacement): give the text that replaces a match")
    check_number("mask(limit)", limit, least=1, whole=True)
    return decoding(partial(_Masked[E], search, replacement, limit, thinking), "mask(...)", takes_events=True)


class _Masked(Units[E]):
    """Events in, events out; the texts of each block are masked.

    Signatures and echoes of texts that were changed are dropped.
    """

    def __init__(self, search: _Search, replacement: str, limit: int, thinking: bool) -> None:
        kinds = WRITTEN if thinking else (TextDelta, RefusalDelta)
        super().__init__(partial(Masker, search, replacement, limit), "mask(...)", kinds)
        self._waits_for_thinking = thinking
        self._signatures: dict[int, list[E]] = {}
        self._replaced = Replaced()

    def feed(self, data: E) -> Sequence[E]:
        event: object = data
        if isinstance(event, SignatureDelta) and self._waits_for_thinking:
            self._signatures.setdefault(event.index, []).append(data)
            return ()
        return super().feed(data)

    def _indices(self) -> set[int]:
        return super()._indices() | set(self._signatures)

    def _forget(self) -> None:
        super()._forget()
        self._signatures.clear()
        self._replaced.clear()

    def _drop(self, index: int) -> None:
        super()._drop(index)
        self._signatures.pop(index, None)

    def _rest(self, index: int) -> list[E]:
        maskers = {kind: self._open.get((index, kind)) for kind in WRITTEN}
        rest = super()._rest(index)
        signatures = self._signatures.pop(index, [])
        for kind, found in maskers.items():
            if found is not None and isinstance(found[1], Masker):
                for text in found[1].replaced:
                    self._replaced.add(index, text)
                if found[1].replaced and kind is ThinkingDelta:
                    signatures = []
        return rest + signatures

    def _stop(self, event: BlockStop) -> BlockStop:
        return self._replaced.strip(event)


class Masker(Splitter):
    """One text, which arrives in pieces, with its matches replaced.

    Args:
        search: Finds the matches.
        replacement: Replaces each.
        limit: The length of the longest match.

    Attributes:
        replaced: The different texts that were replaced, of a thousand or more only some.
    """

    def __init__(self, search: _Search, replacement: str, limit: int) -> None:
        self.replaced: set[str] = set()
        self._search = search
        self._replacement = replacement
        self._limit = limit
        self._step = max(limit // 4, 1)
        self._view = limit + self._step
        self._text = ""  # what is decided, as far as it is still visible, and what is not
        self._begin = 0  # where that begins which is not
        self._pieces: list[str] = []  # what came after it
        self._length = 0

    def feed(self, piece: str) -> Sequence[str]:
        """The text that the piece decides."""
        self._pieces.append(piece)
        self._length += len(piece)
        if len(self._text) - self._begin + self._length < self._view:
            return ()
        self._take()
        out: list[str] = []
        while len(self._text) - self._begin >= self._view:
            self._decide(self._begin + self._view, self._begin + self._step, out)
        kept = max(self._begin - self._limit, 0)
        self._text, self._begin = self._text[kept:], self._begin - kept
        text = "".join(out)
        return (text,) if text else ()

    def finish(self) -> str:
        """The rest of the text."""
        self._take()
        out: list[str] = []
        end = len(self._text)
        self._decide(end, end, out)
        return "".join(out)

    def _take(self) -> None:
        self._text += "".join(self._pieces)
        self._pieces.clear()
        self._length = 0

    def _decide(self, end: int, until: int, out: list[str]) -> None:
        """Emit what is before ``until``, with a view of what is before ``end``.

        There the text goes on, unless the two are the same.
        """
        text, place = self._text, self._begin
        for begin, stop in self._search(text, place, end):
            if begin >= until:
                break
            if stop == end > until:
                self._hold(place, begin, end, out)
                return
            out += (text[place:begin], self._replacement)
            if len(self.replaced) <= MANY:
                self.replaced.add(text[begin:stop])
            place = stop
        if place < until:
            out.append(text[place:until])
            place = until
        self._begin, self._view = place, self._limit + self._step

    def _hold(self, place: int, begin: int, end: int, out: list[str]) -> None:
        """A match goes on where the view ends: look at it again when there is twice as much."""
        if end - begin > max(LONGEST, self._limit):
            raise TextRejectedError(f"a match of mask is longer than {LONGEST} characters: give a pattern that ends")
        out.append(self._text[place:begin])
        self._begin, self._view = begin, 2 * (end - begin)


def _search_of(pattern: object) -> _Search:
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"mask({pattern!r:.60}): {error}") from error
    if isinstance(pattern, re.Pattern):
        known = cast("re.Pattern[Any]", pattern)
        if not isinstance(known.pattern, str):
            raise ConfigurationError("mask(...): give a pattern for str, not for bytes")
        if known.search("") is not None:
            raise ConfigurationError(
                f"mask({known.pattern!r:.60}) matches the empty text: give a pattern that needs a character"
            )
        return _search_pattern(cast("re.Pattern[str]", known))
    if not callable(pattern):
        raise ConfigurationError(
            f"mask({pattern!r:.60}): give a regular expression, or a function that returns where the parts to replace "
            "begin and end"
        )
    check_plain("the function of mask", pattern)
    return _search_found(cast("Find", pattern))


def _search_pattern(pattern: re.Pattern[str]) -> _Search:
    def search(text: str, begin: int, end: int) -> Iterator[Span]:
        for match in pattern.finditer(text, begin, end):
            if match.end() > match.start():
                yield match.span()

    return search


def _search_found(find: Find) -> _Search:
    def search(text: str, begin: int, end: int) -> Iterator[Span]:
        view = text[:end]
        place = begin
        for start, stop in sorted(_positions(find(view), end)):
            start = max(start, place)
            if stop > start:
                yield start, stop
                place = stop

    return search


def _positions(found: object, length: int) -> list[Span]:
    try:
        spans = [(start, stop) for start, stop in cast("Iterable[Span]", found)]
        if all(0 <= start <= stop <= length for start, stop in spans):
            return spans
    except (TypeError, ValueError):
        pass
    raise ConfigurationError(
        "the function of mask returns pairs of positions in the text it was given, for example [(3, 7)]"
    )
