"""JSON text to a value of a type, also of types that msgspec does not know, with errors that name the path.

Those are pydantic models, paths, ``object``, and unions with one of them. A pydantic model is recognised by its
methods, so that pydantic need not be installed. msgspec takes a type that it does not know only alone or with ``None``;
`adapt` replaces any other union with such a type by a class that holds its options.
"""

from __future__ import annotations

import base64
import math
import re
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, cast

import msgspec

from rxworker.messages.json import is_list, is_object

CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
BYTES = (bytes, bytearray, memoryview)
# More bytes than this are of no use to a model, and would fill its context.
MAX_BASE64 = 3_000


class _AnyInstance(type):
    """msgspec checks that a decoded value is an instance; here each option has been checked already."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class OneOf(metaclass=_AnyInstance):
    """A union that msgspec cannot decode. The first option that fits is taken.

    Attributes:
        options: The types, in the order in which they were written.
    """

    options: ClassVar[tuple[Any, ...]] = ()


def is_model(type_: object) -> bool:
    """Whether it is a class with the methods of a pydantic model."""
    return isinstance(type_, type) and hasattr(type_, "model_json_schema") and hasattr(type_, "model_validate_json")


def is_path(type_: object) -> bool:
    """Whether it is `pathlib.Path` or a class like it."""
    return isinstance(type_, type) and issubclass(type_, PurePath)


def name_of(type_: Any) -> str:
    """A type as an error message names it."""
    return str(type_) if typing.get_args(type_) else getattr(type_, "__name__", str(type_))


def adapt(annotation: Any) -> Any:
    """The type as msgspec takes it; the same object if nothing has to be changed.

    Unions with a custom type become a `OneOf`. Constraints of pydantic's ``Field`` and of the package annotated-types
    become a ``msgspec.Meta``.

    >>> adapt(Annotated[int, "how many"])
    typing.Annotated[int, 'how many']
    >>> [kind.__name__ for kind in adapt(list[PurePath | int]).__args__[0].options]
    ['PurePath', 'int']
    """
    if type(annotation).__name__ == "TypeAliasType":  # ``type Name = ...``, from Python 3.12 on
        return adapt(annotation.__value__)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _annotated(annotation, *parts)
    is_union = origin in (typing.Union, types.UnionType)
    if not is_union and not isinstance(origin, type):
        return annotation
    adapted = tuple(map(adapt, parts))
    if is_union and any(map(_is_custom, adapted)) and sum(part is not type(None) for part in adapted) > 1:
        return type(" | ".join(map(name_of, parts)), (OneOf,), {"options": adapted})
    if all(new is old for new, old in zip(adapted, parts, strict=True)):
        return annotation
    return Union[adapted] if is_union else cast("Any", origin)[adapted]  # noqa: UP007 - made of a tuple


def _annotated(annotation: Any, inner: Any, *notes: Any) -> Any:
    adapted = adapt(inner)
    metas = () if _is_custom(adapted) else tuple(_constraints(notes))
    if adapted is inner and not metas:
        return annotation
    return Annotated[(adapted, *notes, *metas)]  # type: ignore[return-value] - made of a tuple


def _constraints(notes: Sequence[Any]) -> Iterable[msgspec.Meta]:
    for note in notes:
        if isinstance(note, msgspec.Meta | type):
            continue
        for part in (note, *getattr(note, "metadata", ())):
            given = {name: getattr(part, name, None) for name in CONSTRAINTS}
            # A compiled pattern holds its text in an attribute of the same name.
            found = {n: getattr(v, "pattern", v) for n, v in given.items() if v is not None}
            if found:
                yield msgspec.Meta(**found)


def _is_custom(type_: Any) -> bool:
    if typing.get_origin(type_) is Annotated:
        return _is_custom(typing.get_args(type_)[0])
    is_one_of = isinstance(type_, _AnyInstance)
    return type_ is object or is_one_of or is_path(type_) or is_model(type_)


def to_json_value(value: object) -> Any:
    """A value as JSON can carry it: a copy of dicts, lists, texts and numbers.

    Bytes become text, and ``NaN`` and the infinities their names, since JSON has neither.

    Raises:
        TypeError: It has no JSON form.

    >>> to_json_value({"at": PurePath("a/b"), "raw": b"text", "mean": float("nan")})
    {'at': 'a/b', 'raw': 'text', 'mean': 'NaN'}
    """
    return _readable(msgspec.to_builtins(value, builtin_types=BYTES, str_keys=True, enc_hook=_encode))


def _bytes_to_text(raw: bytes) -> str:
    """Bytes as a model can read them: their text if they are UTF-8, otherwise a description."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        about = f"{len(raw):,} bytes, not UTF-8 text"
    if len(raw) <= MAX_BASE64:
        return f"[{about}, in base64: {base64.b64encode(raw).decode()}]"
    return f"[{about}, left out; a tool can return them as an Image or a Document]"


def _encode(value: Any) -> object:
    """The hook for what msgspec cannot encode."""
    if isinstance(value, PurePath):
        return str(value)
    if is_model(cast("object", type(value))):
        return value.model_dump(mode="json")
    raise TypeError(f"objects of type {name_of(type(value))} cannot be encoded")


def _readable(value: Any) -> Any:
    kind = cast("type[object]", type(value))
    if kind is dict:
        return {name: _readable(item) for name, item in value.items()}
    if kind is list or kind is tuple:
        return [_readable(item) for item in value]
    if kind is float and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _bytes_to_text(bytes(value)) if kind in BYTES else value


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
    if is_list(value):
        return [_whole(item) for item in value]
    if is_object(value):
        return {name: _whole(item) for name, item in value.items()}
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
