"""Dashboards on the page.

Of a run, its conversation and all runs, at a moment of the slider, on the page of all runs, and as ``<rx-panel>`` in a
page of one's own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import Request, expect
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.boards import Dashboard, above, panel
from rxworker.events import BlockStart, Record, ToolStart
from rxworker.log import SQLiteLog
from rxworker.operators import Span, spans
from rxworker.panels import count, run_line, run_of, status, tool_of
from rxworker.testing import ScriptedModel, call, say
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk, GatedModel
from tests.whole import one_of


@tool
def look(where: str) -> str:
    """Look."""
    return f"nothing {where}"


def broken(record: Record) -> float:
    return 1 / (record.seq - 3)


def calls(records: Observable[Record]) -> Observable[Span]:
    def begins(record: Record) -> str | None:
        return getattr(getattr(record.event, "call", None), "id", None)

    def ends(record: Record) -> str | None:
        return getattr(record.event, "call_id", None)

    return records.pipe(spans(begins, ends))


BOARD = Dashboard(
    [
        panel("Status", status, view="state"),
        panel("Calls", count(ToolStart), alert=above(0), unit="calls"),
        panel("By tool", count(ToolStart), view="bar", group=tool_of),
        panel("Course", count(BlockStart), view="area"),
        panel("Lines", run_line(), view="table", group=run_of),
        panel("Lanes", calls, view="lane"),
        panel("Broken", ops.map(broken)),
    ],
    title="Desk",
)
REPLIES = [call("look", where="here"), say("There is nothing.")]


@pytest.mark.slow
async def test_each_view_is_drawn_and_the_address_names_the_dashboard_and_its_scope(desk: Desk) -> None:
    other = Dashboard([panel("Last", ops.map(run_of), view="text")], title="Other")
    async with desk.asking(
        GatedModel(REPLIES, free=True), [look], dashboards=[BOARD, other], status="finished"
    ) as page:
        await desk.view(page, "#board-panel")
        panels = page.locator("#board .board-panel")
        await expect(panels).to_have_count(7)
        await expect(panels.nth(0)).to_contain_text("finished")
        await expect(panels.nth(1)).to_contain_text("1 calls")
        await expect(panels.nth(1)).to_have_attribute("data-alert", "yes")
        await expect(panels.nth(2).locator("tr")).to_contain_text("look")
        await panels.nth(3).scroll_into_view_if_needed()  # a chart is drawn where it is seen
        await expect(panels.nth(3).locator("canvas")).to_have_count(1)
        await expect(panels.nth(4).locator("tbody tr")).to_have_count(1)
        for name, side in (("title", "left"), ("turns", "right")):  # as the values below it
            head = panels.nth(4).get_by_role("columnheader", name=name)
            await expect(head).to_have_css("text-align", side)
        await expect(panels.nth(5).locator(".board-span")).to_have_count(1)
        await expect(panels.nth(6)).to_contain_text("Stopped: ZeroDivisionError")
        await expect(panels.nth(6)).to_contain_text("in broken, test_dashboards.py")
        await page.locator("#board-choice").select_option("other")
        await expect(page.locator("#board .board-panel")).to_have_count(1)
        await page.locator("#board-scope button", has_text="All runs").click()
        await expect(page).to_have_url(re.compile(r"\?board=other&of=all#"))
        await page.reload()
        # What is drawn above the panel moves it out of view again.
        await page.wait_for_selector(f"#conversation[data-seq='{desk.runs[-1].last_seq}']")
        await desk.view(page, "#board-panel")
        await expect(page.locator("#board .board-panel")).to_contain_text(desk.runs[-1].id)
        await expect(page.locator("#board-scope [aria-pressed=true]")).to_have_text("All runs")
        await expect(page.locator("#run-status")).to_have_text("finished")


HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.slow
@pytest.mark.parametrize("path", one_of(["", "fleet"]))
async def test_a_hidden_page_leaves_its_connections_to_the_other_tabs(desk: Desk, tmp_path: Path, path: str) -> None:
    """A browser opens six to a server: a few tabs with dashboards had all of them, and nothing could be sent."""
    async with SQLiteLog(tmp_path / "runs.db") as log:

        def make() -> Worker:
            return Worker(ScriptedModel([say("Hello.")]), log=log)

        run = make().run("Hi")
        await run
        async with desk.serve_workers(make, log=log):
            page = await desk.open(path or f"#{run.id}")
            streams: set[str] = set()

            def add(request: Request) -> None:
                if "/events" in request.url or "api/fleet" in request.url:
                    streams.add(request.url)

            page.on("request", add)
            page.on("requestfailed", lambda request: streams.discard(request.url))
            await page.reload()
            section = page.locator("#taken" if path else "#board-panel")
            await section.scroll_into_view_if_needed()
            await expect(section.locator(".board-figure").first).to_be_visible()
            assert streams
            async with page.expect_event("requestfailed", lambda _: not streams):
                await page.evaluate(HIDE, True)
            async with page.expect_event("request", lambda request: "/events" in request.url):
                await page.evaluate(HIDE, False)
            await expect(section.locator(".board-figure").first).to_be_visible()


LATE = """{
  const Observer = globalThis.IntersectionObserver;
  const withOlder = (each) => [{ target: each.target, isIntersecting: !each.isIntersecting }, each];
  globalThis.IntersectionObserver = class extends Observer {
    constructor(take, options) { super((entries) => take(entries.flatMap(withOlder)), options); }
  };
}"""
"""Each change of what is in view comes together with one before it, as in a browser that is busy."""


@pytest.mark.slow
async def test_a_dashboard_that_came_into_view_in_a_busy_browser_is_received(desk: Desk) -> None:
    async with desk.serve(GatedModel(REPLIES, free=True), [look]):
        page = await desk.window(is_shared=False)
        await page.add_init_script(LATE)
        await page.goto(desk.url)
        await page.wait_for_selector("#link[data-state=open]")
        await desk.ask(page, "Go", status="finished")
        await expect(await desk.usage(page, "Calls by tool", ".board-value")).to_have_text("look1")


@pytest.mark.slow
async def test_a_dashboard_follows_the_scope_and_the_slider(desk: Desk) -> None:
    replies = [*REPLIES, *REPLIES]
    async with desk.asking(GatedModel(replies, free=True), [look], dashboards=[BOARD], status="finished") as page:
        await desk.ask(page, "More", status="finished")
        await desk.view(page, "#board-panel")
        calls_made = page.locator('#board .board-panel[aria-label="Calls"]')
        await expect(calls_made).to_contain_text("1 calls")
        await page.locator("#board-scope button", has_text="Its conversation").click()
        await expect(calls_made).to_contain_text("2 calls")
        await page.locator("#board-scope button", has_text="This run").click()
        await expect(calls_made).to_contain_text("1 calls")
        # The first moment of the conversation: the tools have not started.
        await page.evaluate("document.activeElement.blur()")
        await page.locator("#time-slider").press("Home")
        await expect(page.locator("#time-bar")).to_have_attribute("data-past", "true")
        await expect(calls_made).to_contain_text("Nothing yet")
        await expect(page.locator("#board-note")).to_have_text("as it was then")
        made = await desk.usage(page, "Calls by tool", ".board-value")
        await expect(made).to_have_text("Nothing yet")
        await page.locator("#time-slider").press("End")
        await expect(made).to_have_text("look1")
        await desk.view(page, "#board-panel")
        await expect(calls_made).to_contain_text("1 calls")
        # No time is selected there, and a point of a chart leads to its moment.
        await expect(page.locator("#board .chart").first).not_to_have_class(re.compile("selects"))
        await page.locator("#board .chart-area").first.press("Home")
        await page.keyboard.press("Enter")
        run = desk.runs[1]
        first = next(record.seq for record in desk.records_of(page, run) if isinstance(record.event, BlockStart))
        await expect(page).to_have_url(re.compile(rf"#{run.id}@{first}$"))


@pytest.mark.slow
async def test_x_ray_shows_the_operators_of_a_panel_and_follows_the_slider(desk: Desk) -> None:
    def spell(record: Record) -> str:
        return f"<img src=x onerror=alert(1)> {record.seq}"

    markup = panel("Markup", ops.map(spell), view="text")
    board = Dashboard([*BOARD.panels, markup], title="Desk")
    async with desk.asking(GatedModel(REPLIES, free=True), [look], dashboards=[board], status="finished") as page:
        # What is drawn above the panel moves it out of view again.
        await page.wait_for_selector(f"#conversation[data-seq='{desk.runs[-1].last_seq}']")
        await desk.view(page, "#board-panel")
        calls_made = page.locator('.board-panel[aria-label="Calls"]')
        button = calls_made.get_by_role("button", name="X-ray")
        await button.focus()
        await page.keyboard.press("Enter")
        await expect(button).to_have_attribute("aria-expanded", "true")
        operators = calls_made.locator(".xray-operator")
        await expect(operators).to_have_count(4)
        await expect(operators.nth(2)).to_contain_text("only(ToolStart)")
        await expect(operators.nth(3)).to_contain_text("1 item")
        await expect(operators.nth(3).locator(".xray-marble")).to_have_text(["1"])
        await page.evaluate("document.activeElement.blur()")
        await page.locator("#time-slider").press("Home")
        await expect(operators.nth(3)).to_contain_text("0 items")
        await page.locator("#time-slider").press("End")
        await expect(operators.nth(3)).to_contain_text("1 item")
        await button.click()
        await expect(calls_made.locator(".xray")).not_to_be_visible()

        failed = page.locator('.board-panel[aria-label="Broken"]')
        await failed.get_by_role("button", name="X-ray").click()
        await expect(failed.locator("[data-error]")).to_contain_text("in broken")
        await expect(failed.locator("[data-error] .board-error")).to_contain_text("division")

        shown = page.locator('.board-panel[aria-label="Markup"]')
        await shown.get_by_role("button", name="X-ray").click()
        await expect(shown.locator(".xray-last").nth(1)).to_contain_text("<img src=x")
        await expect(shown.locator("img")).to_have_count(0)


async def test_nothing_is_received_before_it_is_on_the_screen_and_without_x_ray_there_is_no_button(desk: Desk) -> None:
    settings = Settings(xray=False)
    async with desk.serve(GatedModel(REPLIES, free=True), [look], dashboards=[BOARD], settings=settings) as server:
        page = await desk.asked(status="finished", width=390)

        def feeds() -> list[str]:
            return [name for _, name, _ in server.state.boards.feeds if name == "desk"]

        assert not feeds()
        await page.wait_for_selector(f"#conversation[data-seq='{desk.runs[-1].last_seq}']")
        await desk.press(page, "Numbers")
        await desk.view(page, "#board-panel")
        await expect(page.locator("#board .board-panel")).to_have_count(7)
        await expect(page.locator("#board .board-panel").nth(0)).to_contain_text("finished")
        assert len(feeds()) == 1
        await expect(page.locator(".xray-button")).to_have_count(0)


@pytest.mark.slow
async def test_all_runs_of_a_log_are_shown_on_their_page(desk: Desk, tmp_path: Path) -> None:
    async with (
        SQLiteLog(tmp_path / "runs.db") as log,
        desk.serve(GatedModel([*REPLIES, *REPLIES], free=True), [look], log=log, dashboards=[BOARD]) as server,
    ):
        page = await desk.open()
        await desk.ask(page, status="finished")
        await page.goto(f"{server.url}fleet")
        await desk.view(page, "#board-panel")
        await expect(page.locator('#board .board-panel[aria-label="Calls"]')).to_contain_text("1 calls")
        await expect(page.locator("#board .board-table tbody tr")).to_have_count(1)


HTML = """<!doctype html><html lang="en"><title>Own</title><link rel="icon" href="data:,">
<script type="module" src="{url}static/panel.js"></script>
<rx-panel id="one" src="{url}api/boards/desk?run={run}" panel="calls"></rx-panel>
<rx-panel id="all" src="{url}api/boards/desk?run={run}"></rx-panel>
<rx-panel id="past" src="{url}api/boards/desk?run={run}" panel="calls" at="1000"></rx-panel>
<rx-panel id="none" src="{url}api/boards/desk?run={run}" panel="call"></rx-panel>
<rx-panel id="gone" src="{url}api/boards/desk?run=run-0" panel="calls"></rx-panel>
<rx-panel id="source" src="{url}api/runs/x"></rx-panel></html>"""


async def test_panels_are_elements_in_a_page_of_ones_own(desk: Desk) -> None:
    html = ""

    async def get(_: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html")

    own = web.Application()
    own.router.add_get("/", get)
    runner = web.AppRunner(own)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings, model = Settings(allowed_origins=(origin,)), GatedModel(REPLIES, free=True)
    try:
        async with desk.serve(model, [look], settings=settings, dashboards=[BOARD]) as server:
            run = server.state.runs.start("Go")
            await desk.runs[-1]
            html = HTML.format(url=server.url, run=run.id)
            page = await desk.window(is_shared=False)
            await page.goto(origin)
            await expect(page.locator("#one .board-panel")).to_have_count(1)
            await expect(page.locator("#one .board-panel")).to_contain_text("1 calls")
            await expect(page.locator("#all .board-panel")).to_have_count(7)
            await expect(page.locator("#past .board-panel")).to_contain_text("Nothing yet")
            await expect(page.locator("#none")).to_contain_text("The dashboard has no panel call.")
            await expect(page.locator("#gone")).to_contain_text("there is no such run")
            await expect(page.locator("#source")).to_contain_text("This element has no dashboard")
            # A browser opens six connections to a server: panels of one dashboard share one.
            more = f'<rx-panel src="{server.url}api/boards/desk?run={run.id}" panel="calls"></rx-panel>'
            await page.evaluate("(more) => document.body.insertAdjacentHTML('beforeend', more)", 9 * more)
            await expect(page.locator("rx-panel .board-panel", has_text="1 calls")).to_have_count(11)
            feeds = server.state.boards.feeds.values()
            assert [feed.clients for feed in feeds if feed.clients] == [1]
    finally:
        await runner.cleanup()
    desk.problems.clear()  # the browser reports what is not there
