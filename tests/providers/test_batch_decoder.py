"""Frames that came together: what comes out is what they make one by one, in rows where that can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import length_hint
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxworker.events import ResponseEvent, TextDelta
from rxworker.events.kinds import Deltas, flatten
from rxworker.framing import Decoder, SseDecoder
from rxworker.framing.sse import SseFrame
from rxworker.providers import OpenAIChat, OpenAIResponses, takes
from rxworker.providers.batch_decoder import BatchDecoder, Part
from rxworker.providers.malformed import LenientDecoder
from rxworker.providers.openai_chat.decode import OpenAIChatDecoder
from rxworker.providers.openai_responses import decode
from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder, WireEvent

TEXT = "response.output_text.delta"
SUMMARY = "response.reasoning_summary_text.delta"
CALL = "response.function_call_arguments.delta"


def frame(data: str, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


def added(index: int, item: str) -> bytes:
    kind = "response.output_item.added"
    return frame(f'{{"type":"{kind}","output_index":{index},"item":{item}}}', kind)


BEGIN = [
    added(0, '{"type":"message","id":"m"}'),
    added(1, '{"type":"function_call","call_id":"c","name":"f"}'),
    added(2, '{"type":"reasoning","id":"r"}'),
    added(3, '{"type":"function_call","call_id":"nameless"}'),
]


def piece(kind: str, fields: str, *, told: bool = True, name: str | None = None) -> bytes:
    about = f'"type":"{kind}",' if told else ""
    return frame(f"{{{about}{fields}}}", kind if name is None else name)


# What may stand in a row of pieces of a text, with what is ordinary first.
PIECES: list[bytes] = [
    piece(TEXT, '"item_id":"m","output_index":0,"content_index":0,"delta":"a"'),
    piece(CALL, '"output_index":1,"delta":"1"'),
    piece(SUMMARY, '"output_index":2,"summary_index":0,"delta":"s"'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":"b"', name=""),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":""'),
    piece(TEXT, '"output_index":0,"content_index":1,"delta":"c"'),
    piece(TEXT, '"output_index":0,"content_index":null,"delta":"d"'),
    piece(TEXT, '"output_index":0,"delta":"e"'),
    piece(TEXT, '"content_index":0,"delta":"f"'),
    piece(TEXT, '"output_index":null,"content_index":0,"item_id":"m","delta":"g"'),
    piece(TEXT, '"output_index":1,"content_index":0,"delta":"h"'),
    piece(TEXT, '"output_index":4,"content_index":0,"delta":"i"'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":"j"', told=False),
    piece(CALL, '"output_index":0,"content_index":0,"delta":"k"', told=False),
    piece("response.output_text.done", '"output_index":0,"content_index":0,"text":"aa"', name=TEXT),
    piece("response.ping", '"output_index":0,"content_index":0,"delta":"l"', name=TEXT),
    piece(CALL, '"output_index":1,"delta":"2"', name=TEXT),
    piece(CALL, '"output_index":3,"delta":"3"'),
    piece(SUMMARY, '"output_index":2,"summary_index":1,"delta":"t"'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":"\\ud83d"'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":"\\ude00"'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":"\\ud83d\\ude00"'),
    piece(TEXT, '"output_index":"0","content_index":0,"delta":"m"'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":7'),
    piece(TEXT, '"output_index":0,"content_index":0,"delta":null'),
    piece(TEXT, '"item_id":7,"output_index":0,"content_index":0,"delta":"n"'),
    piece(TEXT, '"text":7,"output_index":0,"content_index":0,"delta":"o"'),
    piece(TEXT, '"error":{},"output_index":0,"content_index":0,"delta":"p"'),
    piece(TEXT, '"delta":"q","output_index":0,"content_index":0,"delta":"r","type":"response.x"'),
    piece("error", '"message":"broken"'),
    b"data: [DONE]\n\n",
    b": wait\n\n",
    b"id: 1\n\n",
    b"data: {broken\n\n",
    added(1, '{"type":"message","id":"n"}'),
    frame('{"type":"response.completed","response":{"status":"completed"}}'),
]
RUN = st.tuples(st.integers(0, 99).map(lambda n: n % len(PIECES)), st.integers(1, 5))
USUAL = st.tuples(st.integers(0, 2), st.integers(1, 9))


@pytest.fixture(autouse=True, scope="module")
def same_ids() -> Iterator[None]:
    """Calls without an id get the same one each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(takes, "uuid4", lambda: UUID(int=0))
        yield


