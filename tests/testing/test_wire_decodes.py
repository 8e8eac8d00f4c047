"""What the renderers write, the decoders read as what the scripted model tells: each is tested with the other."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    InputJsonDelta,
    ResponseEvent,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.messages import Json, StopKind
from rxworker.testing import (
    Call,
    Reply,
    anthropic_frames,
    cut,
    fail,
    gemini_frames,
    ollama_frames,
    openai_chat_frames,
    openai_responses_frames,
    say,
    think,
)
from rxworker.testing.reply import reply_events
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames
from tests.decoded import decoded

USAGE = Usage(input_tokens=100, output_tokens=7, cache_read_tokens=60, cache_creation_tokens=30)
CALLS = Reply(tool_calls=(Call("look", {"at": "世界", "n": [1]}, "id-1"), Call("now", id="id-2")))
REPLIES = [
    say("Hello, 世界."),
    think("hmm") + say("Hello"),
    say("Let me look.") + CALLS,
    think("two") + CALLS,
    say("cut off here", stop=StopKind.MAX_TOKENS),
    say("", usage=Usage(input_tokens=1, output_tokens=0)),
    say("half") + cut(),
    say("half") + fail("no more", "server"),
    CALLS + cut(),
    fail("too many requests, slow down", "rate_limit"),  # Ollama has only the words to tell by
    fail("nobody there", "server"),
]


FRAMES: dict[str, Callable[[Reply], list[bytes]]] = {
    "anthropic": anthropic_frames,
    "openai_chat": openai_chat_frames,
    "openai_responses": openai_responses_frames,
    "gemini": gemini_frames,
    "gemini_interactions": gemini_interactions_frames,
    "ollama": ollama_frames,
}


def through(name: str, reply: Reply) -> list[ResponseEvent]:
    return decoded(name, *FRAMES[name](reply))


def told(events: Sequence[ResponseEvent]) -> dict[str, object]:
    """What a stream of events comes to, without the ways in which protocols differ."""
    blocks: dict[int, tuple[BlockType, str, str]] = {}
    texts: dict[int, list[str]] = {}
    summary: dict[str, object] = {}
    for event in events:
        match event:
            case BlockStart(index=index, block_type=kind, metadata=ToolUseMetadata(id, name)):
                blocks[index] = (kind, id, name)
            case BlockStart(index=index, block_type=kind):
                blocks[index] = (kind, "", "")
            case TextDelta() | ThinkingDelta() | InputJsonDelta():
                texts.setdefault(event.index, []).append(event.text)
            case Error():
                summary["error"] = (event.kind, event.retryable)
            case Status(status=ResponseStatus.COMPLETED, stop_reason=reason):
                summary["stop"] = reason and reason.kind
            case Status(status=ResponseStatus.FAILED):
                summary["failed"] = True
            case _:
                pass
    summary["blocks"] = [
        (*block, arguments(block[0], "".join(texts.get(index, [])))) for index, block in sorted(blocks.items())
    ]
    return summary


def arguments(kind: BlockType, text: str) -> Json:
    """Arguments as their value: whether none are written as ``{}`` or not at all is a matter of the protocol."""
    if kind is not BlockType.TOOL_USE:
        return text
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return text


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("name", FRAMES)
def test_the_decoder_reads_what_the_scripted_model_emits(name: str, reply: Reply) -> None:
    assert told(through(name, reply)) == told(reply_events(reply))


@pytest.mark.parametrize("name", FRAMES)
def test_the_usage_is_counted_the_same(name: str) -> None:
    usage = [e for e in through(name, say("x", usage=USAGE)) if isinstance(e, Usage)][-1]

    assert (usage.input_tokens, usage.output_tokens) == (100, 7)
    assert usage.cache_read_tokens == (None if name == "ollama" else 60)


def test_the_seal_on_the_thinking_arrives() -> None:
    assert SignatureDelta(0, "seal") in through("anthropic", think("hm", "seal"))


@pytest.mark.parametrize("name", ["openai_responses", "gemini"])
def test_a_seal_that_is_only_echoed_is_kept_with_a_block(name: str) -> None:
    for reply in (think("hm", "seal") + say("Hi"), think("hm", "seal") + CALLS):
        blocks = [e for e in through(name, reply) if isinstance(e, BlockStart | BlockStop)]
        assert "seal" in str([block.echo for block in blocks])
