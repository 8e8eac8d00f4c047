"""The modal screens: approval of a tool call, details of the run and the worker, and the list of keys.

A decision about a tool call approves it, with the same or with changed arguments, or denies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from reactivex.internal import noop
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from rxworker.decisions import Approve, Deny, PendingCalls, reply_of
from rxworker.errors import DecisionError
from rxworker.hub import WatcherState
from rxworker.tools.reports import FileEdit
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import plural
from rxworker.ui.terminal.diff import edit_lines, edit_of
from rxworker.ui.terminal.form import Form, fields_of
from rxworker.worker import Decision
from rxworker.worker.definition import Definition

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
