"""What the installed official clients know and the providers here do not name: the look that a maintainer takes every two weeks.

    python tests/providers/sdk_news.py            print what is new since it was last acknowledged
    python tests/providers/sdk_news.py --accept   acknowledge it

A name counts as known if it stands in the source of its provider. What is acknowledged is in ``sdk_news.txt``, a line for each name: it was looked
at, and travels on as `Opaque`, through ``extra``, or not at all.
"""

from __future__ import annotations

import importlib
import re
import sys
import typing
from collections.abc import Iterable, Iterator
from enum import EnumMeta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ACKNOWLEDGED = Path(__file__).with_suffix(".txt")

SOURCES: list[tuple[str, str, str]] = [
    # provider, what it is, where the official client has it
    ("anthropic", "event", "anthropic.types.beta:BetaRawMessageStreamEvent"),
    ("anthropic", "block", "anthropic.types.beta:BetaContentBlock"),
    ("anthropic", "delta", "anthropic.types.beta:BetaRawContentBlockDelta"),
    ("anthropic", "stop reason", "anthropic.types.beta:BetaStopReason"),
    ("anthropic", "member", "anthropic.types.beta.message_create_params:MessageCreateParamsBase"),
    ("anthropic", "usage", "anthropic.types.beta:BetaUsage"),
    (
        "openai_chat",
        "member",
        "openai.types.chat.completion_create_params:CompletionCreateParamsBase",
    ),
    ("openai_chat", "delta", "openai.types.chat.chat_completion_chunk:ChoiceDelta"),
    ("openai_chat", "chunk", "openai.types.chat:ChatCompletionChunk"),
    ("openai_responses", "event", "openai.types.responses:ResponseStreamEvent"),
    ("openai_responses", "item", "openai.types.responses:ResponseOutputItem"),
    (
        "openai_responses",
        "member",
        "openai.types.responses.response_create_params:ResponseCreateParamsBase",
    ),
    ("gemini", "member", "google.genai.types:GenerateContentConfig"),
    ("gemini", "part", "google.genai.types:Part"),
    ("gemini", "candidate", "google.genai.types:Candidate"),
    ("gemini", "finish reason", "google.genai.types:FinishReason"),
    ("gemini", "usage", "google.genai.types:GenerateContentResponseUsageMetadata"),
    ("ollama", "member", "ollama._types:ChatRequest"),
    ("ollama", "line", "ollama._types:ChatResponse"),
]


def news() -> list[str]:
    """The names that stand in no source of their provider, sorted, a line each."""
    found: set[str] = set()
    for provider, kind, where in SOURCES:
        module, _, name = where.partition(":")
        known = _words(ROOT / "rxworker" / "providers" / provider)
        names = _names(getattr(importlib.import_module(module), name))
        found |= {f"{provider} {kind} {one}" for one in names if one.lower() not in known}
    return sorted(found)


def acknowledged() -> list[str]:
    """The names that were looked at."""
    return ACKNOWLEDGED.read_text(encoding="utf-8").splitlines()


def _words(folder: Path) -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    shared = [path.read_text(encoding="utf-8") for path in folder.parent.glob("*.py")]
    return {word.lower() for text in (*texts, *shared) for word in re.findall(r"[\w.]+", text)}


def _names(described: Any) -> Iterable[str]:
    """The names in a type: the values of a literal or an enumeration, the tags of a union, the members of a model."""
    inside = typing.get_args(described)
    if typing.get_origin(described) is typing.Literal:
        return [one for one in inside if isinstance(one, str)]
    if typing.get_origin(described) is typing.Annotated:
        return _names(inside[0])
    if inside:
        return [name for one in inside for name in _tags(one)]
    if isinstance(described, EnumMeta):
        values: list[Any] = list(described)
        return [str(one.value) for one in values]
    fields: dict[str, Any] = getattr(described, "model_fields", None) or described.__annotations__
    return [getattr(field, "alias", None) or name for name, field in fields.items()]


def _tags(member: Any) -> Iterator[str]:
    field = getattr(member, "model_fields", {}).get("type")
    if field is None:
        yield from (name for one in typing.get_args(member) for name in _tags(one))
    else:
        yield from (one for one in typing.get_args(field.annotation) if isinstance(one, str))


if __name__ == "__main__":
    if "--accept" in sys.argv:
        ACKNOWLEDGED.write_text("".join(f"{line}\n" for line in news()), encoding="utf-8")
    before = set(acknowledged())
    print("\n".join(line for line in news() if line not in before) or "nothing is new")
