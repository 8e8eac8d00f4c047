"""The modal screens: approval of a tool call, details of the run and the worker, and the list of keys.

A decision about a tool call approves it, with the same or with changed arguments, or denies it.

The form of a dialog has the arguments of a call, or the content of a question, as fields of the types that a schema
gives them. A field shows a text as it is, and any other value as JSON. A character that a terminal would
execute or hide is shown as a JSON escape, and the text that has one as JSON: what is seen is the value. A field that
was not changed keeps its value. An empty field without a value is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import ClassVar, cast

from msgspec import UNSET, Struct, UnsetType
from reactivex.internal import noop
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static, TextArea

from rxworker.decisions import Approve, Deny, PendingCalls, reply_of
from rxworker.errors import DecisionError
from rxworker.events.form import LIMITS, below, choices_of, kinds_of, name_of_kinds, problem_of
from rxworker.hub import WatcherState
from rxworker.messages import Json, JsonObject
from rxworker.tools.reports import FileEdit
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import plural
from rxworker.ui.terminal.diff import edit_lines, edit_of
from rxworker.worker import Decision
from rxworker.worker.definition import Definition

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


MAX_LINES = 500
"""Maximum number of lines of a diff in a dialog."""
STYLES = {"added": "$text-success", "removed": "$text-error", "title": "bold"}


class ApprovalScreen(ModalScreen[tuple[Decision, bool] | None]):
    """Shows a call that waits for approval.

    The result is the decision, and whether the tool is always allowed from now on; ``None`` decides later.

    Args:
        pending: The calls that wait. One with a question has that in place of an approval, and the content of its form
            in place of the arguments.
        index: The index of the call in them.
        worker: The worker, with the schema of the arguments, and with the folder of a file that the call would edit,
            whose edit is shown as a diff.
    """

    AUTO_FOCUS = "#arguments"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "approve", "Run it", priority=True),
        Binding("ctrl+a", "always", "Always", priority=True),
        Binding("ctrl+e", "edit", "Edit", priority=True),
        Binding("ctrl+n", "deny", "Deny", priority=True),
        Binding("escape,ctrl+c,ctrl+d", "later", "Later", priority=True),
        # With priority, the focus has moved before the next key of the same packet is delivered.
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    def __init__(self, pending: PendingCalls, index: int, worker: Definition) -> None:
        super().__init__()
        node, tool = pending.node(index), worker.tools.get(pending.calls[index].name)
        self._call, self._question = node.call, node.question
        self._can_allow = pending.allowable is not None and index == pending.required[0]
        self._others = len(pending.calls) - 1 - index
        self._edit: FileEdit | None = None
        if node.question is None:
            schema = {} if tool is None else tool.meta.input_schema
            self._reason = f"{node.hook}: {node.reason}".strip(": ")
            if node.path:
                self._reason += f" (in {' > '.join(pending.around(index))})"
            self._edit = edit_of(node.call.input, worker.workspace)
            self._form = Form(fields_of(node.call.input, schema))
        else:
            self._reason = str(node.question)
            self._form = Form(fields_of({}, node.question.schema or {}, is_new=True))

    def compose(self) -> ComposeResult:
        """Return the call, its arguments and the buttons."""
        waits = "waits for approval" if self._question is None else "has a question"
        waits = f"{one_line(self._call.name, 60)} {waits}"
        more = f", and {self._others} more" if self._others else ""
        with Vertical(id="approval"):
            yield Static(waits + more, id="question", markup=False)
            yield Static(clean(self._reason), id="reason", markup=False)
            if self._edit is not None:
                with VerticalScroll(id="edit"):
                    yield Static(draw_edit(self._edit))
            yield self._form
            yield Static("", id="wrong", markup=False)
            yield Input(placeholder="Reason for the model (optional)", id="why", compact=True)
            with Horizontal(id="decisions"):
                yes = "Run ^s" if self._question is None else "Answer ^s"
                yield Button(yes, id="approve", variant="success", compact=True)
                if self._can_allow:
                    yield Button("Always ^a", id="always", compact=True)
                yield Button("Edit ^e", id="edit", compact=True)
                yield Button("Deny ^n", id="deny", variant="error", compact=True)
                yield Button("Later esc", id="later", compact=True)

    def on_mount(self) -> None:
        """Hide the parts that are empty."""
        self.query_one("#reason").display = bool(self._reason)
        self.query_one("#wrong").display = False
        if self._question is not None:
            self._form.display = self._question.schema is not None
            self._form.edit()
        self.query_one("#why").display = self._question is None

    def on_resize(self) -> None:
        """Give the form the room that the other parts leave: the buttons are always seen."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        box, form = self.query_one("#approval"), self._form
        others = [each for each in box.children if each.display and each is not form]
        taken = sum(each.outer_size.height + each.styles.margin.height for each in others)
        room = self.size.height * 96 // 100 - box.gutter.height - taken
        form.styles.max_height = None if self.has_class("-low") else max(3, min(18, room))

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        """Handle a click on a button."""
        await self.run_action(str(event.button.id))

    def on_input_submitted(self) -> None:
        """Deny the call with the entered reason."""
        self.action_deny()

    def action_approve(self, *, is_always: bool = False) -> None:
        """Approve the call with the arguments that are shown."""
        # After the keys that were pressed before, which the field may not have read yet.
        (self.focused or self).call_later(self._approve, is_always=is_always)

    def _approve(self, *, is_always: bool) -> None:
        if self._question is None and not self._form.is_changed:
            self.dismiss((Approve(), is_always))
            return
        given = self._form.read()
        if given is None:
            return
        approval = Approve(given)
        if self._question is not None:
            approval = approval if self._question.schema is not None else Approve()
            try:
                reply_of(self._question, approval)
            except DecisionError as error:
                wrong = self.query_one("#wrong", Static)
                wrong.update(clean(str(error)))
                wrong.display = True
                return
        self.dismiss((approval, is_always))

    def action_always(self) -> None:
        """Approve the call, and always allow its tool in this conversation."""
        if self._can_allow:
            self.action_approve(is_always=True)

    def action_edit(self) -> None:
        """Make the arguments editable."""
        self._form.edit()

    def action_deny(self) -> None:
        """Deny the call."""
        why = self.query_one("#why", Input).value.strip()
        self.dismiss((Deny(why) if why else Deny(), False))

    def action_later(self) -> None:
        """Decide later."""
        self.dismiss(None)


