"""``Options(cache="auto")``.

What may be cached is marked by the rules of the provider, and the marks move with a tool loop.

The server of these tests caches by the rules of Anthropic, see
https://platform.claude.com/docs/en/build-with-claude/prompt-caching: a request reads the longest prefix that was
written by one before and ends at most 20 blocks before one of its marks, and writes the prefixes that end at its marks,
if they are long enough.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from rxworker.errors import ConfigurationError
from rxworker.messages import (
    CachePoint,
    Content,
    Conversation,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import (
    Anthropic,
    Bedrock,
    Gemini,
    GeminiInteractions,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
)
from rxworker.providers.base import Provider
from rxworker.providers.encode_cache import LIFETIMES

LOOKBACK = 20
LEAST = 1024
MAX = 4
Prefix = tuple[int, int]
"""A beginning of a prompt: its length in bytes, and a number that stands for it."""
TTLS = {None: 0, "5m": 0, "1h": 1}
AUTO = Options(cache="auto")
TOOLS = tuple(
    ToolMeta(name, "It returns what it finds. " * 40, {"type": "object"}) for name in ("look", "listen", "search")
)
SONNET, NOVA = "anthropic.claude-sonnet-4-6", "us.amazon.nova-2-lite-v1:0"


class CachingServer:
    """A server that caches by Anthropic's rules, for bodies of Anthropic, of Bedrock and of Chat."""

    def __init__(self) -> None:
        self._written: set[Prefix] = set()

    def answer(self, body: bytes) -> tuple[int, int]:
        """The tokens of the input, and those of them that were read. Four bytes are a token."""
        prefixes, marks = self._prefixes(msgspec.json.decode(body))
        assert len(marks) <= MAX
        lives = [life for _, life in marks]
        assert lives == sorted(lives, reverse=True), "a mark before one that lives longer"
        read = 0
        for at, _ in marks:
            near = [end for end in prefixes[max(at - LOOKBACK, 0) : at + 1] if end in self._written]
            read = max(read, *(size // 4 for size, _ in near), 0)
        self._written |= {prefixes[at] for at, _ in marks if prefixes[at][0] // 4 >= LEAST}
        return prefixes[-1][0] // 4, read

    def _prefixes(self, body: dict[str, Any]) -> tuple[list[Prefix], list[tuple[int, int]]]:
        """The prompt up to the end of each block, and the blocks with a mark and how long it lives."""
        size, known, prefixes, marks = 0, 0, list[Prefix](), list[tuple[int, int]]()
        for block in _blocks(body):
            point = block.pop("cache_control", None) or block.get("cachePoint")
            if "cachePoint" not in block:
                encoded = msgspec.json.encode(block)
                size, known = size + len(encoded), hash((known, encoded))
                prefixes.append((size, known))
            if point:
                assert block.get("type") not in ("thinking", "redacted_thinking")
                marks.append((len(prefixes) - 1, TTLS[point.get("ttl")]))
        return prefixes, marks


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    config = body.get("toolConfig") or {"tools": body.get("tools", [])}
    system = body.get("system", [])
    yield from config["tools"]
    yield from [{"text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        content: Any = message["content"] or []
        if isinstance(content, str):  # which a mark makes a block
            content = [{"type": "text", "text": content}] if content else []
        for block in [*content, *message.get("tool_calls", [])]:
            yield block if "cachePoint" in block else {"role": message["role"], **block}


def loop(seed: int, provider: str) -> Iterator[Conversation]:
    """The conversations of the requests of one session: questions, and for each some rounds of calls."""
    draw = random.Random(seed)
    conversation = Conversation(system="You are a careful assistant. " * draw.randint(1, 400))
    for _ in range(draw.randint(1, 3)):
        conversation = conversation.add(Message.user("What is it? " * draw.randint(1, 300)))
        yield conversation
        for turn in range(draw.randint(1, 8)):
            calls = [
                ToolCall(f"c{turn}_{n}", draw.choice(TOOLS).name, {"q": "x" * draw.randint(1, 200)})
                for n in range(draw.choice((1, 1, 2, 5, 30)))
            ]
            thought = [Thinking("Hm. " * 50, "sig")] * draw.randint(0, 1)
            text = [Text("I look. " * draw.randint(1, 20))] * draw.randint(0, 1)
            results: list[Content] = [ToolResult(c.id, "y" * draw.randint(1, 1500)) for c in calls]
            if not draw.randint(0, 5):
                results.insert(0, Text("Be quick."))  # a message that steers the run
            answer = Message("assistant", (*thought, *text, *calls), provider=provider)
            conversation = conversation.add(answer, Message("user", tuple(results)))
            yield conversation
        conversation = conversation.add(Message("assistant", (Text("It is so."),), provider=provider))


def served(provider: Provider, asked: Sequence[Conversation], options: Options) -> tuple[int, int]:
    """How many tokens of the requests could have been read, and how many were."""
    server, could, read, before = CachingServer(), 0, 0, 0
    for conversation in asked:
        size, found = server.answer(provider.request(conversation, TOOLS, options).body)
        could, read, before = could + before, read + found, size
    return could, read


PROVIDERS = {"anthropic": Anthropic("m", api_key="k"), "bedrock": Bedrock(SONNET, region="us-east-1", api_key="k")}


@pytest.mark.parametrize("name", PROVIDERS)
def test_of_twenty_tool_loops_at_least_95_percent_of_what_can_be_read_is_read(name: str) -> None:
    totals: list[tuple[int, int]] = []
    for seed in range(20):
        options = Options(cache="auto", cache_ttl=(None, "1h")[seed % 2], max_tokens=seed + 1)
        totals.append(served(PROVIDERS[name], [*loop(seed, name)], options))
    assert min(read / could for could, read in totals if could > 20 * LEAST) >= 0.95
    assert sum(read for _, read in totals) >= 0.95 * sum(could for could, _ in totals)


class PrefixServer:
    """A server that caches unasked.

    A request reads the longest beginning that it has, byte by byte, with one of the requests before.

    Args:
        least: Tokens of a prompt that is cached.
        step: Tokens of a block: what is read is a whole number of these.
        ends: Whether it finds nothing but a beginning that ends as a request before did, as OpenAI from GPT-5.6 on.
        last: Whether it keeps the last request alone, as a server of one's own does.
    """

    def __init__(self, least: int, *, step: int = 1, ends: bool = False, last: bool = False) -> None:
        self.least, self._step, self._ends, self._last = least, step, ends, last
        self._kept: dict[str, list[bytes]] = {}  # by the key that leads requests to one server

    def answer(self, body: bytes) -> tuple[int, int]:
        """The tokens of the input, and those of them that were read. Four bytes are a token."""
        asked = msgspec.json.decode(body)
        prompt = b"".join(_pieces(asked))
        kept = self._kept.setdefault(asked.get("prompt_cache_key", ""), [])
        found = [self._common(each, prompt) // 4 // self._step * self._step for each in kept]
        read = max((each for each in found if each >= self.least), default=0)
        self._kept[asked.get("prompt_cache_key", "")] = [prompt] if self._last else [*kept, prompt]
        return len(prompt) // 4, read

    def _common(self, before: bytes, now: bytes) -> int:
        if self._ends or now.startswith(before):
            return len(before) if now.startswith(before) else 0
        same, differs = 0, min(len(before), len(now)) + 1
        while differs - same > 1:
            middle = (same + differs) // 2
            if now.startswith(before[:middle]):
                same = middle
            else:
                differs = middle
        return same


def _pieces(body: dict[str, Any]) -> Iterator[bytes]:
    """The prompt of a request, in the order in which it is read."""
    for name in ("model", "tools", "system", "instructions", "systemInstruction", "system_instruction"):
        yield msgspec.json.encode(body.get(name))
    for message in body.get("messages") or body.get("contents") or body["input"]:
        yield msgspec.json.encode(message)


PREFIXES: dict[str, tuple[Provider, Callable[[], PrefixServer]]] = {
    # https://developers.openai.com/api/docs/guides/prompt-caching
    "chat from 5.6 on": (OpenAIChat("gpt-5.6", api_key="k"), partial(PrefixServer, 1024, ends=True)),
    "chat before": (OpenAIChat("gpt-5.4", api_key="k"), partial(PrefixServer, 1024, step=128)),
    "responses from 5.6 on": (OpenAIResponses("gpt-6.2-sol", api_key="k"), partial(PrefixServer, 1024, ends=True)),
    "responses before": (OpenAIResponses("gpt-5.4", api_key="k"), partial(PrefixServer, 1024, step=128)),
    # https://api-docs.deepseek.com/guides/kv_cache
    "deepseek": (
        OpenAIChat("deepseek-v4-pro", base_url="https://api.deepseek.com", api_key="k"),
        partial(PrefixServer, 64, step=64),
    ),
    # https://ai.google.dev/gemini-api/docs/generate-content/caching
    "gemini": (Gemini("gemini-3.8-flash", api_key="k"), partial(PrefixServer, 4096)),
    "interactions": (GeminiInteractions("gemini-3.8-flash", api_key="k"), partial(PrefixServer, 4096)),
    "ollama": (Ollama("m"), partial(PrefixServer, 1, last=True)),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_of_twenty_tool_loops_a_service_that_caches_unasked_reads_at_least_95_percent(name: str) -> None:
    """What can be read is the request before, if it is long enough to be cached."""
    provider, new = PREFIXES[name]
    could = read = 0
    for seed in range(20):
        server, before = new(), 0
        for conversation in loop(seed, provider.name):
            size, found = server.answer(provider.request(conversation, TOOLS, AUTO).body)
            could += before if before >= server.least else 0
            read, before = read + found, size
    assert could > 400_000
    assert read >= 0.95 * could


def test_marks_that_do_not_move_read_less_than_half() -> None:
    parts = Options(cache=("tools", "system"))
    could, read = served(PROVIDERS["anthropic"], [*loop(3, "anthropic")], parts)
    assert read < could / 2


def sent(provider: Provider, conversation: Conversation, *tools: ToolMeta, **options: Any) -> Any:
    settings: dict[str, Any] = {"cache": "auto", **options}
    request = provider.request(conversation, tools, Options(**settings))
    return msgspec.json.decode(request.body)


def marked(body: Any) -> list[tuple[str, str | None]]:
    """The blocks with a mark, by their text or type, and its lifetime."""
    found: list[tuple[str, str | None]] = []
    before = ""
    for block in _blocks(body):
        mark = block.get("cache_control") or block.get("cachePoint")
        kinds = [key for key in block if key not in ("role", "cachePoint")]
        if not block.get("cachePoint"):
            before = block.get("text") or block.get("name") or block.get("type") or kinds[0]
        if mark:
            found.append((before, mark.get("ttl")))
    return found


def own(*content: Content, provider: str = "anthropic") -> Message:
    return Message("assistant", content, provider=provider)


CALL, RESULT = ToolCall("t", "look", {}), ToolResult("t", "sky")
ASKED = Conversation((Message.user("hi"),), "S")
CLAUDE = PROVIDERS["anthropic"]
PLAIN = ToolMeta("look", "", {"type": "object"})
LATE = ToolMeta("late", "", {"type": "object"}, defer_loading=True)
OWN = [ToolMeta(f"t{n}", "", {"type": "object"}, cache_control=CachePoint()) for n in range(4)]
STEERED = Message("user", (Text("quick"), RESULT))
DOCUMENT = Document("text/csv", "YQ==")

ANTHROPIC_ROWS: dict[str, tuple[Conversation, tuple[ToolMeta, ...], list[str]]] = {
    "a question": (ASKED, (PLAIN,), ["look", "S", "hi"]),
    "neither tools nor system text": (Conversation((Message.user("hi"),)), (), ["hi"]),
    "nothing": (Conversation(), (), []),
    "a tool that is found later carries no mark": (ASKED, (PLAIN, LATE), ["look", "S", "hi"]),
    "tools with marks": (ASKED, (*OWN, PLAIN), ["look", "S", "hi"]),
    "a round of calls": (
        ASKED.add(own(Thinking("hm", "s"), CALL), Message.user(RESULT)),
        (PLAIN,),
        ["look", "S", "hi", "tool_result"],
    ),
    "results are sent first": (ASKED.add(own(CALL), STEERED), (), ["S", "hi", "quick"]),
    "an answer that goes on": (ASKED.add(own(Text("so"))), (), ["S", "hi", "so"]),
    "thinking carries none": (ASKED.add(own(Text("so"), Thinking("hm", "s"))), (), ["S", "hi", "so"]),
    "points take the place of the tools' mark": (
        Conversation((Message.user("a", CachePoint(), "b", CachePoint(), "c"),), "S"),
        (PLAIN,),
        ["S", "a", "b", "c"],
    ),
    "marks that move come before points": (
        ASKED.add(own(CALL), Message.user(*(p for n in "abc" for p in (n, CachePoint())), "d")),
        (PLAIN,),
        ["S", "hi", "c", "d"],
    ),
}


@pytest.mark.parametrize("name", ANTHROPIC_ROWS)
def test_the_marks_of_anthropic_by_case(name: str) -> None:
    conversation, tools, expected = ANTHROPIC_ROWS[name]
    assert [block for block, _ in marked(sent(CLAUDE, conversation, *tools))] == expected


BEDROCK_ROWS: dict[str, tuple[str, Conversation, list[str]]] = {
    "claude": (SONNET, ASKED.add(own(CALL), Message.user(RESULT)), ["tools", "S", "hi", "results"]),
    "an inference profile": (f"eu.{SONNET}", ASKED, ["tools", "S", "hi"]),
    "nova takes none behind its tools": (NOVA, ASKED, ["S", "hi"]),
    "a family that refuses points": ("meta.llama4-maverick-17b-instruct-v1:0", ASKED, []),
    "a profile by its address": (
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-pro-v1:0",
        ASKED,
        ["S", "hi"],
    ),
    "none behind documents": (
        SONNET,
        Conversation((Message.user("hi", DOCUMENT), own(Text("so")), Message.user(DOCUMENT))),
        ["tools", "hi", "document 2"],  # the text that a document needs beside it
    ),
    "none behind thinking": (
        SONNET,
        ASKED.add(own(Text("so"), Thinking("hm", "s"), provider="bedrock")),
        ["tools", "S", "hi", "so"],
    ),
}


@pytest.mark.parametrize("name", BEDROCK_ROWS)
def test_the_points_of_bedrock_by_case(name: str) -> None:
    model, conversation, expected = BEDROCK_ROWS[name]
    body = sent(Bedrock(model, region="us-east-1", api_key="k"), conversation, PLAIN)
    names = {"toolSpec": "tools", "toolResult": "results"}
    assert [names.get(block, block) for block, _ in marked(body)] == expected


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("point", [None, "5m", "1h"])
@pytest.mark.parametrize("ttl", [None, "5m", "1h"])
def test_what_comes_before_a_mark_lives_at_least_as_long(name: str, point: str | None, ttl: str | None) -> None:
    conversation = Conversation((Message.user("a", CachePoint(point), "b"),), "S").add(
        own(Text("so")), Message.user("c", CachePoint(point), "d")
    )
    server = CachingServer()
    body = sent(PROVIDERS[name], conversation, PLAIN, cache_ttl=ttl)
    lives = [TTLS[life] for _, life in marked(body)]
    assert lives == sorted(lives, reverse=True)
    assert lives[-1] == TTLS[ttl]
    server.answer(msgspec.json.encode(body))


def claude() -> Provider:
    return Anthropic("m", api_key="k")


def router() -> Provider:
    return OpenAIChat("claude", base_url="https://openrouter.ai/api/v1", api_key="k")


@pytest.mark.parametrize("new", [claude, router])
@pytest.mark.parametrize("seed", range(4))
def test_a_provider_that_remembers_the_conversation_sends_what_a_new_one_sends(
    seed: int, new: Callable[[], Provider]
) -> None:
    """Also where the marks come and go from one request to the next."""
    draw, provider = random.Random(seed), new()
    for conversation in loop(seed, provider.name):
        options = Options(cache=draw.choice(("auto", "auto", ("system",))))
        body = new().request(conversation, TOOLS, options).body
        assert provider.request(conversation, TOOLS, options).body == body


@pytest.mark.parametrize(
    ("value", "part"), [("tools", "cache='auto'"), (("tool",), "did you mean 'tools'"), (5, "auto")]
)
def test_what_is_not_understood_is_refused(value: Any, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part):
        Options(cache=value)


CHATS = {
    "claude at openrouter": OpenAIChat(
        "anthropic/claude-sonnet-4.6", base_url="https://openrouter.ai/api/v1", api_key="k"
    ),
    "qwen at dashscope": OpenAIChat(
        "qwen3-max", base_url="https://dashscope.aliyuncs.com/compatible-mode/v1", api_key="k"
    ),
}


@pytest.mark.parametrize("name", CHATS)
def test_of_twenty_tool_loops_over_chat_at_least_95_percent_is_read(name: str) -> None:
    totals = [served(CHATS[name], [*loop(seed, "openai_chat")], AUTO) for seed in range(20)]
    assert min(read / could for could, read in totals if could > 20 * LEAST) >= 0.95


@pytest.mark.parametrize("name", CHATS)
def test_the_marks_of_chat_move_and_leave_the_rest_as_it_was(name: str) -> None:
    image = Image("image/png", data="iVBORw0KGgo=")
    asked = Conversation((Message.user("hi"),), "S")
    called = asked.add(own(CALL, provider="openai_chat"), Message.user(RESULT))
    rows: list[tuple[Conversation, list[str]]] = [
        (asked, ["S", "hi"]),
        (called, ["S", "hi", "sky"]),
        (called.add(own(Text("so"))), ["S", "sky", "so"]),
        (Conversation((Message.user("hi"),)), ["hi"]),
        (Conversation(), []),
        (Conversation((Message.user("hi", image),), "S"), ["S", "image_url"]),
        (asked.add(own(CALL), Message.user(ToolResult("t", ""))), ["S", "hi"]),
    ]
    for conversation, expected in rows:
        body = sent(CHATS[name], conversation, PLAIN)
        assert [block for block, _ in marked(body)] == expected
        plain = sent(CHATS[name], conversation, PLAIN, cache=())
        assert [*_bare(body)] == [*_bare(plain)]


def _bare(body: Any) -> Iterator[dict[str, Any]]:
    for block in _blocks(body):
        block.pop("cache_control", None)
        yield block


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("openai/gpt-5.6", "https://openrouter.ai/api/v1"),
        ("deepseek-v4", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        ("claude-sonnet-4-6", "http://127.0.0.1:4000"),
        ("grok-5", "https://api.x.ai/v1"),
    ],
)
def test_a_server_that_may_refuse_marks_and_keys_is_sent_none(model: str, base_url: str) -> None:
    for kind in (OpenAIChat, OpenAIResponses):
        provider = kind(model, base_url=base_url, api_key="k")
        body = sent(provider, ASKED, PLAIN, cache_ttl="24h")
        assert body == sent(provider, ASKED, PLAIN, cache=())


OPENAI: dict[str, Provider] = {
    "chat": OpenAIChat("gpt-5.6", api_key="k"),
    "responses": OpenAIResponses("gpt-5.6", api_key="k"),
    "azure": OpenAIResponses("d", base_url="https://me.openai.azure.com/openai/v1", api_key="k"),
}


@pytest.mark.parametrize("name", OPENAI)
def test_the_key_of_openai_stays_the_same_in_a_conversation_and_differs_between_two(name: str) -> None:
    keys = [
        {sent(OPENAI[name], conversation)["prompt_cache_key"] for conversation in loop(seed, name)} for seed in (1, 2)
    ]
    assert [len(each) for each in keys] == [1, 1]
    assert keys[0] != keys[1]
    (key,) = keys[0]
    assert len(key) <= 64
    assert "prompt_cache_key" not in sent(OPENAI[name], ASKED, cache=("system",))
    own_key = sent(OPENAI[name], ASKED, extra={"prompt_cache_key": "mine"})
    assert own_key["prompt_cache_key"] == "mine"


EARLIER: dict[str, Provider] = {
    "chat": OpenAIChat("gpt-5.4", api_key="k"),
    "responses": OpenAIResponses("gpt-5.4", api_key="k"),
}
TTL_ROWS: list[tuple[Provider, str | None, dict[str, Any]]] = [
    (EARLIER["chat"], "24h", {"prompt_cache_retention": "24h"}),
    (EARLIER["responses"], "in_memory", {"prompt_cache_retention": "in_memory"}),
    (EARLIER["responses"], "30m", {}),
    (OPENAI["chat"], "30m", {"prompt_cache_options": {"ttl": "30m"}}),
    (OPENAI["responses"], "12h", {"prompt_cache_options": {"ttl": "12h"}}),
    (OPENAI["chat"], "12h", {}),
    (OPENAI["chat"], "24h", {}),
    (OPENAI["responses"], "1h", {}),
    (OPENAI["chat"], None, {}),
    (OPENAI["azure"], "24h", {"prompt_cache_retention": "24h"}),
    (OPENAI["azure"], "12h", {"prompt_cache_options": {"ttl": "12h"}}),
]


def of_sdk(provider: Provider, path: str) -> Any:
    """A class of the official client, of the provider's protocol."""
    folder = "chat" if provider.name == "openai_chat" else "responses"
    module, _, name = path.format(folder).rpartition(".")
    return getattr(pytest.importorskip(f"openai.types.{module}"), name)


@pytest.mark.parametrize(("provider", "ttl", "expected"), TTL_ROWS)
def test_a_lifetime_that_the_model_takes_is_sent_and_another_is_left_out(
    provider: Provider, ttl: str | None, expected: dict[str, Any]
) -> None:
    body = sent(provider, ASKED, cache_ttl=ttl)
    members = ("prompt_cache_retention", "prompt_cache_options")
    assert {member: body[member] for member in members if member in body} == expected
    is_chat = provider.name == "openai_chat"
    params = "chat.completion_create_params" if is_chat else "responses.response_create_params"
    base = "CompletionCreateParamsBase" if is_chat else "ResponseCreateParamsBase"
    for member, value in expected.items():
        hint = str(get_type_hints(of_sdk(provider, f"{params}.{base}"))[member])
        if isinstance(value, dict):
            hint = str(get_type_hints(of_sdk(provider, f"{params}.PromptCacheOptions"))["ttl"])
        assert repr(ttl) in hint


POINTED = Conversation(
    (
        Message.user("long", CachePoint("12h"), "hi", Image("image/png", data="iVBORw0KGgo="), CachePoint()),
        Message.user(CachePoint(), RESULT, "more", CachePoint("30m")),
    ),
    "S",
)
EXPLICIT = {"mode": "explicit"}
ELSEWHERE: tuple[Provider, ...] = (
    OpenAIChat("gpt-5.6", base_url="http://127.0.0.1:1"),
    OpenAIResponses("gpt-5.6", base_url="http://127.0.0.1:1"),
)


@pytest.mark.parametrize("name", ["chat", "responses"])
@pytest.mark.parametrize("cache", ["auto", ()])
def test_a_cache_point_is_a_breakpoint_of_openai(name: str, cache: Any) -> None:
    """From GPT-5.6 on, at OpenAI itself; a point behind nothing is left out."""
    body = sent(OPENAI[name], POINTED, PLAIN, cache=cache)
    messages: list[Any] = body.get("messages") or body["input"]
    contents: list[Any] = [one["content"] for one in messages if "content" in one]
    lists: list[list[Any]] = [each for each in contents if isinstance(each, list)]
    blocks = list(itertools.chain.from_iterable(lists))
    found = [block.get("prompt_cache_breakpoint") for block in blocks]
    assert found == [EXPLICIT | {"ttl": "12h"}, None, EXPLICIT, EXPLICIT | {"ttl": "30m"}]
    for other in (EARLIER[name], *ELSEWHERE):
        assert "prompt_cache_breakpoint" not in str(sent(other, POINTED, PLAIN, cache=cache))


SDK_PARTS = {
    "chat": [
        "chat.chat_completion_content_part_text_param.ChatCompletionContentPartTextParam",
        "chat.chat_completion_content_part_image_param.ChatCompletionContentPartImageParam",
        "chat.chat_completion_content_part_param.File",
        "chat.chat_completion_content_part_input_audio_param.ChatCompletionContentPartInputAudioParam",
    ],
    "responses": [
        "responses.response_input_text_param.ResponseInputTextParam",
        "responses.response_input_image_param.ResponseInputImageParam",
        "responses.response_input_file_param.ResponseInputFileParam",
    ],
}


@pytest.mark.parametrize("name", SDK_PARTS)
def test_each_part_of_a_message_takes_a_breakpoint_by_the_official_types(name: str) -> None:
    for path in SDK_PARTS[name]:
        kind = get_type_hints(of_sdk(OPENAI[name], path))["prompt_cache_breakpoint"]
        assert "explicit" in str(get_type_hints(kind)["mode"])
        assert get_args(get_type_hints(kind)["ttl"]) == LIFETIMES


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
def test_a_model_that_is_changed_does_not_keep_the_breakpoints_of_the_other(kind: Any) -> None:
    provider = kind("gpt-5.6", api_key="k")
    for model in ("gpt-5.6", "gpt-5.4", "gpt-5.6"):
        provider.model = model
        assert sent(provider, POINTED) == sent(kind(model, api_key="k"), POINTED)


@pytest.mark.parametrize("provider", [Gemini("m", api_key="k"), Ollama("m")], ids=str)
def test_a_service_that_caches_by_itself_is_sent_nothing(provider: Provider) -> None:
    assert sent(provider, ASKED, PLAIN) == sent(provider, ASKED, PLAIN, cache=())
