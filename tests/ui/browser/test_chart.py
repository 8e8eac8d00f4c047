"""The charts, the tables and the alerts of panels, drawn from states that the test makes."""

from __future__ import annotations

import csv
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.ui.browser.conftest import Desk, GatedModel, Windows

BEGIN = 1_795_676_400.0
MAKE = """async ([panels, span]) => {
  const { BoardView } = await import("/static/views/board.js");
  const node = document.createElement("div");
  node.className = "board";
  document.querySelector("#board, #own").replaceWith(node);
  node.id = "own";
  const board = new BoardView(node, { span: () => span });
  board.open(panels);
  globalThis.draw = (states) => board.draw(states);
  globalThis.compare = (states) => board.compare(states);
  globalThis.seen = [];
  for (const type of ["range", "pick"]) {
    node.addEventListener(type, ({ detail }) => seen.push([type, Math.round(detail.since), Math.round(detail.until)]));
  }
}"""


TEXTS = """async (marks) => {
  const own = CanvasRenderingContext2D.prototype.fillText;
  seen.texts = [];
  seen.beyond = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
    const { width } = this.measureText(text);
    seen.texts?.push([text, x, width]);
    if (x + (this.textAlign === "center" ? width / 2 : 0) > this.canvas.width) seen.beyond.push(text);
    own.call(this, text, x, ...rest);
  };
  (await import("/static/views/chart.js")).setMarks(marks);
}"""
"""Notes moments, and writes down the texts that charts draw, and those that end beyond the right edge."""


def course(*values: float, name: str = "") -> dict[str, list[tuple[float, float]]]:
    """A point every ten seconds."""
    return {name: [(BEGIN + 10 * n, value) for n, value in enumerate(values)]}


def named(name: str, view: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "title": name, "view": view, "unit": "", **options}


