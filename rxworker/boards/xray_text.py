"""The operators of a pipeline as text: one a line, with their last items as marbles on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.boards.xray_count import LONGEST, OperatorState

COLUMNS = 32
"""The width of a drawing."""


def operators_text(states: Sequence[OperatorState]) -> str:
    """The operators, one a line, with their last items on one axis of time.

    Args:
        states: The operators; see `XRay.states`.
    """
    times = [at for state in states for at, _ in state.last]
    begin, end = (min(times), max(times)) if times else (0.0, 0.0)
    rows = [("", "operator", "from", "last items", "items", "a second", "lag", "µs", "in")]
    rows += [
        (
            str(each.id),
            each.name,
            ",".join(map(str, each.inputs)),
            _marbles(each, begin, end),
            str(each.items),
            f"{each.rate:.3g}",
            "" if each.lag is None else f"{each.lag:.3g}",
            f"{each.micros:.3g}",
            " > ".join(each.within),
        )
        for each in states
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines: list[str] = []
    for row, state in zip(rows, (None, *states), strict=True):
        cells = [
            text.ljust(width) if at in (1, 3, 8) else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if state is not None and state.error:
            lines.append(f"{'':{widths[0]}}  has stopped: {state.error}")
    return "\n".join(lines)


def _marbles(state: OperatorState, begin: float, end: float) -> str:
    """The last items as marbles: the newest whole, older ones where there is room for them."""
    line = ["-"] * COLUMNS
    scale = (COLUMNS - 1) / (end - begin) if end > begin else 0.0
    free = COLUMNS + LONGEST
    for at, text in reversed(state.last):
        # A number in part would be another number.
        mark = text if len(text) <= (8 if text[:1] in "-0123456789" else 4) else text[0].lower()
        place = round((at - begin) * scale)
        if place + len(mark) < free or free > COLUMNS:
            line[place : place + len(mark)] = mark
            free = place
    return "".join(line) + ("#" if state.error else "")
