"""`lines` and `sentences` move the borders between deltas, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker import Worker, tool
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from rxworker.operators import lines, sentences, text_deltas, text_so_far
from rxworker.operators.kernel import Operator
from rxworker.testing import ScriptedModel, call, fail, say
from rxworker.testing.marbles import Marbles
from rxworker.transport import Retry
from tests.seen import through


@tool
def look() -> str:
    """Look."""
    return "rain"


START, STOP = BlockStart(0, BlockType.TEXT), BlockStop(0, BlockType.TEXT)
ABORT = BlockAbort(0, BlockType.TEXT, "cut")
ROW: dict[str, Event] = {
    "s": START,
    "e": STOP,
    "x": ABORT,
    "u": Usage(1, 1),
    "k": BlockStart(1, BlockType.TOOL_USE),
    "j": InputJsonDelta(1, "{}"),
    "n": Status(ResponseStatus.STARTED),
    "f": Status(ResponseStatus.FAILED),
    "m": Status(ResponseStatus.COMPLETED),
    "r": AttemptRetract("later"),
    "t": AttemptStart(),
    "a": TextDelta(0, "an old po"),
    "b": TextDelta(0, "nd\na fr"),
    "c": TextDelta(0, "og"),
    "A": TextDelta(0, "an old pond\n"),
    "B": TextDelta(0, "a frog"),
    "C": TextDelta(0, "a fr"),
    "D": TextDelta(0, "nd\n"),
    "h": ThinkingDelta(0, "hm"),
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("-s-a-b-c-e-----|", "-s---A---(B,e)-|"),
        ("-s-a-u-b-c-e-----|", "-s---u-A---(B,e)-|"),
        # what the block did not complete is dropped
        ("-s-a-b-x-|", "-s---A-x-|"),
        ("-s-a-b-#", "-s---A-#"),
        # a retry begins with nothing
        ("-t-s-a-x-f-r-t-s-a-b-e-----|", "-t-s---x-f-r-t-s---A-(C,e)-|"),
        ("-n-s-a-n-s-a-b-e-----|", "-n-s---n-s---A-(C,e)-|"),
        ("-s-a-s-a-b-e-----|", "-s---s---A-(C,e)-|"),
        # no text joins over the border of a block
        ("-s-B-e-----s-b-e-----|", "-s---(B,e)-s-D-(C,e)-|"),
        # without a stop, the end of the response or of the source ends the block
        ("-s-a-b-m-----|", "-s---A-(C,m)-|"),
        ("-s-a-b-|", "-s---A-(C,|)"),
        ("-k-j-|", "-k-j-|"),
    ],
)
def test_lines_follow_the_blocks(source: str, expected: str, test: Marbles) -> None:
    seen = test.observe(test.hot(source, ROW).pipe(lines()))
    assert seen == test.expected(expected, ROW)


def texts_of(events: Sequence[Event], operator: Operator[Event, Event]) -> list[str]:
    return through(events, operator, text_deltas())


def test_interleaved_blocks_and_choices_are_kept_apart() -> None:
    events = [TextDelta(0, "a"), TextDelta(1, "x", 1), TextDelta(0, "b\n"), TextDelta(1, "y\n", 1)]
    seen = through(events, lines())
    assert seen == [TextDelta(0, "ab\n"), TextDelta(1, "xy\n", 1)]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("Hi there! How are you? Fine.", ["Hi there! ", "How are you? ", "Fine."]),
        ("It is 3.14 (really.) Yes.", ["It is 3.14 (really.) ", "Yes."]),
        ("See example.org for more. Bye", ["See example.org for more. ", "Bye"]),
        ("Dr. J. R. Who, e.g. this. Next.", ["Dr. J. R. Who, e.g. this. ", "Next."]),
        ("No. That is wrong.", ["No. ", "That is wrong."]),
        ("1. One thing.\n2. Another.", ["1. One thing.\n", "2. Another."]),
        ("A title\n\nA text.", ["A title\n", "\nA text."]),
        ("“再见！”他说。走了。", ["“再见！”", "他说。", "走了。"]),
        ("Wait... what?! Yes", ["Wait... ", "what?! ", "Yes"]),
        ('He said "no." Then left.', ['He said "no." ', "Then left."]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_expects_it(text: str, units: list[str]) -> None:
    assert texts_of([TextDelta(0, text), STOP], sentences()) == units


TEXTS = st.lists(st.sampled_from([*".!?…。！”) \n\nab1I", "Dr. ", "e.g. ", "A. "]), max_size=40)


@given(TEXTS, st.data(), st.sampled_from([lines, sentences]))
def test_units_do_not_depend_on_how_the_text_was_cut(
    letters: list[str], data: st.DataObject, make: Callable[[], Operator[Event, Event]]
) -> None:
    text = "".join(letters)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    pieces = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    whole = texts_of([TextDelta(0, text), STOP], make())
    assert "".join(whole) == text
    assert texts_of([*(TextDelta(0, piece) for piece in pieces), STOP], make()) == whole


TALK: dict[str, Event] = {
    **ROW,
    "o": TextDelta(0, "One. "),
    "w": TextDelta(0, "Two is"),
    "i": TextDelta(0, " it. Th"),
    "T": TextDelta(0, "Two is it. "),
    "W": TextDelta(0, "Two is"),
    "I": TextDelta(0, " it. "),
    "H": TextDelta(0, "Th"),
    "J": TextDelta(0, "One. Two is it. "),
}


@pytest.mark.parametrize(
    ("source", "idle", "at_least", "expected"),
    [
        ("-s-o-w-i-e-----|", None, 0, "-s-o---T-(H,e)-|"),
        # what is there is emitted after a pause, and the rest of it is a unit of its own
        ("-s-o-w----i-e-----|", 3, 0, "-s-o----W-I-(H,e)-|"),
        ("-s-o-w-u----i-e-----|", 3, 0, "-s-o---u--W-I-(H,e)-|"),  # any event
        ("-s-o-w-x-----|", 3, 0, "-s-o---x-----|"),
        ("-s-o-w----#", 5, 0, "-s-o------#"),
        ("-s-o-w-|", 5, 0, "-s-o---(W,|)"),
        # sentences are joined
        ("-s-o-w-i-e-----|", None, 6, "-s-----J-(H,e)-|"),
        ("-s-o----w-i-e-----|", 3, 6, "-s----o---T-(H,e)-|"),
    ],
)
def test_sentences_may_end_at_a_pause_and_be_joined(
    source: str, idle: float | None, at_least: int, expected: str, test: Marbles
) -> None:
    seen = test.observe(test.hot(source, TALK).pipe(sentences(idle, at_least, test.scheduler)))
    assert seen == test.expected(expected, TALK)


STORY: dict[str, Event] = {
    **ROW,
    "A": TextDelta(0, "a"),
    "B": TextDelta(0, "b"),
    "O": TextDelta(0, "c", 1),
    "D": TextDelta(2, "d"),
    "z": BlockStart(2, BlockType.TEXT),
    "y": BlockStop(2, BlockType.TEXT),
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("-n-s-A-O-B-h-e-m-|", "-----a---ab------|"),
        ("-s-A-e-u-z-D-y-m-|", "---a-------ad----|"),
        ("-s-A-e-s-B-|", "---a-----ab|"),  # the index is used again
        # what is retracted goes at once, and the next attempt begins with nothing
        ("-t-s-A-r-t-s-B-|", "-----a-_-----b-|"),
        ("-n-s-A-n-s-B-|", "-----a-_---b-|"),
        ("-s-A-x-s-B-|", "---a-_---b-|"),
        ("-s-A-s-B-|", "---a-_-b-|"),
        ("-t-r-|", "-----|"),
        # the next turn
        ("-t-s-A-e-m-t-s-A-B-|", "-----a---------A-ab|"),
        ("-s-A-#", "---a-#"),
    ],
)
def test_the_text_so_far_is_that_of_what_counts(source: str, expected: str, test: Marbles) -> None:
    texts = {"_": "", "A": "a", **{name: name for name in ("a", "b", "ab", "ad")}}
    seen = test.observe(test.hot(source, STORY).pipe(text_so_far()))
    assert seen == test.expected(expected, texts)


async def test_the_last_text_so_far_is_the_answer_of_the_run() -> None:
    replies = [say("Let me look. ") + call("look"), say("half") + fail("slow", retryable=True), say("It rains.")]
    run = Worker(ScriptedModel(replies), tools=[look], response_retry=Retry(first=0.0)).run("hi")
    seen: list[str] = []
    run.events.pipe(text_so_far()).subscribe(seen.append)
    assert (await run).text == seen[-1] == "It rains."
    assert {"Let me look. ", "half", ""} <= {*seen}


async def test_a_worker_passes_lines_to_everything_after_it() -> None:
    worker = Worker(ScriptedModel([say("one\ntwo")]), operators=[lines()])
    run = worker.run("hi")
    seen: list[str] = []
    run.events.pipe(text_deltas()).subscribe(seen.append)
    assert (await run).text == "one\ntwo"
    assert seen == ["one\n", "two"]
