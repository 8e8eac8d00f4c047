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


Change = Callable[[Asked], None]


def changed(name: str, value: object) -> Change:
    return lambda asked: setattr(asked, name, value)


def option(**values: Any) -> Change:
    return lambda asked: setattr(asked, "options", msgspec.structs.replace(asked.options, **values))


def system(text: str) -> Change:
    return changed("system", text)


def tools(*several: ToolMeta) -> Change:
    return changed("tools", [*several])


def provider(new: Provider) -> Change:
    return changed("provider", new)


def message(at: int, new: Message) -> Change:
    return lambda asked: asked.messages.__setitem__(at, new)


def drop(asked: Asked) -> None:
    """What trimming does."""
    del asked.messages[1:3]


OLD = (Text("I look."), ToolCall("c0", "look", {"b": "y", "a": "x"}))
TIMED = "It is {}. Be careful and brief."
NORTH = Bedrock("anthropic.claude-sonnet-4-6", region="eu-west-1", api_key="k")
CUT = message(2, Message.user(ToolResult("c0", "It...", name="look")))
OTHER_ORDER = tools(ToolMeta("look", "Look.", schema("b", "a")), LISTEN)
OTHER_WORDS = tools(ToolMeta("look", "Look!", schema("a", "b")), LISTEN)
# The provider, what the second request changed, the part and the place.
BREAKERS: dict[str, tuple[Provider, Change, str, str]] = {
    "another model": (ANTHROPIC, provider(Anthropic("n", api_key="k")), "model", "model"),
    "another model in the address": (GEMINI, provider(Gemini("n", api_key="k")), "model", "url"),
    "another region": (BEDROCK, provider(NORTH), "model", "url"),
    "a tool more": (ANTHROPIC, tools(LOOK, LISTEN, ToolMeta("new", "", schema())), "tools", "tools[2]"),
    "a tool less": (RESPONSES, tools(LOOK), "tools", "tools[1]"),
    "tools in another order": (CHAT, tools(LISTEN, LOOK), "tools", "tools[0].function.name"),
    "a tool with another description": (BEDROCK, OTHER_WORDS, "tools", "tools[0].toolSpec.description"),
    "a schema in another order": (ANTHROPIC, OTHER_ORDER, "tools", "tools[0].input_schema.properties"),
    "another system text": (ANTHROPIC, system("Be careful and long."), "system", "system[0].text"),
    "another system text in a message": (CHAT, system("Be bold."), "system", "messages[0].content[0].text"),
    "another system text of Gemini": (GEMINI, system("Be bold."), "system", "systemInstruction[0].text"),
    "thinking": (ANTHROPIC, option(thinking="high"), "option", "output_config"),
    "another choice of tools": (CHAT, option(extra={"tool_choice": "none"}), "option", "tool_choice"),
    "an edited message": (ANTHROPIC, message(0, Message.user("How?")), "message", "messages[0].content[0].text"),
    "arguments in another order": (
        ANTHROPIC,
        message(1, Message("assistant", OLD, provider="anthropic")),
        "message",
        "messages[1].content[1].input",
    ),
    "a result that was cut": (RESPONSES, CUT, "message", "input[3]"),
    "a result of the Interactions protocol": (STEPS, CUT, "message", "input[3]"),
    "a conversation that was trimmed": (GEMINI, drop, "message", "contents[1].parts[1]"),
}
# The provider, what the first request had, what the second has, the part and the place.
TIMES: dict[str, tuple[Provider, Change, Change, str, str]] = {
    "a date in a tool": (
        OLLAMA,
        tools(ToolMeta("look", "Since 2026-11-01", schema()), LISTEN),
        tools(ToolMeta("look", "Since 2026-11-02", schema()), LISTEN),
        "tools",
        "tools[0].function.description",
    ),
    "a date and time in the system text": (
        ANTHROPIC,
        system(TIMED.format("2026-11-26T02:12:09Z")),
        system(TIMED.format("2026-11-26T02:12:17Z")),
        "system",
        "system[0].text",
    ),
    "the hour in the system text": (
        RESPONSES,
        system(TIMED.format("9:59")),
        system(TIMED.format("10:00")),
        "system",
        "instructions[0].text",
    ),
    "seconds since the epoch in the system text": (
        BEDROCK,
        system(TIMED.format("1795661537")),
        system(TIMED.format("1795661538")),
        "system",
        "system[0].text",
    ),
    "a day in the system text": (
        CHAT,
        system(TIMED.format("Thursday, 26 November")),
        system(TIMED.format("Friday, 27 November")),
        "system",
        "messages[0].content[0].text",
    ),
}


@pytest.mark.parametrize("name", [*BREAKERS, *TIMES])
def test_what_a_request_changed_of_the_one_before_is_named(name: str) -> None:
    model, *changes, part, path = TIMES.get(name) or BREAKERS[name]
    before, now = Asked(model, 2), Asked(model, 3)
    if name in TIMES:
        changes.pop(0)(before)
    changes.pop()(now)
    found = change_between(before.sent(), now.sent())
    assert (found.part, found.is_time) == (part, name in TIMES)
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
