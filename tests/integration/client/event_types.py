"""Writes the TypeScript types of the package rxworker-client from the Python types.

``python tests/integration/client/event_types.py``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from rxworker.boards import PanelState
from rxworker.events import Event, Record
from rxworker.protocols.socket import DeliveryName, RunSummary

FILE = Path(__file__).parents[3] / "rxworker/ui/web/client/events.d.ts"
HEAD = (
    "// The types of events and of what the server sends, made from the Python types by "
    "tests/integration/client/event_types.py.\n"
)
PLAIN: dict[object, str] = {
    int: "number", float: "number", str: "string", bytes: "string", bool: "boolean", NoneType: "null",
    object: "unknown", Any: "unknown",
}  # fmt: skip


class Types:
    """TypeScript for Python types, in the order in which they are met."""

    def __init__(self) -> None:
        self.blocks: dict[str, str] = {}
        self._made: dict[str, type] = {}

    def name(self, kind: Any) -> str:
        """The TypeScript for the JSON of a type.

        Raises:
            TypeError: There is none for it here.
        """
        origin, args = get_origin(kind), get_args(kind)
        if kind in PLAIN:
            return PLAIN[kind]
        if origin is Annotated:
            return self.name(args[0])
        if origin is Literal:
            return " | ".join(map(json.dumps, args))
        if origin in (Union, UnionType):
            return " | ".join(dict.fromkeys(map(self.name, args)))
        if origin is tuple and args[-1] is not ...:
            return f"[{', '.join(map(self.name, args))}]"
        if origin in (tuple, list, frozenset, Sequence):
            return f"({self.name(args[0])})[]" if get_args(args[0]) else f"{self.name(args[0])}[]"
        if origin in (dict, Mapping):
            return f"{{ [key: string]: {self.name(args[1])} }}"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._once(kind, lambda: " | ".join(json.dumps(each.value) for each in kind), "type {} = {};")
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._once(kind, lambda: self._members(kind), "interface {} {{\n{}}}")
        raise TypeError(f"{kind!r} has no TypeScript here: add a case")

    def alias(self, name: str, kind: object) -> None:
        """Export a type under this name."""
        self.blocks[name] = f"export type {name} = {self.name(kind)};\n"

    def _once(self, kind: type, write: Any, form: str) -> str:
        name = kind.__name__
        if self._made.setdefault(name, kind) is not kind:
            raise TypeError(f"two types are called {name}")
        if name not in self.blocks:
            self.blocks[name] = ""  # a type may contain itself
            text = _note(_summary(kind), "") + f"export {form.format(name, write())}\n"
            del self.blocks[name]
            self.blocks[name] = text
        return name

    def _members(self, kind: type[Struct]) -> str:
        config, notes = kind.__struct_config__, _attributes(kind)
        if config.array_like:
            raise TypeError(f"{kind.__name__} is a JSON array: add a case")
        tag = f"  {config.tag_field}: {json.dumps(config.tag)};\n" if config.tag_field else ""
        return tag + "".join(
            _note(notes.get(field.name, ""), "  ") + self._member(field, config.omit_defaults) for field in fields(kind)
        )

    def _member(self, field: FieldInfo, omits: bool) -> str:
        mark = "?" if omits and not field.required else ""
        return f"  {field.encode_name}{mark}: {self.name(field.type)};\n"


def _summary(kind: type) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())


def _attributes(kind: type) -> dict[str, str]:
    """The notes of a docstring about attributes."""
    doc = inspect.cleandoc(kind.__doc__ or "")
    found = re.search(r"^Attributes:\n((?:    .*\n?)*)", doc, re.MULTILINE)
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^     +.*\n?)*)", found[1] if found else "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _note(text: str, indent: str) -> str:
    return f"{indent}/** {text.replace('*/', '* /')} */\n" if text else ""


def event_types() -> str:
    """The whole file."""
    types = Types()
    for kind in (Record, RunSummary, PanelState):
        types.name(kind)
    types.alias("RunEvent", Event)
    types.alias("Delivery", DeliveryName)
    return HEAD + "".join(f"\n{block}" for block in types.blocks.values())


if __name__ == "__main__":
    FILE.write_text(event_types(), encoding="utf-8")
