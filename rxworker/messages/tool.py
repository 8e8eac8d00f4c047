"""The description of a tool for a provider."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from rxworker.messages.content import CachePoint
from rxworker.messages.json import JsonObject, freeze


class Grammar(Struct, frozen=True, tag_field="type", tag="grammar"):
    """The rules that a tool's free text must follow. The provider holds the model to them.

    Attributes:
        definition: The grammar, or the regular expression.
        syntax: The language of the definition: ``lark`` or ``regex``.

    >>> Grammar("[0-9]+", "regex").syntax
    'regex'
    """

    definition: str
    syntax: Literal["lark", "regex"] = "lark"


TextFormat: TypeAlias = Literal["text"] | Grammar
"""The format of a tool's free text: any text, or one that follows a grammar."""


class ToolMeta(Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it.

    The fields from ``strict`` on are known to some providers only. A provider leaves out what it does not know, unless
    leaving it out would change what the application requires; then the request raises a ``ConfigurationError``.

    Attributes:
        name: What the model calls it by.
        description: When and how to use it.
        input_schema: JSON schema of the arguments, an object without ``$ref``. It is a copy of the dict that was given,
            and an edit raises ``TypeError``.
        strict: Whether the provider holds the model to the schema.
        cache_control: A mark: everything up to this tool may be cached.
        defer_loading: Whether the model sees the tool only after a tool search has found it.
        allowed_callers: The callers that may call it: ``direct`` is the model itself, ``programmatic`` is code that the model writes
            and the provider runs. A provider's own word, such as ``code_execution_20260120``, means ``programmatic``
            to the others. Empty: the provider's default, which is ``direct``.
        input_examples: Arguments of calls, to show to the model; copies, like the schema.
        format: The call's input is a text instead of a JSON object; ``None``: an object. The schema then has one member,
            a string. Providers without free text receive this schema.
    """

    name: str
    description: str
    input_schema: JsonObject
    strict: bool = False
    cache_control: CachePoint | None = None
    defer_loading: bool = False
    allowed_callers: tuple[str, ...] = ()
    input_examples: tuple[JsonObject, ...] = ()
    format: TextFormat | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "input_schema", freeze(self.input_schema))
        if self.input_examples:
            force_setattr(self, "input_examples", tuple(map(freeze, self.input_examples)))
