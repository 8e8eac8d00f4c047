"""Asking a person about a tool call: run it, with these arguments or others, or not.

A call's arguments as a person reads and changes them. Pure.

Who is watching the run, and how far behind; what the worker may use.

All keys of the app, on one screen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

import msgspec
from reactivex import Observable, abc
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static, TextArea

from rxworker.hub import WatcherState
from rxworker.messages import JsonObject, ToolCall
from rxworker.ui.clean import clean, one_line
from rxworker.worker import Approve, Decision, Deny

# What a terminal would obey, or show as something else, is written as JSON writes it: the value stays the same.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def arguments_text(arguments: JsonObject | str) -> str:
    r"""The arguments as they are shown: every character can be seen, and the value is the same.

    Free text is shown as it is, if all of it can be seen; otherwise as a text in JSON.

    >>> print(arguments_text({"path": "a\u202eb"}))
    {
      "path": "a\u202eb"
    }
    >>> print(arguments_text("ls -l"), arguments_text("ls\x1b"))
    ls -l "ls\u001b"
    """
    if isinstance(arguments, str) and not _is_hidden(arguments):
        return arguments
    return _HIDDEN.sub(_escape, json.dumps(arguments, indent=2, ensure_ascii=False))


def read_arguments(text: str, shown: JsonObject | str) -> JsonObject | str:
    """The arguments that were written.

    Args:
        text: What was written.
        shown: The arguments that were shown: these are of the same kind.

    Raises:
        ValueError: It is not; the message says where.

    >>> read_arguments('{"path": "a"}', {"path": "b"})
    {'path': 'a'}
    >>> read_arguments("rm a", "rm b")
    'rm a'
    """
    if isinstance(shown, str) and not _is_hidden(shown):
        return text
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"this is no JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        raise ValueError(message) from error
    if isinstance(shown, str):
        if not isinstance(value, str):
            raise ValueError('this is free text, in JSON: write "..."')
        return value
    if not isinstance(value, dict):
        raise ValueError('arguments are a JSON object, such as {"path": "a"}')
    return msgspec.convert(cast("object", value), JsonObject)


def _is_hidden(text: str) -> bool:
    return _HIDDEN.search(text) is not None or clean(text) != text


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


class ApprovalScreen(ModalScreen[Decision | None]):
    """Shows a call that waits. Its result is the decision, or ``None``: later.

    Args:
        call: The call.
        reason: Why it waits.
        others: How many calls wait behind it.
    """

    AUTO_FOCUS = "#arguments"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "approve", "Run it", priority=True),
        Binding("ctrl+e", "edit", "Edit", priority=True),
        Binding("ctrl+d", "deny", "Deny", priority=True),
        Binding("escape,ctrl+c", "later", "Later", priority=True),
    ]

    def __init__(self, call: ToolCall, reason: str = "", others: int = 0) -> None:
        super().__init__()
        self._asked = call
        self._shown = arguments_text(call.input)
        self._reason = reason
        self._others = others

    def compose(self) -> ComposeResult:
        """The call, its arguments, and what may be decided."""
        waits = f"{one_line(self._asked.name, 60)} waits for you"
        more = f", and {self._others} more" if self._others else ""
        with Vertical(id="approval"):
            yield Static(waits + more, id="question", markup=False)
            yield Static(clean(self._reason), id="reason", markup=False)
            yield TextArea(self._shown, read_only=True, id="arguments", tab_behavior="focus")
            yield Static("", id="wrong", markup=False)
            yield Input(placeholder="Why not? The model reads it.", id="why", compact=True)
            with Horizontal(id="decisions"):
                yield Button("Run ^s", id="approve", variant="success", compact=True)
                yield Button("Edit ^e", id="edit", compact=True)
                yield Button("Deny ^d", id="deny", variant="error", compact=True)
                yield Button("Later esc", id="later", compact=True)

    def on_mount(self) -> None:
        """Leave out what there is nothing to say in."""
        self.query_one("#reason").display = bool(self._reason)
        self.query_one("#wrong").display = False

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        """A decision was clicked."""
        await self.run_action(str(event.button.id))

    def on_input_submitted(self) -> None:
        """A reason against it was given."""
        self.action_deny()

    def action_approve(self) -> None:
        """Run it with the arguments as they stand here."""
        text = self._editor.text
        if text == self._shown:
            self.dismiss(Approve())
            return
        try:
            # A tool that takes free text is given text: whatever the arguments are, these stand in their place.
            self.dismiss(Approve(read_arguments(text, self._asked.input)))
        except ValueError as error:
            self._complain(str(error))

    def action_edit(self) -> None:
        """Let the arguments be changed."""
        self._editor.read_only = False
        self._editor.focus()

    def action_deny(self) -> None:
        """Do not run it."""
        why = self.query_one("#why", Input).value.strip()
        self.dismiss(Deny(why) if why else Deny())

    def action_later(self) -> None:
        """Decide later."""
        self.dismiss(None)

    @property
    def _editor(self) -> TextArea:
        return self.query_one("#arguments", TextArea)

    def _complain(self, message: str) -> None:
        wrong = self.query_one("#wrong", Static)
        wrong.update(clean(message))
        wrong.display = True


Watchers = tuple[WatcherState, ...]


class DetailsScreen(ModalScreen[None]):
    """Shows the watchers as they are, and the tools and hooks of the worker.

    Args:
        watchers: The watchers of the run that is on; ``None``: none is.
        tools: The names of the tools.
        hooks: The names and points of the hooks.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,ctrl+c,ctrl+g,q", "close", "Close", priority=True)
    ]

    def __init__(
        self,
        watchers: Observable[Watchers] | None,
        tools: Iterable[str],
        hooks: Sequence[tuple[str, str]],
    ) -> None:
        super().__init__()
        self._watchers = watchers
        self._tools = tools
        self._hooks = hooks
        self._subscription: abc.DisposableBase | None = None

    def compose(self) -> ComposeResult:
        """Three lists."""
        with VerticalScroll(id="details"):
            yield Static("Watchers", classes="head")
            yield Static("Nothing runs.", id="watchers")
            yield Static("Tools", classes="head")
            yield Static(Text(", ".join(one_line(name) for name in self._tools) or "none"))
            yield Static("Hooks", classes="head")
            hooks = [f"{one_line(name)} ({point})" for name, point in self._hooks]
            yield Static(Text("\n".join(hooks) or "none"))

    def on_mount(self) -> None:
        """Follow the watchers."""
        if self._watchers is not None:
            self._subscription = self._watchers.subscribe(self._show, _ignore)

    def on_unmount(self) -> None:
        """Follow them no more."""
        if self._subscription is not None:
            self._subscription.dispose()

    def action_close(self) -> None:
        """Back to the conversation."""
        self.dismiss(None)

    def _show(self, watchers: Watchers) -> None:
        self.query_one("#watchers", Static).update(watcher_table(watchers))


