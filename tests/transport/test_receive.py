"""`Receiver`: from bytes to events, whatever a decoder and a connection do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import reactivex
from reactivex import Observable

from rxworker.errors import ProviderError, TransportError, TransportTimeoutError, TruncatedError
from rxworker.events import Error, ResponseEvent, ResponseStatus, Status, TextDelta, Usage
from rxworker.events.kinds import Parts
from rxworker.events.meta import TRUNCATED
from rxworker.operators.kernel import Operator, Sink, connect, stage
from rxworker.providers import Anthropic, Gemini, ResponseDecoder
from rxworker.testing import anthropic_frames, lint, say
from rxworker.transport.receive import Receiver
from tests.seen import outcome

BROKE = TransportError("the cable", retryable=True)
FAILED = Status(ResponseStatus.FAILED)
CUT = Error(TRUNCATED, "cut", retryable=True, kind=TRUNCATED)
BUSY = Error("overloaded", "busy", retryable=True, kind="overloaded")


def receive(make: Callable[[], ResponseDecoder]) -> Operator[bytes, ResponseEvent]:
    def apply(source: Observable[bytes]) -> Observable[ResponseEvent]:
        return stage(source, partial(Receiver, make))

    return apply


class Lines:
    """A decoder of nothing but texts; at the end it says what it was told to."""

    def __init__(self, last: Sequence[ResponseEvent] = ()) -> None:
        self.last = last

    def feed(self, data: bytes, /) -> Sequence[ResponseEvent]:
        if data == b"?":
            raise ValueError("a bug")
        return [BUSY] if data == b"!" else [TextDelta(0, data.decode())] if data else []

    def finish(self) -> Sequence[ResponseEvent]:
        return self.last


def played(source: Observable[bytes], *last: ResponseEvent) -> tuple[list[ResponseEvent], Exception | None]:
    """What an observer hears, and the error that ends it, ``None`` for a completion."""
    events: list[ResponseEvent] = []
    ends: list[Exception | None] = []

    def make() -> Lines:
        return Lines(last)

    source.pipe(receive(make)).subscribe(events.append, ends.append, lambda: ends.append(None))
    (end,) = ends
    return events, end


def then(error: Exception, *chunks: bytes) -> Observable[bytes]:
    return reactivex.concat(reactivex.of(*chunks), reactivex.throw(error))


def test_events_pass() -> None:
    assert played(reactivex.of(b"a", b"", b"b")) == ([TextDelta(0, "a"), TextDelta(0, "b")], None)


@pytest.mark.parametrize("last", [(), (CUT, FAILED), (Status(ResponseStatus.COMPLETED),)])
def test_an_error_before_any_byte_passes_as_it_is(last: tuple[ResponseEvent, ...]) -> None:
    assert played(then(BROKE), *last) == ([], BROKE)


def test_an_error_before_any_event_is_reported_once() -> None:
    assert played(then(BROKE, b""), CUT, FAILED) == ([], BROKE)
    events, end = played(reactivex.of(b"", b"!"))
    assert events == []
    assert isinstance(end, ProviderError)


def test_an_end_before_any_event_is_an_error() -> None:
    events, end = played(reactivex.empty(), CUT, FAILED)
    assert events == []
    assert isinstance(end, TruncatedError)


@pytest.mark.parametrize(("error", "kind"), [(BROKE, "connection"), (TransportTimeoutError("silence"), "timeout")])
def test_a_break_in_the_middle_is_reported_twice(error: TransportError, kind: str) -> None:
    events, end = played(then(error, b"a"), CUT, FAILED)
    assert end is error
    told = Error(kind, str(error), retryable=error.retryable, kind=kind)
    assert events == [TextDelta(0, "a"), told, FAILED]


def test_a_break_after_the_end_changes_nothing() -> None:
    done = Status(ResponseStatus.COMPLETED)
    assert played(then(BROKE, b"a"), done) == ([TextDelta(0, "a"), done], None)
    assert played(then(BROKE, b"a")) == ([TextDelta(0, "a")], None)


def test_an_error_of_the_providers_goes_before_that_of_the_connection() -> None:
    events, end = played(then(BROKE, b"a"), BUSY, FAILED)
    assert events == [TextDelta(0, "a"), BUSY, FAILED]
    assert isinstance(end, ProviderError)
    assert end.__cause__ is BROKE


def test_an_error_without_a_status_ends_the_response_all_the_same() -> None:
    events, end = played(reactivex.of(b"a", b"!"))
    assert events == [TextDelta(0, "a"), BUSY]
    assert isinstance(end, ProviderError)


def test_a_bug_in_a_decoder_ends_the_response() -> None:
    events, end = played(reactivex.of(b"a", b"?", b"b"))
    assert events == [TextDelta(0, "a")]
    assert isinstance(end, ValueError)


def test_the_usage_of_a_response_that_was_cut_is_emitted_as_partial() -> None:
    frames = b"".join(anthropic_frames(say("Hello")))
    body = frames[: frames.index(b"event: message_delta")]
    events, errors = outcome([body], receive(Anthropic("m", api_key="k").decoder))
    usages = [event for event in events if isinstance(event, Usage)]
    assert [usage.is_partial for usage in usages] == [False, True]
    assert len(errors) == 1
    assert lint(events) == []


class Several(Lines):
    """A decoder of several events a read: ``u`` is usage, ``!`` an error, anything else a text."""

    def feed(self, data: bytes, /) -> Sequence[ResponseEvent]:
        told: dict[str, ResponseEvent] = {"u": Usage(7, 1), "!": BUSY}
        return [told.get(letter, TextDelta(0, letter)) for letter in data.decode()]


def several(last: Sequence[ResponseEvent], *reads: bytes) -> tuple[list[ResponseEvent], Exception | None]:
    events: list[ResponseEvent] = []
    ends: list[Exception | None] = []
    source = reactivex.from_iterable(reads)
    decoded = source.pipe(receive(lambda: Several(last)))
    decoded.subscribe(events.append, ends.append, lambda: ends.append(None))
    (end,) = ends
    return events, end


def test_usage_that_came_together_with_others_is_reported_again_when_the_response_breaks_off() -> None:
    events, end = several([CUT, FAILED], b"aub", b"cd")
    assert [type(event) for event in events[:5]] == [TextDelta, Usage, TextDelta, TextDelta, TextDelta]
    assert [event.is_partial for event in events if isinstance(event, Usage)] == [False, True]
    assert isinstance(end, TruncatedError)


def test_an_error_among_others_of_a_read_keeps_its_place() -> None:
    events, end = several([FAILED], b"ab!c")
    assert events == [TextDelta(0, "a"), TextDelta(0, "b"), BUSY, TextDelta(0, "c"), FAILED]
    assert isinstance(end, ProviderError)


def test_usage_that_came_in_a_row_is_reported_again_when_the_response_is_cut() -> None:
    """As partial. Gemini sends its totals with every piece of a text; each sixteenth becomes an event."""
    piece = (
        b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"candidatesTokenCount":%d}}\n\n'
    )
    whole = b"".join(piece % n for n in range(100, 200))
    rows: list[Parts[ResponseEvent]] = []
    events: list[ResponseEvent] = []
    ends: list[Exception] = []
    hearer = Sink[ResponseEvent](events.append, ends.append, lambda: None, rows.append)
    connect(then(BROKE, whole).pipe(receive(Gemini("m").decoder)), hearer)
    assert [len(row) for row in rows] == [19]
    assert [event for event in events if isinstance(event, Usage)][-1] == Usage(
        output_tokens=199, raw={"candidatesTokenCount": 199}, is_partial=True
    )
    assert ends == [BROKE]
