"""The required form of an answer."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages.json import JsonObject


class OutputFormat(Struct, frozen=True):
    """The required form of an answer: JSON that matches a schema. Each provider has its own way to request it.

    Attributes:
        schema: JSON schema of an object, without ``$ref``.
        name: Its name, for providers that require one.
    """

    schema: JsonObject
    name: str = "output"
