"""A view is an address: what is filtered, compared, zoomed and shown of the past is there again in another browser."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from rxworker import Worker, tool
from rxworker.log import SQLiteLog
from rxworker.testing import ScriptedModel, call, say
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk, GatedModel
from tests.ui.browser.test_fold import NODE, STATIC

REPLIES = [call("look", where="here"), say("There is nothing.")]
COPIED = """(() => {
  globalThis.copied = [];
  Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => copied.push(text) } });
})()"""
"""Takes what the page copies, which a browser without a window does not allow."""
AXIS = (
    "['--at', '--span'].map((name) => Number(document.querySelector('#lanes').style.getPropertyValue(name)).toFixed(3))"
)
"""The part of the timeline that is shown."""


@tool
def look(where: str) -> str:
    """Look."""
    return f"nothing {where}"


async def until(page: Page, condition: str) -> None:
    """Wait for a condition. `wait_for_function` may compile it in the page, whose policy forbids that."""
    while not await page.evaluate(condition):
        await page.evaluate("new Promise(requestAnimationFrame)")


async def copied(page: Page) -> str:
    """The address that the command copies."""
    await page.evaluate(COPIED)
    await page.keyboard.press("Control+k")
    await page.locator("#palette-input").fill("Copy link to this view")
    await page.keyboard.press("Enter")
    await until(page, "copied.length > 0")
    return await page.evaluate("copied[0]")


LINKS = """
const { readLink, writeLink } = await import(process.argv[1]), read = (hash) => Object.values(readLink(hash));
const given = JSON.parse(process.argv[2]);
console.log(JSON.stringify(given.map((place) => (typeof place === "string" ? read(place) : read(writeLink(place))))));
"""


def test_a_number_after_a_tilde_belongs_to_the_id_of_a_resumed_run_also_in_an_address_that_is_typed() -> None:
    """Lists on the command line have such ids. A run whose id is a number is compared nevertheless."""
    assert NODE is not None
    cases: list[tuple[object, list[object]]] = [
        ("#run-x~2", ["run-x~2", None, None, None]),
        ("#run-x%7E2@12", ["run-x~2", 12, None, None]),
        ("#run-x~2/3", ["run-x~2", None, 3, None]),
        ("#run-x~run-y", ["run-x", None, None, "run-y"]),
        ("#run-x~2~run-y~3", ["run-x~2", None, None, "run-y~3"]),
        ({"run": "run-x", "other": "47"}, ["run-x", None, None, "47"]),
        ({"run": "run-x~2", "other": "run-y~3"}, ["run-x~2", None, None, "run-y~3"]),
    ]
    command = [NODE, "--input-type=module", "-e", LINKS, (STATIC / "model" / "link.js").as_uri()]
    done = subprocess.run([*command, json.dumps([given for given, _ in cases])], capture_output=True, check=True)
    assert json.loads(done.stdout) == [read for _, read in cases]


@pytest.mark.slow
async def test_a_filter_a_dashboard_a_part_of_the_timeline_and_a_moment_are_an_address(desk: Desk) -> None:
    settings = Settings(title="Desk", token="a-very-secret-token")
    model = GatedModel([*REPLIES, say("Other.")], free=True)
    async with desk.serve(model, [look], settings=settings, dashboards=None):
        page = await desk.open("?token=a-very-secret-token")
        await desk.ask(page, "First", status="finished")
        run = desk.runs[-1]
        await page.wait_for_selector(f"#conversation[data-seq='{run.last_seq}']")
        await page.locator("#run-search").fill("first")
        await page.locator("#run-filters").click()
        await page.locator("#run-options select").nth(0).select_option("finished")
        await desk.view(page, "#board-panel")
        await expect(page.locator("#board-choice option")).to_have_count(1)
        await page.locator("#board-choice").select_option("runs")
        await page.locator("#board-scope button", has_text="All runs").click()
        await page.locator("#zoom-in").click()
        await page.evaluate("document.activeElement.blur()")
        await page.locator("#time-slider").press("Home")
        await expect(page.locator("#time-bar")).to_have_attribute("data-past", "true")
        # The address follows, so that a reload shows the same.
        await expect(page).to_have_url(re.compile(rf"from=[\d.]+&to=[\d.]+.*#{run.id}@\d+$"))
        address = await copied(page)
        assert address == page.url
        assert "token" not in address
        axis = await page.evaluate(AXIS)

        other = await desk.open("?token=a-very-secret-token")  # another browser, logged in
        await other.goto(address)
        await expect(other.locator("#time-bar")).to_have_attribute("data-past", "true")
        shown = f"JSON.stringify({AXIS}) === '{json.dumps(axis, separators=(',', ':'))}'"
        await until(other, shown)
        await expect(other.locator("#run-search")).to_have_value("first")
        await expect(other.locator("#run-options select").nth(0)).to_have_value("finished")
        await expect(other.locator("#run-filters")).to_have_attribute("data-active", "true")
        await desk.view(other, "#board-panel")
        await expect(other.locator("#board-choice")).to_have_value("runs")
        await expect(other.locator("#board-scope [aria-pressed=true]")).to_have_text("All runs")
        await expect(other.locator("#board-note")).to_have_text("as it was then")
        # Back in the present, without the filter, nothing of it is left.
        await other.locator("#time-live").click()
        await other.locator("#run-search").fill("")
        await other.locator("#run-filters").click()
        await other.locator("#run-options select").nth(0).select_option("")
        await other.locator("#zoom-fit").click()
        await expect(other).to_have_url(f"{desk.url}?board=runs&of=all#{run.id}")


@pytest.mark.slow
async def test_an_address_of_a_part_of_a_long_timeline_leads_to_its_rows(desk: Desk) -> None:
    many = call("look", where="here")
    for n in range(60):
        many += call("look", where=f"there {n}")
    async with desk.asking(GatedModel([many, say("Done.")], free=True), [look], status="finished") as page:
        await page.get_by_role("button", name="Full width").click()
        await expect(page).to_have_url(re.compile(r"\?trace=wide#"))
        run = desk.runs[-1].id
        other = await desk.open(f"?trace=wide&from=0.000&to=0.030#{run}")
        await expect(other.get_by_role("button", name="Full width")).to_have_attribute("aria-pressed", "true")
        # Its first rows are shown, not its last ones.
        await expect(other.locator("#lanes .lane-name", has_text="Turn 1")).to_be_visible()
        assert await other.locator("#lanes").evaluate("node => node.scrollTop") == 0
        await other.get_by_role("button", name="Full width").click()
        await expect(other).to_have_url(re.compile(r"/\?from=0\.000&to=0\.030#"))


async def test_a_wrong_value_in_an_address_is_ignored(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("Hi.")], free=True)):
        page = await desk.open("?status=dead&sort=colour&from=5&to=1&board=none&of=none&since=ever")
        await desk.ask(page, status="finished")
        await expect(page.locator("#run-filters")).to_have_attribute("data-active", "false")
        await expect(page.locator("#run-list li")).to_have_count(1)
        await expect(page.locator("#zoom-fit")).to_be_disabled()


@pytest.mark.slow
async def test_compared_runs_are_an_address(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("One."), say("Two.")], free=True)):
        page = await desk.open()
        for text in ("First", "Second"):
            await desk.press(page, "New run")
            await desk.ask(page, text, status="finished")
        first, second = desk.runs
        await page.goto(f"{desk.url}#{second.id}~{first.id}")
        await expect(page.locator("#compare")).to_be_visible()
        address = await copied(page)
        assert address.endswith(f"#{second.id}~{first.id}")
        other = await desk.open(url=address)
        await expect(other.locator("#compare")).to_be_visible()
        await expect(other.locator("#compare")).to_contain_text("Two.")


async def test_the_page_of_all_runs_has_its_filter_and_period_in_its_address(desk: Desk, tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        for tenant in ("acme", "globex"):
            await Worker(ScriptedModel(["Hi."]), log=log, labels={"tenant": tenant}).run(tenant)
        async with desk.serve_workers(Worker(ScriptedModel([])), log=log) as server:
            page = await desk.open("fleet")
            rows = page.locator("#fleet-rows tr")
            await expect(rows).to_have_count(2)
            await page.locator("select[name=tenant]").select_option("acme")
            await expect(rows).to_have_count(1)
            await page.locator("#periods button").last.click()
            address = await copied(page)
            assert address == f"{server.url}fleet?tenant=acme&period=week"
            other = await desk.open(url=address)
            await expect(other.locator("#fleet-rows tr")).to_have_count(1)
            await expect(other.locator("#periods [aria-pressed=true]")).to_have_text("7 days")
