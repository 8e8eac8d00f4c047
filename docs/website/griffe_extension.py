"""An extension of griffe, which reads the source for the API reference.

What msgspec and enum add to a class, and links between docstrings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

from api_pages import Linker


class LibraryExtension(griffe.Extension):
    """Gives Structs a constructor, functions their options and enumerations their members, and links names.

    The names are those that stand as code in docstrings.
    """

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Complete all objects of the package once it is read."""
        linked = Linker(json.loads(Path("names.json").read_text(encoding="utf-8")))
        for found in _objects(pkg):
            if isinstance(found, griffe.Class):
                _complete(found)
            if isinstance(found, griffe.Function):
                _expand(found)
            if found.docstring is not None:
                found.docstring.value = linked(found.docstring.value, found.path)


def _objects(parent: griffe.Object) -> Iterator[griffe.Object]:
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            yield member
            yield from _objects(member)


def _complete(found: griffe.Class) -> None:
    bases = [found, *_bases(found)]
    names = {str(base).rpartition(".")[2] for each in bases for base in each.bases}
    if "Struct" in names and "__init__" not in found.members:
        found.set_member("__init__", _constructor(found, bases))
    if names & {"Enum", "StrEnum", "IntEnum"} and found.docstring is not None:
        members = [n for n, member in found.members.items() if n.isupper() and member.is_attribute]
        listed = ", ".join(f"``{member}``" for member in members)
        found.docstring.value = f"{found.docstring.value}\n\nMembers: {listed}."


def _expand(found: griffe.Function) -> None:
    """Show the arguments of ``**options: Unpack[Options]`` by name, unless the docstring describes ``options``."""
    last = found.parameters[-1] if len(found.parameters) else None
    given = last and last.annotation
    if last is None or not isinstance(given, griffe.ExprSubscript) or str(given.left) != "Unpack":
        return
    unpacked: Any = given.slice
    owner = found.parent if found.name == "__init__" else found
    if owner and owner.docstring and f"{last.name}:" in owner.docstring.value:
        return
    del found.parameters[last.name]
    options: Any = found.modules_collection[unpacked.canonical_path]
    for name, option in options.attributes.items():
        kind = griffe.ParameterKind.keyword_only
        found.parameters.add(griffe.Parameter(name, annotation=option.annotation, kind=kind, default="..."))


def _bases(found: griffe.Class) -> list[griffe.Class]:
    """The base classes of the package, the nearest first."""
    direct = [base for base in found.resolved_bases if isinstance(base, griffe.Class)]
    return [*direct, *(further for base in direct for further in _bases(base))]


def _constructor(found: griffe.Class, bases: list[griffe.Class]) -> griffe.Function:
    parameters = {"self": griffe.Parameter("self")}
    for base in reversed(bases):
        for member in base.members.values():
            if (
                isinstance(member, griffe.Attribute)
                and member.annotation is not None
                and "instance-attribute" in member.labels
                and "property" not in member.labels
            ):
                parameters[member.name] = _parameter(member, str(base.keywords.get("kw_only")))
    ordered = sorted(parameters.values(), key=lambda p: p.kind is griffe.ParameterKind.keyword_only)
    return griffe.Function(
        "__init__", parameters=griffe.Parameters(*ordered), returns="None", lineno=found.lineno, endlineno=found.lineno
    )


def _parameter(field: griffe.Attribute, keyword_only: str) -> griffe.Parameter:
    default, kinds = field.value, griffe.ParameterKind
    if isinstance(default, griffe.ExprCall) and str(default.function) == "field":
        given = {a.name: a.value for a in default.arguments if isinstance(a, griffe.ExprKeyword)}
        keyword_only = str(given.get("kw_only", keyword_only))
        factory = given.get("default_factory")
        default = griffe.ExprCall(factory, []) if isinstance(factory, griffe.Expr) else None
    kind = kinds.keyword_only if keyword_only == "True" else kinds.positional_or_keyword
    return griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=default)
