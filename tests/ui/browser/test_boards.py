"""The page of a dashboard: boards/NAME."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.async_api import Page, Request, expect
from reactivex import Observable
from reactivex import operators as ops

from rxworker.boards import Dashboard, above, panel
from rxworker.events import Record, TextDelta
from rxworker.log import SQLiteLog, mark_time
from rxworker.operators import events, text_deltas
from rxworker.panels import RUNS, count, run_of
from rxworker.testing import say
from tests.ui.browser.conftest import FRAMES, Desk, GatedModel
from tests.ui.browser.test_dashboards import BOARD, REPLIES, calls, look
from tests.whole import one_of

TEXTS_OF_CHARTS = """async (theme) => {
  const seen = [], own = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (...given) { seen.push(given[0]); own.apply(this, given); };
  theme.click();
  for (let n = 0; n < 100 && !seen.includes("deploy 12"); n += 1) await new Promise(requestAnimationFrame);
  return seen;
}"""
"""Draws all charts again, in the other colours."""


async def test_noted_moments_are_drawn_and_listed(desk: Desk, tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        await mark_time(log, "deploy 12", by="ci")
        await mark_time(log, "last year", time=time.time() - 366 * 86400)
        async with desk.serve(GatedModel(REPLIES, free=True), [look], log=log, dashboards=[BOARD]) as server:
            page = await desk.asked(status="finished")
            await page.goto(f"{server.url}boards/desk?last=86400")
            await expect(page.locator("#board-marks li")).to_have_count(1)
            await expect(page.locator("#board-marks li")).to_contain_text("deploy 12 · ci")
            assert "deploy 12" in await page.locator("#theme").evaluate(TEXTS_OF_CHARTS)


@pytest.mark.parametrize("has_log", one_of([True, False]))
async def test_a_dashboard_has_a_page_that_links_lead_to(desk: Desk, tmp_path: Path, has_log: bool) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as stored:
        log = stored if has_log else None
        async with desk.serve(GatedModel(REPLIES, free=True), [look], log=log, dashboards=[BOARD, RUNS]) as server:
            page = await desk.asked(status="finished")
            await page.locator("#pages").get_by_role("link", name="Dashboards").click()
            await expect(page).to_have_url(f"{server.url}boards/desk")
            panels = page.locator("#board .board-panel")
            await expect(panels).to_have_count(7)
            await expect(panels.nth(1)).to_contain_text("1 calls")
            names = page.locator("#board-names a")
            await expect(names).to_have_text(["Desk", "Runs", "Usage"])
            await expect(page.locator("#board-names [aria-current=page]")).to_have_text("Desk")
            await expect(page).to_have_title(re.compile("^Desk · "))
            await names.nth(1).click()
            await expect(page).to_have_url(f"{server.url}boards/runs")
            await expect(page.locator("#board-title")).to_have_text("Runs")
            await expect(page.locator("#fleet-link")).to_be_visible(visible=has_log)
            await page.keyboard.press("Control+k")
            await page.keyboard.type("conversations")
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(server.url)
            # From the board beside a conversation, to the page of the one that is chosen.
            await page.goto(f"{server.url}#{desk.runs[0].id}")
            await desk.view(page, "#board-panel")
            await page.locator("#board-choice").select_option("runs")
            await page.locator("#board-page").click()
            await expect(page).to_have_url(f"{server.url}boards/runs")
            # One that is not there names those that are.
            await page.goto(f"{server.url}boards/dsk")
            there = "The server has no dashboard dsk. It has desk, runs, usage"
            await expect(page.locator("#banner")).to_contain_text(there)
            await expect(names).to_have_text(["Desk", "Runs", "Usage"])


def asked_of(page: Page, requests: list[str]) -> None:
    """Write down the parameters of each request for the dashboard, without its address."""

    def add(request: Request) -> None:
        path, _, query = request.url.partition("?")
        if "/api/boards/desk" in path:
            requests.append(f"{'live ' if path.endswith('/events') else ''}{unquote(query)}")

    page.on("request", add)


async def test_the_time_and_the_filters_are_in_the_address_and_in_the_request(desk: Desk) -> None:
    async with desk.serve(GatedModel(REPLIES, free=True), [look], dashboards=[BOARD, RUNS]):
        page = await desk.open()
        requests: list[str] = []
        asked_of(page, requests)
        await page.goto(f"{desk.url}boards?last=900")
        await expect(page.locator("#board .board-panel")).to_have_count(7)
        time = page.get_by_role("combobox", name="Time")
        await expect(time).to_have_value("900")
        assert requests == ["live last=900"]
        await time.select_option("Last 24 hours")
        await expect(page).to_have_url(re.compile(r"/boards/desk\?last=86400$"))
        # By the keyboard alone: two labels, of which there may be several, and a status.
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        value = page.get_by_label("Value of the filter")
        await expect(value).to_be_focused()
        for text in ("tenant=acme", "team=a b"):
            await page.keyboard.type(text)
            await page.keyboard.press("Enter")
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.type("Stat")
        await page.keyboard.press("Tab")
        await page.keyboard.type("fine")
        await page.keyboard.press("Enter")
        assert await value.evaluate("(node) => node.validationMessage")
        await value.fill("failed")
        await page.keyboard.press("Enter")
        chips = page.locator(".range-chips li span")
        await expect(chips).to_have_text(["Label: tenant=acme", "Label: team=a b", "Status: failed"])
        await expect(page.locator("#board-names a").nth(1)).to_have_attribute("href", re.compile("last=86400.*failed"))
        assert requests[-1] == "live last=86400&label=tenant=acme&label=team=a+b&status=failed"
        await page.get_by_role("button", name="Remove the filter Label: tenant=acme").press("Enter")
        await expect(chips).to_have_count(2)
        await expect(page.get_by_role("button", name="Remove the filter Label: team=a b")).to_be_focused()
        await page.get_by_role("button", name="Live").click()
        await expect(page).to_have_url(re.compile("still=1"))
        async with page.expect_request(lambda request: "/events" not in request.url):
            await time.select_option("At a moment")
        async with page.expect_request(re.compile(r"/desk\?label=team%3Da\+b&status=failed&time=\d+$")):
            await page.get_by_label("At", exact=True).fill("2026-11-26T12:00")
        await expect(page).to_have_url(re.compile(r"\?time=\d+&"))
        await page.go_back()
        await page.go_back()
        await expect(time).to_have_value("86400")


@pytest.mark.slow
@pytest.mark.parametrize("has_log", one_of([True, False]))
async def test_a_filter_narrows_all_panels_and_back_widens_them(desk: Desk, tmp_path: Path, has_log: bool) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as stored:
        log = stored if has_log else None
        async with desk.serve(
            GatedModel([*REPLIES, *REPLIES], free=True), [look], log=log, dashboards=[BOARD]
        ) as server:
            page = await desk.open()
            for text in ("Go", "More"):
                await desk.ask(page, text, status="finished")
                await page.locator("#new-run").click()
            await page.goto(f"{server.url}boards/desk?last=3600")
            calls = page.locator('#board .board-panel[aria-label="Calls"]')
            await expect(calls).to_contain_text("2 calls")
            await page.get_by_label("Filter by").select_option("Text")
            await page.get_by_label("Value of the filter").fill("More")
            await page.keyboard.press("Enter")
            await expect(calls).to_contain_text("1 calls")
            await expect(page.locator("#board tbody", has_text="More").locator("tr")).to_have_count(1)
            await page.go_back()
            await expect(calls).to_contain_text("2 calls")


@pytest.mark.slow
async def test_the_usage_of_a_conversation_is_folded_and_the_last_seconds_are_followed_anew(desk: Desk) -> None:
    async with desk.serve(GatedModel(REPLIES, free=True), [look], dashboards=[BOARD]) as server:
        page = await desk.asked(status="finished")
        await desk.view(page, "#usage-panel")
        figures = page.locator("#usage-panel .board-figure")
        assert not [name for _, name, _ in server.state.boards.feeds if name == "usage"]
        await page.locator("#usage-panel summary").click()
        await expect(figures.first).to_be_visible()
        await page.reload()  # the browser remembers it
        await desk.view(page, "#usage-panel")
        await expect(figures.first).to_be_visible()
        await page.clock.install()
        requests: list[str] = []
        asked_of(page, requests)
        await page.goto(f"{desk.url}boards/desk?last=900")
        calls = page.locator('#board .board-panel[aria-label="Calls"]')
        await page.clock.run_for(1_000)
        await expect(calls).to_contain_text("1 calls")
        async with page.expect_request(re.compile("/events")):
            await page.clock.run_for(59_500)
        await expect(calls).to_contain_text("1 calls")
        assert requests == ["live last=900"] * 2


@pytest.mark.slow
async def test_the_period_before_is_requested_a_view_is_saved_and_a_phone_shows_one_panel_beside_no_other(
    desk: Desk,
) -> None:
    async with desk.serve(GatedModel(REPLIES, free=True), [look], dashboards=[BOARD, RUNS]):
        page = await desk.open("boards/desk?since=1795676400&until=1795680000")
        requests: list[str] = []
        asked_of(page, requests)
        await page.get_by_role("button", name="Compare with before").click()
        await expect(page).to_have_url(re.compile("compare=1"))
        async with asyncio.timeout(30):
            while "since=1795672800&until=1795676400" not in requests:
                await page.evaluate(FRAMES)
        await page.get_by_role("button", name="Save view").click()
        await page.keyboard.type("Thursday")
        await page.keyboard.press("Enter")
        saved = page.locator("#board-views a")
        await expect(saved).to_have_text(["Thursday"])
        await expect(saved).to_have_attribute("aria-current", "page")
        await page.locator("#board-names a", has_text="Runs").click()
        await page.get_by_role("combobox", name="Time").select_option("Last hour")
        await saved.click()
        await expect(page).to_have_url(re.compile(r"/boards/desk\?since=1795676400&until=1795680000&compare=1$"))
        await page.get_by_role("button", name="Forget the view Thursday").click()
        await expect(page.locator("#board-views")).to_be_hidden()
        await page.set_viewport_size({"width": 390, "height": 800})
        await expect(page.locator("#board .board-panel")).to_have_count(7)
        await page.evaluate(FRAMES)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        lefts = await page.locator("#board .board-panel").evaluate_all("(all) => all.map((one) => one.offsetLeft)")
        assert len(set(lefts)) == 1


def words_so_far(records: Observable[Record]) -> Observable[list[dict[str, object]]]:
    def add(rows: list[dict[str, object]], text: str) -> list[dict[str, object]]:
        return [*rows, {"word": text.strip(), "n": len(rows)}]

    return records.pipe(events(), text_deltas(), ops.scan(add, list[dict[str, object]]()))


SPOKEN = Dashboard([panel("Said", count(TextDelta)), panel("Words", words_so_far, view="table")], title="Spoken")
HELD = """() => {
  const scroll = document.querySelector("#board .board-scroll"), { activeElement: at } = document;
  return [
    scroll.getBoundingClientRect().top, scroll.scrollTop, getSelection().toString(),
    at.textContent || at.name || at.ariaLabel, at.value ?? "", at.selectionStart ?? null,
    document.querySelectorAll(":popover-open").length, document.querySelectorAll(".xray:not([hidden])").length,
    document.querySelectorAll("details[open]").length,
  ];
}"""


@pytest.mark.slow
@pytest.mark.parametrize("path", one_of(["", "boards/spoken", "fleet"]))
async def test_an_update_takes_nothing_that_the_reader_holds(desk: Desk, tmp_path: Path, path: str) -> None:
    model = GatedModel([say("".join(f"{n:04}" for n in range(90)))])
    async with SQLiteLog(tmp_path / "runs.db") as log, desk.serve(model, log=log, dashboards=[SPOKEN]) as server:
        run = server.state.runs.start("Go")
        page = await desk.open(path or f"#{run.id}")
        await desk.view(page, "#board" if path.startswith("boards") else "#board-panel")
        said = page.locator('#board .board-panel[aria-label="Said"] .board-figure')
        model.let(40)
        await expect(said).to_have_text("40")
        rows = page.locator("#board .board-table tbody tr")
        await expect(rows).to_have_count(40)
        if not path:
            await page.evaluate("document.querySelector('#usage-panel details').open = true")
            await expect(page.locator("#watchers li").first).to_be_visible()
        await page.locator('.board-panel[aria-label="Words"] .xray-button').press("Enter")
        await page.evaluate("""() => {
          const scroll = document.querySelector("#board .board-scroll");
          scroll.scrollTop = 100;
          getSelection().selectAllChildren(scroll.querySelectorAll("tbody tr")[7].firstElementChild);
        }""")
        reached = 40

        async def holds() -> None:
            """An update arrives, and what is held is the same."""
            nonlocal reached
            top, *before = await page.evaluate(HELD)
            reached += 10
            model.let(10)
            await expect(said).to_have_text(str(reached))
            await expect(rows).to_have_count(reached)
            top_now, *after = await page.evaluate(HELD)
            assert after == before
            if path.startswith("boards"):  # on the others, more than the board arrives
                assert abs(top_now - top) <= 2

        await page.evaluate("globalThis.kept.disconnect()")
        await holds()
        await page.get_by_role("button", name="Actions of Words").press("Enter")
        await expect(page.locator(":popover-open button").first).to_be_focused()
        await holds()
        await page.keyboard.press("Escape")
        await page.get_by_role("searchbox", name="Find in Words").focus()
        await page.keyboard.type("00")
        await page.keyboard.press("ArrowLeft")
        await holds()
        field = {"boards/spoken": "#range input[type=text]", "fleet": "input[name=q]", "": "#composer-input"}[path]
        await page.locator(field).focus()
        await page.keyboard.type("Go")  # the title of the run
        await page.keyboard.press("ArrowLeft")
        await holds()
        await page.get_by_role("columnheader", name="word").get_by_role("button").press("Enter")
        await holds()
        model.let_all()


@pytest.mark.slow
async def test_a_value_a_point_an_alert_and_a_span_lead_to_the_runs_that_made_them(desk: Desk) -> None:
    async with desk.serve(GatedModel(REPLIES * 2, free=True), [look], dashboards=[BOARD, BY_RUN, LEADING]) as server:
        page = await desk.open()
        for _ in range(2):
            await page.goto(server.url)
            await desk.ask(page, status="finished")
        await page.goto(f"{server.url}boards/by-run")
        groups = page.locator(".board-panel .board-group")
        await expect(groups).to_have_count(2)
        run = await groups.first.text_content()
        await groups.first.focus()
        await page.keyboard.press("Enter")
        options = page.locator("#palette-list [role=option]")
        await expect(options).to_have_count(1)
        await expect(page.locator("#palette-input")).to_have_attribute("aria-label", f"Runs of {run}")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(rf"{server.url}#{run}@\d+$"))
        # All runs of a panel, by its menu; and none of a time in which there were none.
        await page.goto(f"{server.url}boards/by-run")
        await page.locator(".board-menu-button").first.click()
        await page.locator(".board-menu").get_by_role("button", name="Runs", exact=True).click()
        await expect(options).to_have_count(2)
        await page.goto(f"{server.url}boards/by-run?since=5&until=6")
        await page.locator(".board-menu-button").first.click()
        await page.locator(".board-menu").get_by_role("button", name="Runs", exact=True).click()
        await expect(page.locator("#banner")).to_have_text("No run has made this value.")
        first, last = (run.id for run in desk.runs)
        await page.goto(f"{server.url}boards/leading")
        chart = page.locator("[data-view=line] .chart-area")
        await expect(chart.locator(".u-over")).to_have_count(1)
        for key, runs in (("Home", 1), ("End", 2)):
            await chart.focus()
            await page.keyboard.press(key)
            await page.keyboard.press("Enter")
            await expect(options).to_have_count(runs)
            await page.keyboard.press("Escape")
        beyond = page.locator(".board-limit .board-group")
        await expect(beyond).to_have_text([first, last])
        await beyond.last.click()
        await expect(page.locator("#palette-input")).to_have_attribute("aria-label", f"Runs of {last}")
        await page.keyboard.press("Escape")
        span = page.locator(".board-span").first
        run = await span.get_attribute("data-run")
        await span.click()
        await expect(page).to_have_url(f"{server.url}#{run}")


LEADING = Dashboard(
    [
        panel("So far", count(TextDelta), view="line"),
        panel("Beyond", count(TextDelta), view="bar", group=run_of, alert=above(0)),
        panel("Calls", calls, view="lane"),
    ],
    title="Leading",
)
BY_RUN = Dashboard([panel("Deltas", count(TextDelta), view="bar", group=run_of)], title="By run")
