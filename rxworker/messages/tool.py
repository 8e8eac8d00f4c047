"""What a provider is told of a tool."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import force_setattr

from rxworker.messages.frozen import freeze
from rxworker.messages.json import JsonObject


class ToolMeta(Struct, frozen=True):
    """A tool as the model sees it.

    Attributes:
        name: What the model calls it by.
        description: When and how to use it.
        input_schema: JSON schema of the arguments, an object without ``$ref``. It is a copy of the dict that was given,
            and an edit raises ``TypeError``.
    """

    name: str
    description: str
    input_schema: JsonObject

    def __post_init__(self) -> None:
        force_setattr(self, "input_schema", freeze(self.input_schema))


__all__ = ["ToolMeta"]
