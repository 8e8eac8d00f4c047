"""What a service has sealed goes back to that service and to models of that maker, and nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker import Worker, tool
from rxworker.errors import ProviderError
from rxworker.events import Event, Opaque
from rxworker.log import MemoryLog
from rxworker.messages import Content, Conversation, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from rxworker.operators import events
from rxworker.providers import (
    Anthropic,
    AnthropicBedrock,
    Bedrock,
    Gemini,
    GeminiInteractions,
    OpenAIChat,
    OpenAIResponses,
    Options,
)
from rxworker.providers.origin import MAX_REFUSED, UNSEALED, Refused, maker_of, service_at
from rxworker.providers.service import Service
from rxworker.testing import ReplayServer, call
from rxworker.testing.server import AnswerLike, Received, ServedResponse
from rxworker.transport import Client, Retry, fallback

SEAL = "U0VBTEVE" * 8
NEVER = Retry(retries=0)
LOOK = ToolCall("call_1", "look", {"at": "a"})


@tool
async def look(at: str) -> str:
    """Look."""
    return at


Make = Callable[[str, str], Service]
PROTOCOLS: dict[str, tuple[Make, tuple[Content, ...]]] = {
    "anthropic": (
        lambda model, url: Anthropic(model, api_key="k", base_url=url),
        (Thinking("Hm.", signature=SEAL), LOOK),
    ),
    "anthropic on bedrock": (
        lambda model, url: AnthropicBedrock(model, api_key="k", region="us-east-1", base_url=url),
        (Thinking("Hm.", signature=SEAL), LOOK),
    ),
    "bedrock": (
        lambda model, url: Bedrock(model, api_key="k", region="us-east-1", base_url=url),
        (Thinking("Hm.", signature=SEAL), LOOK),
    ),
    "openai_chat": (
        lambda model, url: OpenAIChat(model, api_key="k", base_url=url),
        (replace(LOOK, echo={"extra_content": {"google": {"thought_signature": SEAL}}}),),
    ),
    "openai_responses": (
        lambda model, url: OpenAIResponses(model, api_key="k", base_url=url),
        (
            Thinking(
                "Hm.",
                echo={
                    "type": "reasoning",
                    "output_index": 0,
                    "item": {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": SEAL},
                },
            ),
            LOOK,
        ),
    ),
    "gemini": (
        lambda model, url: Gemini(model, api_key="k", base_url=url),
        (replace(LOOK, echo={"thoughtSignature": SEAL}),),
    ),
    "gemini_interactions": (
        lambda model, url: GeminiInteractions(model, api_key="k", base_url=url),
        (Thinking("Hm.", echo={"step": {"type": "thought", "signature": SEAL}}), LOOK),
    ),
}
SERVICES = ("https://one.example.com", "https://two.example.com")
MODELS = ("claude-opus-4-8", "anthropic.claude-haiku-4-5", "gpt-5.1", "openai/gpt-oss-120b", "my-deployment")
PLACES = tuple(product(SERVICES, MODELS))


def said(name: str, url: str, model: str) -> Conversation:
    """A tool loop of which the first answer came from there."""
    make, content = PROTOCOLS[name]
    provider = make(model, url)
    answer = Message("assistant", content, provider.name, model, service=provider.service)
    return Conversation((Message.user("hi"), answer, Message.user(ToolResult("call_1", "a", name="look"))))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_sealed_goes_where_service_and_maker_match(name: str) -> None:
    make = PROTOCOLS[name][0]
    for (url, model), (to_url, to_model) in product(PLACES, PLACES):
        body = make(to_model, to_url).request(said(name, url, model), (), Options()).body.decode()
        makers = {maker_of(model), maker_of(to_model)} - {""}
        assert (SEAL in body) is (url == to_url and len(makers) < 2), (url, model, to_url, to_model)
        assert "look" in body


def name_in_messages(protocol: str) -> str:
    return PROTOCOLS[protocol][0]("m", SERVICES[0]).name


@pytest.mark.parametrize(
    ("name", "to"), [pair for pair in product(PROTOCOLS, PROTOCOLS) if len({*map(name_in_messages, pair)}) == 2]
)
def test_what_is_sealed_stays_in_its_protocol(name: str, to: str) -> None:
    for (url, model), (to_url, to_model) in product(PLACES, PLACES):
        body = PROTOCOLS[to][0](to_model, to_url).request(said(name, url, model), (), Options()).body.decode()
        assert SEAL not in body
        assert "look" in body


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_message_that_was_stored_without_its_service_goes_back_as_before(name: str) -> None:
    conversation = said(name, SERVICES[0], "claude-opus-4-8")
    older = conversation.with_messages([replace(message, service=None) for message in conversation.messages])
    provider = PROTOCOLS[name][0]("claude-opus-4-8", SERVICES[1])
    assert SEAL in provider.request(older, (), Options()).body.decode()


@pytest.mark.parametrize(
    ("model", "maker"),
    [
        ("claude-opus-5-5", "anthropic"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic"),
        ("MiniMax-M3", "minimax"),
        ("kimi-k2.6", "moonshot"),
        ("accounts/fireworks/models/deepseek-v4-pro", "deepseek"),
        ("us.amazon.nova-pro-v1:0", "amazon"),
        ("meta.llama4-maverick-17b-instruct-v1:0", "meta"),
        ("nvidia/llama-3.1-nemotron-70b-instruct", "nvidia"),
        ("openai/gpt-oss-120b", "openai"),
        ("ft:gpt-4.1:acme", "openai"),
        ("o4-mini", "openai"),
        ("qwen/qwen3.7-max", "alibaba"),
        ("grok-4.6", "xai"),
        ("openrouter/auto", ""),
        ("my-deployment", ""),
    ],
)
def test_the_maker_of_a_model_is_known_by_its_name(model: str, maker: str) -> None:
    assert maker_of(model) == maker


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("https://api.anthropic.com/v1/messages", "api.anthropic.com"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", "bedrock-runtime.amazonaws.com"),
        ("https://bedrock-mantle.eu-west-1.api.aws/v1", "bedrock-mantle.api.aws"),
        ("https://europe-west4-aiplatform.googleapis.com/v1", "aiplatform.googleapis.com"),
        ("https://one.openai.azure.com/openai/v1", "one.openai.azure.com"),
        ("http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("https://api.openai.com:443/v1", "api.openai.com"),
        ("http://127.0.0.1:443/v1", "127.0.0.1:443"),
    ],
)
def test_a_service_is_a_host_in_whichever_region(url: str, service: str) -> None:
    assert service_at(url) == service


# --- with workers


def stream(*blocks: JsonObject, stop: str) -> ServedResponse:
    """An answer of Anthropic's, with these blocks."""
    made: list[JsonObject] = [{"type": "message_start", "message": {"id": "m", "model": "", "usage": {}}}]
    for index, block in enumerate(blocks):
        made.append({"type": "content_block_start", "index": index, "content_block": block})
        made.append({"type": "content_block_stop", "index": index})
    made.append({"type": "message_delta", "delta": {"stop_reason": stop}})
    made.append({"type": "message_stop"})
    frames = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in made]
    return ServedResponse.from_frames(frames, "text/event-stream")


