"""The drawing of the views: it fits, and takes nothing of others' text for commands or markup."""

import io
import re

import pytest
from rich.console import Console, RenderableType

from rxworker.cli.demo import Views, draw, draw_text, draw_timeline, draw_usage, fits, summary_line
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Record,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    Usage,
)
from rxworker.messages import ToolCall, ToolResult
from rxworker.ui.terminal.trace import Bar, draw_bars, item_row
from rxworker.views import RunView

EVIL = "[bold red]markup[/] :smile: \x1b[31m \x9b [/nothing]"


def console(width: int = 100, height: int = 30, *, watched: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        height=height,
        legacy_windows=False,
        force_terminal=watched,
        force_interactive=watched,
    )


def shown(drawing: RenderableType, on: Console | None = None) -> list[str]:
    on = on or console()
    with on.capture() as capture:
        on.print(drawing)
    return capture.get().splitlines()


TOOL = BlockType.TOOL_USE
STARTED = Status(ResponseStatus.STARTED)


def fold(*events: tuple[float, Event], turn: int = 1, view: RunView | None = None) -> RunView:
    view = view or RunView()
    for seq, (time, event) in enumerate(events, start=view.state.seq + 1):
        view.step(Record(seq, "r", turn, 1, 100 + time, event))
    return view


def text(*pieces: str) -> RunView:
    return fold(*((0.0, TextDelta(0, piece)) for piece in pieces))


def called(index: int, call_id: str, name: str = "look") -> BlockStart:
    return BlockStart(index, TOOL, ToolUseMetadata(call_id, name))


def busy(detail: str = "detail") -> RunView:
    view = RunView()
    for number in range(8):
        call_id, name, at = f"c{number}", f"tool{number}", 0.5 * number
        fold(
            (at, TurnStart()) if number % 4 == 0 else (at, AttemptStart()),
            (at, called(number, call_id, name)),
            (at, InputJsonDelta(number, "{}")),
            (at + 0.1, BlockStop(number, TOOL)),
            (at + 0.2, ToolStart(ToolCall(call_id, name, {}))),
            (at + 0.2, ToolProgress(call_id, detail)),
            *([(at + 0.4, ToolStop(ToolResult(call_id, detail, name=name)))] if number % 2 else []),
            turn=1 + number // 4,
            view=view,
        )
    return view


def all_bars(view: RunView) -> list[tuple[Bar, ...]]:
    return [item_row(item, view.began or 0.0, view.now).bars for item in view.blocks()]


def test_text_is_shown_as_it_is() -> None:
    lines = shown(draw_text(text(EVIL), "[i]Why?[/i]", console(), 80, 8))
    assert "[i]Why?[/i]" in lines[1]
    assert "[bold red]markup[/] :smile: ␛[31m � [/nothing]" in "".join(lines)


def test_the_end_of_a_long_text_is_shown() -> None:
    lines = shown(draw_text(text("word " * 200, "END"), "Why?", console(), 40, 6))
    assert len(lines) == 6
    assert "END" in lines[-2]


def test_the_last_lanes_are_shown_where_not_all_fit() -> None:
    lines = "\n".join(shown(draw_timeline(busy(), 80, 6)))
    assert "tool7" in lines
    assert "tool4" not in lines


def test_wide_characters_do_not_push_the_bars_away() -> None:
    view = busy("京都の天気を見る" * 5)
    lines = shown(draw_timeline(view, 80, 12), console(80))
    assert len(lines) == 12
    assert {Console(width=80).measure(line).maximum for line in lines} == {80}


def test_even_a_moment_has_a_mark() -> None:
    bars = draw_bars([Bar("text", 4.0, 4.0)], 4.0, 10, {"text": ("━", "")})
    assert bars.plain == " " * 9 + "━"


def test_a_block_is_drawn_from_start_to_stop() -> None:
    view = fold((0, BlockStart(0, BlockType.TEXT)), (1, BlockStop(0, BlockType.TEXT)))
    assert all_bars(view) == [(Bar("text", 0.0, 1.0),)]


