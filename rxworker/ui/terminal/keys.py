"""All keys of the app, on one screen."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

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


__all__ = ["KEYS", "KeysScreen"]
