"""The drawing of the views: it fits, and takes nothing of others' text for commands or markup."""

import io

import pytest
from rich.console import Console, RenderableType

from rxworker.cli.demo_screen import draw, fits
from rxworker.cli.lane import Lane
from rxworker.cli.lanes import Lanes
from rxworker.cli.tally import Tally
from rxworker.cli.transcript import Span, Transcript
from rxworker.cli.view_text import draw_text
from rxworker.cli.view_timeline import axis_span, bar, draw_timeline
from rxworker.cli.view_usage import draw_usage
from rxworker.cli.watch import Views
from rxworker.messages import Usage

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


def busy_lanes(detail: str = "detail") -> Lanes:
    lanes = Lanes()
    for number in range(8):
        lane = Lane(number // 4, f"tool{number}", detail=detail)
        lane.begin("arguments", 0.5 * number)
        lane.begin("tool", 0.5 * number + 0.2)
        if number % 2:
            lane.end(0.5 * number + 0.4)
        lanes.lanes.append(lane)
    lanes.now = 4.0
    return lanes


def test_text_is_shown_as_it_is() -> None:
    transcript = Transcript((Span("text", EVIL, (1, 1, 0)),))
    lines = shown(draw_text(transcript, "[i]Why?[/i]", console(), 80, 8))
    assert "[i]Why?[/i]" in lines[1]
    assert "[bold red]markup[/] :smile: ␛[31m � [/nothing]" in "".join(lines)


def test_the_end_of_a_long_text_is_shown() -> None:
    transcript = Transcript((Span("text", "word " * 200 + "END", (1, 1, 0)),))
    lines = shown(draw_text(transcript, "Why?", console(), 40, 6))
    assert len(lines) == 6
    assert "END" in lines[-2]


def test_details_of_lanes_are_shown_as_they_are() -> None:
    lines = shown(draw_timeline(busy_lanes(EVIL), 160, 12), console(160))
    assert any("[bold red]markup[/]" in line for line in lines)
    assert "\x1b" not in "".join(lines)


def test_the_last_lanes_are_shown_where_not_all_fit() -> None:
    lines = "\n".join(shown(draw_timeline(busy_lanes(), 80, 6)))
    assert "tool7" in lines
    assert "tool4" not in lines


def test_wide_characters_do_not_push_the_bars_away() -> None:
    lanes = busy_lanes("京都の天気を見る" * 5)
    lines = shown(draw_timeline(lanes, 80, 12), console(80))
    assert len(lines) == 12
    assert {Console(width=80).measure(line).maximum for line in lines} == {80}


def test_where_only_ascii_is_known_the_bars_are_ascii() -> None:
    lane = Lane(1, "look")
    lane.begin("arguments", 0.0)
    lane.begin("tool", 1.0)
    assert bar(lane, 2.0, 8, 4.0, ascii_only=True).plain == "..##    "


def test_even_a_moment_has_a_mark() -> None:
    lane = Lane(1, "text")
    lane.begin("text", 4.0)
    lane.end(4.0)
    assert bar(lane, 4.0, 10, 4.0).plain == " " * 9 + "━"


def test_the_axis_grows_in_steps_for_as_long_as_it_takes() -> None:
    assert [axis_span(seconds) for seconds in (0, 1, 1.1, 7, 3601)] == [1, 1, 2, 8, 3601]


def test_usage_shows_the_last_requests_and_the_total() -> None:
    tally = Tally(usages=tuple(Usage(input_tokens=n, output_tokens=1) for n in range(1, 6)))
    lines = "\n".join(shown(draw_usage(tally, {"text": 7}, 40, 14, published=9)))
    assert "request 5" in lines
    assert "request 2" not in lines
    assert "15" in lines
    assert "async for" in lines


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 24), (40, 18), (300, 100)])
def test_the_picture_fits_the_terminal(width: int, height: int) -> None:
    views = Views(lanes=busy_lanes())
    terminal = console(width, height)
    lines = shown(draw(views, terminal, 10), terminal)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert sum(line.count("timeline") for line in lines) >= 1


def test_nothing_is_drawn_over_where_nobody_sees_it_or_there_is_no_room() -> None:
    assert fits(console(100, 30, watched=True))
    assert not fits(console(30, 30, watched=True))
    assert not fits(console(100, 10, watched=True))
    assert not fits(console(100, 30))
