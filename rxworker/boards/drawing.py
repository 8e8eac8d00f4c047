"""What panels show, drawn: as text for terminals, and as static HTML for notebooks and reports.

In HTML everything is escaped, and there is no script.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Protocol, cast

from rxworker.boards.panel import MAX_DIGITS, MAX_FLOAT, NOT_KNOWN, NUMBERS, STEP, Panel, PanelState, number
from rxworker.messages import Json
from rxworker.views.amounts import money

MAX_SHOWN = 20
"""The maximum number of groups, and of rows, that are printed; of rows the last."""
BARS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 300.0, 48.0
COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#8b5cf6", "#ef4444", "#06b6d4")
CARD = "border:1px solid #8884;border-radius:6px;padding:.5em .8em;min-width:14em;overflow:auto"
# The text keeps to its own direction, so that marks in it cannot reorder what surrounds it.
TEXT = "unicode-bidi:isolate;overflow-wrap:anywhere"


def ranked(panel: Panel, state: PanelState, most: int = MAX_SHOWN) -> list[tuple[str, float | str | None]]:
    """The groups that are shown, at most so many: those beyond their limit, and then of bars and lines the greatest.

    Of steps of time the newest.

    >>> from rxworker.boards import panel
    >>> cost = panel("Cost", lambda records: records, view="bar")
    >>> ranked(cost, PanelState("cost", value={"a": 1, "b": 3, "c": 2}), 2)
    [('b', 3), ('c', 2)]
    """
    items = [*cast("Mapping[str, float | str | None]", state.value).items()]
    if all(STEP.search(name) for name, _ in items):
        return sorted(sorted(items, key=lambda item: STEP.findall(item[0])[-1])[-most:])

    def rank(item: tuple[str, float | str | None]) -> tuple[bool, float]:
        name, value = item
        is_ranked = panel.view in NUMBERS - {"number"}
        return name in state.alerts, value if is_ranked and isinstance(value, int | float) else float("-inf")

    return sorted(items, key=rank, reverse=True)[:most]


def without(state: PanelState, group: str = "") -> str:
    """What is not known of a value, as users see it.

    >>> without(PanelState("cost", missing={"": ("my-model",)}))
    'without my-model'
    """
    missing = state.missing.get(group)
    return f"without {', '.join(missing)}" if missing else ""


def lanes_of(rows: Sequence[Mapping[str, Json]]) -> tuple[dict[str, list[tuple[float, float]]], float, float]:
    """The spans of each lane, when the first begins, and how long they take together: of one axis of time.

    >>> lanes_of([{"lane": "look", "from": 1.0, "to": 3.0}])
    ({'look': [(1.0, 3.0)]}, 1.0, 2.0)
    """
    lanes: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lanes.setdefault(str(row["lane"]), []).append(cast("tuple[float, float]", (row["from"], row["to"])))
    spans = [span for each in lanes.values() for span in each]
    begin = min((first for first, _ in spans), default=0.0)
    return lanes, begin, max((last for _, last in spans), default=0.0) - begin or 1.0


def columns_of(rows: Sequence[Mapping[str, Json]]) -> list[str]:
    """The columns of a table: those in which a row has a value, or all if none has.

    >>> columns_of([{"title": "Hi", "unpriced": ""}, {"title": "", "unpriced": ""}])
    ['title']
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names if any(row.get(name) not in (None, "") for row in rows)] or names


def reading_of(states: Iterable[PanelState]) -> str:
    """How far stored runs are read, as users see it; empty when all are.

    >>> reading_of([PanelState("cost", reading=(120, 500))]), reading_of([PanelState("cost")])
    ('read 120 of 500 runs', '')
    >>> reading_of([PanelState("cost", reading=(120, 500), since=0.0)])
    'since 1970-01-01 00:00 UTC; read 120 of 500 runs'
    """
    found = next((state for state in states if state.reading), None)
    if found is None or found.reading is None:
        return ""
    since = "" if found.since is None else f"since {datetime.fromtimestamp(found.since, UTC):%Y-%m-%d %H:%M} UTC; "
    return f"{since}read {found.reading[0]:,} of {found.reading[1]:,} runs"


