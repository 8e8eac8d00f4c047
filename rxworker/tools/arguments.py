"""Decoding the arguments of a call with the types of the signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from rxworker.errors import ConfigurationError, InvalidArgumentError
from rxworker.tools.context import ToolContext
from rxworker.tools.custom_types import adapt
from rxworker.tools.json_decoder import JsonDecoder, explain
from rxworker.tools.signature import Parameter


class ArgumentDecoder:
    """Turns JSON text into the arguments of a function.

    The types are taken as they are: a text is no number, even if it looks like one.

    Args:
        parameters: The function's parameters.
        tool: The tool's name, for the errors.
    """

    def __init__(self, parameters: Sequence[Parameter], tool: str) -> None:
        self._tool = tool
        self._fields = tuple((f"p{i}", p.name) for i, p in enumerate(parameters) if not p.injected)
        self._injected = tuple(p.name for p in parameters if p.injected)
        self._positional = tuple(p for p in parameters if p.positional)
        self._decoder = JsonDecoder(_struct(parameters, tool))

    def decode(
        self, input_json: str | bytes, context: ToolContext
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The positional and the named arguments.

        Args:
            input_json: A JSON object; no text at all is an empty one.
            context: What injected parameters receive.

        Raises:
            InvalidArgumentError: It does not fit; the error names the path.
        """
        try:
            given = self._decoder.decode(input_json if input_json.strip() else b"{}")
        except msgspec.ValidationError as error:
            path, reason = explain(str(error))
            raise self._invalid(reason, path) from error
        # No JSON, a lone surrogate, or brackets without end.
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._invalid(f"this is no JSON object: {error}", "$") from error
        named: dict[str, Any] = {}
        for field, name in self._fields:
            value = getattr(given, field)
            if value is not UNSET:
                named[name] = value
        for name in self._injected:
            named[name] = context
        if not self._positional:
            return (), named
        return [named.pop(p.name, p.default) for p in self._positional], named

    def _invalid(self, reason: str, path: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"invalid arguments at {path}: {reason}", tool=self._tool, path=path
        )


def _struct(parameters: Sequence[Parameter], tool: str) -> type[Struct]:
    """A Struct with a field for each argument.

    Its fields have names of ours, so that a parameter may be called as it likes. What is not given stays ``UNSET``,
    and Python itself then puts in the default.
    """
    fields = {f"p{i}": p for i, p in enumerate(parameters) if not p.injected}
    definitions: list[Any] = [
        (key, adapt(p.annotation), *(() if p.required else (UNSET,))) for key, p in fields.items()
    ]
    try:
        return msgspec.defstruct(
            "Arguments",
            definitions,
            rename={key: p.name for key, p in fields.items()},
            forbid_unknown_fields=True,
            kw_only=True,
        )
    except Exception as error:
        raise ConfigurationError(
            f"tool {tool!r}: its arguments cannot be decoded: {error}"
        ) from error


__all__ = ["ArgumentDecoder"]
