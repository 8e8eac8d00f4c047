"""What a provider is told of a tool."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages.json import JsonObject


class ToolMeta(Struct, frozen=True):
    """A tool as the model sees it.

    Attributes:
        name: What the model calls it by.
        description: When and how to use it.
        input_schema: JSON schema of the arguments, an object without ``$ref``.
    """

    name: str
    description: str
    input_schema: JsonObject


__all__ = ["ToolMeta"]
