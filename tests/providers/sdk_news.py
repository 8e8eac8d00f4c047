"""What the installed official clients know and the providers here do not name.

The look that a maintainer takes every two weeks.

    python tests/providers/sdk_news.py            print what is new since it was last acknowledged
    python tests/providers/sdk_news.py --accept   acknowledge it

A name counts as known if it stands in the source of its provider. What is acknowledged is in ``sdk_news.txt``, a line
for each name: it was looked at, and travels on as `Opaque`, through ``extra``, or not at all.
"""

from __future__ import annotations

import importlib
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from enum import EnumMeta
from functools import cache
from pathlib import Path
from typing import Any

import typing_extensions

ROOT = Path(__file__).parents[2]
ACKNOWLEDGED = Path(__file__).with_suffix(".txt")

BEDROCK = "bedrock-runtime"  # a description that botocore has, in place of a module
INTERACTIONS = "google.genai._gaos.types.interactions"

SOURCES: list[tuple[str, str, str]] = [
    # provider, what it is, where the official client has it
    ("anthropic", "event", "anthropic.types.beta:BetaRawMessageStreamEvent"),
    ("anthropic", "block", "anthropic.types.beta:BetaContentBlock"),
    ("anthropic", "delta", "anthropic.types.beta:BetaRawContentBlockDelta"),
    ("anthropic", "stop reason", "anthropic.types.beta:BetaStopReason"),
    ("anthropic", "member", "anthropic.types.beta.message_create_params:MessageCreateParamsBase"),
    ("anthropic", "usage", "anthropic.types.beta:BetaUsage"),
    ("anthropic", "tool", "anthropic.types.beta:BetaToolUnionParam"),
    ("openai_chat", "member", "openai.types.chat.completion_create_params:CompletionCreateParamsBase"),
    ("openai_chat", "delta", "openai.types.chat.chat_completion_chunk:ChoiceDelta"),
    ("openai_chat", "chunk", "openai.types.chat:ChatCompletionChunk"),
    ("openai_chat", "usage", "openai.types:CompletionUsage"),
    ("openai_responses", "event", "openai.types.responses:ResponseStreamEvent"),
    ("openai_responses", "item", "openai.types.responses:ResponseOutputItem"),
    ("openai_responses", "member", "openai.types.responses.response_create_params:ResponseCreateParamsBase"),
    ("openai_responses", "tool", "openai.types.responses:ToolParam"),
    ("openai_responses", "usage", "openai.types.responses:ResponseUsage"),
    ("gemini", "member", "google.genai.types:GenerateContentConfig"),
    ("gemini", "part", "google.genai.types:Part"),
    ("gemini", "candidate", "google.genai.types:Candidate"),
    ("gemini", "finish reason", "google.genai.types:FinishReason"),
    ("gemini", "usage", "google.genai.types:GenerateContentResponseUsageMetadata"),
    ("gemini_interactions", "event", f"{INTERACTIONS}:InteractionSSEEvent"),
    ("gemini_interactions", "step", f"{INTERACTIONS}:Step"),
    ("gemini_interactions", "delta", f"{INTERACTIONS}:StepDeltaData"),
    ("gemini_interactions", "status", f"{INTERACTIONS}:InteractionStatus"),
    ("gemini_interactions", "member", f"{INTERACTIONS}:CreateModelInteraction"),
    ("gemini_interactions", "usage", f"{INTERACTIONS}:Usage"),
    ("ollama", "member", "ollama._types:ChatRequest"),
    ("ollama", "line", "ollama._types:ChatResponse"),
    ("bedrock", "event", f"{BEDROCK}:ConverseStreamOutput"),
    ("bedrock", "block", f"{BEDROCK}:ContentBlock"),
    ("bedrock", "delta", f"{BEDROCK}:ContentBlockDelta"),
    ("bedrock", "stop reason", f"{BEDROCK}:StopReason"),
    ("bedrock", "member", f"{BEDROCK}:ConverseStreamRequest"),
    ("bedrock", "usage", f"{BEDROCK}:TokenUsage"),
]


def news() -> list[str]:
    """The names that stand in no source of their provider, sorted, a line each."""
    found: set[str] = set()
    words = {provider: _words(ROOT / "rxworker" / "providers" / provider) for provider, _, _ in SOURCES}
    for provider, kind, where in SOURCES:
        module, _, name = where.partition(":")
        known = words[provider]
        if module == BEDROCK:
            names = _names_of_aws(module, name)
        else:
            names = _names(getattr(importlib.import_module(module), name))
        found |= {f"{provider} {kind} {one}" for one in names if one.lower() not in known}
    return sorted(found)


def acknowledged() -> list[str]:
    """The names that were looked at."""
    return ACKNOWLEDGED.read_text(encoding="utf-8").splitlines()


def _words(folder: Path) -> set[str]:
    # The transport of a provider, such as that of Gemini's caches, names members, too.
    own = (*folder.glob("*.py"), *(ROOT / "rxworker" / "transport").glob(f"{folder.name}_*.py"))
    shared = [path for path in folder.parent.glob("*.*") if path.suffix in (".py", ".json")]
    return set[str]().union(*map(_words_in, (*own, *shared)))


@cache
def _words_in(path: Path) -> set[str]:
    return set(re.findall(r"[\w.]+", path.read_text(encoding="utf-8").lower()))


def _names_of_aws(service: str, shape: str) -> Iterable[str]:
    """The members of a shape of a service of AWS, or its values."""
    loader: Any = importlib.import_module("botocore.loaders").Loader()
    described = loader.load_service_model(service, "service-2")["shapes"][shape]
    return described.get("enum") or described["members"]


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
    """The tags of a member of a union.

    Of a model, of a typed dictionary, of a literal, or of the members of a union in it.
    """
    tags: Mapping[str, Any] = (
        typing_extensions.get_type_hints(member)
        if typing_extensions.is_typeddict(member)
        else {name: field.annotation for name, field in getattr(member, "model_fields", {}).items()}
    )
    # A union of literals and of what is not known yet has its values as members.
    tag = tags.get("event_type", tags.get("type", member if not tags else None))
    yield from (one for one in _flat(tag) if isinstance(one, str))


def _flat(described: Any) -> Iterator[Any]:
    """The innermost arguments of a type; a model in it is replaced by its tag."""
    if inside := typing.get_args(described):
        for one in inside:
            yield from _flat(one)
    elif getattr(described, "model_fields", None):
        yield from _tags(described)
    else:
        yield described


if __name__ == "__main__":
    if "--accept" in sys.argv:
        ACKNOWLEDGED.write_text("".join(f"{line}\n" for line in news()), encoding="utf-8")
    before = set(acknowledged())
    print("\n".join(line for line in news() if line not in before) or "nothing is new")
