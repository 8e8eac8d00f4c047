"""A form: the arguments of a call, or the content of a question, as fields of the types that a schema gives them.

Theory of operation. A field shows a text as it is, and any other value as JSON. A character that a terminal would
execute or hide is shown as a JSON escape, and the text that has one as JSON: what is seen is the value. A field that
was not changed keeps its value. An empty field without a value is left out.
"""

from __future__ import annotations

import json
import re
from typing import cast

from msgspec import UNSET, Struct, UnsetType
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static, TextArea

from rxworker.events.form import LIMITS, below, choices_of, kinds_of, name_of_kinds, problem_of
from rxworker.messages import Json, JsonObject
from rxworker.ui.clean import clean, one_line

# Characters that a terminal would execute or hide are shown as JSON escapes: the value stays the same.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
MAX_ABOUT = 300


class Field(Struct, frozen=True):
    """A field.

    Attributes:
        name: The name of the argument; empty for free text.
        value: The value that is given; ``UNSET`` for none.
        schema: Its JSON schema; empty if it is not known.
        is_required: Whether it must be given.
    """

    name: str
    value: Json | UnsetType = UNSET
    schema: JsonObject = {}
    is_required: bool = False

    @property
    def text(self) -> str:
        r"""The value as it is shown.

        >>> Field("path", "a\u202eb").text, Field("path", "a b").text, Field("days", 2).text
        ('"a\\u202eb"', 'a b', '2')
        """
        if isinstance(self.value, UnsetType):
            return ""
        if isinstance(self.value, str) and not _is_hidden(self.value):
            return self.value
        return _HIDDEN.sub(
            lambda found: f"\\u{ord(found[0]):04x}", json.dumps(self.value, indent=2, ensure_ascii=False)
        )

    @property
    def about(self) -> str:
        """What the field takes; nothing for free text.

        >>> Field("days", 2, {"type": "integer", "minimum": 1, "description": "How many."}).about
        'a whole number, minimum 1, optional. How many.'
        """
        if not self.name:
            return ""
        parts = [name_of_kinds(kinds_of(self.schema))]
        parts += [f"{word} {self.schema[word]}" for word in LIMITS if word in self.schema]
        if choices := choices_of(self.schema):
            parts.append(f"one of {', '.join(map(str, choices))}")
        parts.append("required" if self.is_required else "optional")
        about = self.schema.get("description")
        text = f"{', '.join(filter(None, parts))}. {about if isinstance(about, str) else ''}"
        return one_line(text, MAX_ABOUT)

    def read(self, text: str) -> Json | UnsetType:
        """Return the value of what stands in the field.

        Raises:
            ValueError: It does not fit the schema; the message is what follows the name of the field.

        >>> Field("days", 2, {"type": "integer"}).read("3")
        3
        """
        if text == self.text and self.value is not UNSET:
            return self.value
        if not text and not isinstance(self.value, str):
            if self.is_required:
                raise ValueError("is missing")
            return UNSET
        value = self._parse(text)
        if problem := problem_of(value, self.schema):
            raise ValueError(problem)
        return value

    def _parse(self, text: str) -> Json:
        kinds = kinds_of(self.schema)
        is_text = "string" in kinds if kinds else isinstance(self.value, str)
        is_shown_as_json = isinstance(self.value, str) and _is_hidden(self.value)
        if is_text and not is_shown_as_json and (isinstance(self.value, str) or kinds <= {"string", "null"}):
            return text
        try:
            return cast("Json", json.loads(text, parse_constant=_refuse))
        except ValueError as error:
            if is_text and not is_shown_as_json:
                return text
            quoted = ' in JSON: write "..."' if is_shown_as_json else ""
            raise ValueError(f"is not {name_of_kinds(kinds) or 'JSON'}{quoted}") from error
        except RecursionError as error:
            raise ValueError("is nested too deeply") from error


def fields_of(content: JsonObject | str, schema: JsonObject, *, is_new: bool = False) -> tuple[Field, ...]:
    """Return the fields of a content: what is given, in its order, and what else the schema has.

    Args:
        content: The arguments of a call; free text has one field without a name.
        schema: The JSON schema of the content.
        is_new: Whether a field without a value begins with the default of its schema.

    >>> [field.text for field in fields_of({}, {"properties": {"of": {"default": 2}}}, is_new=True)]
    ['2']
    """
    if isinstance(content, str):
        return (Field("", content, {"type": "string"}),)
    known, required = schema.get("properties"), schema.get("required")
    parts = {name: each for name, each in known.items() if isinstance(each, dict)} if isinstance(known, dict) else {}
    needed = required if isinstance(required, list) else []
    names = dict.fromkeys((*content, *parts))

    def value_of(name: str) -> Json | UnsetType:
        return content.get(name, parts.get(name, {}).get("default", UNSET) if is_new else UNSET)

    return tuple(Field(name, value_of(name), parts.get(name, {}), name in needed) for name in names)


def _is_hidden(text: str) -> bool:
    return _HIDDEN.search(text) is not None or clean(text) != text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} has no JSON form")


class Form(VerticalScroll):
    """The fields of a form. They can be read until `edit` is called; only then those without a value are shown.

    Args:
        fields: The fields.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        super().__init__(id="arguments")
        self._fields = fields

    def compose(self) -> ComposeResult:
        """Return a row for each field, and a line below it."""
        if not self._fields:
            yield Static("no arguments", classes="about")
        for at, field in enumerate(self._fields):
            with Horizontal(classes="-unset" if field.value is UNSET else ""):
                if field.name:
                    yield Static(one_line(field.name, 200), classes="name", markup=False)
                yield TextArea(
                    field.text, read_only=True, compact=True, tab_behavior="focus",
                    highlight_cursor_line=False, id=f"field-{at}",
                )  # fmt: skip
            yield Static("", id=f"about-{at}", classes="about", markup=False)

    def edit(self) -> None:
        """Make the fields editable, and show what each takes."""
        for at, field in enumerate(self._fields):
            shown = self._input(at)
            shown.read_only = False
            shown.move_cursor(shown.document.end)
            self._show(at, field.about)
        self.add_class("-editing")
        if self._fields:
            self._input(0).focus()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """What was wrong with a field is not shown any more when it changes."""
        at = int(str(event.text_area.id).rpartition("-")[2])
        if self.query_one(f"#about-{at}").has_class("-wrong"):
            self._show(at, self._fields[at].about)

    @property
    def is_changed(self) -> bool:
        """Whether a field was changed."""
        return any(self._input(at).text != each.text for at, each in enumerate(self._fields))

    def read(self) -> JsonObject | str | None:
        """Return the content; ``None`` if a field does not fit, which it shows then."""
        content: JsonObject = {}
        wrong: list[int] = []
        for at, field in enumerate(self._fields):
            try:
                value = field.read(self._input(at).text)
            except ValueError as error:
                wrong.append(at)
                self._show(at, below(field.name, str(error)).strip(), is_wrong=True)
                continue
            self._show(at, field.about)
            if isinstance(value, str) and not field.name:
                return value
            if not isinstance(value, UnsetType):
                content[field.name] = value
        if not wrong:
            return content
        self._input(wrong[0]).focus()
        return None

    def _input(self, at: int) -> TextArea:
        return self.query_one(f"#field-{at}", TextArea)

    def _show(self, at: int, text: str, *, is_wrong: bool = False) -> None:
        line = self.query_one(f"#about-{at}", Static)
        line.update(clean(text))
        line.set_class(bool(text), "-shown")
        line.set_class(is_wrong, "-wrong")
