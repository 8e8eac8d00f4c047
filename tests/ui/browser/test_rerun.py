"""The page in a real browser: stored runs run again with its workers, and without workers nothing begins."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from rxworker import Worker
from rxworker.log import SQLiteLog
from rxworker.testing import ScriptedModel
from rxworker.testing.lab import rerun_stored
from rxworker.ui.web.runs.workers import Workers
from tests.ui.browser.conftest import Desk


def clerk(system: str) -> Worker:
    return Worker(ScriptedModel([]), system=system)


async def test_a_stored_run_runs_again_and_a_difference_leads_to_its_record(desk: Desk, tmp_path: Path) -> None:
    workers: Workers = {"kind": clerk("Be kind."), "brief": clerk("Be brief.")}
    async with SQLiteLog(tmp_path / "runs.db") as log:
        run = Worker(ScriptedModel(["Hello."]), system="Be brief.").new_session(log=log).run("Hi")
        await run
        async with desk.serve_workers(workers, log=log, rerun=rerun_stored):
            page = await desk.open(f"#{run.id}")
            await page.click("#run-more")
            await page.locator("#run-menu").get_by_role("button", name="Run again and compare").click()
            dialog = page.locator("#rerun-dialog")
            await expect(dialog.get_by_role("button", name="Run again", exact=True)).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(dialog).to_contain_text("Different")
            await expect(dialog).to_contain_text("the system prompt 'Be brief.'")
            await dialog.get_by_label("Worker").select_option("brief")
            await page.get_by_role("button", name="Run again", exact=True).click()
            await expect(dialog).to_contain_text("No difference")
            await expect(dialog).not_to_contain_text("Different")
            await dialog.get_by_label("Worker").select_option("kind")
            await page.get_by_role("button", name="Run again", exact=True).click()
            await dialog.get_by_role("link", name="Show record 1").click()
            await expect(dialog).to_be_hidden()
            await expect(page.locator("#time-bar")).to_have_attribute("data-past", "true")
            assert page.url.endswith(f"#{run.id}@1")


async def test_nothing_begins_on_the_page_of_a_server_without_workers(desk: Desk, tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        run = Worker(ScriptedModel(["Hello."])).new_session(log=log).run("Hi")
        await run
        async with desk.serve_workers({}, log=log, rerun=rerun_stored):
            page = await desk.open()
            await expect(page.locator("#welcome-title")).to_have_text("Runs of other programs")
            await page.click("#run-list a")
            await desk.answers(page, "Hello.")
            for what in ("#new-run", "#composer", ".item-actions .begins >> nth=0", "#time-fork"):
                await expect(page.locator(what)).to_be_hidden()
            await page.click("#run-more")
            await expect(page.locator("#run-menu").get_by_role("button", name="Copy link to this view")).to_be_visible()
            await expect(page.locator("#run-menu").get_by_role("button", name="Run again and compare")).to_be_hidden()
