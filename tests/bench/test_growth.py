"""Twice as much costs twice as much: framing, decoding, operators and folds. Work is counted, not timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import msgspec
import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import VirtualTimeScheduler

from rxworker.events import BlockDelta, BlockEvent, Event, Record, ResponseEvent
from rxworker.events.meta import Meta
from rxworker.framing import Decoder, NdjsonDecoder, SseDecoder
from rxworker.messages import Conversation, Json, JsonObject, Message, Text, ToolCall, ToolResult, repair
from rxworker.operators import (
    Block,
    coalesce,
    events,
    fold_scope,
    group_blocks,
    merge_deltas,
    only,
    scan_scope,
    split_meta,
    text_deltas,
    thinking_deltas,
    tool_inputs,
)
from rxworker.operators.kernel import Operator
from rxworker.providers import Anthropic, Gemini, Ollama, OpenAIChat, OpenAIResponses, Options
from rxworker.state import ResponseState, fold_run, message_of, step_response
from rxworker.testing import Reply, anthropic_frames, call, lint, openai_chat_frames, say, think
from rxworker.testing.reply import reply_events
from rxworker.timeline import TextBlockCollector, Timeline, ToolCallCollector
from rxworker.views import summarise

Task = Callable[[], object]
AssertLinear = Callable[..., None]
MakeReply = Callable[[int], Reply]


def texts(n: int) -> Reply:
    return say("word" * n)


def thoughts(n: int) -> Reply:
    return think("word" * n) + say("done")


def arguments(n: int) -> Reply:
    return call("write", text="word" * n)


def members(n: int) -> Reply:
    return call("write", **{f"field_{place}": "word" for place in range(n // 4)})


def blocks(n: int) -> Reply:
    calls = [call("look", at=str(place)) for place in range(n // 4)]
    return sum(calls, start=say("many"))


REPLIES = pytest.mark.parametrize("make", [texts, thoughts, arguments, members, blocks])


def feeding(decoder: Decoder[bytes, object], pieces: Sequence[bytes]) -> Task:
    def feed() -> None:
        for piece in pieces:
            decoder.feed(piece)
        decoder.finish()

    return feed


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def records(told: Sequence[ResponseEvent]) -> list[Record]:
    return [Record(seq, "run", 1, 1, 0.0, event) for seq, event in enumerate(told, 1)]


# the counter itself


def test_a_buffer_that_is_searched_again_with_each_piece_is_found_out(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        def search() -> None:
            held = b""
            for _ in range(n):
                held += b"word"
                held.find(b"\n")

        return search

    with pytest.raises(AssertionError, match="for twice as many"):
        assert_linear(prepare)


def test_a_loop_over_everything_so_far_is_found_out(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        def look() -> None:
            for end in range(n):
                for _ in range(end):
                    pass

        return look

    with pytest.raises(AssertionError, match="for twice as many"):
        assert_linear(prepare)


def test_text_that_is_joined_again_with_each_piece_is_found_out(assert_linear: AssertLinear) -> None:
    """One call of C for each piece, as many as there are pieces: only the memory tells."""

    def prepare(n: int) -> Task:
        def join() -> None:
            pieces: list[str] = []
            for _ in range(n):
                pieces.append("word")
                "".join(pieces)

        return join

    with pytest.raises(AssertionError, match="bytes for"):
        assert_linear(prepare)


def test_the_same_task_is_always_the_same_work(work_of: Callable[[Task], int]) -> None:
    def task() -> None:
        summarise(reply_events(texts(50)))

    task()
    assert work_of(task) == work_of(task) > 50


# framing


# The decoder, what stands before, what comes again and again, what stands behind.
Shape = tuple[Callable[[], Decoder[bytes, object]], bytes, bytes, bytes]
stray_too = partial(SseDecoder, stray=True)
SHAPES: dict[str, Shape] = {
    "sse, one long line": (stray_too, b"data: ", b"x", b"\n\n"),
    "sse, one long line in a frame of many": (stray_too, b"data: 1\n\nevent: long\ndata: ", b"x", b"\n\n"),
    "sse, many lines": (stray_too, b"", b"data: 12345678\n", b"\n"),
    "sse, lines that end with CR": (stray_too, b"", b"data: 12345678\r", b"\r"),
    "sse, lines that end with both": (stray_too, b"", b"data: 12345678\r\n", b"\r\n"),
    "sse, a comment": (stray_too, b":", b"x", b"\n\n"),
    "sse, stray lines": (stray_too, b"", b"{what is this}\n", b"\n"),
    "sse, many frames": (stray_too, b"", b"event: some\ndata: 1234\n\n", b""),
    "sse, never an end": (stray_too, b"data: 1\n", b"x", b""),
    "ndjson, one long line": (NdjsonDecoder, b'"', b"x", b'"\n'),
    "ndjson, many lines": (NdjsonDecoder, b"", b'{"a": 1}\n', b""),
    "ndjson, empty lines": (NdjsonDecoder, b"", b"\r\n", b""),
    "ndjson, never an end": (NdjsonDecoder, b"", b"x", b""),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_framing_byte_by_byte(shape: Shape, assert_linear: AssertLinear) -> None:
    make, before, again, behind = shape

    def prepare(n: int) -> Task:
        return feeding(make(), bytewise(before + again * (n // len(again) + 1) + behind))

    assert_linear(prepare, 1_500)


@pytest.mark.parametrize("make", [SseDecoder, NdjsonDecoder])
def test_many_frames_in_one_chunk(make: Callable[[], Decoder[bytes, object]], assert_linear: AssertLinear) -> None:
    """The frames are taken by one call of C; what that does is not counted, the length of the text is."""

    def prepare(n: int) -> Task:
        return feeding(make(), [b"id: 1\ndata: 1234\n\n" * n])

    assert_linear(prepare)


# decoding


def sse(*told: Json) -> list[bytes]:
    return [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in told]


def responses_text(n: int) -> list[bytes]:
    place: JsonObject = {"item_id": "m", "output_index": 0, "content_index": 0}
    delta: JsonObject = {"type": "response.output_text.delta", **place, "delta": "word"}
    item: JsonObject = {"type": "message", "id": "m", "role": "assistant", "content": []}
    first: JsonObject = {"type": "response.output_item.added", "output_index": 0, "item": item}
    return sse(first, *[delta] * n)


def responses_arguments(n: int) -> list[bytes]:
    kind = "response.function_call_arguments.delta"
    delta: JsonObject = {"type": kind, "item_id": "f", "output_index": 0, "delta": "word"}
    item: JsonObject = {"type": "function_call", "id": "f", "call_id": "c", "name": "look"}
    first: JsonObject = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}}
    return sse(first, *[delta] * n)


def gemini_text(n: int) -> list[bytes]:
    content: JsonObject = {"role": "model", "parts": [{"text": "word"}]}
    chunk: JsonObject = {"candidates": [{"content": content, "index": 0}]}
    return sse(*[chunk] * n)


def ollama_text(n: int) -> list[bytes]:
    line: JsonObject = {"message": {"role": "assistant", "content": "word"}, "done": False}
    return [msgspec.json.encode(line) + b"\n"] * n


OTHERS: dict[str, tuple[Callable[[], Decoder[bytes, object]], Callable[[int], list[bytes]]]] = {
    "responses text": (OpenAIResponses("m").decoder, responses_text),
    "responses arguments": (OpenAIResponses("m").decoder, responses_arguments),
    "gemini text": (Gemini("m").decoder, gemini_text),
    "ollama text": (Ollama("m").decoder, ollama_text),
}


@pytest.mark.parametrize("name", OTHERS)
def test_decoding_the_others(name: str, assert_linear: AssertLinear) -> None:
    """Streams that break off: the deltas are what is looked at, and each must come out as one."""
    decoder, told = OTHERS[name]
    machine = decoder()
    came = [event for frame in told(9) for event in machine.feed(frame)]
    assert sum(isinstance(event, BlockDelta) for event in came) == 9

    def prepare(n: int) -> Task:
        return feeding(decoder(), told(n))

    assert_linear(prepare)


# operators


def same_meta(source: Observable[Meta]) -> Observable[Meta]:
    return source


def same_blocks(source: Observable[BlockEvent]) -> Observable[BlockEvent]:
    return source


def one_more(count: int, _: BlockEvent) -> int:
    return count + 1


def followed(block: Block) -> Observable[int]:
    return block.pipe(ops.count())


def gathered(source: Observable[Event]) -> Observable[object]:
    """Blocks that replay, each read from the start when the stream is over."""

    def read(all_blocks: list[Block]) -> Observable[int]:
        return reactivex.merge(*[followed(block) for block in all_blocks])

    return source.pipe(group_blocks(replay=True), ops.to_list(), ops.flat_map(read))


def timeline(source: Observable[Event]) -> Observable[Event]:
    handlers = Timeline()
    handlers.on_text_block(TextBlockCollector())
    handlers.on_tool_use_block(ToolCallCollector())
    return source.pipe(handlers)


def grouped(source: Observable[Event]) -> Observable[object]:
    return source.pipe(group_blocks(), ops.flat_map(followed))


def scanned(source: Observable[Event]) -> Observable[object]:
    return source.pipe(group_blocks(), scan_scope(one_more, 0))


def folded(source: Observable[Event]) -> Observable[object]:
    return source.pipe(group_blocks(), fold_scope(one_more, 0))


OPERATORS: dict[str, Operator[Event, object]] = {
    "text_deltas": text_deltas(),
    "thinking_deltas": thinking_deltas(),
    "tool_inputs": tool_inputs(),
    "only": only(ResponseState),
    "split_meta": split_meta(same_meta, same_blocks),
    "group_blocks": grouped,
    "group_blocks(replay)": gathered,
    "scan_scope": scanned,
    "fold_scope": folded,
    "coalesce": coalesce(1.0, VirtualTimeScheduler()),
    "Timeline": timeline,
}


def test_the_events_of_records(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        told = records(reply_events(texts(n)))
        return lambda: reactivex.from_iterable(told).pipe(events()).subscribe()

    assert_linear(prepare)


# replies of all kinds


def decoding_anthropic(reply: Reply) -> Task:
    return feeding(Anthropic("model").decoder(), anthropic_frames(reply))


def decoding_openai_chat(reply: Reply) -> Task:
    return feeding(OpenAIChat("model").decoder(), openai_chat_frames(reply))


def of_events(work: Callable[[Sequence[ResponseEvent]], object]) -> Callable[[Reply], Task]:
    return lambda reply: partial(work, reply_events(reply))


def through(operator: Operator[Event, object]) -> Callable[[Reply], Task]:
    return of_events(lambda told: reactivex.from_iterable(told).pipe(operator).subscribe())


def folding_a_response(told: Sequence[ResponseEvent]) -> None:
    assert message_of(reduce(step_response, told, ResponseState()), "some") is not None


def members_when_whole(source: Observable[Event]) -> Observable[object]:
    """The views share what they show; only who asks for the members pays for them."""
    return source.pipe(tool_inputs(), ops.to_list())


WORK: dict[str, Callable[[Reply], Task]] = {
    "decoding anthropic": decoding_anthropic,
    "decoding openai_chat": decoding_openai_chat,
    "summing up": of_events(summarise),
    "merging deltas": of_events(merge_deltas),
    "folding a response": of_events(folding_a_response),
    "folding a run": lambda reply: partial(fold_run, records(reply_events(reply))),
    "looking for faults": of_events(lint),
    "looking at the arguments whenever a member is whole": through(members_when_whole),
    **{f"the operator {name}": through(operator) for name, operator in OPERATORS.items()},
}


@REPLIES
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_reply_of_twice_the_size(work: Callable[[Reply], Task], make: MakeReply, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        return work(make(n))

    assert_linear(prepare)


# conversations


def conversation(n: int) -> Conversation:
    said: list[Message] = []
    for place in range(n):
        called = ToolCall(f"call_{place}", "look", {"at": place})
        said.append(Message.user("What is there?"))
        said.append(Message("assistant", (Text("I will look."), called)))
        said.append(Message("user", (ToolResult(called.id, "A house."),)))
        said.append(Message("assistant", (Text("There is a house."),)))
    return Conversation(tuple(said))


@pytest.mark.parametrize("provider", [Anthropic("m", api_key="k"), OpenAIChat("m", api_key="k")])
def test_encoding_a_conversation(provider: Anthropic | OpenAIChat, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        said = conversation(n)
        return lambda: provider.request(said, (), Options())

    assert_linear(prepare, 100)


def test_repairing_a_conversation(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        said = conversation(n)
        cut = Conversation(tuple(m for m in said.messages if not m.tool_results))
        return lambda: repair(cut)

    assert_linear(prepare, 100)
