"""Whether a model must call a tool: the same words at every provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rxworker.errors import ConfigurationError
from rxworker.messages import Conversation, Message, ToolMeta
from rxworker.providers import PROVIDERS, ModelInfo, Options, ToolChoice

SAID = Conversation((Message.user("hi"),))
LOOK = ToolMeta("look", "Look.", {"type": "object"})
WHERE: dict[str, dict[str, Any]] = {"bedrock": {"region": "us-east-1"}, "ollama": {"api_key": None}}


@pytest.mark.parametrize("name", PROVIDERS)
def test_required_means_any_as_other_libraries_call_it(name: str) -> None:
    own: dict[str, Any] = {"api_key": "k", "info": ModelInfo(), **WHERE.get(name, {})}
    provider = PROVIDERS[name]("my-model", **own)
    choices = {"any": ToolChoice("any"), "required": ToolChoice("required")}
    bodies = {
        mode: provider.request(SAID, (LOOK,), Options(tool_choice=choice)).body for mode, choice in choices.items()
    }
    assert bodies["required"] == bodies["any"]
    assert b"required" not in bodies["any"] or name.startswith("openai")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolChoice("force"),  # pyright: ignore[reportArgumentType]
        lambda: ToolChoice("Any"),  # pyright: ignore[reportArgumentType]
        lambda: ToolChoice("tool"),
        lambda: ToolChoice("any", "look"),
        lambda: Options(tool_choice="required"),  # pyright: ignore[reportArgumentType]
        lambda: Options(tool_choice={"mode": "any"}),  # pyright: ignore[reportArgumentType]
    ],
)
def test_any_other_choice_is_refused_when_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"ToolChoice\('a"):
        make()