def told(decode: Callable[[bytes], Sequence[ResponseEvent]], reads: Sequence[bytes]) -> list[str]:
    return [repr(event) for read in reads for event in decode(read)]


def map_repr(events: Sequence[ResponseEvent]) -> list[str]:
    return [repr(event) for event in events]


def one_by_one(
    framing: SseDecoder, decoder: Decoder[SseFrame, ResponseEvent], reads: Sequence[bytes]
) -> list[ResponseEvent]:
    """What a decoder returns for each frame alone."""
    frames = [frame for read in reads for frame in framing.feed(read)] + framing.finish()
    returned = (decode() for decode in (*(partial(decoder.feed, frame) for frame in frames), decoder.finish))
    return [event for events in returned for event in flatten(made_once(decoder, events))]


def made_once(decoder: Decoder[SseFrame, ResponseEvent], events: Sequence[ResponseEvent]) -> Sequence[Part]:
    """Without calls that were sent again."""
    assert isinstance(decoder, LenientDecoder)
    calls = decoder.blocks.calls
    return events if calls is None else calls.once(events)


def plainly(reads: Sequence[bytes]) -> list[str]:
    """One by one."""
    return map_repr(one_by_one(SseDecoder(stray=True), OpenAIResponsesDecoder(), reads))


def together(reads: Sequence[bytes]) -> list[str]:
    machine = OpenAIResponses("m", api_key="k").decoder()
    return told(machine.feed, reads) + [repr(event) for event in machine.finish()]


@given(st.lists(st.one_of(USUAL, USUAL, RUN), max_size=20), st.lists(st.integers(1, 700), max_size=9))
@settings(max_examples=200, deadline=None)
def test_what_comes_out_is_what_frames_make_one_by_one_however_they_are_cut(
    runs: list[tuple[int, int]], cuts: list[int]
) -> None:
    stream = b"".join([*BEGIN, *(PIECES[which] * times for which, times in runs)])
    reads, place = list[bytes](), 0
    for cut in cuts:
        reads.append(stream[place : place + cut])
        place += cut
    reads.append(stream[place:])
    assert together(reads) == plainly(reads)


@pytest.mark.parametrize("odd", range(len(PIECES)))
@pytest.mark.parametrize("usual", range(3))
def test_anything_may_stand_within_a_row(usual: int, odd: int) -> None:
    for before in range(3):
        row = PIECES[usual] * before + PIECES[odd] + PIECES[usual] * 5 + PIECES[odd] * 2
        reads = [b"".join([*BEGIN, row])]
        assert together(reads) == plainly(reads)


def test_pieces_of_a_text_come_as_one_row_with_or_without_names() -> None:
    for name in (TEXT, ""):
        machine = OpenAIResponses("m", api_key="k").decoder()
        fields = '"output_index":0,"content_index":0,"sequence_number":%d,"delta":"w%d "'
        row = [piece(TEXT, fields % (n, n), name=name) for n in range(100)]
        rows = machine.feed_parts(b"".join([BEGIN[0], *row]))  # type: ignore[attr-defined] # pyright: ignore
        assert [one.__class__ for one in rows[-1:]] == [Deltas]  # pyright: ignore
        assert list(rows[-1]) == [TextDelta(0, f"w{n} ") for n in range(100)]  # pyright: ignore


def test_the_end_of_a_text_adds_only_what_no_row_has_brought() -> None:
    end = piece("response.output_text.done", '"output_index":0,"content_index":0,"text":"aaaaaab"')
    reads = [BEGIN[0] + PIECES[0] * 6 + end]
    assert together(reads) == plainly(reads)
    assert repr(TextDelta(0, "b")) in together(reads)


