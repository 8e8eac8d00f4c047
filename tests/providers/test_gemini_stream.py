"""Frames of Gemini's that are alike, read in one go: what comes out is what the two machines in a row make of them, always."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rxworker.events import ResponseEvent, TextDelta, Usage
from rxworker.events.deltas import Counted, Deltas, Told
from rxworker.framing import Chain, SseDecoder
from rxworker.providers import Gemini
from rxworker.providers.base import ResponseDecoder
from rxworker.providers.gemini import GeminiDecoder, stream
from rxworker.providers.gemini.form import PROBE, learn
from rxworker.providers.gemini.stream import GeminiStream

# Texts as JSON writes them: what a form could trip over.
WRITTEN = [
    '"word "',
    '"word "',
    '"a"',
    '""',
    '":"',
    '","',
    '"\\""',
    '"\\\\"',
    '"\\n"',
    '"\\u003c"',
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    '"\\ude00"',
    '"text"',
    '"\\"text\\": \\"a\\""',
    '"12"',
    '"日本"',
    f'"{PROBE}"',
    '"bad \\x escape"',
    '"a","b"',
    "null",
    "7",
]
ODD = [
    ": comment{end}",
    "data: {{broken{end}",
    "id: 1{end}",
    "event: error\ndata: {{}}{end}",
    '{{"error": {{"code": 500}}}}{end}',
    'data: {{"candidates": [{{"content": {{"parts": [{{"functionCall": {{"name": "f"}}}}]}}}}]}}{end}',
    'data: {{"usageMetadata": {{"candidatesTokenCount": 7, "promptTokenCount": 9}}}}{end}',
    'data: {{"promptFeedback": {{"blockReason": "SAFETY"}}}}{end}',
]


def told_of(count: int) -> str:
    """The totals, some of which are no running numbers."""
    return (
        f'"promptTokenCount": 8,"candidatesTokenCount": {count},"totalTokenCount": {8 + count},'
        f'"promptTokensDetails": [{{"modality": "TEXT","tokenCount": 8}}]'
    )


def frame(
    text: str,
    count: int | None = None,
    *,
    beside: str = "",
    more: str = "",
    usage: str = "",
    end: str = "\r\n\r\n",
) -> bytes:
    told = usage or ("" if count is None else told_of(count))
    told = f',"usageMetadata": {{{told}}}' if told else ""
    return (
        f'data: {{"candidates": [{{"content": {{"parts": [{{"text": {text}{beside}}}],"role": "model"}}{more},'
        f'"index": 0}}]{told},"modelVersion": "m","responseId": "r"}}{end}'
    ).encode()


KINDS = [
    "text",
    "text",
    "text",
    "text",
    "thought",
    "sealed",
    "bare",
    "same",
    "fixed",
    "ended",
    "odd",
]
STORY = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.sampled_from(WRITTEN), st.integers(0, 9), st.integers(1, 6)
    ),
    max_size=20,
)


def written(story: Sequence[tuple[str, str, int, int]], end: str) -> Iterable[bytes]:
    count = 0
    for kind, text, n, times in story:
        for _ in range(times):
            count += 0 if kind == "same" else n + 1
            match kind:
                case "thought":
                    yield frame(text, count, beside=',"thought": true', end=end)
                case "sealed":
                    yield frame(text, count, beside=f',"thoughtSignature": "S{n}"', end=end)
                case "bare":
                    yield frame(text, end=end)
                case "fixed":
                    yield frame(text, usage='"promptTokenCount": 8', end=end)
                case "ended":
                    yield frame(text, count, more=',"finishReason": "STOP"', end=end)
                case "odd":
                    yield ODD[n % len(ODD)].format(end=end).encode()
                case _:
                    yield frame(text, count, end=end)


def new_id() -> str:
    return "made"


def plain() -> ResponseDecoder:
    return Chain(SseDecoder(stray=True), GeminiDecoder(new_id))


def told(decoder: ResponseDecoder, pieces: Iterable[bytes]) -> list[list[ResponseEvent]]:
    """What comes out, piece by piece."""
    return [*(list(decoder.feed(piece)) for piece in pieces), list(decoder.finish())]


@pytest.mark.parametrize("waits", [(1, 1), (200, 600), (stream.SHORT_WAIT, stream.LONG_WAIT)])
@given(
    story=STORY,
    cuts=st.lists(st.integers(1, 900), max_size=12),
    end=st.sampled_from(["\r\n\r\n", "\n\n"]),
)
@example([("text", '"a"', 0, 6)] * 30, [5000, 1, 2, 3, 4, 5, 300, 300], "\r\n\r\n")
@settings(max_examples=150, deadline=None)
def test_what_comes_out_is_what_the_plain_machines_make_however_it_is_cut(
    waits: tuple[int, int], story: list[tuple[str, str, int, int]], cuts: list[int], end: str
) -> None:
    whole = b"".join(written(story, end))
    places = [0, *itertools.accumulate(cuts)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(places)] + [whole[places[-1] :]]
    with patch.object(stream, "SHORT_WAIT", waits[0]), patch.object(stream, "LONG_WAIT", waits[1]):
        assert told(GeminiStream(GeminiDecoder(new_id)), pieces) == told(plain(), pieces)


@pytest.mark.parametrize("size", [1, 7, 500])
def test_every_piece_brings_what_the_plain_machines_make_of_it(size: int) -> None:
    """Also where it ends within a line end: nothing waits for bytes that it does not need."""
    whole = b"".join(frame(f'"w{n}"', n + 1) for n in range(120))
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert told(GeminiStream(GeminiDecoder(new_id)), pieces) == told(plain(), pieces)


@pytest.mark.parametrize("usual", ["\r\n\r\n", "\n\n"])
@pytest.mark.parametrize("other", ["\r\n\r\n", "\n\n", "\r\r", "\n\r\n", "\r\n\n"])
def test_a_frame_with_another_line_end_is_not_kept_waiting(usual: str, other: str) -> None:
    pieces = [frame('"a"', n + 1, end=usual) for n in range(40)]
    pieces += [frame('"b"', 41, end=other), frame('"c"', 42, end=usual)]
    assert told(GeminiStream(GeminiDecoder(new_id)), pieces) == told(plain(), pieces)


@pytest.mark.parametrize("odd", ['"0"', "false", "{}", "0.5"])
def test_frames_that_are_read_member_by_member_have_no_form(odd: str) -> None:
    whole = b"".join(frame('"a"', n + 1, more=f',"index": {odd}') for n in range(40))
    whole = whole.replace(b',"index": 0}', b"}")
    assert told(GeminiStream(GeminiDecoder(new_id)), [whole]) == told(plain(), [whole])


@pytest.mark.parametrize("end", ["\r\n\r\n", "\n\n"])
@pytest.mark.parametrize("first", WRITTEN)
def test_any_text_may_be_the_one_that_is_learned(first: str, end: str) -> None:
    for second in WRITTEN:
        texts = ['"a"', first, second, first, second, "7"]
        whole = b"".join(frame(text, n, end=end) for n, text in enumerate(texts, 1))
        with patch.object(stream, "SHORT_WAIT", 1), patch.object(stream, "LONG_WAIT", 1):
            quick = told(GeminiStream(GeminiDecoder(new_id)), [whole])
        assert quick == told(plain(), [whole]), second


def rows_of(whole: bytes) -> list[Told[ResponseEvent]]:
    return GeminiStream(GeminiDecoder(new_id)).feed_rows(whole)


def test_frames_that_are_alike_are_read_without_the_decoder() -> None:
    """Else it would not be quick; this is what tells that a form is found at all, and kept while the numbers grow."""
    made = rows_of(b"".join(frame(f'"w{n}"', n + 1) for n in range(2000)))
    rows = [row for row in made if isinstance(row, Counted)]
    assert sum(map(len, rows)) > 2 * 1980
    assert len(rows) < 20


def test_where_no_total_changes_a_row_has_none() -> None:
    fixed = '"promptTokenCount": 8,"totalTokenCount": 8'
    made = rows_of(b"".join(frame(f'"w{n}"', usage=fixed) for n in range(200)))
    assert sum(len(row) for row in made if isinstance(row, Deltas)) > 190
    assert [event for event in made if isinstance(event, Usage)] == [
        Usage(8, raw={"promptTokenCount": 8, "totalTokenCount": 8})
    ]


def test_what_always_changes_otherwise_is_not_tried_for_ever() -> None:
    frames = [frame('"a"', n + 1, more=f',"avgLogprobs": -0.{n}') for n in range(4000)]
    with patch.object(stream, "learn", side_effect=learn) as learning:
        rows_of(b"".join(frames))
    assert learning.call_count < 100


def test_a_seal_behind_a_row_is_at_its_place() -> None:
    frames = [frame('"ab"', n + 1) for n in range(40)]
    sealed = frame('"c"', 41, beside=',"thoughtSignature": "S"', more=',"finishReason": "STOP"')
    pieces = [b"".join([*frames, sealed])]
    assert told(GeminiStream(GeminiDecoder(new_id)), pieces) == told(plain(), pieces)


def test_a_frame_that_comes_by_itself_is_read_alike() -> None:
    decoder = Gemini("m", api_key="k").decoder()
    pieces = [frame(f'"w{n}"', n + 1) for n in range(200)]
    with patch.object(GeminiDecoder, "feed", autospec=True, side_effect=GeminiDecoder.feed) as fed:
        made = [list(decoder.feed(piece)) for piece in pieces]
    assert fed.call_count < 10
    assert made[100][0] == TextDelta(0, "w100")
    assert made == told(plain(), pieces)[:-1]


@pytest.mark.parametrize(
    "line",
    [
        b'data: {"candidates": []}',
        b'data: {"candidates": [{"content": {"parts": [{"text": "a"}, {"text": "b"}]}}]}',
        b'data: {"candidates": [{"content": {"parts": [{"text": "a", "new": 1}]}}]}',
        b'data: {"text": "a", "candidates": [{"content": {"parts": [{"text": "a"}]}}]}',
        b'data: {"candidates": [{"content": {"parts": [{"text": "a", "text": "a"}]}}]}',
        b'id: 1\r\ndata: {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}',
        f'data: {{"candidates": [{{"content": {{"parts": [{{"text": "{PROBE}"}}]}}}}]}}'.encode(),
    ],
)
def test_nothing_is_learned_from_a_frame_that_says_more(line: bytes) -> None:
    assert learn(line, ()) is None


def test_a_total_that_is_there_twice_is_learned_where_it_counts_or_not_at_all() -> None:
    def counted(first: int, second: int) -> bytes:
        usage = f'"candidatesTokenCount": {first},"candidatesTokenCount": {second}'
        return frame('"a"', usage=usage).removesuffix(b"\r\n\r\n")

    form = learn(counted(1, 2), ["candidatesTokenCount"])
    assert form is None or form.only(counted(1, 3), [2]) == ("a", [3])


def test_a_story_can_be_told_by_hand() -> None:
    """The other tests compare; this one says what is meant."""
    made = told(Gemini("m").decoder(), [b"".join(frame(json.dumps(f"{n}"), n) for n in range(30))])
    deltas = made[0][2::2]
    usages = made[0][3::2]
    assert deltas == [TextDelta(0, f"{n}") for n in range(30)]
    assert [event.output_tokens for event in usages if isinstance(event, Usage)] == [*range(30)]