class Drawn:
    """A page with panels of its own."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def draw(self, name: str, value: object, **state: Any) -> Locator:
        await self.page.evaluate("(state) => draw([state])", {"panel": name, "value": value, **state})
        return self.page.locator(f'#own .board-panel[aria-label="{name}"]')


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(windows: Windows) -> AsyncGenerator[Page, None]:
    """A page of a dashboard, whose panels the tests replace."""
    desk = Desk(windows)
    async with desk.serve(GatedModel([])):
        yield await desk.open("boards/usage")
    assert desk.problems == []


@asynccontextmanager
async def drawn(page: Page, *panels: dict[str, Any], span: list[float] | None = None) -> AsyncGenerator[Drawn, None]:
    await page.mouse.move(0, 0)
    await page.evaluate(MAKE, [list(panels), span])
    yield Drawn(page)


async def test_the_crosshairs_of_all_charts_show_the_same_moment(page: Page) -> None:
    two = {**course(1, 2, 3, name="a"), **course(7, 8, 9, name="b")}
    async with drawn(page, named("one", "line", unit="runs"), named("two", "line")) as board:
        one = await board.draw("one", 30, points=course(10, 20, 30))
        other = await board.draw("two", {"a": 3, "b": 9}, points=two)
        await expect(other.locator(".chart-value")).to_have_text(["9", "3"])  # the greatest first
        await one.locator(".u-over").hover()
        await expect(one.locator(".chart-moment")).to_contain_text("20 runs")
        await expect(other.locator(".chart-value")).to_have_text(["8", "2"])
        await expect(other.locator(".chart-moment")).to_be_visible()
        await board.page.mouse.move(0, 0)
        await expect(other.locator(".chart-moment")).to_be_hidden()
        await expect(other.locator(".chart-value")).to_have_text(["9", "3"])


async def test_a_time_is_selected_by_dragging_and_by_the_keyboard(page: Page) -> None:
    async with drawn(page, named("one", "area", unit="s")) as board:
        one = await board.draw("one", 4, points=course(1, 2, 3, 4, 5))
        over = one.locator(".u-over")
        box = await over.bounding_box()
        assert box is not None
        mouse = board.page.mouse
        await mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
        await mouse.down()
        await mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 20, steps=4)
        await mouse.up()
        [kind, since, until] = (await board.page.evaluate("seen"))[0]
        assert kind == "range"
        assert abs(since - BEGIN - 10) <= 1
        assert abs(until - BEGIN - 30) <= 1
        await mouse.move(0, 0)
        slider = one.get_by_role("slider", name="one")
        await slider.focus()
        await expect(slider).to_have_attribute("aria-valuetext", re.compile(", 5 s$"))
        await slider.press("ArrowLeft")
        await expect(slider).to_have_attribute("aria-valuenow", "3")
        # What comes takes neither the focus nor the moment.
        await board.draw("one", 6, points=course(1, 2, 3, 4, 5, 6))
        await expect(slider).to_have_attribute("aria-valuemax", "5")
        await expect(slider).to_be_focused()
        await expect(slider).to_have_attribute("aria-valuetext", re.compile(", 4 s$"))
        await slider.press("Shift+ArrowLeft")
        await slider.press("Shift+ArrowLeft")
        await slider.press("Enter")
        assert (await board.page.evaluate("seen"))[1:] == [["range", BEGIN + 10, BEGIN + 30]]


async def test_bars_over_time_stand_on_each_other_and_lead_to_their_time(page: Page) -> None:
    steps = {f"{group}: 2026-11-26T0{hour}:00Z/PT1H": n for group, hour, n in (("a", 7, 1), ("b", 7, 4), ("b", 9, 2))}
    async with drawn(page, named("hours", "bar", unit="runs")) as board:
        hours = await board.draw("hours", steps)
        await expect(hours.locator(".chart-name")).to_have_text(["b", "a"])
        await expect(hours.locator(".chart-value")).to_have_text(["6", "1"])
        slider = hours.get_by_role("slider")
        await slider.focus()
        await slider.press("Home")
        await expect(hours.locator(".chart-value")).to_have_text(["4", "1"])
        await slider.press("ArrowRight")
        await expect(hours.locator(".chart-value")).to_have_text(["\u2013", "\u2013"])
        await slider.press("End")
        await slider.press("Enter")
        [picked] = await board.page.evaluate("seen")
        assert picked == ["pick", 1_795_683_600, 1_795_687_200]


async def test_bars_of_a_day_name_it_and_a_group_without_a_known_value_has_none(page: Page) -> None:
    day = "2026-11-26T00:00Z/PT24H"
    async with drawn(page, named("bars", "bar", unit="USD")) as board:
        value = {f"a: {day}": 1.5, f"b: {day}": 2, "c": None}
        bars = await board.draw("bars", value, missing={"c": ["own-llm"]})
        await expect(bars.locator("canvas")).to_have_count(1)
        await expect(bars.locator(".chart-name")).to_have_text(["b", "a"])
        await expect(bars.locator(".board-none")).to_have_text("c: without own-llm")
        slider = bars.get_by_role("slider")
        await expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^Nov 2\d, b 2 USD"))


async def test_a_sum_of_a_part_of_the_axis_is_dated(page: Page) -> None:
    async with drawn(page, named("bars", "bar"), span=[BEGIN - 86_400, BEGIN]) as board:
        hours = {f"2026-11-26T{hour:02}:00Z/PT1H": 1 for hour in range(7, 10)}
        bars = await board.draw("bars", hours)
        await expect(bars.locator(".board-figure")).to_have_text("3")
        await expect(bars.locator(".board-none")).to_have_text(re.compile(r"^since Nov 26, \d\d:00$"))
        await board.draw("bars", {f"2026-11-26T{hour:02}:00Z/PT1H": 1 for hour in range(24)})
        await expect(bars.locator(".board-none")).to_be_hidden()


async def test_texts_of_noted_moments_and_of_the_axis_do_not_run_into_each_other(page: Page) -> None:
    marks = [(2, "deploy 11"), (24, "deploy 12"), (30, "hotfix 12.1"), (39, "deploy 13")]
    async with drawn(page, named("one", "line")) as board:
        await page.evaluate(TEXTS, [{"time": BEGIN + 10 * at, "text": text} for at, text in marks])
        await board.draw("one", 1, points=course(*range(41)))
        await page.wait_for_function("() => seen.texts.some(([text]) => text === 'deploy 11')")
        texts = await page.evaluate("seen.texts")
        first = max(n for n, (text, *_) in enumerate(texts) if text == "deploy 11")  # of the last drawing
        shown = [(left, left + width) for text, left, width in texts[first:] if text[:6] in ("deploy", "hotfix")]
        assert len(shown) >= 2
        assert all(end <= begin for (_, end), (begin, _) in pairwise(shown))
        short = [(BEGIN + n / 1000, 1.0) for n in range(5)]
        await board.draw("one", 1, points={"": short})
        await page.wait_for_function("() => seen.texts.some(([text]) => /\\.\\d{3}$/.test(text))")
    await page.evaluate("(async () => (await import('/static/views/chart.js')).setMarks([]))()")


async def test_the_labels_of_the_axis_are_whole_in_a_narrow_panel(page: Page) -> None:
    async with drawn(page, named("one", "line"), *[named(f"other {n}", "number") for n in range(5)]) as board:
        await page.evaluate(TEXTS, [])
        await board.draw("one", 1, points={"": [(BEGIN + n / 200, float(n)) for n in range(65)]})
        await page.wait_for_function("() => seen.texts.some(([text]) => /\\.\\d$/.test(text))")
        assert await page.evaluate("seen.beyond") == []


async def test_a_name_is_whole_beside_its_bar(page: Page) -> None:
    async with drawn(page, named("bars", "bar"), *[named(f"other {n}", "number") for n in range(5)]) as board:
        bars = await board.draw("bars", {"claude-sonnet-5-5: median": 1, "claude-sonnet-5-5: 95 %": 2, "read": 3})
        names = bars.locator("tbody th span")
        await expect(names).to_have_text(["read", "claude-sonnet-5-5: 95 %", "claude-sonnet-5-5: median"])
        sizes = await names.evaluate_all("(all) => all.map((each) => each.scrollWidth <= each.clientWidth)")
        assert sizes == [True] * 3
        high = await names.evaluate_all("(all) => all.map((each) => each.clientHeight)")
        assert high[0] < high[1] <= 3 * high[0]  # a short name is not broken


async def test_the_other_groups_are_counted_and_opened(page: Page) -> None:
    values = {f"g{n:02}": float(n) for n in range(20)}
    points = {name: course(0, value)[""] for name, value in values.items()}
    async with drawn(page, named("lines", "line"), named("bars", "bar", height=2)) as board:
        lines = await board.draw("lines", values, points=points)
        await expect(lines.locator(".chart-name")).to_have_count(8)
        await expect(lines.locator(".chart-name").first).to_have_text("g19")
        await lines.get_by_role("button", name="and 12 more").click()
        await expect(lines.locator(".chart-name")).to_have_count(20)
        bars = await board.draw("bars", values, alerts={"g03": BEGIN})
        await expect(bars.locator("tr")).to_have_count(14)
        await expect(bars.locator("th").first).to_have_text("g03")  # beyond its limit
        more = bars.get_by_role("button", name="and 6 more")
        await more.focus()
        await more.press("Enter")
        await board.draw("bars", {**values, "g20": 20.0})
        await expect(bars.locator("tr")).to_have_count(21)
        await bars.get_by_role("button", name="show fewer").press("Enter")
        await expect(bars.locator("tr")).to_have_count(14)


async def test_a_limit_is_in_words_before_and_after_it_is_crossed(page: Page) -> None:
    limit = {"limit": 0.05, "is_above": True, "lasting": 60.0}
    panels = named("cost", "bar", unit="USD", alert=limit), named("left", "number", alert={**limit, "is_above": False})
    async with drawn(page, *panels) as board:
        cost = await board.draw("cost", {"acme": 0.01, "globex": 0.02})
        line = cost.locator(".board-limit")
        await expect(line).to_have_text("▲above 0.05 USD for 60 s")
        await expect(board.page.locator("#own [data-view=number] .board-limit")).to_have_text("▼below 0.05 for 60 s")
        await board.draw("cost", {"acme": 0.01, "globex": 0.2}, alerts={"globex": BEGIN})
        await expect(line).to_contain_text("Alert: above 0.05 USD for 60 s, since ")
        await expect(line).to_contain_text(": globex")
        await board.draw("cost", {"acme": 0.2, "globex": 0.02}, alerts={"acme": BEGIN})
        await expect(line).to_contain_text(": acme")
        await expect(cost.get_by_role("img", name="beyond the limit")).to_have_count(1)
        await expect(line.get_by_role("status")).to_have_count(1)
        # Of a value that is known in part, it is not known whether it is beyond.
        await board.draw("cost", {"acme": 0.01}, alerts={"acme": BEGIN}, missing={"acme": ["my-model"]})
        await expect(line).to_contain_text("Alert: may be above 0.05 USD for 60 s, since ")
        await board.draw("cost", {"acme": 0.2}, alerts={"acme": BEGIN}, missing={"acme": ["my-model"]})
        await expect(line).to_contain_text("Alert: above 0.05 USD")


async def test_what_a_chart_shows_is_a_table_too_and_a_file(page: Page) -> None:
    async with drawn(page, named("one", "line", unit="runs"), named("rows", "table")) as board:
        one = await board.draw("one", 30, points=course(10, 20, 30))
        await expect(one.locator(".u-over")).to_have_count(1)
        heard = one.locator(".hidden table tr")  # for a screen reader
        await expect(heard).to_have_count(4)
        await expect(heard.last).to_contain_text("30 runs")
        menu = one.get_by_role("button", name="Actions of one")

        async def saved(text: str) -> Path:
            await menu.click()
            async with board.page.expect_download() as got:
                await board.page.get_by_role("button", name=text).click()
            return Path(await (await got.value).path())

        read = [*csv.reader(StringIO((await saved("Save as CSV")).read_text(encoding="utf-8")))]
        assert read == [["time", "one"], *([f"2026-11-26T07:00:{n}0.000Z", f"{n + 1}0"] for n in range(3))]
        assert (await saved("Save as PNG")).read_bytes().startswith(b"\x89PNG")
        await menu.press("Enter")
        await board.page.get_by_role("button", name="Show as a table").press("Enter")
        await expect(one.locator(".board-table tbody tr")).to_have_count(3)
        await expect(one.locator("canvas")).to_have_count(0)
        await board.draw("one", 40, points=course(10, 20, 30, 40))
        await expect(one.locator(".board-table tbody tr")).to_have_count(4)
        await menu.click()
        await board.page.get_by_role("button", name="Show as a picture").click()
        await expect(one.locator("canvas")).to_have_count(1)
        rows = await board.draw("rows", [{"a": '=1+"1"', "b": 2}, {"a": "x,\ny", "b": None}])
        menu = rows.get_by_role("button", name="Actions of rows")
        text = (await saved("Save as CSV")).read_bytes().decode()
        assert [*csv.reader(StringIO(text, newline=""))] == [["a", "b"], ['\'=1+"1"', "2"], ["x,\ny", ""]]


async def test_a_screen_reader_receives_each_spike_of_a_long_course(page: Page) -> None:
    values = [100 if n in (37, 171) else n % 3 for n in range(300)]
    async with drawn(page, named("one", "line", unit="runs")) as board:
        one = await board.draw("one", 0, points=course(*values))
        heard = one.locator(".hidden table tbody tr")
        await expect(heard.filter(has_text="100 runs")).to_have_count(2)
        assert await heard.count() <= 24
        assert await heard.locator("td:first-child").all_inner_texts() == sorted(
            await heard.locator("td:first-child").all_inner_texts()
        )


async def test_a_table_is_sorted_and_filtered_and_stays_so(page: Page) -> None:
    def rows(*numbers: int) -> list[dict[str, Any]]:
        return [{"run": f"run-{n}", "n": n, "what": "odd" if n % 2 else "even"} for n in numbers]

    async with drawn(page, named("rows", "table")) as board:
        table = await board.draw("rows", rows(3, 1, 2))
        await expect(table.locator(".board-find")).to_be_hidden()
        first = table.locator("tbody tr td:first-child")
        head = table.get_by_role("columnheader", name="n", exact=True)
        await head.get_by_role("button").click()
        await expect(head).to_have_attribute("aria-sort", "descending")
        await expect(first).to_have_text(["run-3", "run-2", "run-1"])
        await head.get_by_role("button").press("Enter")
        await board.draw("rows", rows(30, 3, 1, 2, 9, 8, 7, 6, 5, 4))
        await expect(head.get_by_role("button")).to_be_focused()
        await expect(first.first).to_have_text("run-1")
        await expect(first.last).to_have_text("run-30")
        find = table.get_by_role("searchbox", name="Find in rows")
        await find.fill("ODD")
        await expect(first).to_have_text(["run-1", "run-3", "run-5", "run-7", "run-9"])
        await expect(table.get_by_role("status").first).to_have_text("5 of 10 rows")
        await head.get_by_role("button").click()
        await expect(head).not_to_have_attribute("aria-sort", "ascending")


async def test_numbers_of_a_table_have_the_unit_of_the_panel(page: Page) -> None:
    rows = [{"tenant": "acme", "median": 0.25, "cost": 0.5, "turns": 2}]
    async with drawn(page, named("waits", "table", unit="s"), named("runs", "table", unit="USD")) as board:
        cells = (await board.draw("waits", rows[0:1])).locator("tbody td")
        await expect(cells.nth(1)).to_have_text("0.3 s")
        cells = (await board.draw("runs", rows)).locator("tbody td")
        await expect(cells).to_have_text(["acme", "0.25", "0.5 USD", "2"])


async def test_a_heat_map_is_a_table_with_colours_by_size(page: Page) -> None:
    rows = [{"hour": "2026-11-26T07:00Z/PT1H", "≤ 1": 1, "> 1": 4}, {"hour": "2026-11-26T08:00Z/PT1H", "≤ 1": 0}]
    async with drawn(page, named("turns", "heat", unit="runs")) as board:
        turns = await board.draw("turns", rows)
        await expect(turns.locator(".board-heat")).to_have_text(["1 runs", "4 runs", "0 runs"])
        shares = "nodes => nodes.map((node) => node.style.getPropertyValue('--share'))"
        assert await turns.locator(".board-heat").evaluate_all(shares) == ["10%", "40%", "0%"]
        await expect(turns.locator("tbody td").first).to_contain_text("Nov 26")
        await expect(turns.locator("tbody tr")).to_have_count(2)


async def test_figures_show_their_change_since_the_period_before(page: Page) -> None:
    hours = {"2026-11-26T07:00Z/PT1H": 1, "2026-11-26T08:00Z/PT1H": 3}
    panels = named("one", "number", unit="USD"), named("tenants", "bar"), named("hours", "bar")
    async with drawn(page, *panels) as board:
        one = await board.draw("one", 1.5)
        tenants = await board.draw("tenants", {"a": 1, "b": 4})
        sums = await board.draw("hours", hours)
        before = {"one": 1.0, "tenants": {"b": 8}, "hours": {"2026-11-25T07:00Z/PT1H": 4}}
        await board.page.evaluate("compare", [{"panel": name, "value": value} for name, value in before.items()])
        await expect(one.locator(".board-figure")).to_have_text("1.50 USD+50%")
        await expect(one.locator(".board-change")).to_have_attribute("title", "before: 1 USD")
        await expect(tenants.locator(".board-change")).to_have_text(["-50%"])
        await expect(sums.locator(".board-change")).to_have_text(["0%"])
        await board.page.evaluate("compare(null)")
        await expect(board.page.locator(".board-change")).to_have_count(0)
