"""`mask` emits what ``re.sub`` makes of the whole text, however the text is cut, and never a part of a match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st

from rxworker import Worker
from rxworker.errors import ConfigurationError, TextRejectedError
from rxworker.events import (
    AttemptRetract,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    RefusalDelta,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
)
from rxworker.operators import hold_back, mask, text_deltas
from rxworker.operators.mask import LONGEST
from rxworker.testing import ScriptedModel
from rxworker.testing.marbles import Marbles
from tests.seen import outcome, through

STOP = BlockStop(0, BlockType.TEXT)

# No match of these is longer than the limit, but for the runs of digits, which match wherever they are cut.
PATTERNS = [
    r"\d+",
    r"\d{3}-\d{4}",
    r"sk-[a-z1]{2,5}",
    r"\b\d{3}\b",
    r"(?m)^a.{0,3}",
    r"(?<=k)[a-z]{1,4}",
    r"(?<!-)\d(?!\d)",
    r"a(?:1{1,5}k)?",
    r"k|sk-a",
    r"\d\Z",
    r"\Aa+?",
    r"s*k",
]


def cut(text: str, places: Iterable[int]) -> list[str]:
    borders = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


def masked(pieces: Iterable[str], pattern: Any, limit: int = 8, **more: Any) -> list[str]:
    return through([TextDelta(0, piece) for piece in pieces], mask(pattern, "*", limit=limit, **more), text_deltas())


TEXTS = st.text(alphabet="ak1-s \n", max_size=60)


@given(TEXTS, st.lists(st.integers(0, 60)), st.sampled_from(PATTERNS))
def test_any_cut_gives_what_the_whole_text_gives(text: str, places: list[int], pattern: str) -> None:
    # What a star hides may be longer than the limit.
    text = re.sub("s{4,}", "sss", text)
    assert "".join(masked(cut(text, places), pattern)) == re.sub(pattern, "*", text)


@given(TEXTS, st.lists(st.integers(0, 60)), st.sampled_from(["s*-k", "1.*k", "(?s)a.*?1"]))
def test_longer_matches_do_not_depend_on_the_cut_either(text: str, places: list[int], pattern: str) -> None:
    assert "".join(masked(cut(text, places), pattern)) == "".join(masked([text], pattern))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_cut_in_two_and_letter_by_letter(pattern: str) -> None:
    text = "a1k sk-a1k1 555-1234, 123 a111k\na 12 k99999999999999999999k-1"
    wanted = re.sub(pattern, "*", text)
    assert "".join(masked(text, pattern)) == wanted
    for place in range(len(text)):
        assert "".join(masked([text[:place], text[place:]], pattern)) == wanted


def test_nothing_of_a_match_is_emitted_at_any_time() -> None:
    """Whatever was emitted until then, the match is not begun."""
    text = "The key is sk-abcd1234efgh, keep it. " * 3
    seen: list[str] = []
    source: reactivex.Subject[Event] = reactivex.Subject()
    source.pipe(mask(r"sk-\w{12}", limit=16), text_deltas()).subscribe(seen.append)
    for letter in text:
        source.on_next(TextDelta(0, letter))
        assert "sk" not in "".join(seen)
    source.on_completed()
    assert "".join(seen) == "The key is ***, keep it. " * 3


def test_text_is_delayed_by_a_quarter_more_than_the_limit() -> None:
    source: reactivex.Subject[Event] = reactivex.Subject()
    seen: list[str] = []
    source.pipe(mask(r"\d", limit=40), text_deltas()).subscribe(seen.append)
    for count in range(1, 500):
        source.on_next(TextDelta(0, "a"))
        assert count - len("".join(seen)) <= 50


def test_a_long_match_is_replaced_once_and_a_longer_one_ends_the_stream() -> None:
    digits = ["1" * 100] * 60
    assert masked([*digits, "a"], r"\d+", limit=10) == ["*a"]
    seen, errors = outcome([TextDelta(0, "1" * 1000)] * (3 * LONGEST // 1000), mask(r"\d+"), text_deltas())
    assert [type(error) for error in errors] == [TextRejectedError]
    assert seen == []


def test_events_keep_their_order() -> None:
    test = Marbles()
    row: dict[str, Event] = {
        "s": BlockStart(0, BlockType.TEXT),
        "a": TextDelta(0, "call 555-"),
        "b": TextDelta(0, "1234 no"),
        "c": TextDelta(0, "w"),
        "j": InputJsonDelta(1, '{"number": "555-1234"}'),
        "e": STOP,
        "x": BlockAbort(0, BlockType.TEXT, "cut"),
        "r": AttemptRetract("later"),
        "n": Status(ResponseStatus.STARTED),
        "A": TextDelta(0, "call *** now"),
        "C": TextDelta(0, "w"),
    }
    for source, expected in [
        ("-s-a-b-c-e-|", "-s-------(A,e)-|"),
        ("-s-a-b-j-c-e-|", "-s-----j---(A,e)-|"),
        ("-s-a-b-c-|", "-s-------(A,|)"),
        ("-s-a-b-x-|", "-s-----x-|"),
        ("-s-a-b-r-s-c-e-|", "-s-----r-s---(C,e)-|"),
        ("-s-a-n-s-c-e-|", "-s---n-s---(C,e)-|"),
        ("-s-a-#", "-s---#"),
    ]:
        seen = test.observe(test.hot(source, row).pipe(mask(r"\d{3}-\d{4}")))
        assert [str(each.value) for each in seen] == [str(each.value) for each in test.expected(expected, row)]
        test = Marbles()


def test_the_texts_of_a_block_and_blocks_are_masked_apart() -> None:
    events: list[Event] = [
        TextDelta(0, "55"),
        TextDelta(1, "5"),
        ThinkingDelta(0, "5"),
        RefusalDelta(0, "555"),
        TextDelta(0, "5"),
        BlockStop(0, BlockType.TEXT),
        BlockStop(1, BlockType.TEXT),
    ]
    seen = through(events, mask("555", "*"))
    assert seen == [
        TextDelta(0, "*"),
        ThinkingDelta(0, "5"),
        RefusalDelta(0, "*"),
        events[5],
        TextDelta(1, "5"),
        events[6],
    ]


THOUGHTS: list[Event] = [
    BlockStart(0, BlockType.THINKING),
    ThinkingDelta(0, "It is 55"),
    ThinkingDelta(0, "5."),
    SignatureDelta(0, "signed"),
    BlockStop(0, BlockType.THINKING),
]


@pytest.mark.parametrize(
    ("pattern", "thinking", "texts"),
    [
        ("555", True, ["It is *."]),
        ("555", False, ["It is 55", "5.", "signed"]),
        ("556", True, ["It is 555.", "signed"]),
    ],
)
def test_changed_thinking_loses_its_signature(pattern: str, thinking: bool, texts: list[str]) -> None:
    seen = through(THOUGHTS, mask(pattern, "*", thinking=thinking))
    found = [each for each in seen if isinstance(each, ThinkingDelta | SignatureDelta)]
    shown = [each.text if isinstance(each, ThinkingDelta) else each.signature for each in found]
    assert shown == texts
    assert seen[-1] == THOUGHTS[-1]


NAMES = re.compile("Ada|Alan")


@given(st.text(alphabet="AdaLn .", max_size=40), st.lists(st.integers(0, 40)))
def test_a_function_finds_what_a_pattern_finds(text: str, places: list[int]) -> None:
    def find(text: str) -> Iterator[tuple[int, int]]:
        for match in NAMES.finditer(text):
            yield match.span()

    assert "".join(masked(cut(text, places), find)) == NAMES.sub("*", text)


def test_parts_that_overlap_are_replaced_together() -> None:
    def find(text: str) -> Sequence[tuple[int, int]]:
        return [(2, 4), (0, 3), (4, 4)]

    assert masked(["abcde"], find) == ["**e"]


@pytest.mark.parametrize("found", [None, 3, [3], [(0, 99)], [(3, 1)], [("a", "b")], "ab", [(-1, 2)]])
def test_a_function_that_returns_something_else_ends_the_stream(found: Any) -> None:
    def find(_: str) -> Any:
        return found

    seen, errors = outcome([TextDelta(0, "hunter2")], mask(find), text_deltas())
    assert (seen, [type(error) for error in errors]) == ([], [ConfigurationError])


def test_a_function_that_raises_ends_the_stream_with_nothing_shown() -> None:
    def find(_: str) -> list[tuple[int, int]]:
        raise OSError("no model")

    seen, errors = outcome([TextDelta(0, "hunter2"), STOP], mask(find), text_deltas())
    assert (seen, [str(error) for error in errors]) == ([], ["no model"])


@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        ("(", {}),
        ("a*", {}),
        ("", {}),
        (re.compile(rb"a"), {}),
        (3, {}),
        (None, {}),
        ("a", {"limit": 0}),
        ("a", {"limit": 2.5}),
        ("a", {"limit": True}),
        ("a", {"replacement": None}),
    ],
)
def test_what_cannot_mask_is_refused(pattern: Any, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="mask"):
        mask(pattern, **more)


async def test_a_worker_shows_and_keeps_the_masked_text() -> None:
    model = ScriptedModel(["Write to ada@example.org today."])
    worker = Worker(model, operators=[mask(r"\S+@\S+\.\w+", "[address]")])
    run = worker.run("How do I reach her?")
    seen: list[str] = []
    run.events.pipe(text_deltas()).subscribe(seen.append)
    assert (await run).text == "Write to [address] today."
    assert "".join(seen) == "Write to [address] today."


@pytest.mark.parametrize(
    "verb", [mask("hunter2"), hold_back(lambda text: "hunter2" not in text, window=20, replacement="***")]
)
def test_copies_of_a_replaced_text_in_the_ends_of_blocks_are_dropped(verb: Any) -> None:
    """A provider sends its whole item again at the end, with the texts of all its blocks."""
    item: Any = {"item": {"content": [{"text": "It is hunter2."}, {"text": "Bye."}]}}
    other: Any = {"item": {"encrypted": "aGVsbG8"}}
    events: list[Event] = [
        Status(ResponseStatus.STARTED),
        BlockStart(0, BlockType.TEXT, echo={"place": 1}),
        TextDelta(0, "It is hun"),
        TextDelta(0, "ter2."),
        BlockStop(0, BlockType.TEXT, echo={"own": 1}),
        TextDelta(1, "Bye."),
        BlockStop(1, BlockType.TEXT, echo=item),
        BlockStop(2, BlockType.THINKING, echo=other),
        Status(ResponseStatus.STARTED),
        BlockStop(0, BlockType.TEXT, echo={"own": 2}),
    ]
    seen = through(events, verb)
    assert [each.echo for each in seen if isinstance(each, BlockStop)] == [None, None, other, {"own": 2}]
    assert "hunter2" not in repr(seen)
