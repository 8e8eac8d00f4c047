"""Panels as text, for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from rxworker.boards.dashboard import Dashboard
from rxworker.boards.panel import (
    MAX_SHOWN,
    NOT_KNOWN,
    Panel,
    PanelState,
    cell,
    columns_of,
    dated,
    lanes_of,
    number,
    ranked,
    reading_of,
    without,
)
from rxworker.messages import Json

BARS = "▁▂▃▄▅▆▇█"


def board_text(dashboard: Dashboard, states: Sequence[PanelState], *, width: int = 80) -> str:
    """What the panels show, as text.

    Args:
        dashboard: The dashboard.
        states: The state of each panel, in order.
        width: The number of columns.

    >>> from reactivex import operators as ops
    >>> from rxworker.boards import panel
    >>> board = Dashboard([panel("Cost", ops.map(abs), unit="USD"), panel("Tools", ops.map(abs), view="bar")])
    >>> states = [PanelState("cost", value=0.25), PanelState("tools", value={"look": 3, "pay": 1})]
    >>> print(board_text(board, states, width=30))
    Cost   0.25 USD
    Tools
      look  ███████████████████  3
      pay   ██████               1
    """
    pairs = [*zip(dashboard.panels, states, strict=True)]
    margin = max(len(panel.title) for panel in dashboard.panels)
    lines = [line for pair in pairs for line in _lines(*pair, margin, width)]
    reading = reading_of(states)
    return "\n".join([reading, *lines] if reading else lines)


def _lines(panel: Panel, state: PanelState, margin: int, width: int) -> Iterable[str]:
    value = state.value
    mark = " (!)" if state.alerts else ""
    if isinstance(value, Mapping):
        yield f"{panel.title}{mark}"
        yield from _groups(panel, state, cast("Mapping[str, float | str | None]", value), width)
    elif isinstance(value, list):
        yield f"{panel.title}{mark}"
        yield from _rows(panel, value, width)
    else:
        known = NOT_KNOWN if value is None and state.missing else number(value, panel.unit)
        shown = f"{panel.title:<{margin}}  {known}{mark}"
        points = state.points.get("")
        yield f"{shown}  {_spark(points, width - len(shown) - 2)}".rstrip() if points else shown
    for group in state.missing:
        yield f"  {f'{_name(group)}: ' if group else ''}{_name(without(state, group))}"
    if state.error:
        yield f"  has stopped: {state.error}"


def _groups(panel: Panel, state: PanelState, value: Mapping[str, float | str | None], width: int) -> Iterable[str]:
    items = ranked(panel, state)
    shown = {n: NOT_KNOWN if each is None else number(each, panel.unit) for n, each in items}
    names = max((len(_name(name)) for name in shown), default=0)
    room = max(width - names - 6 - max(map(len, shown.values()), default=0), 1)
    most = max((each for _, each in items if isinstance(each, int | float)), default=0)
    for name, text in shown.items():
        bar = ""
        if name in state.points:
            bar = _spark(state.points[name], room)
        elif panel.view == "bar" and most > 0:
            each = value[name]
            bar = "█" * round(room * (max(each, 0) / most)) if isinstance(each, int | float) else ""
        column = f"{bar:<{room}}  " if panel.view in ("bar", "line", "area") else ""
        mark = " (!)" if name in state.alerts else ""
        yield f"  {_name(name):<{names}}  {column}{text}{mark}"
    if len(value) > MAX_SHOWN:
        yield f"  and {len(value) - MAX_SHOWN} more"


def _rows(panel: Panel, rows: Sequence[Mapping[str, Json]], width: int) -> Iterable[str]:
    if panel.view == "lane":
        yield from _lanes(rows, width)
        return
    shown = rows[-MAX_SHOWN:]
    names = columns_of(shown)
    table = [[*map(_name, names)], *[[cell(name, row.get(name)) for name in names] for row in shown]]
    widths = [max(len(line[at]) for line in table) for at in range(len(names))]
    for line in table if names else ():
        cells = [text.ljust(room) for text, room in zip(line, widths, strict=True)]
        yield f"  {'  '.join(cells)}".rstrip()[:width]
    if len(rows) > MAX_SHOWN:
        yield f"  and {len(rows) - MAX_SHOWN} earlier ones"


def _lanes(rows: Sequence[Mapping[str, Json]], width: int) -> Iterable[str]:
    """The spans of each lane on one axis of time."""
    lanes, begin, length = lanes_of(rows)
    names = max((len(_name(name)) for name in lanes), default=0)
    room = max(width - names - 4, 1)
    for name, spans in [*lanes.items()][:MAX_SHOWN]:
        line = [" "] * room
        for first, last in spans:
            at, end = (min(int((t - begin) / length * room), room - 1) for t in (first, last))
            line[at : end + 1] = "█" * (end + 1 - at)
        yield f"  {_name(name):<{names}}  {''.join(line)}".rstrip()


def _spark(points: Sequence[tuple[float, float]], room: int) -> str:
    """A line of bars, the greatest point of each step of time, or else the last one before it.

    Empty for less than two moments.
    """
    first, last = points[0][0], points[-1][0]
    if first == last:
        return ""
    room = max(min(room, len(points)), 1)
    steps = [0.0] * room
    at = 0
    for place in range(room):
        until = first + (last - first) * (place + 1) / room
        begin = at
        while at + 1 < len(points) and points[at + 1][0] <= until:
            at += 1
        steps[place] = max(value for _, value in points[min(begin + 1, at) : at + 1])
    low, high = min(0.0, *steps) / 2, max(0.0, *steps) / 2  # halves, whose difference is finite
    return "".join(BARS[round((each / 2 - low) / ((high - low) or 1) * (len(BARS) - 1))] for each in steps)


def _name(name: str) -> str:
    """A name in one line: it may be what a model has written."""
    return " ".join(dated(name).split())
