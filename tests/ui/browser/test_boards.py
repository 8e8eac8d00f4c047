"""The page of a dashboard: boards/NAME."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rxworker.log import SQLiteLog
from rxworker.panels import RUNS
from rxworker.ui.web import WebServer
from tests.ui.browser.test_dashboards import BOARD, REPLIES, look

if TYPE_CHECKING:
    from conftest import Desk, GatedModel

pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("has_log", [False, True])
async def test_a_dashboard_has_a_page_that_links_lead_to(
    desk: Desk, gated: type[GatedModel], tmp_path: Path, has_log: bool
) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as stored:
        log = stored if has_log else None
        make = desk.maker(gated(REPLIES, free=True), [look], log=log)
        async with WebServer(make, port=0, log=log, dashboards=[BOARD, RUNS]) as server:
            page = await desk.open(url=server.url)
            await desk.ask(page)
            await desk.status(page, "finished")
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
            await desk.close()


async def test_a_dashboard_that_is_not_there_names_those_that_are(desk: Desk, gated: type[GatedModel]) -> None:
    async with desk.serve(gated(REPLIES), dashboards=[BOARD]) as server:
        page = await desk.open()
        await page.goto(f"{server.url}boards/dsk")
        await expect(page.locator("#banner")).to_have_text("The server has no dashboard dsk. It has desk, usage.")
        await expect(page.locator("#board-names a")).to_have_text(["Desk", "Usage"])
        await desk.close()


async def test_a_phone_shows_one_panel_beside_no_other(desk: Desk, gated: type[GatedModel]) -> None:
    async with desk.serve(gated(REPLIES, free=True), [look], dashboards=[BOARD]):
        page = await desk.open("boards/desk", width=390)
        await expect(page.locator("#board .board-panel")).to_have_count(7)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        lefts = await page.locator("#board .board-panel").evaluate_all("(all) => all.map((one) => one.offsetLeft)")
        assert len(set(lefts)) == 1
        await desk.close()


async def test_the_usage_beside_a_conversation_is_folded_and_not_received(desk: Desk, gated: type[GatedModel]) -> None:
    async with desk.serve(gated(REPLIES, free=True), [look], dashboards=[BOARD]) as server:
        page = await desk.open()
        await desk.ask(page)
        await desk.status(page, "finished")
        await desk.view(page, "#usage-panel")
        figures = page.locator("#usage-panel .board-figure")
        assert not [name for _, name, _ in server.state.boards.feeds if name == "usage"]
        await page.locator("#usage-panel summary").click()
        await expect(figures.first).to_be_visible()
        await page.reload()  # the browser remembers it
        await desk.view(page, "#usage-panel")
        await expect(figures.first).to_be_visible()
        await desk.close()