def test_a_tool_call_and_its_run_are_one_line() -> None:
    view = fold(
        (0, called(0, "a")),
        (0.5, InputJsonDelta(0, '{"city":')),
        (1, BlockStop(0, TOOL)),
        (2, ToolStart(ToolCall("a", "look", {}))),
        (3, ToolProgress("a", {"done": 1})),
    )
    assert all_bars(view) == [(Bar("write", 0.0, 1.0), Bar("run", 2.0, 3.0))]
    assert re.search(r"⚙ look +▒+ +█+ 1.0 s +│$", shown(draw_timeline(view, 100, 5))[1])


def test_parallel_tools_end_each_at_its_own_end() -> None:
    view = fold(
        (0, called(0, "a")),
        (0, called(1, "b")),
        (1, ToolStart(ToolCall("a", "look", {}))),
        (1, ToolStart(ToolCall("b", "look", {}))),
        (1.5, ToolStop(ToolResult("a", "rain", name="look"), seconds=0.5)),
        (3, ToolStop(ToolResult("b", "oh", is_error=True, name="look"), seconds=2.0)),
    )
    assert [bars[-1].end for bars in all_bars(view)] == [1.5, 3.0]
    lines = shown(draw_timeline(view, 100, 6))
    assert "0.5 s" in lines[1]
    assert "failed" in lines[2]


def test_a_skipped_call_ends_without_having_run() -> None:
    view = fold(
        (0, called(0, "a")), (1, BlockStop(0, TOOL)), (2, ToolStop(ToolResult("a", "no", is_error=True, name="look")))
    )
    assert all_bars(view) == [(Bar("write", 0.0, 1.0),)]
    assert view.calls()[0].stage == "refused"


def test_retracted_text_is_not_shown_and_its_line_is_marked() -> None:
    again = [(1.0, TextDelta(0, "The answer is 42."))]
    view = fold(
        (0, AttemptStart()),
        (0, STARTED),
        (0, TextDelta(0, "The answer is 41.")),
        (1, BlockAbort(0, BlockType.TEXT, "restart")),
        (1, STARTED),
        *again,
    )
    drawn = "".join(shown(draw_text(view, "Why?", console(), 80, 8)))
    assert "42." in drawn
    assert "41." not in drawn
    assert "retracted" in shown(draw_timeline(view, 100, 6))[1]
    view = fold((0, AttemptStart()), (0, ThinkingDelta(0, "Hm")), (1, AttemptRetract("overloaded")))
    assert "Hm" not in "".join(shown(draw_text(view, "Why?", console(), 80, 8)))


def test_the_summary_is_one_line() -> None:
    line = summary_line(fold((0, TurnStart()), (1, TurnStart()), (2, AttemptStart())), 1)
    assert line == "One run: 2 turns, 0 tool calls, 0 tokens, 2.0 s; 1 watcher"


def test_usage_shows_the_last_requests_and_the_total() -> None:
    view = RunView()
    for number in range(1, 6):
        events = [(0.0, AttemptStart()), (0.0, Usage(input_tokens=number, output_tokens=1))]
        fold((0, TurnStart()), *events, turn=number, view=view)
    lines = "\n".join(shown(draw_usage(Views(usage=view), 40, 14, published=9)))
    assert "request 5" in lines
    assert "request 2" not in lines
    assert "15" in lines
    assert "async for" in lines


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 24), (60, 20), (300, 100)])
def test_the_picture_fits_the_terminal(width: int, height: int) -> None:
    views = Views(timeline=busy())
    terminal = console(width, height)
    lines = shown(draw(views, terminal, 10), terminal)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert sum(line.count("timeline") for line in lines) >= 1


def test_nothing_is_drawn_without_a_terminal_or_room() -> None:
    assert fits(console(100, 30, watched=True))
    assert not fits(console(30, 30, watched=True))
    assert not fits(console(100, 10, watched=True))
    assert not fits(console(100, 30))
