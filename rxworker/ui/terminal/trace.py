"""The trace of the last run: a bar for each turn, request, block and call, on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from rich.cells import set_cell_size
from rich.text import Text

from rxworker.events import BlockType
from rxworker.ui.clean import one_line
from rxworker.views import AttemptView, BlockView, CallView, RunView
from rxworker.views.amounts import duration

BarKind: TypeAlias = Literal["turn", "wait", "thinking", "text", "write", "run", "bad"]
MAX_ROWS = 200
NAME_WIDTH = 22
NOTE_WIDTH = 22


class Bar(Struct, frozen=True):
    """A part of a row.

    Attributes:
        kind: The kind of the row.
        begin: When it begins, in seconds after the first record.
        end: When it ends.
    """

    kind: BarKind
    begin: float
    end: float


class TraceRow(Struct, frozen=True):
    """A row of the trace.

    Attributes:
        depth: 0 for a turn, 1 for a request, 2 for what it made, more within a call.
        name: The name of the row.
        bars: Its bars.
        note: The duration, or what went wrong.
    """

    depth: int
    name: str
    bars: tuple[Bar, ...]
    note: str = ""


def trace_rows(view: RunView, now: float) -> list[TraceRow]:
    """Return the rows of a run in order of time; what is open lasts until now.

    Args:
        view: The run.
        now: In seconds since the epoch.
    """
    items = [item for item in view.items if isinstance(item, BlockView)]
    attempts = [each for each in view.attempts if not each.scope.path]
    rows: list[TraceRow] = []
    began, turn = view.began or 0.0, None
    if not attempts:
        return [item_row(item, began, now) for item in items][-MAX_ROWS:]
    ends = [*(each.began for each in attempts[1:]), now if view.end is None else view.now]
    rows += [item_row(item, began, now) for item in items if item.began < attempts[0].began]
    for attempt, end in zip(attempts, ends, strict=True):
        if attempt.turn != turn:
            turn = attempt.turn
            last = max(e for a, e in zip(attempts, ends, strict=True) if a.turn == turn)
            bar = Bar("turn", attempt.began - began, last - began)
            rows.append(TraceRow(0, f"turn {turn}", (bar,), duration(last - attempt.began)))
        own = [item for item in items if attempt.began <= item.began and (item.began < end or end == ends[-1])]
        rows.append(_attempt_row(attempt, own, began, end))
        rows += [item_row(item, began, now) for item in own]
    return rows[-MAX_ROWS:]


def _attempt_row(attempt: AttemptView, own: Sequence[BlockView], began: float, end: float) -> TraceRow:
    main = [item for item in own if not item.scope.path]
    first = main[0].began if main else end
    last = max((_written(item, end) for item in main), default=end)
    is_retracted = any(item.stage == "retracted" for item in main)
    kind: BarKind = "bad" if is_retracted else "text"
    bars = [Bar("wait", attempt.began - began, first - began)]
    if main:
        bars.append(Bar(kind, first - began, last - began))
    name = "response" if attempt.number <= 1 else f"attempt {attempt.number}"
    wait = f"first after {duration(first - attempt.began)}" if main else "waits"
    return TraceRow(1, name, tuple(bars), "retracted" if is_retracted else wait)


def _written(item: BlockView, end: float) -> float:
    if isinstance(item, CallView):
        return item.began if item.written is None else item.written
    return end if item.ended is None else item.ended


def item_row(item: BlockView, began: float, now: float) -> TraceRow:
    """Return the row of a block or a call; one that is open lasts until now.

    Args:
        item: The block or call.
        began: The start of the run, in seconds since the epoch.
        now: In seconds since the epoch.
    """
    end = now if item.ended is None else item.ended
    is_bad = item.stage in ("failed", "stopped", "retracted", "refused")
    shown: BarKind = "thinking" if item.block.block_type is BlockType.THINKING else "text"
    kind = "bad" if is_bad else shown
    bars, name = [Bar(kind, item.began - began, end - began)], item.block.block_type.value
    seconds = end - item.began
    if isinstance(item, CallView):
        name = f"⚙ {one_line(item.block.tool)}"
        bars = [Bar("write", item.began - began, (item.began if item.written is None else item.written) - began)]
        if item.started is not None:
            seconds = end - item.started
            bars.append(Bar("bad" if is_bad else "run", item.started - began, end - began))
    note = item.stage if is_bad or item.stage == "waiting" else duration(seconds)
    return TraceRow(2 + len(item.scope.path), name, tuple(bars), note)


SIGNS: dict[BarKind, tuple[str, str]] = {
    "turn": ("━", "foreground"),
    "wait": ("░", "warning"),
    "thinking": ("█", "primary"),
    "text": ("█", "primary"),
    "write": ("▒", "accent"),
    "run": ("█", "success"),
    "bad": ("█", "error"),
}
"""The character of a kind of bar, and the colour of the theme."""
LEGEND: tuple[tuple[BarKind, str], ...] = (
    ("wait", "waits for the first block"), ("text", "model"), ("write", "writes a call"),
    ("run", "tool"), ("bad", "failed or retracted"),
)  # fmt: skip


def draw_trace(rows: Sequence[TraceRow], span: float, width: int, colours: dict[str, str]) -> Text:
    """Draw rows as lines of text.

    Args:
        rows: The rows.
        span: The seconds of the whole axis.
        width: Columns.
        colours: The colours of the theme.
    """
    room = max(10, width - NAME_WIDTH - NOTE_WIDTH - 2)
    signs: dict[BarKind, tuple[str, str]] = {
        kind: (sign, colours.get(colour, "")) for kind, (sign, colour) in SIGNS.items()
    }
    text = Text(no_wrap=True)
    for row in rows:
        name = set_cell_size(" " * min(row.depth, 6) + row.name, NAME_WIDTH)
        text.append(f"{name} ", "bold" if row.depth == 0 else "")
        text.append_text(draw_bars(row.bars, span, room, signs))
        text.append(f" {row.note[:NOTE_WIDTH]}\n", "dim")
    text.append("\n")
    for kind, about in LEGEND:
        text.append(*signs[kind])
        text.append(f" {about}  ", "dim")
    return text


def draw_bars(bars: Sequence[Bar], span: float, room: int, signs: Mapping[BarKind, tuple[str, str]]) -> Text:
    """Draw the bars of a row.

    Args:
        bars: The bars.
        span: The seconds of the whole axis.
        room: Columns.
        signs: The character and the style of each kind.

    >>> draw_bars([Bar("text", 1.0, 2.0)], 4.0, 8, {"text": ("=", "")}).plain
    '  ==    '
    """
    cells = [(" ", "")] * room
    for bar in bars:
        start = min(room - 1, int(room * bar.begin / span)) if span > 0 else 0
        stop = min(room, round(room * bar.end / span)) if span > 0 else room
        if bar.kind in ("wait", "write") and stop <= start:
            continue
        for at in range(max(0, start), max(start + 1, stop)):
            cells[at] = signs[bar.kind]
    return Text.assemble(*cells)
