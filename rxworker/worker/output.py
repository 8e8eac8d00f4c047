"""An answer as a value of a type: what the model is told of it, and what is made of its text."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from rxworker.errors import ConfigurationError
from rxworker.messages import JsonObject
from rxworker.providers import OutputFormat
from rxworker.tools import schema_of
from rxworker.tools.json_decoder import JsonDecoder
from rxworker.tools.schema import HINT

T = TypeVar("T")

FENCE = "```"


class Output(Generic[T]):
    """The type of an answer.

    Providers want an object at the root. Any other type is put into one, as its only member.

    Args:
        type_: A Struct, a dataclass, a TypedDict, a pydantic model, or any other type that the arguments of a tool may have.

    Raises:
        ConfigurationError: The type has no JSON schema.

    >>> output = Output(list[int])
    >>> output.decode('{"value": [1, 2]}')
    [1, 2]
    """

    def __init__(self, type_: type[T]) -> None:
        self.type = type_
        name: str = getattr(type_, "__name__", "output")
        try:
            schema = schema_of(type_)
            self._decoder = JsonDecoder(type_)
        except (TypeError, ValueError) as error:
            message = f"{type_!r} cannot be the output of a run: {error}; {HINT}"
            raise ConfigurationError(message) from error
        self._is_wrapped = schema.get("type") != "object"
        self.format = OutputFormat(_wrapped(schema) if self._is_wrapped else schema, name)

    def decode(self, text: str) -> T:
        """The value that the text is.

        Raises:
            msgspec.DecodeError: It is no JSON, or does not fit; the message names the path.
        """
        text = _bare(text)
        if not self._is_wrapped:
            return self._decoder.decode(text)
        whole = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if "value" not in whole:
            raise msgspec.ValidationError("Object missing required field `value`")
        return self._decoder.decode(bytes(whole["value"]))

    def complaint(self, text: str) -> str | None:
        """What is wrong with the text, for the model to mend; ``None`` where nothing is."""
        try:
            self.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return (
                f"The answer does not fit the format that was asked for: {error}. "
                "Answer again with the whole corrected JSON and nothing else."
            )
        return None


def _wrapped(schema: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    }


def _bare(text: str) -> str:
    """The text without the fence that some models put around JSON."""
    text = text.strip()
    if not (text.startswith(FENCE) and text.endswith(FENCE) and "\n" in text):
        return text
    return text[text.index("\n") : -len(FENCE)].strip()


__all__ = ["Output"]
