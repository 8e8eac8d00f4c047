"""Two runs side by side: their steps are aligned, and what differs is marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from rxworker import tool
from rxworker.log import SQLiteLog
from rxworker.testing import call, say
from tests.ui.browser.conftest import Desk, GatedModel


@tool
async def look(place: str) -> str:
    """Look at a place."""
    return f"<b>nothing</b> at {place}"


async def test_steps_are_aligned_and_what_differs_in_them_is_marked(desk: Desk) -> None:
    first = [call("look", place="the sea"), say("It is calm and blue today.")]
    other = [call("look", place="the lake"), call("look", place="the sky"), say("It is calm today.")]
    async with desk.serve(GatedModel([*first, *other], free=True), [look]) as server:
        for _ in range(2):
            entry = server.state.runs.start("How is the water?")
            assert entry.here is not None
            await entry.here
        a, b = desk.runs
        page = await desk.open(f"#{a.id}~{b.id}")
        compare = page.locator("#compare")
        await expect(compare.get_by_role("status")).to_have_text("3 differences, 1 equal step")
        await expect(page.locator("#conversation")).to_be_hidden()
        rows = compare.locator(".compare-row")
        await expect(rows.locator(".compare-word")).to_have_text(["Different", "Only in B", "Different"])
        await expect(rows.first.locator("del")).to_have_text(["sea", "sea"])
        await expect(rows.first.locator("ins")).to_have_text(["lake", "lake"])
        await expect(rows.nth(1)).to_contain_text("<b>nothing</b> at the sky")
        await expect(rows.last.locator("del")).to_have_text(" and blue")
        calls = compare.locator("tr", has_text="Tool calls").locator("td")
        await expect(calls).to_have_text(["1", "2", "+1 (+100 %)"])
        await compare.locator("summary").click()
        await expect(compare.locator(".compare-same li")).to_contain_text("How is the water?")
        await desk.press(page, "Swap")
        await expect(rows.first.locator("ins")).to_have_text(["sea", "sea"])
        assert page.url.endswith(f"#{b.id}~{a.id}")
        await rows.last.get_by_role("link").first.click()
        await expect(compare).to_be_hidden()
        await expect(page.locator("#conversation")).to_contain_text("It is calm today.")


@pytest.mark.slow
async def test_the_run_that_a_run_was_forked_from_is_offered_first(desk: Desk, tmp_path: Path) -> None:
    async with (
        SQLiteLog(tmp_path / "runs.db") as log,
        desk.serve(GatedModel([say("One."), say("Two."), say("Three.")], free=True), log=log) as server,
    ):
        runs = server.state.runs
        for text in ("The first", "The second"):
            entry = runs.start(text)
            assert entry.here is not None
            await entry.here
        source = desk.runs[0].id
        page = await desk.open("")
        answer = await page.context.request.post(f"{server.url}api/runs/{source}/fork", data={"seq": 2})
        fork = await runs.settled((await answer.json())["id"])
        assert fork.here is not None
        await fork.here
        page = await desk.open(f"#{fork.id}")
        await desk.status(page, "finished")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("compare")
        await page.keyboard.press("Enter")
        offered = page.locator("#palette-list li")
        await expect(offered).to_have_count(2)
        await expect(offered.first).to_contain_text("this run was forked from it")
        await page.keyboard.press("Enter")
        compare = page.locator("#compare")
        await expect(compare).to_contain_text("forked from the other")
        await expect(compare.locator("del")).to_have_text("Three.")
        await expect(compare.locator("ins")).to_have_text("One.")
        assert page.url.endswith(f"#{fork.id}~{source}")
        await page.keyboard.press("Escape")
        await expect(compare).to_be_hidden()
        assert page.url.endswith(f"#{fork.id}")


async def test_a_run_that_goes_on_is_compared_as_it_grows_and_an_unknown_one_is_named(desk: Desk) -> None:
    model = GatedModel([say("Good evening to you."), say("Good morning to all of you.")])
    async with desk.serve(model) as server:
        model.let(8)
        entry = server.state.runs.start("Hi")
        assert entry.here is not None
        await entry.here
        server.state.runs.start("Hi")
        a, b = desk.runs
        page = await desk.open(f"#{a.id}~{b.id}")
        compare = page.locator("#compare")
        await expect(compare.locator(".compare-row")).to_have_count(1)
        model.let_all()
        await expect(compare.locator(".compare-word")).to_have_text("Different")
        await expect(compare.locator("ins")).to_have_text(["morning", "all of"])
        await page.evaluate(f"location.hash = '{a.id}~run-of-nobody'")
        await expect(compare.get_by_role("status")).to_contain_text("run-of-nobody")
        await desk.press(page, "Close")
        await desk.answers(page, "Good evening to you.")