def watcher_table(watchers: Watchers) -> Table:
    """The watchers, one a row."""
    table = Table.grid(padding=(0, 2, 0, 0))
    names = ("name", "delivery", "behind", "merged", "dropped")
    for name in names:
        table.add_column(justify="left" if name in ("name", "delivery") else "right")
    table.add_row(*(Text(name, "dim") for name in names))
    for watcher in watchers:
        numbers = (watcher.lag, watcher.merged, watcher.dropped)
        told = (one_line(watcher.name, 30), watcher.delivery, *(f"{n:,}" for n in numbers))
        table.add_row(*(Text(each) for each in told))
    return table


def _ignore(_error: Exception) -> None:
    """The conversation tells."""


KEYS = (
    ("Enter", "send; into the run, while one is on"),
    ("Ctrl-J", "begin a new line"),
    ("Up, Down", "what was sent before, from an empty input"),
    ("Ctrl-C", "cancel the answer; at rest, or again, leave"),
    ("Ctrl-P", "pause the run at the next safe moment"),
    ("Ctrl-R", "go on with a paused run, or decide about its call"),
    ("Ctrl-O", "unfold the last folded part, or fold it"),
    ("Alt-O", "unfold all parts, or fold them"),
    ("PgUp, PgDn", "go through the conversation"),
    ("Tab, Enter", "go to a folded part, and unfold it"),
    ("Ctrl-G", "who watches the run; tools and hooks"),
    ("Ctrl-T", "light or dark"),
    ("Ctrl-\\", "more commands, such as other themes"),
    ("mouse", "unfold, scroll, mark text; Ctrl-C at rest copies it"),
    ("Ctrl-D, -Q", "leave"),
)


class KeysScreen(ModalScreen[None]):
    """Shows the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,ctrl+c,f1,q", "close", "Close", priority=True)
    ]

    def compose(self) -> ComposeResult:
        """A table."""
        table = Table.grid(padding=(0, 2, 0, 0))
        for key, meaning in KEYS:
            table.add_row(Text(key, "bold", no_wrap=True), Text(meaning))
        with VerticalScroll(id="details"):
            yield Static("Keys", classes="head")
            yield Static(table)

    def action_close(self) -> None:
        """Back to the conversation."""
        self.dismiss(None)
