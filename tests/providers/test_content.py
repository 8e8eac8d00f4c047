"""Content of a user's message, in the form of each provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rxworker.errors import LocalProtocolError
from rxworker.messages import (
    Audio,
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.providers.anthropic.encode import MessagesEncoder as AnthropicEncoder
from rxworker.providers.encode_cache import array
from rxworker.providers.gemini.provider import encode_contents
from rxworker.providers.ollama.provider import encode_messages
from rxworker.providers.openai_chat.provider import MessagesEncoder as ChatEncoder
from rxworker.providers.openai_responses.provider import InputEncoder

Encode = Callable[[Message], Any]


def anthropic(message: Message) -> Any:
    encoder = AnthropicEncoder()
    encoder.feed_new([message])
    return json.loads(msgspec.json.encode(encoder.messages()))[0]["content"]


def chat(message: Message) -> Any:
    encoder = ChatEncoder()
    encoder.feed_new([message])
    return json.loads(msgspec.json.encode(encoder.messages(None)))[-1]["content"]


def items(message: Message) -> Any:
    encoder = InputEncoder()
    encoder.feed_new([message])
    return json.loads(msgspec.json.encode(array(encoder.items)))


def responses(message: Message) -> Any:
    last = items(message)[-1]
    return last.get("content", last.get("output"))


def gemini(message: Message) -> Any:
    return encode_contents([message])[0]["parts"]


def ollama(message: Message) -> Any:
    return encode_messages(Conversation((message,)))


ALL = (anthropic, chat, responses, gemini, ollama)


@pytest.mark.parametrize("encode", ALL)
@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Image("cat.png"), r"Image\.from_file\('cat\.png'\)"),
        (Document("cat.pdf"), r"Document\.from_file\('cat\.pdf'\)"),
        (Image(), "neither data nor a url nor a file id"),
        (Document(), "neither data nor a url nor a file id"),
    ],
)
def test_a_block_without_content_raises_before_it_is_sent_or_is_a_text_in_a_result(
    encode: Encode, block: Image | Document, message: str
) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        encode(Message.user(block))
    assert "[left out of this result: " in str(encode(Message.user(ToolResult("x", (block,)))))


@pytest.mark.parametrize(
    ("encode", "block", "expected"),
    [
        (anthropic, Image(file_id="f"), {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        (
            anthropic,
            Document(file_id="f", title="t", citations=True, context="c"),
            {
                "type": "document",
                "source": {"type": "file", "file_id": "f"},
                "title": "t",
                "context": "c",
                "citations": {"enabled": True},
            },
        ),
        (chat, Document(file_id="f"), {"type": "file", "file": {"file_id": "f"}}),
        (responses, Image(file_id="f"), {"type": "input_image", "file_id": "f", "detail": "auto"}),
        (responses, Document(file_id="f"), {"type": "input_file", "file_id": "f"}),
        (gemini, Image(file_id="f"), {"fileData": {"mimeType": "image/png", "fileUri": "f"}}),
    ],
)
def test_a_file_id_is_sent(encode: Encode, block: Image | Document, expected: Any) -> None:
    assert encode(Message.user(block)) == [expected]


@pytest.mark.parametrize(
    ("encode", "block"), [(chat, Image(file_id="f")), (ollama, Image(file_id="f")), (ollama, Document(file_id="f"))]
)
def test_a_file_id_that_a_provider_cannot_take_raises(encode: Encode, block: Image | Document) -> None:
    with pytest.raises(LocalProtocolError, match="takes no file id"):
        encode(Message.user(block))


@pytest.mark.parametrize(
    ("encode", "echo"),
    [
        (anthropic, {"type": "container_upload", "file_id": "f"}),
        (chat, {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}),
        (gemini, {"inlineData": {"mimeType": "audio/wav", "data": "AA"}}),
    ],
)
def test_an_opaque_block_of_a_user_is_sent_as_it_is(encode: Encode, echo: Any) -> None:
    assert encode(Message.user(OpaqueBlock("x", echo))) == [echo]


@pytest.mark.parametrize(
    "kind", ["computer_call_output", "shell_call_output", "apply_patch_call_output", "mcp_approval_response"]
)
def test_responses_sends_an_output_beside_the_result_of_a_tool(kind: str) -> None:
    item: JsonObject = {"type": kind, "call_id": "c"}
    result, sent = items(Message.user(ToolResult("x", "ok"), OpaqueBlock(kind, item)))
    assert (result["type"], sent) == ("function_call_output", item)


@pytest.mark.parametrize("encode", ALL)
def test_an_opaque_block_of_a_user_without_echo_raises(encode: Encode) -> None:
    with pytest.raises(LocalProtocolError, match="leave the block out"):
        encode(Message.user("hello", OpaqueBlock("x")))


def test_chat_sends_a_refusal_that_a_user_quotes() -> None:
    assert chat(Message.user(Refusal("no"))) == "no"


def test_audio_is_sent_where_the_provider_takes_it() -> None:
    message = Message.user(Audio("audio/x-wav", "AA"))
    assert chat(message) == [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]
    assert gemini(message) == [{"inlineData": {"mimeType": "audio/x-wav", "data": "AA"}}]


@pytest.mark.parametrize("encode", [chat, gemini])
def test_audio_without_data_raises(encode: Encode) -> None:
    with pytest.raises(LocalProtocolError, match="from_file"):
        encode(Message.user(Audio()))


def test_a_recording_keeps_the_parameters_of_its_type_where_the_provider_takes_any() -> None:
    assert (
        gemini(Message.user(Audio("audio/L16;rate=24000", "AA")))[0]["inlineData"]["mimeType"] == "audio/L16;rate=24000"
    )


def test_chat_names_the_audio_that_it_takes() -> None:
    with pytest.raises(LocalProtocolError, match="only wav and mp3"):
        chat(Message.user(Audio("audio/ogg", "AA")))


@pytest.mark.parametrize("encode", ALL)
@pytest.mark.parametrize(
    "block", [Thinking("hm"), ToolCall("1", "look", {}), ServerToolCall("1", "s"), ServerToolResult("1")]
)
def test_a_block_that_only_a_model_produces_raises_in_a_users_message(
    encode: Encode, block: Thinking | ToolCall | ServerToolCall | ServerToolResult
) -> None:
    with pytest.raises(LocalProtocolError, match=r"message of the assistant.*repair"):
        encode(Message.user("hello", block))


def test_ollama_raises_for_a_document_that_is_not_text() -> None:
    with pytest.raises(LocalProtocolError, match="application/pdf; send its text"):
        ollama(Message.user(Document(data="AA")))


def test_responses_sends_a_block_of_an_answer_that_a_user_quotes() -> None:
    item: JsonObject = {"type": "shell_call_output", "call_id": "c", "output": []}
    block = OpaqueBlock("shell_call_output", {"type": "x", "output_index": 1, "item": item})
    assert items(Message.user(block, "go on")) == [item, {"role": "user", "content": "go on"}]
    placed: JsonObject = {"type": "new", "output_index": 1}
    assert items(Message.user(OpaqueBlock("new", placed))) == [placed]


def test_audio_of_a_tool_is_sent_where_the_provider_takes_it() -> None:
    message = Message.user(ToolResult("1", (Audio(data="AA"),), name="listen"))
    assert chat(message)[1:] == [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]
    assert gemini(message)[2:] == [{"inlineData": {"mimeType": "audio/wav", "data": "AA"}}]


@pytest.mark.parametrize("encode", [anthropic, responses, ollama])
def test_audio_raises_and_is_a_text_in_a_result_where_the_provider_takes_none(encode: Encode) -> None:
    with pytest.raises(LocalProtocolError, match="transcript"):
        encode(Message.user(Audio(data="AA")))
    assert "takes no Audio]" in str(encode(Message.user(ToolResult("1", (Audio(data="AA"),)))))