THOUGHT: JsonObject = {"type": "thinking", "thinking": "Hm.", "signature": SEAL}
CALLED: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "a"}}
INVALID = "messages.1.content.0: Invalid `signature` in `thinking` block"


def refused(message: str = INVALID, status: int = 400) -> ServedResponse:
    return ServedResponse.from_status(status, body={"error": {"type": "invalid_request_error", "message": message}})


def strict(*answers: AnswerLike) -> Callable[[Received], AnswerLike]:
    """A service that takes nothing that is sealed."""
    left = iter(answers)
    return lambda received: refused() if SEAL in json.dumps(received.body) else next(left)


async def test_a_run_goes_on_at_another_service() -> None:
    first = [stream(THOUGHT, CALLED, stop="tool_use"), ServedResponse.from_status(529, body={})]
    async with ReplayServer(first) as one, ReplayServer(strict(call("look", at="b"), "Done.", "Yes.")) as other:
        clients = [
            Client(Anthropic("MiniMax-M3", api_key="k", base_url=one.base_url), retry=NEVER),
            Client(Anthropic("claude-opus-4-8", api_key="k", base_url=other.base_url), retry=NEVER),
        ]
        worker = Worker(fallback(*clients), tools=[look])
        result = await worker.run("Look.")
        services = [message.service for message in result.conversation.messages if message.role == "assistant"]
        assert services == [service_at(one.base_url), *[service_at(other.base_url)] * 2]
        later = Worker(clients[1], conversation=result.conversation, tools=[look])
        assert ((await later.run("And?")).text, len(other.requests)) == ("Yes.", 3)


async def test_a_request_that_was_refused_twice_leaves_the_usage_of_a_fallback_whole() -> None:
    async with (
        ReplayServer([refused(), ServedResponse.from_status(529, body={})]) as one,
        ReplayServer(["Ok."]) as other,
    ):
        clients = [
            Client(Anthropic("claude-opus-4-8", api_key="k", base_url=server.base_url), retry=NEVER)
            for server in (one, other)
        ]
        conversation = said("anthropic", one.base_url, "claude-opus-4-8")
        result = await Worker(fallback(*clients), tools=[look], conversation=conversation).run("And?")
        assert (result.text, len(one.requests), result.usage.is_partial) == ("Ok.", 2, False)


def worker_for(server: ReplayServer, **named: Any) -> Worker:
    client = Client(Anthropic("claude-opus-4-8", api_key="k", base_url=server.base_url), retry=NEVER)
    return Worker(client, tools=[look], **named)