def dated(name: str) -> str:
    """A name whose steps of time are written as users read them, in UTC.

    >>> dated("acme · 2026-11-26T07:00Z/PT1H"), dated("2026-11-26T00:00Z/PT24H")
    ('acme · 2026-11-26 07:00', '2026-11-26')
    """
    return STEP.sub(lambda found: found[1] if found[3] == "24H" else f"{found[1]} {found[2]}", name)


def cell(name: str, value: object, unit: str = "") -> str:
    """A value of a column of a table as users see it: `cost` is money, `seconds` are a duration.

    Other numbers have the unit of the panel. A currency is that of `cost` alone.

    >>> cell("median", 2.0, "s"), cell("turns", 2, "USD")
    ('2 s', '2')
    """
    if isinstance(value, float) and abs(value) < MAX_DIGITS and name in ("cost", "seconds"):
        return money(value) if name == "cost" else number(value, "s")
    return number(dated(value) if isinstance(value, str) else value, "" if re.fullmatch("[A-Z]{3}", unit) else unit)


class _Board(Protocol):
    """What is drawn of a `Dashboard`: its panels."""

    @property
    def panels(self) -> Sequence[Panel]: ...


def board_text(dashboard: _Board, states: Sequence[PanelState], *, width: int = 80) -> str:
    """What the panels show, as text.

    Args:
        dashboard: The dashboard.
        states: The state of each panel, in order.
        width: The number of columns.

    >>> from reactivex import operators as ops
    >>> from rxworker.boards import Dashboard, panel
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
    table = [[*map(_name, names)], *[[cell(name, row.get(name), panel.unit) for name in names] for row in shown]]
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


def board_html(title: str, panels: Sequence[Panel], states: Sequence[PanelState]) -> str:
    """Draw what the panels show: lines as SVG, bars, and tables.

    Args:
        title: The title.
        panels: The panels.
        states: The state of each panel, in order.

    >>> from reactivex import operators as ops
    >>> from rxworker.boards import panel
    >>> shown = panel("a < b", ops.map(abs), unit="s")
    >>> html = board_html("Desk", [shown], [PanelState("a-b", value=2.5)])
    >>> "a &lt; b" in html, "2.5 s" in html
    (True, True)
    """
    read = reading_of(states)
    reading = f" <small>{read}</small>" if read else ""
    cards = [_card(*pair) for pair in zip(panels, states, strict=True)]
    return (
        f'<div class="rxworker-board"><b>{_text(title)}</b>{reading}'
        f'<div style="display:flex;flex-wrap:wrap;gap:.6em;margin-top:.4em">{"".join(cards)}</div></div>'
    )


def _card(panel: Panel, state: PanelState) -> str:
    value = state.value
    if isinstance(value, Mapping):
        body = _html_groups(panel, state, value)
    elif isinstance(value, list):
        body = _svg_lanes(value) if panel.view == "lane" else _table(value, panel.unit, is_heat=panel.view == "heat")
    else:
        known = NOT_KNOWN if value is None and state.missing else number(value, panel.unit)
        body = f'<div style="font-size:1.4em">{_text(known)}</div>'
        body += _svg_lines(state.points)
    for group in state.missing:
        name = f"{group}: " if group else ""
        body += f"<div><small>{_text(name + without(state, group))}</small></div>"
    border = ";border-color:#ef4444" if state.alerts else ""
    firing = ' <b style="color:#ef4444">(!)</b>' if state.alerts else ""
    error = f"<div><small>has stopped: {_text(state.error)}</small></div>" if state.error else ""
    title = f"<div><small>{_text(panel.title)}</small>{firing}</div>"
    return f'<div style="{CARD}{border}">{title}{body}{error}</div>'


def _html_groups(panel: Panel, state: PanelState, value: Mapping[str, object]) -> str:
    shown = ranked(panel, state)
    most = max((each for _, each in shown if isinstance(each, int | float)), default=0)
    colours = _colours(state.points)
    rows: list[str] = []
    for name, each in shown:
        style = f' style="color:{colours[name]}"' if name in colours else ""
        mark = ' <b style="color:#ef4444">(!)</b>' if name in state.alerts else ""
        known = NOT_KNOWN if each is None else number(each, panel.unit)
        bar = ""
        if panel.view == "bar" and most > 0:
            share = f"{100 * max(each, 0) / most if isinstance(each, int | float) else 0:.1f}%"
            bar = f'<td style="width:10em"><div style="height:.8em;width:{share};background:{COLOURS[0]}"></div></td>'
        rows.append(f"<tr><td{style}>{_text(dated(name))}</td>{bar}<td>{_text(known)}{mark}</td></tr>")
    more = f"<small>and {len(value) - MAX_SHOWN} more</small>" if len(value) > MAX_SHOWN else ""
    return f"{_svg_lines(state.points)}<table>{''.join(rows)}</table>{more}"


def _size(value: Json) -> float:
    """The size of a number that has one: from 0 up, and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 <= value <= MAX_FLOAT else 0