def test_texts_that_alternate_cost_the_same_each_in_a_long_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    texts_like = decode._texts_like  # pyright: ignore[reportPrivateUsage]

    def counted(first: WireEvent, read: Iterator[WireEvent]) -> object:
        nonlocal looks
        before = length_hint(read)
        found = texts_like(first, read)
        looks += before - length_hint(read)
        return found

    monkeypatch.setattr(decode, "_texts_like", counted)
    begin, text, call = (SseDecoder().feed(b"".join(some)) for some in (BEGIN, PIECES[:1], PIECES[1:2]))
    frames = [*begin, *(text + call) * 500]
    OpenAIResponsesDecoder().feed_many(frames)
    assert 500 < looks < 3 * len(frames)


def chunk(delta: str, more: str = "", *, choice: int = 0, name: str = "") -> bytes:
    return frame(f'{{"choices":[{{"index":{choice},"delta":{delta}{more}}}]}}', name)


def call_piece(fields: str, function: str = '{"arguments":"1"}') -> str:
    return f'{{"tool_calls":[{{{fields},"function":{function}}}]}}'


# What may stand in a row of chunks of Chat Completions, with what is ordinary first.
CHUNKS: list[bytes] = [
    chunk('{"content":"a"}'),
    chunk(call_piece('"index":0')),
    chunk(call_piece('"index":1')),
    chunk('{"content":"b"}', name="chunk"),
    chunk('{"content":"c"}', choice=1),
    chunk('{"content":""}'),
    chunk('{"content":["d"]}'),
    chunk('{"content":"e","refusal":"no"}'),
    chunk('{"reasoning_content":"f"}'),
    chunk('{"reasoning_content":""}'),
    chunk('{"content":"g"}', ',"usage":{"total_tokens":7}'),
    chunk('{"content":"h"}', ',"finish_reason":"stop"'),
    chunk('{"content":7}'),
    chunk("null"),
    chunk('{"content":"\\ud83d"}'),
    chunk('{"content":"\\ude00"}'),
    chunk('{"content":"i"}', name="error"),
    chunk(call_piece('"index":0,"id":"x"', '{"name":"f","arguments":""}')),
    chunk(call_piece('"index":1,"id":"y"', '{"name":"g","arguments":"{"}')),
    chunk(call_piece('"index":2')),
    chunk(call_piece('"index":0', '{"arguments":{}}')),
    chunk(call_piece('"index":0,"extra_content":{"k":1}')),
    chunk(call_piece('"index":0', '{"name":"f","arguments":"{}"}')),
    chunk(call_piece('"id":"x"')),
    chunk('{"content":"j","tool_calls":[{"index":0,"function":{"arguments":"2"}}]}'),
    chunk("{}", ',"finish_reason":"tool_calls"'),
    frame('{"choices":[],"usage":{"total_tokens":9}}'),
    frame('{"choices":[{"delta":{"content":"k"}}],"error":{"message":"broken"}}'),
    frame('{"error":{"message":"broken"}}'),
    b"data: [DONE]\n\n",
    b": wait\n\n",
    b"data: {broken\n\n",
]


@given(
    st.lists(st.tuples(st.integers(0, 99).map(lambda n: n % len(CHUNKS)), st.integers(1, 5))),
    st.lists(st.integers(1, 700), max_size=9),
)
@settings(max_examples=200, deadline=None)
def test_chunks_of_a_chat_that_came_together_make_what_they_make_one_by_one(
    runs: list[tuple[int, int]], cuts: list[int]
) -> None:
    opened = b"".join([CHUNKS[17], CHUNKS[18], *(CHUNKS[which] * n for which, n in runs)])
    for stream in (opened, opened[len(CHUNKS[17]) :]):
        batch = BatchDecoder(SseDecoder(stray=True), OpenAIChatDecoder())
        reads = [stream[at:end] for at, end in pairwise([0, *accumulate(cuts), len(stream)])]
        plain = one_by_one(SseDecoder(stray=True), OpenAIChatDecoder(), reads)
        assert told(batch.feed, reads) + map_repr(batch.finish()) == map_repr(plain)


def test_pieces_of_a_call_of_a_chat_come_as_one_value() -> None:
    machine = OpenAIChat("m", api_key="k").decoder()
    parts = machine.feed_parts(CHUNKS[17] + CHUNKS[1] * 9)  # type: ignore[attr-defined] # pyright: ignore
    assert [len(part) for part in parts if isinstance(part, Deltas)] == [9]  # pyright: ignore