class InfoScreen(ModalScreen[None]):
    """Shows something, drawn anew twice a second, until one of a few keys is pressed.

    Args:
        title: The title.
        draw: Draws it for a number of columns.
        closed: Called when the screen is closed.
        is_text: Whether it needs no more than the width of a text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,ctrl+c,ctrl+d,f1,ctrl+g,ctrl+y,q", "dismiss", "Close", priority=True)
    ]

    def __init__(
        self,
        title: str,
        draw: Callable[[int], RenderableType],
        *,
        closed: Callable[[], object] = noop,
        is_text: bool = False,
    ) -> None:
        super().__init__()
        self._about, self._drawing, self._at_end, self._is_text = title, draw, closed, is_text

    def compose(self) -> ComposeResult:
        """Return the title and what is drawn."""
        with VerticalScroll(id="info", classes="-text" if self._is_text else ""):
            yield Static(clean(self._about), classes="head", markup=False)
            yield Static(id="rows", markup=False)

    def on_mount(self) -> None:
        """Draw it, and again and again."""
        self.set_interval(0.5, self._show)

    def on_resize(self) -> None:
        """Draw it for the new width."""
        self.call_after_refresh(self._show)

    def on_unmount(self) -> None:
        """End what it follows."""
        self._at_end()

    def _show(self) -> None:
        shown = self.query_one("#rows", Static)
        shown.update(self._drawing(max(20, shown.size.width)))


def draw_edit(edit: FileEdit) -> Content:
    """Draw the diff of an edit."""
    lines = edit_lines(edit)
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [("more", f"… {plural(len(lines) - MAX_LINES, 'more line')}")]
    return Content("\n").join(Content.styled(line, STYLES.get(style, "dim")) for style, line in lines)


def draw_details(watchers: Iterable[WatcherState], tools: Iterable[str], hooks: Iterable[tuple[str, str]]) -> Group:
    """Draw the watchers of the running run, and the names of tools, and the names and points of hooks."""
    shown: dict[str, RenderableType] = {
        "Watchers": watcher_table(watchers) if watchers else "No run is running.",
        "Tools": Text(", ".join(map(one_line, tools)) or "none"),
        "Hooks": Text("\n".join(f"{one_line(name)} ({point})" for name, point in hooks) or "none"),
    }
    return Group(*(part for title, about in shown.items() for part in (Text(title, "bold"), about, "")))


def watcher_table(watchers: Iterable[WatcherState]) -> Table:
    """Return a table with one line for each watcher."""
    table = Table.grid(padding=(0, 2, 0, 0))
    names = ("name", "delivery", "behind", "merged", "dropped")
    for name in names:
        table.add_column(justify="left" if name in ("name", "delivery") else "right")
    table.add_row(*(Text(name, "dim") for name in names))
    for watcher in watchers:
        numbers = (watcher.lag, watcher.merged, watcher.dropped)
        cells = (one_line(watcher.name, 30), watcher.delivery, *(f"{n:,}" for n in numbers))
        table.add_row(*(Text(each) for each in cells))
    return table


KEYS = (
    ("Enter", "send; into the run while one is running"),
    ("Alt-Enter, /now", "send at once: the answer that is being written is cut off"),
    ("/end", "send when the run would end, which goes on with it"),
    ("Ctrl-J", "insert a line break"),
    ("@", "attach a file: @path; @@ is an @ of the text"),
    ("Up, Down", "earlier messages, from an empty input"),
    ("Ctrl-C", "cancel the answer; without a run, or again, leave"),
    ("Ctrl-P", "pause the run at the next safe moment"),
    ("Ctrl-R", "resume a paused run, or decide about its call"),
    ("Ctrl-O", "unfold a paste, or else the last folded part, or fold it"),
    ("Alt-O", "unfold all parts, or fold them"),
    ("PgUp, PgDn", "scroll the conversation"),
    ("Tab, Enter", "go to a folded part, and unfold it"),
    ("Ctrl-G", "watchers of the run; tools and hooks"),
    ("Ctrl-Y", "trace: turns, requests and calls of the last run in time"),
    ("Ctrl-T", "light or dark"),
    ("Ctrl-\\", "the palette of Textual"),
    ("Tab, Up, Down", "choose a command after /, a file after @"),
    ("mouse", "unfold, scroll, select text; Ctrl-C without a run copies it"),
    ("Ctrl-D, -Q", "leave"),
)


def draw_keys(commands: Iterable[tuple[str, str]]) -> Group:
    """Draw all keys, and the commands with what they do."""
    parts: list[RenderableType] = []
    for title, rows in (("Keys", KEYS), ("Commands", commands)):
        table = Table.grid(padding=(0, 2, 0, 0))
        for key, meaning in rows:
            table.add_row(Text(key, "bold", no_wrap=True), Text(meaning))
        parts += [Text(title, "bold"), table, ""]
    return Group(*parts)
