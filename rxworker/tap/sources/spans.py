"""A span of OpenTelemetry, with the names and the JSON of the semantic conventions for generative AI. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct

from rxworker.messages import Content, Conversation, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from rxworker.messages.usage import Usage
from rxworker.protocols.common import latest_from
from rxworker.tap.sources.values import content_of, decoded, items, member, members, text, usage_of

AGENT, CHAT, TOOL = "invoke_agent", "chat", "execute_tool"
OPERATIONS = {
    AGENT: AGENT,
    "invoke_workflow": AGENT,
    CHAT: CHAT,
    "generate_content": CHAT,
    "text_completion": CHAT,
    TOOL: TOOL,
}
"""What the operations are of."""
_USAGE = "gen_ai.usage."


class Span(Struct, frozen=True):
    """A span that has ended.

    Attributes:
        trace: The id of its trace.
        id: Its id.
        parent: The id of its parent; empty for the root of the trace.
        name: Its name.
        start: When it began, in seconds since the epoch.
        end: When it ended.
        attributes: Its attributes.
        error: The text of its status, if that is an error.
        service: The name of the service.
    """

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    start: float = 0.0
    end: float = 0.0
    attributes: Mapping[str, object] = {}
    error: str | None = None
    service: str = ""

    @property
    def kind(self) -> str:
        """What it is of: an agent, a chat or a tool; empty for anything else."""
        return OPERATIONS.get(self.get("operation.name"), "")

    def get(self, name: str) -> str:
        """The text of an attribute of ``gen_ai``."""
        return text(self.attributes.get(f"gen_ai.{name}"))

    def json(self, name: str) -> object:
        """The value of such an attribute, which may be JSON."""
        return decoded(self.attributes.get(f"gen_ai.{name}"))

    @property
    def failure(self) -> str:
        """Why it has failed; empty if it has not."""
        kind = text(self.attributes.get("error.type"))
        return kind if self.error is None else self.error or kind or "it failed"

    @property
    def usage(self) -> Usage | None:
        """The tokens, if they are known."""
        counted = [name for name in self.attributes if name.startswith(_USAGE)]
        counts = {name.removeprefix(_USAGE).replace(".", "_"): self.attributes[name] for name in counted}
        return usage_of(counts, is_exact=True)


def parts_of(span: Span) -> Iterator[object]:
    """The parts of the answer that it has recorded."""
    for message in items(span.json("output.messages")):
        yield from members(message, "parts")


def _recorded_calls(span: Span) -> Iterator[ToolCall]:
    for place, part in enumerate(parts_of(span)):
        if member(part, "type") == "tool_call":
            key = text(part, "id") or f"{span.id}-{place}"
            yield ToolCall(key, text(part, "name"), arguments_of(member(part, "arguments")))


def arguments_of(given: object) -> JsonObject | str:
    """The arguments of a call; none where they are not recorded."""
    if given is None:
        return {}
    return cast("JsonObject", given) if isinstance(given, dict | str) else json.dumps(given)


def _message(value: object) -> Message:
    """A message in the JSON of the conventions."""
    content: list[Content] = []
    for part in members(value, "parts"):
        match member(part, "type"):
            case "text":
                content.append(Text(text(part, "content")))
            case "reasoning" | "thinking":
                content.append(Thinking(text(part, "content")))
            case "tool_call":
                called = arguments_of(member(part, "arguments"))
                content.append(ToolCall(text(part, "id"), text(part, "name"), called))
            case "tool_call_response":
                result = member(part, "response") if member(part, "response") is not None else member(part, "result")
                content.append(ToolResult(text(part, "id"), content_of(result)))
            case _:
                pass
    role = text(value, "role")
    return Message("assistant" if role == "assistant" else "system" if role == "system" else "user", tuple(content))


def calls_of(spans: Sequence[Span], chats: Mapping[str, Span]) -> tuple[dict[str, list[ToolCall]], dict[str, str]]:
    """The calls of each response, with those that only a tool has reported; and the ids of the calls of the tools."""
    calls: dict[str, list[ToolCall]] = {}
    ids: dict[str, str] = {}
    made: list[ToolCall] = []
    for span in spans:
        if span.id in chats:
            made = calls[span.id] = [*_recorded_calls(span)]
            continue
        name = span.get("tool.name") or span.get("agent.name") or span.name
        free = [each.id for each in made if each.name == name and each.id not in ids.values()]
        key = ids[span.id] = span.get("tool.call.id") or (free[0] if free else span.id)
        if key not in [each.id for each in made]:
            made.append(ToolCall(key, name, arguments_of(span.json("tool.call.arguments"))))
    return calls, ids


def given_of(span: Span) -> tuple[Conversation, list[Message]]:
    """The conversation before a request that has recorded it, and its input."""
    messages = [each for one in items(span.json("input.messages")) if (each := _message(one)).content]
    system = "".join([text(part, "content") for part in items(span.json("system_instructions"))])
    at = latest_from(messages)
    return Conversation(tuple(messages[:at]), system or None), messages[at:]
