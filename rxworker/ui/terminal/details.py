"""Who is watching the run, and how far behind; what the worker may use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from reactivex import Observable, abc
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from rxworker.hub import WatcherState
from rxworker.ui.clean import one_line

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


__all__ = ["DetailsScreen", "watcher_table"]
