"""The page of all runs of a log."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.async_api import Locator, Page, expect

from rxworker import Approve, Paused, Worker, tool
from rxworker.log import SQLiteLog
from rxworker.messages import Prices
from rxworker.panels import RUNS
from rxworker.testing import ScriptedModel, call, say
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk


async def tile(page: Page, name: str) -> str:
    """The value with this name, when it is there."""
    found = page.locator(".tiles > div", has=page.locator(f"dt:text-is('{name}')"))
    return await found.locator("dd").first.inner_text()


def ended(page: Page) -> Locator:
    """The chart of the runs that ended."""
    return page.locator('#taken .board-panel[aria-label="Ended runs"]')


@pytest.mark.slow
async def test_runs_are_seen_as_they_change_and_opened(desk: Desk, tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tool(effect="idempotent")
    async def look(where: str) -> str:
        """Look."""
        await gate.wait()
        return f"nothing {where}"

    def clerk(tenant: str, log: SQLiteLog) -> Worker:
        model = ScriptedModel([call("look", where="there"), say("Nothing is there.")])
        return Worker(model, tools=[look], name="clerk", log=log, labels={"tenant": tenant})

    file = tmp_path / "runs.db"
    settings = Settings(prices={"scripted": Prices(input=100.0, output=1000.0)})
    async with SQLiteLog(file) as other, SQLiteLog(file) as log:
        runs = [clerk(tenant, other).run(f"Look for {tenant}") for tenant in ("acme", "globex")]
        async with desk.serve_workers(lambda: clerk("", log), log=log, settings=settings):
            page = await desk.open("fleet")
            rows = page.locator("#fleet-rows tr")
            await expect(rows).to_have_count(2)
            await expect(rows.first).to_contain_text("≈")
            await expect(rows.locator(".status").first).to_have_text("running")
            assert await tile(page, "Running") == "2"
            assert other.owner in await page.locator("#owners").inner_text()

            await page.locator("select[name=tenant]").select_option("acme")
            await expect(rows).to_have_count(1)
            gate.set()
            await expect(rows.locator(".status").first).to_have_text("finished")
            await expect(ended(page).locator(".board-figure")).to_have_text("2")
            await expect(page).to_have_url(re.compile("tenant=acme"))
            await page.reload()
            await expect(rows).to_have_count(1)
            await page.locator("#reset").click()
            await expect(rows).to_have_count(2)
            await page.locator("input[name=q]").fill("GLOBEX")
            await expect(rows).to_have_count(1)

            await page.keyboard.press("Escape")
            await page.keyboard.type("act on all of them")  # no letter is a shortcut
            await expect(rows).to_have_count(1)
            await expect(page.locator("html")).to_have_attribute("data-theme", "light")
            await page.locator("#reset").click()
            await expect(rows).to_have_count(2)
            await page.keyboard.press("/")
            await expect(page.locator("input[name=q]")).to_be_focused()
            await page.keyboard.press("Control+k")
            await page.keyboard.type("Look glob")
            await page.keyboard.press("Enter")
            await desk.answers(page, "Nothing is there.")
            await page.locator("#fleet-link").click()
            await expect(rows).to_have_count(2)
            await asyncio.gather(*runs)


@pytest.mark.slow
async def test_a_new_run_leaves_the_focus_and_the_selection_and_a_lost_connection_is_made_again(
    desk: Desk, tmp_path: Path
) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:

        def make() -> Worker:
            return Worker(ScriptedModel([say("Hello.")]), log=log)

        await make().run("First")
        await make().run("Second")
        async with desk.serve_workers(make, log=log, closes=False):
            # A time in the address that is not a number is no time.
            page = await desk.open("fleet?since=NaN&until=1e99")
            rows = page.locator("#fleet-rows tr")
            await expect(rows).to_have_count(2)
            first = page.get_by_role("link", name="First")
            await first.focus()
            await page.evaluate("""() => getSelection().selectAllChildren(document.activeElement)""")
            for count, title in ((3, "Third"), (4, "Fourth")):
                await make().run(title)
                await expect(rows).to_have_count(count)
                await expect(first).to_be_focused()
                assert await page.evaluate("getSelection().toString()") == "First"
        await expect(page.locator("#banner")).to_be_visible()
        async with desk.serve_workers(make, port=desk.port, log=log):
            await expect(page.locator("#banner")).to_be_hidden()
            await expect(page.locator("#link")).to_have_text("Connected")
    desk.problems[:] = [one for one in desk.problems if "ERR_CONNECTION" not in one and "ERR_INC" not in one]


async def test_the_runs_of_a_user_are_found_and_one_that_was_resumed_is_opened(desk: Desk, tmp_path: Path) -> None:
    """Its id has a tilde, which in an address stands between two runs."""

    @tool(requires_approval=True)
    async def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    async with SQLiteLog(tmp_path / "runs.db") as log:

        def make(user: str = "") -> Worker:
            model = ScriptedModel([call("pay", euros=3), say("Paid.")])
            return Worker(model, tools=[pay], name="clerk", log=log, labels={"user": user})

        for user in ("ann", "bob"):
            worker = make(user)
            paused = await worker.run(f"Pay for {user}")
            assert isinstance(paused, Paused)
            await worker.resume(paused, decisions={each.id: Approve() for each in paused.pending})
        async with desk.serve_workers(make, log=log, dashboards=[RUNS]):
            page = await desk.open("fleet")
            rows = page.locator("#fleet-rows tr")
            await expect(rows).to_have_count(4)
            await page.get_by_label("Label").fill("user=ann")
            await expect(rows).to_have_count(2)
            await expect(page).to_have_url(re.compile("label=user%3Dann"))
            await rows.locator("a").first.click()
            await desk.answers(page, "Paid.")
            await expect(page.locator("#compare")).to_be_hidden()
            # The head names when it began, and whose it is.
            await expect(page.locator("#run-facts")).to_contain_text(re.compile(r"^clerk.*\d\d:\d\d:\d\duser=ann$"))
            await page.locator("#run-list").get_by_role("link", name="Pay for bob").click()
            await expect(page.locator("#run-title")).to_have_text("Pay for bob")
            await expect(page.locator("#compare")).to_be_hidden()
            await page.locator("#pages").get_by_role("link", name="Dashboards").click()
            for title in ("Pay for bob", "Pay for ann"):
                link = page.locator("#board").get_by_role("link", name=title)
                await expect(link).to_have_css("color", "rgb(28, 33, 36)")
            await link.click()
            await desk.answers(page, "Paid.")
            await expect(page.locator("#compare")).to_be_hidden()


async def test_a_bar_leads_to_the_runs_of_its_time(desk: Desk, tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:

        def make() -> Worker:
            return Worker(ScriptedModel([say("Hello.")]), log=log)

        await make().run("Hi")
        async with desk.serve_workers(make, log=log) as server:
            page = await desk.open("fleet?period=day&since=4000000000")
            rows = page.locator("#fleet-rows tr")
            await expect(page.locator("#rows-note")).to_have_text("No run matches.")
            await expect(page.locator("#periods [aria-pressed=true]")).to_have_text("24 hours")
            await ended(page).locator("canvas").wait_for()
            await ended(page).get_by_role("slider").focus()  # at the newest bar
            await page.keyboard.press("Enter")
            await expect(rows).to_have_count(1)
            await expect(page).to_have_url(re.compile(r"since=1\d+&.*until=1\d+"))
            asked = dict(parse_qsl(urlsplit(page.url).query))
            assert float(asked["until"]) - float(asked["since"]) == 3600
            await page.reload()
            await expect(rows).to_have_count(1)
            # An hour before, nothing ran.
            await page.goto(f"{server.url}fleet?since={float(asked['since']) - 3600:.0f}&until={asked['since']}")
            await expect(page.locator("#rows-note")).to_have_text("No run matches.")
            await page.locator("#reset").click()
            await expect(rows).to_have_count(1)
            await page.locator("#periods button", has_text="1 hour").click()
            await expect(page).to_have_url(re.compile(r"\?period=hour$"))
            await expect(ended(page).locator(".board-figure")).to_have_text("1")
            # Its axis is the whole hour, as that of each other chart: the run is at its end.
            chart = ended(page).get_by_role("slider")
            await expect(chart).to_have_attribute("aria-valuemax", re.compile(r"^(59|6\d)$"))
