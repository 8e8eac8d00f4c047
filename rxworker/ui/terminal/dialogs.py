"""The modal screens: approval of a tool call, details of the run and the worker, and the list of keys.

A decision about a tool call approves it, with the same or with changed arguments, or denies it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.internal import noop
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from rxworker.boards import Board, board_text
from rxworker.decisions import Approve, Deny, reply_of
from rxworker.errors import DecisionError
from rxworker.events.pause import Question
from rxworker.hub import WatcherState
from rxworker.messages import JsonObject, ToolCall
from rxworker.tools.reports import FileEdit
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import plural
from rxworker.ui.terminal.commands import COMMANDS
from rxworker.ui.terminal.diff import edit_lines
from rxworker.ui.terminal.form import Form, fields_of
from rxworker.ui.terminal.themes import app_of, plain_colours
from rxworker.ui.terminal.trace import draw_trace, trace_rows
from rxworker.views import RunView
from rxworker.worker import Decision

MAX_LINES = 500
"""Maximum number of lines of a diff in a dialog."""


class ApprovalScreen(ModalScreen[tuple[Decision, bool] | None]):
    """Shows a call that waits for approval.

    The result is the decision, and whether the tool is always allowed from now on; ``None`` decides later.

    Args:
        call: The call that waits.
        reason: Why it waits.
        others: The number of other calls that wait.
        schema: The JSON schema of the arguments.
        edit: The edit of a file that the call would make, which is shown as a diff.
        can_allow: Whether the tool can be always allowed.
        question: The question of the tool, in place of an approval. The arguments are then the content of its form.
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

    def __init__(
        self,
        call: ToolCall,
        reason: str = "",
        others: int = 0,
        edit: FileEdit | None = None,
        *,
        schema: JsonObject | None = None,
        can_allow: bool = True,
        question: Question | None = None,
    ) -> None:
        super().__init__()
        self._asked = call
        self._can_allow = can_allow
        self._question = question
        is_new = question is not None
        schema = schema if question is None else question.schema
        self._form = Form(fields_of({} if is_new else call.input, schema or {}, is_new=is_new))
        self._reason = reason
        self._others = others
        self._edit = edit

    def compose(self) -> ComposeResult:
        """Return the call, its arguments and the buttons."""
        waits = "waits for approval" if self._question is None else "has a question"
        waits = f"{one_line(self._asked.name, 60)} {waits}"
        more = f", and {self._others} more" if self._others else ""
        with Vertical(id="approval"):
            yield Static(waits + more, id="question", markup=False)
            yield Static(clean(self._reason), id="reason", markup=False)
            if self._edit is not None:
                with VerticalScroll(id="edit"):
                    yield Static(self._diff(self._edit))
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

    def _diff(self, edit: FileEdit) -> Text:
        colours = plain_colours(app_of(self).theme_variables)
        styles = {
            "added": colours.get("text-success", "green"),
            "removed": colours.get("text-error", "red"),
            "title": "bold",
            "dim": "dim",
            "more": "dim",
        }
        lines = edit_lines(edit)
        shown = lines[:MAX_LINES]
        if len(lines) > len(shown):
            shown.append(("dim", f"… {plural(len(lines) - len(shown), 'more line')}"))
        return Text("\n").join(Text(line, styles.get(style, "")) for style, line in shown)

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


Watchers = tuple[WatcherState, ...]


class InfoScreen(ModalScreen[None]):
    """Shows something until one of a few keys is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,ctrl+c,ctrl+d,f1,ctrl+g,ctrl+y,q", "dismiss", "Close", priority=True)
    ]


class TraceScreen(InfoScreen):
    """Shows the trace of the last run, and follows it while it is running.

    Args:
        view: The run.
    """

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self._view = view

    def compose(self) -> ComposeResult:
        """Return the list."""
        with VerticalScroll(id="trace"):
            yield Static("Trace of the last run", classes="head")
            yield Static(id="rows")

    def on_mount(self) -> None:
        """Draw it, and again while the run is running."""
        self.set_interval(0.5, self._tick)
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        """Draw it for the new width."""
        self.call_after_refresh(self._draw)

    def _tick(self) -> None:
        if self._view.end is None and self._view.began is not None:
            self._draw()

    def _draw(self) -> None:
        view, shown = self._view, self.query_one("#rows", Static)
        now = time.time() if view.end is None else view.now
        rows = trace_rows(view, now)
        if not rows:
            shown.update("No run has begun.")
            return
        span = now - (view.began or now)
        shown.update(draw_trace(rows, span, shown.size.width, plain_colours(app_of(self).theme_variables)))


class BoardScreen(InfoScreen):
    """Shows a board, and follows it.

    Args:
        board: The board; it is disposed with the screen.
    """

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board

    def compose(self) -> ComposeResult:
        """Return the panels."""
        with VerticalScroll(id="trace"):
            yield Static(clean(self._board.dashboard.title), classes="head", markup=False)
            yield Static(id="rows", markup=False)

    def on_mount(self) -> None:
        """Draw it, and again when a panel changes."""
        self._board.changes.subscribe(self._draw)
        self.call_after_refresh(self._draw)

    def on_unmount(self) -> None:
        """Compute it no more."""
        self._board.dispose()

    def on_resize(self) -> None:
        """Draw it for the new width."""
        self.call_after_refresh(self._draw)

    def _draw(self, _: object = None) -> None:
        board, shown = self._board, self.query_one("#rows", Static)
        shown.update(clean(board_text(board.dashboard, board.states, width=max(shown.size.width, 20))))


class DetailsScreen(InfoScreen):
    """Shows the watchers of the run, and the tools and hooks of the worker.

    Args:
        watchers: The watchers of the running run; ``None`` if no run is running.
        tools: The names of the tools.
        hooks: The names and points of the hooks.
    """

    def __init__(
        self, watchers: Observable[Watchers] | None, tools: Iterable[str], hooks: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__()
        self._watchers = watchers
        self._tools = tools
        self._hooks = hooks
        self._subscription: abc.DisposableBase = Disposable()

    def compose(self) -> ComposeResult:
        """Return the three lists."""
        with VerticalScroll(id="details"):
            yield Static("Watchers", classes="head")
            yield Static("No run is running.", id="watchers")
            yield Static("Tools", classes="head")
            yield Static(Text(", ".join(one_line(name) for name in self._tools) or "none"))
            yield Static("Hooks", classes="head")
            hooks = [f"{one_line(name)} ({point})" for name, point in self._hooks]
            yield Static(Text("\n".join(hooks) or "none"))

    def on_mount(self) -> None:
        """Subscribe to the watchers."""
        if self._watchers is not None:
            self._subscription = self._watchers.subscribe(self._show, noop)  # the conversation shows errors

    def on_unmount(self) -> None:
        """Unsubscribe from the watchers."""
        self._subscription.dispose()

    def _show(self, watchers: Watchers) -> None:
        self.query_one("#watchers", Static).update(watcher_table(watchers))


def watcher_table(watchers: Watchers) -> Table:
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


class KeysScreen(InfoScreen):
    """Shows all keys of the app."""

    def compose(self) -> ComposeResult:
        """Return the tables of keys and commands."""
        commands = [(f"/{each.name} {each.argument}", each.about) for each in COMMANDS.values()]
        with VerticalScroll(id="details"):
            for title, rows in (("Keys", KEYS), ("Commands", commands)):
                table = Table.grid(padding=(0, 2, 0, 0))
                for key, meaning in rows:
                    table.add_row(Text(key, "bold", no_wrap=True), Text(meaning))
                yield Static(title, classes="head")
                yield Static(table)
