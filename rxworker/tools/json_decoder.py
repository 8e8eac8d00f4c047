"""JSON text to a value of a type, with errors that name the path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from rxworker.tools.custom_types import OneOf, adapt, is_model, is_path, name_of

T = TypeVar("T")

AT = re.compile(r"(?P<reason>.*) - at `(?P<path>[^`]*)`", re.DOTALL)
FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)
JSON_NAMES: dict[type[object], str] = {type(None): "null", dict: "object", list: "array"}
# Beyond it a float stands for many integers.
MAX_EXACT = 2**53
MAX_PROBLEMS = 10


class MismatchError(ValueError):
    """A value does not fit a custom type.

    Attributes:
        problems: Where, below the value, and why; at least one.
    """

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__(problems[0][1])
        self.problems = problems


class JsonDecoder(Generic[T]):
    """Decodes JSON text to a type. The types are taken as they are: a text is not a number, even if it looks like one.

    A float without a fraction is accepted as an integer, as JSON schema has it.

    Args:
        type_: A type that msgspec decodes, a pydantic model, a path, ``object``, or one that is made of them.

    Raises:
        TypeError: The type cannot be decoded.

    >>> JsonDecoder(list[int]).decode("[1, 2.0]")
    [1, 2]
    """

    def __init__(self, type_: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(adapt(type_), dec_hook=_decode_custom)

    def decode(self, text: str | bytes) -> T:
        """The value.

        Raises:
            msgspec.ValidationError: It does not fit; the message names the path.
            msgspec.DecodeError: It is not JSON.
            UnicodeError: It has a lone surrogate, or is not UTF-8.
            RecursionError: It is nested too deeply.
        """
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError as error:
            failure = error
        whole = _with_integers(text)
        if whole is not None:
            try:
                return self._decoder.decode(whole)
            except msgspec.ValidationError as error:
                failure = error
        raise msgspec.ValidationError(_message(failure)) from failure


def explain(message: str) -> tuple[str, str]:
    """Where msgspec found what wrong. A field that is missing or unknown is where it should be.

    >>> explain("Expected `str`, got `int` - at `$.city`")
    ('$.city', 'Expected `str`, got `int`')
    >>> explain("Object missing required field `city`")
    ('$.city', 'Object missing required field `city`')
    """
    at = AT.fullmatch(message)
    path, reason = (at["path"], at["reason"]) if at else ("$", message)
    field = FIELD.fullmatch(reason)
    return (f"{path}.{field['field']}" if field else path), reason


def _message(error: msgspec.ValidationError) -> str:
    """The message of msgspec, with the paths within a custom type after its own."""
    cause = error.__cause__
    if not isinstance(cause, MismatchError):
        return str(error)
    above = explain(str(error))[0]
    (path, reason), *others = cause.problems
    also = "".join(f"; and at `{above}{below}`: {text}" for below, text in others)
    return f"{reason}{also} - at `{above}{path}`"


def _with_integers(text: str | bytes) -> bytes | None:
    """The JSON with ``1`` in place of ``1.0``; ``None`` if it cannot be read."""
    try:
        return msgspec.json.encode(_whole(msgspec.json.decode(text)))
    # The first decoding stopped at the first mistake, so the rest was not read.
    except (ValueError, RecursionError):
        return None


def _whole(value: object) -> object:
    """The value with integers in place of floats without a fraction."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= MAX_EXACT else value
    if isinstance(value, list):
        return [_whole(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in cast("dict[str, object]", value).items()}
    return value


def _decode_custom(type_: Any, value: Any) -> Any:
    """The hook for types that msgspec does not know. What it raises is given the path by msgspec."""
    if type_ is object:
        return value
    if is_path(type_):
        if not isinstance(value, str):
            got = JSON_NAMES.get(type(cast("object", value)), type(value).__name__)
            raise MismatchError(("", f"Expected `str`, got `{got}`"))
        return type_(value)
    if is_model(type_):
        return _decode_model(type_, value)
    if isinstance(type_, type) and issubclass(type_, OneOf):
        return _decode_one_of(type_.options, value)
    raise TypeError(f"the type {name_of(type_)} cannot be decoded")


def _decode_model(type_: Any, value: object) -> object:
    try:
        # As JSON, so that a strict model takes a date from a text.
        return type_.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if not callable(errors):
            raise
        found = cast("Sequence[dict[str, Any]]", errors())[:MAX_PROBLEMS]
        if not found:
            raise
        raise MismatchError(*((_path(e.get("loc", ())), str(e.get("msg"))) for e in found)) from error


def _path(location: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _decode_one_of(options: Sequence[Any], value: object) -> object:
    text = msgspec.json.encode(value)
    reasons: list[str] = []
    for option in options:
        try:
            return JsonDecoder[Any](option).decode(text)
        except msgspec.ValidationError as error:
            reasons.append(f"{name_of(option)} ({error})")
    raise MismatchError(("", f"it fits none of: {', '.join(reasons)}"))
