"""A meter for caches.

How much of a request could have been read, how much was, and what a request changed of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from rxworker.events import Opaque
from rxworker.messages import Conversation, JsonObject, Message, Text, ToolCall, ToolMeta, ToolResult
from rxworker.messages.usage import Usage
from rxworker.providers import (
    Anthropic,
    Bedrock,
    Gemini,
    GeminiInteractions,
    HttpRequest,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
)
from rxworker.providers.base import Provider
from rxworker.providers.cache_use import CacheUse, step_cache

ANTHROPIC = Anthropic("claude-opus-4-6", api_key="k")
BEDROCK = Bedrock("anthropic.claude-sonnet-4-6", region="us-east-1", api_key="k")
CHAT, RESPONSES = OpenAIChat("gpt-4.1", api_key="k"), OpenAIResponses("gpt-5.2", api_key="k")
GEMINI, OLLAMA = Gemini("m", api_key="k"), Ollama("m")
STEPS = GeminiInteractions("m", api_key="k")
ALL: tuple[Provider, ...] = (ANTHROPIC, BEDROCK, CHAT, RESPONSES, GEMINI, STEPS, OLLAMA)


def schema(*names: str) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


LOOK, LISTEN = ToolMeta("look", "Look.", schema("a", "b")), ToolMeta("listen", "", schema())


class Asked:
    """A request that may be changed."""

    def __init__(self, provider: Provider, rounds: int) -> None:
        self.provider, self.tools, self.system = provider, [LOOK, LISTEN], "Be careful and brief."
        self.messages = [Message.user("What is the weather like?")]
        for n in range(rounds):
            call, name = ToolCall(f"c{n}", "look", {"a": "x", "b": "y"}), provider.name
            self.messages += [
                Message("assistant", (Text("I look."), call), provider=name),
                Message.user(ToolResult(f"c{n}", "It rains.", name="look")),
            ]
        self.options = Options(cache="auto", max_tokens=100)

    def sent(self) -> HttpRequest:
        conversation = Conversation(tuple(self.messages), self.system)
        return self.provider.request(conversation, tuple(self.tools), self.options)


def change_between(before: HttpRequest, now: HttpRequest) -> Any:
    return step_cache(step_cache(CacheUse(), before), now).change


def option(**values: Any) -> Callable[[Asked], None]:
    def change(asked: Asked) -> None:
        asked.options = msgspec.structs.replace(asked.options, **values)

    return change


def system(text: str) -> Callable[[Asked], None]:
    def change(asked: Asked) -> None:
        asked.system = text

    return change


def tools(*several: ToolMeta) -> Callable[[Asked], None]:
    def change(asked: Asked) -> None:
        asked.tools = [*several]

    return change


def message(at: int, new: Message) -> Callable[[Asked], None]:
    def change(asked: Asked) -> None:
        asked.messages[at] = new

    return change


def drop(asked: Asked) -> None:
    """What trimming does."""
    del asked.messages[1:3]


def provider(new: Provider) -> Callable[[Asked], None]:
    def change(asked: Asked) -> None:
        asked.provider = new

    return change


OLD = (Text("I look."), ToolCall("c0", "look", {"b": "y", "a": "x"}))
TIMED = "It is {}. Be careful and brief."
Row = tuple[Provider, Callable[[Asked], None], Callable[[Asked], None] | None, str, str, bool]
# The provider, what the second request changed, what the first had, and the part, the place and whether a time has
# changed.
BREAKERS: dict[str, Row] = {
    "another model": (ANTHROPIC, provider(Anthropic("n", api_key="k")), None, "model", "model", False),
    "another model in the address": (GEMINI, provider(Gemini("n", api_key="k")), None, "model", "url", False),
    "another region": (
        BEDROCK,
        provider(Bedrock("anthropic.claude-sonnet-4-6", region="eu-west-1", api_key="k")),
        None,
        "model",
        "url",
        False,
    ),
    "a tool more": (ANTHROPIC, tools(LOOK, LISTEN, ToolMeta("new", "", schema())), None, "tools", "tools[2]", False),
    "a tool less": (RESPONSES, tools(LOOK), None, "tools", "tools[1]", False),
    "tools in another order": (CHAT, tools(LISTEN, LOOK), None, "tools", "tools[0].function.name", False),
    "a tool with another description": (
        BEDROCK,
        tools(ToolMeta("look", "Look!", schema("a", "b")), LISTEN),
        None,
        "tools",
        "tools[0].toolSpec.description",
        False,
    ),
    "a schema in another order": (
        ANTHROPIC,
        tools(ToolMeta("look", "Look.", schema("b", "a")), LISTEN),
        None,
        "tools",
        "tools[0].input_schema.properties",
        False,
    ),
    "a date in a tool": (
        OLLAMA,
        tools(ToolMeta("look", "Since 2026-11-02", schema()), LISTEN),
        tools(ToolMeta("look", "Since 2026-11-01", schema()), LISTEN),
        "tools",
        "tools[0].function.description",
        True,
    ),
    "another system text": (ANTHROPIC, system("Be careful and long."), None, "system", "system[0].text", False),
    "another system text in a message": (
        CHAT,
        system("Be bold."),
        None,
        "system",
        "messages[0].content[0].text",
        False,
    ),
    "another system text of Gemini": (GEMINI, system("Be bold."), None, "system", "systemInstruction[0].text", False),
    "a date and time in the system text": (
        ANTHROPIC,
        system(TIMED.format("2026-11-26T02:12:17Z")),
        system(TIMED.format("2026-11-26T02:12:09Z")),
        "system",
        "system[0].text",
        True,
    ),
    "the hour in the system text": (
        RESPONSES,
        system(TIMED.format("10:00")),
        system(TIMED.format("9:59")),
        "system",
        "instructions[0].text",
        True,
    ),
    "seconds since the epoch in the system text": (
        BEDROCK,
        system(TIMED.format("1795661538")),
        system(TIMED.format("1795661537")),
        "system",
        "system[0].text",
        True,
    ),
    "a day in the system text": (
        CHAT,
        system(TIMED.format("Friday, 27 November")),
        system(TIMED.format("Thursday, 26 November")),
        "system",
        "messages[0].content[0].text",
        True,
    ),
    "thinking": (ANTHROPIC, option(thinking="high"), None, "option", "output_config", False),
    "another choice of tools": (CHAT, option(extra={"tool_choice": "none"}), None, "option", "tool_choice", False),
    "an edited message": (
        ANTHROPIC,
        message(0, Message.user("What is the climate like?")),
        None,
        "message",
        "messages[0].content[0].text",
        False,
    ),
    "arguments in another order": (
        ANTHROPIC,
        message(1, Message("assistant", OLD, provider="anthropic")),
        None,
        "message",
        "messages[1].content[1].input",
        False,
    ),
    "a result that was cut": (
        RESPONSES,
        message(2, Message.user(ToolResult("c0", "It...", name="look"))),
        None,
        "message",
        "input[3]",
        False,
    ),
    "a result of the Interactions protocol": (
        STEPS,
        message(2, Message.user(ToolResult("c0", "It...", name="look"))),
        None,
        "message",
        "input[3]",
        False,
    ),
    "a conversation that was trimmed": (GEMINI, drop, None, "message", "contents[1].parts[1]", False),
}


@pytest.mark.parametrize("name", BREAKERS)
def test_what_a_request_changed_of_the_one_before_is_named(name: str) -> None:
    model, change, was, part, path, is_time = BREAKERS[name]
    before, now = Asked(model, 2), Asked(model, 3)
    if was:
        was(before)
    change(now)
    found = change_between(before.sent(), now.sent())
    assert (found.part, found.is_time) == (part, is_time)
    assert found.path.startswith(path)
    assert found.before != found.now
    assert found.path in str(found)


def test_the_first_byte_that_differs_is_counted_and_shown() -> None:
    before, now = Asked(ANTHROPIC, 0), Asked(ANTHROPIC, 0)
    before.system, now.system = "é" * 30 + "one", "é" * 30 + "on two"
    found = change_between(before.sent(), now.sent())
    assert (found.at, found.before[-3:], found.now[-6:]) == (62, "one", "on two")


def limit(asked: Asked) -> None:
    """Also other marks; OpenAI's key is a setting that counts."""
    is_keyed = asked.provider.name.startswith("openai")
    asked.options = Options(max_tokens=7, stop_sequences=("x",), cache="auto" if is_keyed else ("system",))