def _table(rows: Sequence[Mapping[str, Json]], unit: str, *, is_heat: bool = False) -> str:
    shown = rows[-MAX_SHOWN:]
    names = columns_of(shown)
    most = max((_size(each) for row in shown for each in row.values()), default=0) or 1

    def one(name: str, value: Json) -> str:
        share = round(255 * (_size(value) / most)) if is_heat else 0
        style = f' style="background:{COLOURS[0]}{share:02x}"' if share else ""
        return f"<td{style}>{_text(cell(name, value, unit))}</td>"

    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = ["".join(one(name, row.get(name)) for name in names) for row in shown]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    earlier = len(rows) - len(shown)
    more = f"<small>and {earlier} earlier ones</small>" if earlier else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _svg_lanes(rows: Sequence[Mapping[str, Json]]) -> str:
    """The spans of each lane on one axis of time."""
    lanes, begin, length = lanes_of(rows)
    scale = WIDTH / length
    lines: list[str] = []
    for name, spans in [*lanes.items()][:MAX_SHOWN]:
        rects = [
            f'<rect x="{(first - begin) * scale:.1f}" y="2" width="{max((last - first) * scale, 1.0):.1f}" height="10"'
            f' fill="{COLOURS[0]}"/>'
            for first, last in spans
        ]
        lines.append(f"<tr><td>{_text(name)}</td><td>{_svg(''.join(rects), 14)}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _svg_lines(points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """The course of each group, on one pair of axes."""
    every = [point for series in points.values() for point in series]
    if len(every) < 2:
        return ""
    first, last = min(time for time, _ in every), max(time for time, _ in every)
    if first == last:  # one value does not make a course
        return ""
    low, high = min(0.0, *(v for _, v in every)), max(0.0, *(v for _, v in every))
    wide, tall = WIDTH / (last - first or 1.0), (HEIGHT - 4) / (high - low or 1.0)
    colours = _colours(points)
    lines: list[str] = []
    for name, series in points.items():
        places = " ".join(
            f"{(time - first) * wide:.1f},{HEIGHT - 2 - (value - low) * tall:.1f}" for time, value in series
        )
        lines.append(f'<polyline points="{places}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
    return _svg("".join(lines), HEIGHT)


def _svg(content: str, height: float) -> str:
    size = f'viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" height="{height:g}"'
    return f'<svg role="img" {size}>{content}</svg>'


def _colours(points: Mapping[str, object]) -> dict[str, str]:
    return {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(points)}


def _text(text: str) -> str:
    # Half a character cannot be encoded.
    return f'<span style="{TEXT}">{escape(text.encode("utf-8", "replace").decode())}</span>'