async def test_what_a_service_refuses_is_left_out_and_stays_so() -> None:
    answers = [stream(THOUGHT, CALLED, stop="tool_use"), "Done.", "Yes.", "And again."]
    async with ReplayServer(strict(*answers)) as server, MemoryLog() as log:
        worker = worker_for(server, log=log)
        run = worker.run("Look.")
        seen: list[Event] = []
        run.pipe(events()).subscribe(seen.append)
        result = await run
        assert (result.text, len(server.requests)) == ("Done.", 3)  # with what is sealed, and without it
        (told,) = [event.raw for event in seen if isinstance(event, Opaque)]
        assert isinstance(told, dict)
        assert (told["messages"], "Invalid `signature`" in str(told["reason"])) == (1, True)
        assert [event.kind for event in seen if isinstance(event, Opaque)] == [UNSEALED]
        # The conversation itself has all: another service may take it.
        assert SEAL in str(result.conversation)
        assert ((await worker.run("Again?")).text, len(server.requests)) == ("Yes.", 4)
        # Another process meets the error once more.
        again = worker_for(server, conversation=(await worker.load(result.run_id)).conversation)
        assert ((await again.run("And?")).text, len(server.requests)) == ("And again.", 6)


async def test_what_comes_later_is_sealed_again() -> None:
    later = SEAL[::-1]
    answers = [
        stream(THOUGHT, CALLED, stop="tool_use"),
        stream({**THOUGHT, "signature": later}, {**CALLED, "id": "toolu_2"}, stop="tool_use"),
        "Done.",
    ]
    async with ReplayServer(strict(*answers)) as server:
        assert (await worker_for(server).run("Look.")).text == "Done."
        assert [SEAL in str(one.body) for one in server.requests] == [False, True, False, False]
        assert later in str(server.requests[-1].body)


@pytest.mark.parametrize(
    ("message", "status", "again"),
    [
        (INVALID, 400, True),
        ("The encrypted content gAAA could not be verified.", 400, True),
        ("Encrypted content item_id did not match the target item id.", 400, True),
        ("Could not decrypt the provided encrypted_content.", 400, True),
        ("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.", 404, True),
        ("Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.", 400, True),
        ("Thought signature is not valid", 400, True),
        ("Corrupted thought signature.", 400, True),
        ("container: Container with id 'container_1' not found", 404, True),
        ("messages.1.content.0.thinking.signature: Field required", 400, True),
        ("messages.1.content.0: Invalid `data` in `redacted_thinking` block", 400, True),
        ("`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", 400, True),
        ("The request signature we calculated does not match the signature you provided.", 403, False),
        ("max_tokens: must be at least 1", 400, False),
        ("This model does not support encrypted content.", 400, False),
        ("Invalid schema: item not found in enum", 400, False),
        ("model: claude-opus-4-8 not found", 404, False),
    ],
)
async def test_a_request_is_sent_once_more_only_for_what_is_sealed(message: str, status: int, again: bool) -> None:
    async with ReplayServer(lambda _: refused(message, status)) as server:
        worker = worker_for(server, conversation=said("anthropic", server.base_url, "claude-opus-4-8"))
        with pytest.raises(ProviderError, match="HTTP"):
            await worker.run("And?")
        assert len(server.requests) == 1 + again


async def test_without_anything_sealed_it_is_sent_once() -> None:
    async with ReplayServer(lambda _: refused()) as server:
        with pytest.raises(ProviderError, match="Invalid"):
            await worker_for(server).run("Look.")
        assert len(server.requests) == 1


async def test_runs_at_once_each_go_on_without_what_is_refused() -> None:
    async with ReplayServer(strict("Done.", "Done.")) as server:
        conversation = said("anthropic", server.base_url, "claude-opus-4-8")
        worker = worker_for(server, conversation=conversation)
        other = Worker(worker.model, tools=[look], conversation=conversation)
        results = await asyncio.gather(worker.run("And?"), other.run("And?"))
        assert ([result.text for result in results], len(server.requests)) == (["Done.", "Done."], 4)


async def test_a_response_in_the_background_is_requested_without_what_is_refused() -> None:
    message = "The encrypted content gAAA could not be verified."
    async with ReplayServer(lambda one: refused(message) if SEAL in json.dumps(one.body) else "Done.") as server:
        client = Client(OpenAIResponses("gpt-5.1", api_key="k", base_url=server.base_url), retry=NEVER)
        conversation = said("openai_responses", server.base_url, "gpt-5.1")
        options = Options(extra={"background": True})
        worker = Worker(client, tools=[look], conversation=conversation, options=options)
        assert ((await worker.run("And?")).text, len(server.requests)) == ("Done.", 2)


def test_the_last_refused_messages_are_known() -> None:
    """And all of one conversation, however long it is: it would be refused in each later run."""
    messages = [Message("assistant", (Text(str(n)),), "anthropic") for n in range(MAX_REFUSED + 5)]
    known = Refused()
    known.add(messages[:5])
    known.add(messages[5:])
    kept = known.without(Conversation(tuple(messages))).messages
    assert [message.provider for message in kept] == ["anthropic"] * 5 + [None] * MAX_REFUSED
    known.add(messages)
    everything = known.without(Conversation(tuple(messages))).messages
    assert {message.provider for message in everything} == {None}
    assert everything[-1] is kept[-1]