def more(asked: Asked) -> None:
    asked.messages[-1] = Message("user", (*asked.messages[-1].content, Text("Be quick.")))


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
@pytest.mark.parametrize("rounds", [(2, 3), (0, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("change", [None, limit, more])
def test_a_request_that_adds_to_the_one_before_changed_nothing(
    model: Provider, rounds: Sequence[int], change: Callable[[Asked], None] | None
) -> None:
    before, now = Asked(model, rounds[0]), Asked(model, rounds[1])
    if change:
        change(now)
    assert change_between(before.sent(), now.sent()) is None


def test_tokens_are_counted_once_though_usage_comes_in_snapshots() -> None:
    use = CacheUse()
    for rounds, numbers in ((0, (2000, 0)), (1, (2500, 2000)), (2, (3000, 500)), (3, (900, 900))):
        use = step_cache(use, Asked(ANTHROPIC, rounds).sent())
        whole, read = numbers
        for usage in (Usage(whole, 1, read), Usage(whole, 50, read), Text("no number")):
            use = step_cache(use, usage) if isinstance(usage, Usage) else use
    assert (use.requests, use.could_read, use.read) == (4, 2000 + 2500 + 900, 2000 + 500 + 900)
    assert (use.missed, use.input_tokens) == (0, 900)


def test_a_miss_without_a_change_is_shown_and_a_read_from_elsewhere_is_not_a_miss() -> None:
    use = step_cache(step_cache(CacheUse(), Asked(CHAT, 0).sent()), Usage(3000, 1, 1000))
    assert (use.could_read, use.read, use.missed) == (1000, 1000, 0)
    use = step_cache(step_cache(use, Asked(CHAT, 1).sent()), Usage(3500, 1, None))
    assert (use.missed, use.change) == (3000, None)


REASON: JsonObject = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 9}}
# What the services send, see anthropic.types.Diagnostics and openai.types.responses.Response.
REPORTS: list[tuple[Provider, JsonObject]] = [
    (ANTHROPIC, {"type": "message_start", "message": {"id": "m", "model": "m", "diagnostics": REASON}}),
    (
        RESPONSES,
        {
            "type": "response.completed",
            "response": {"id": "r", "status": "completed", "prompt_cache_diagnostics": REASON},
        },
    ),
]


@pytest.mark.parametrize(("model", "frame"), REPORTS, ids=("anthropic", "openai"))
def test_what_the_provider_reports_itself_is_shown_beside(model: Provider, frame: JsonObject) -> None:
    use = step_cache(CacheUse(), Asked(model, 0).sent())
    for event in model.decoder().feed(b"data: " + msgspec.json.encode(frame) + b"\n\n"):
        use = step_cache(use, event)
    assert use.diagnostics == REASON
    use = step_cache(use, Opaque("message_start", {"other": 1}))
    assert use.diagnostics == REASON
    assert step_cache(use, Asked(model, 1).sent()).diagnostics is None


def test_no_key_and_no_prompt_is_shown() -> None:
    request = HttpRequest("https://a/v1?key=sk-1", {}, b'{"system":"secret"}')
    use = step_cache(step_cache(CacheUse(), HttpRequest("https://b", {}, b"{}")), request)
    assert "sk-1" not in repr(use)
    assert "secret" not in repr(use)
