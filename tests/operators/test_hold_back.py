"""`hold_back` lets no text pass that its check has not seen and allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Subject
from reactivex import operators as ops

from rxworker import Worker
from rxworker.errors import ConfigurationError, RxWorkerError, TextRejectedError
from rxworker.events import (
    AttemptRetract,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Custom,
    Event,
    InputJsonDelta,
    RefusalDelta,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from rxworker.events.arguments import REFUSED
from rxworker.operators import hold_back as gate
from rxworker.operators import reject, text_deltas
from rxworker.testing import ScriptedModel, say
from rxworker.testing.marbles import Marbles
from tests.seen import outcome, through

STOP = BlockStop(0, BlockType.TEXT)
ROW: dict[str, Event] = {
    "s": BlockStart(0, BlockType.TEXT),
    "e": STOP,
    "x": BlockAbort(0, BlockType.TEXT, "cut"),
    "u": Usage(1, 1),
    "n": Status(ResponseStatus.STARTED),
    "m": Status(ResponseStatus.COMPLETED),
    "r": AttemptRetract("later"),
    "a": TextDelta(0, "aa"),
    "b": TextDelta(0, "bb"),
    "c": TextDelta(0, "c"),
    "C": TextDelta(0, "bbc"),
    "B": TextDelta(0, "aabb"),
    "!": TextDelta(0, "***"),
}


def hold_back(check: Callable[[str], Any], **options: Any) -> Any:
    """The operator, without its verdicts."""

    def apply(source: Any) -> Any:
        return source.pipe(gate(check, **options), reject(Custom))

    return apply


def yes(_: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("-s-a-b-c-e-----|", "-s---a---(C,e)-|"),
        ("-s-a-b-e-----|", "-s---a-(b,e)-|"),
        ("-s-a-u-b-e-----|", "-s---u-a-(b,e)-|"),
        ("-s-a-b-x-|", "-s---a-x-|"),
        ("-s-a-b-r-|", "-s---a-r-|"),
        ("-n-s-a-n-s-b-m-----|", "-n-s---n-s---(b,m)-|"),
        ("-s-a-s-b-e-----|", "-s---s---(b,e)-|"),
        ("-s-a-b-#", "-s---a-#"),
        ("-s-a-|", "-s---(a,|)"),
    ],
)
def test_text_passes_half_a_window_late(source: str, expected: str, test: Marbles) -> None:
    seen = test.observe(test.hot(source, ROW).pipe(hold_back(yes, window=4)))
    assert seen == test.expected(expected, ROW)


def test_windows_overlap_by_half() -> None:
    windows: list[str] = []

    def check(text: str) -> bool:
        windows.append(text)
        return True

    through([TextDelta(0, "abcdefg"), STOP], hold_back(check, window=4))
    assert windows == ["ab", "abcd", "cdef", "efg"]


PIECES = st.lists(st.integers(0, 60), max_size=12)


@given(st.text("ab", max_size=60), PIECES, st.integers(2, 12))
def test_what_the_check_allows_arrives_whole(text: str, cuts: list[int], window: int) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [TextDelta(0, text[a:b]) for a, b in pairwise(edges)]
    seen = through([*pieces, STOP], hold_back(yes, window=window))
    assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == text


@given(st.text("abX", max_size=60), PIECES, st.integers(3, 6))
def test_a_phrase_of_half_a_window_never_passes_in_part(text: str, cuts: list[int], half: int) -> None:
    """The phrase is "Xab"; an X that passes is never followed by "ab"."""

    def check(window: str) -> bool:
        return "Xab" not in window

    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [TextDelta(0, text[a:b]) for a, b in pairwise(edges)]
    seen = through([*pieces, STOP], hold_back(check, window=2 * half, replacement="-"))
    assert "Xab" not in "".join(e.text for e in seen if isinstance(e, TextDelta))


def test_without_a_replacement_the_stream_fails() -> None:
    events = [ROW[letter] for letter in "sabe"]
    seen, [error] = outcome(events, hold_back(lambda text: "b" not in text, window=4))
    assert seen == [ROW["s"]]
    assert isinstance(error, TextRejectedError)
    assert "bb" not in str(error)


def test_thinking_passes_unless_it_is_to_be_checked() -> None:
    events = [ThinkingDelta(0, "bad"), SignatureDelta(0, "s"), InputJsonDelta(1, "bad")]

    def check(text: str) -> bool:
        return text != "bad"

    refused = InputJsonDelta(1, REFUSED)
    assert through(events, hold_back(check, replacement="-", thinking=False)) == [*events[:2], refused]
    checked = through([*events[:1], BlockStop(0, BlockType.THINKING), *events[2:]], hold_back(check, replacement="-"))
    assert checked == [ThinkingDelta(0, "-"), BlockStop(0, BlockType.THINKING), refused]


@pytest.mark.parametrize("window", [4, 400])
def test_the_signature_of_replaced_thinking_is_dropped(window: int) -> None:
    events = [ThinkingDelta(0, "bad!"), SignatureDelta(0, "s"), BlockStop(0, BlockType.THINKING)]
    operator = hold_back(lambda _: False, window=window, replacement="-")
    assert not any(isinstance(event, SignatureDelta) for event in through(events, operator))


def test_the_signature_of_thinking_that_passes_follows_it() -> None:
    events = [ThinkingDelta(0, "good"), SignatureDelta(0, "s"), BlockStop(0, BlockType.THINKING)]
    assert through(events, hold_back(yes)) == events


@pytest.mark.parametrize(
    "answer", [None, "yes", 1, object(), OSError("no answer"), SystemExit(), GeneratorExit(), asyncio.CancelledError()]
)
def test_a_check_that_raises_anything_or_answers_no_bool_fails_closed(answer: object) -> None:
    def check(_: str) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    seen, [error] = outcome([TextDelta(0, "aaaa"), STOP], hold_back(check, window=2))
    assert seen == []
    if isinstance(answer, BaseException):
        assert (str(answer) or type(answer).__name__) in str(error)
    else:
        assert isinstance(error, ConfigurationError)


def test_a_refusal_is_checked() -> None:
    seen = through([RefusalDelta(0, "bad")], hold_back(lambda _: False, replacement="-"))
    assert seen == [RefusalDelta(0, "-")]


async def test_what_follows_waits_for_an_asynchronous_check() -> None:
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[bool]] = []

    def check(_: str) -> asyncio.Future[bool]:
        answers.append(loop.create_future())
        return answers[-1]

    seen: list[Event] = []
    done = loop.create_future()
    source: Subject[Event] = Subject()
    source.pipe(hold_back(check, window=4)).subscribe(seen.append, on_completed=lambda: done.set_result(None))
    for letter in "sabue":
        source.on_next(ROW[letter])
    source.on_completed()
    assert seen == [ROW["s"]]
    answers[0].set_result(True)
    await asyncio.sleep(0)
    assert (len(answers), seen) == (2, [ROW["s"]])
    answers[1].set_result(True)
    await done
    assert seen == [ROW[letter] for letter in "saube"]


@pytest.mark.parametrize("ends", ["raises", "cancelled", "no bool"])
async def test_an_asynchronous_check_that_fails_fails_closed(ends: str) -> None:
    async def check(_: str) -> bool:
        if ends == "raises":
            raise OSError("no answer")
        if ends == "cancelled":
            raise asyncio.CancelledError
        return None  # pyright: ignore[reportReturnType]

    seen: list[Event] = []
    failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    source = reactivex.of(TextDelta(0, "aa"), STOP)
    source.pipe(hold_back(check, window=2)).subscribe(seen.append, failed.set_result)
    assert isinstance(await failed, OSError | RxWorkerError)
    assert seen == []


async def test_leaving_cancels_the_check() -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def check(_: str) -> bool:
        try:
            began.set()
            return await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    source: Subject[Event] = Subject()
    subscription = source.pipe(hold_back(check, window=2)).subscribe()
    source.on_next(TextDelta(0, "aa"))
    await began.wait()
    subscription.dispose()
    await cancelled.wait()
    assert not source.observers


async def test_a_check_may_be_an_observable() -> None:
    seen: list[Event] = []
    done = asyncio.get_running_loop().create_future()
    source = reactivex.of(TextDelta(0, "aa"), STOP)
    source.pipe(hold_back(lambda _: reactivex.just(True), window=4)).subscribe(
        seen.append, on_completed=lambda: done.set_result(None)
    )
    await done
    assert seen == [TextDelta(0, "aa"), STOP]


def test_an_asynchronous_check_without_an_event_loop_names_the_remedy() -> None:
    async def check(_: str) -> bool:
        return True

    _, [error] = outcome([TextDelta(0, "aa"), STOP], hold_back(check, window=2))
    assert "asyncio.run" in str(error)


async def test_a_rejected_text_ends_the_run_and_stays_out_of_the_conversation() -> None:
    async def check(text: str) -> bool:
        return "hunter2" not in text

    worker = Worker(ScriptedModel([say("Sure. The password is hunter2.")]), operators=[hold_back(check, window=20)])
    run = worker.run("hi")
    texts: list[str] = []
    run.events.pipe(text_deltas(), ops.do_action(texts.append)).subscribe(on_error=lambda _: None)
    with pytest.raises(TextRejectedError):
        await run
    assert "hunter2" not in "".join(texts)
    assert "hunter2" not in repr(worker.session.conversation)


async def test_a_replaced_text_is_what_the_conversation_keeps() -> None:
    async def check(text: str) -> bool:
        return "hunter2" not in text

    worker = Worker(
        ScriptedModel([say("The password is hunter2. Bye.")]), operators=[hold_back(check, replacement="[removed]")]
    )
    assert (await worker.run("hi")).text == "[removed]"
