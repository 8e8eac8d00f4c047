"""Types that msgspec does not know: pydantic models, paths, ``object``, and unions with one of them.

A pydantic model is recognised by its methods, so that pydantic need not be installed. msgspec takes a type that it does
not know only alone or with ``None``; `adapt` replaces any other union with such a type by a class that holds its
options.
"""

from __future__ import annotations

import base64
import math
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Union, cast

import msgspec

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
    if is_union and _needs_one_of(adapted):
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


def _needs_one_of(parts: Sequence[Any]) -> bool:
    return any(map(_is_custom, parts)) and sum(part is not type(None) for part in parts) > 1


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
