"""The conversation on the screen: a lane below the other. Of very many, the first are taken off the screen."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.widgets import Static

from rxworker.ui.describe import plural
from rxworker.ui.terminal.lane import CallLane, Lane
from rxworker.ui.terminal.lane_views import (
    CallView,
    NoteView,
    PanelView,
    SaidView,
    TextView,
    ThinkingView,
)
from rxworker.ui.terminal.view import LaneView

MOST_LANES = 400
VIEWS: dict[str, type[LaneView]] = {
    "user": SaidView,
    "thinking": ThinkingView,
    "text": TextView,
    "note": NoteView,
    "pause": PanelView,
    "error": PanelView,
}


class Transcript(VerticalScroll):
    """Shows lanes. It stays at the end while it is there, and where the person scrolls to otherwise."""

    can_focus = False

    def __init__(self, greeting: str) -> None:
        super().__init__(id="transcript")
        self._greeting = Static(greeting, id="greeting", markup=False)
        self._views: dict[Lane, LaneView] = {}
        self._left_out = 0

    def on_mount(self) -> None:
        """Stay at the end."""
        self.mount(self._greeting)
        self.anchor()

    async def show(self, lanes: Iterable[Lane]) -> None:
        """Show lanes that are new, and what is new in the others."""
        fresh: list[LaneView] = []
        for lane in lanes:
            view = self._views.get(lane)
            if view is not None:
                view.show_news()
            elif self._is_worth_showing(lane):
                view = self._views[lane] = view_of(lane)
                fresh.append(view)
        if fresh:
            await self.mount_all(fresh)
            await self._make_room()

    def tick(self) -> None:
        """Let the clocks of what goes on go on."""
        for lane, view in self._views.items():
            if not lane.is_over:
                view.refresh()

    def draw_again(self) -> None:
        """The theme has changed."""
        for view in self._views.values():
            if isinstance(view, TextView):
                view.draw_again()

    def fold_last(self) -> LaneView | None:
        """Fold or unfold the last lane that can be, among those in view if there is one."""
        able = [view for view in self._views.values() if view.can_fold()]
        seen = [view for view in able if view.region.overlaps(self.region)]
        if not able:
            return None
        (seen or able)[-1].action_fold()
        return (seen or able)[-1]

    def fold_all(self) -> None:
        """Unfold all lanes, or fold them if one is unfolded."""
        able = [view for view in self._views.values() if view.can_fold()]
        unfold = not any(view.unfolded for view in able)
        for view in able:
            if view.unfolded != unfold:
                view.action_fold()

    @property
    def can_fold(self) -> bool:
        """Whether a lane can be unfolded, or folded."""
        return any(view.can_fold() for view in self._views.values())

    @property
    def views(self) -> list[LaneView]:
        """The widgets, in order."""
        return list(self._views.values())

    def _is_worth_showing(self, lane: Lane) -> bool:
        # A block of thinking may have nothing but its seal; an answer with calls may have an empty text.
        return (
            bool(lane.pieces or lane.sources)
            or lane.kind not in ("thinking", "text")
            or not lane.is_over
        )

    async def _make_room(self) -> None:
        self._greeting.display = self._left_out > 0 or not self._views
        over = len(self._views) - MOST_LANES
        if over <= 0:
            return
        old = [lane for lane in list(self._views)[:over] if lane.is_over]
        self._left_out += len(old)
        await self.remove_children([self._views.pop(lane) for lane in old])
        told = plural(self._left_out, "earlier part")
        self._greeting.update(f"{told} no longer shown; the worker still has all that was said")
        self._greeting.display = True


def view_of(lane: Lane) -> LaneView:
    """The widget for a lane."""
    return CallView(lane) if isinstance(lane, CallLane) else VIEWS[lane.kind](lane)


__all__ = ["Transcript", "view_of"]
