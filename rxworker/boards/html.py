"""Panels as static HTML, for notebooks and reports: everything is escaped, and there is no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rxworker.boards.panel import (
    MAX_FLOAT,
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

WIDTH, HEIGHT = 300.0, 48.0
COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#8b5cf6", "#ef4444", "#06b6d4")
CARD = "border:1px solid #8884;border-radius:6px;padding:.5em .8em;min-width:14em;overflow:auto"
# The text keeps to its own direction, so that marks in it cannot reorder what surrounds it.
TEXT = "unicode-bidi:isolate;overflow-wrap:anywhere"


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
        body = _groups(panel, state, value)
    elif isinstance(value, list):
        body = _lanes(value) if panel.view == "lane" else _table(value, is_heat=panel.view == "heat")
    else:
        known = NOT_KNOWN if value is None and state.missing else number(value, panel.unit)
        body = f'<div style="font-size:1.4em">{_text(known)}</div>'
        body += _lines(state.points)
    for group in state.missing:
        name = f"{group}: " if group else ""
        body += f"<div><small>{_text(name + without(state, group))}</small></div>"
    border = ";border-color:#ef4444" if state.alerts else ""
    firing = ' <b style="color:#ef4444">(!)</b>' if state.alerts else ""
    error = f"<div><small>has stopped: {_text(state.error)}</small></div>" if state.error else ""
    title = f"<div><small>{_text(panel.title)}</small>{firing}</div>"
    return f'<div style="{CARD}{border}">{title}{body}{error}</div>'


def _groups(panel: Panel, state: PanelState, value: Mapping[str, object]) -> str:
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
    return f"{_lines(state.points)}<table>{''.join(rows)}</table>{more}"


def _size(value: Json) -> float:
    """The size of a number that has one: from 0 up, and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 <= value <= MAX_FLOAT else 0


def _table(rows: Sequence[Mapping[str, Json]], *, is_heat: bool = False) -> str:
    shown = rows[-MAX_SHOWN:]
    names = columns_of(shown)
    most = max((_size(each) for row in shown for each in row.values()), default=0) or 1

    def one(name: str, value: Json) -> str:
        share = round(255 * (_size(value) / most)) if is_heat else 0
        style = f' style="background:{COLOURS[0]}{share:02x}"' if share else ""
        return f"<td{style}>{_text(cell(name, value))}</td>"

    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = ["".join(one(name, row.get(name)) for name in names) for row in shown]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    earlier = len(rows) - len(shown)
    more = f"<small>and {earlier} earlier ones</small>" if earlier else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _lanes(rows: Sequence[Mapping[str, Json]]) -> str:
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


def _lines(points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
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
