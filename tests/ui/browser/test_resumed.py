"""A run that was paused and resumed: two runs of the server, one on the page."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from rxworker import Worker, tool, worker_tool
from rxworker.events import Question
from rxworker.messages import Prices
from rxworker.testing import call, say, think
from rxworker.tools import ToolContext
from rxworker.ui.web import Settings
from rxworker.views.amounts import money
from tests.ui.browser.conftest import Desk, GatedModel

PRICED = Settings(title="Desk", prices={"gated-1": Prices(input=3.0, output=15.0)})


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def lanes(page: Page, *names: str) -> None:
    """Wait until the lanes are these."""
    await expect(page.locator("#lanes .lane .lane-name")).to_have_text(list(names))


@pytest.mark.slow
async def test_the_lanes_from_before_the_pause_stand_before_those_from_after_it_and_lead_to_their_places(
    desk: Desk,
) -> None:
    replies = [think("Hm.") + say("May I?") + call("delete", path="a.txt"), say("It is gone.")]
    async with desk.asking(GatedModel(replies, free=True), [delete]) as page:
        await lanes(page, "thinking", "answer", "delete")
        await expect(page.locator("#lanes .lane-text").last).to_contain_text("waiting for you")
        await desk.press(page, "Approve", status="finished")
        # A tab that is opened later shows the same.
        for one in (page, await desk.open(f"#{desk.runs[1].id}")):
            await lanes(one, "thinking", "answer", "delete", "answer")
            await expect(one.locator("#lanes .lane-break")).to_contain_text("delete requires")
            # The call was written before the pause, and ran after it: one lane tells both.
            bars = one.locator("#lanes .lane", has_text="delete").locator(".bar")
            assert await bars.evaluate_all("(all) => all.map((bar) => bar.hidden)") == [False, False]
            written, ran = await bars.evaluate_all(
                "(all) => all.map((bar) => Number(bar.style.getPropertyValue('--from')))"
            )
            assert written < ran
            thinking = one.locator("#conversation .block.thinking .speaker")
            await expect(thinking).to_have_text(re.compile(r"Thinking · \d\.\d s"))
            await expect(one.locator("#notes")).to_contain_text("Paused")
        for place, text in ((1, "May I?"), (2, "delete"), (3, "It is gone.")):
            await page.locator("#lanes .lane .lane-label").nth(place).click()
            await expect(page.locator(".item.found")).to_contain_text(text)


@pytest.mark.slow
async def test_what_it_cost_is_drawn_over_the_pause(desk: Desk) -> None:
    replies = [call("delete", path="a.txt"), call("delete", path="b.txt"), say("Gone.")]
    async with desk.serve(GatedModel(replies, free=True), [delete], settings=PRICED) as server:
        page = await desk.asked()
        for n in (1, 2):
            await expect(page.locator(".call[data-state=paused]")).to_have_count(1)
            await expect(page.locator("#no-watchers")).to_contain_text("The run waits")
            await desk.press(page, "Approve")
            await expect(page.locator("#lanes .lane-break")).to_have_count(n)
        await desk.status(page, "finished")
        turns = page.locator("#lanes .turn .lane-name")
        await expect(turns).to_have_text(["Turn 1", "Turn 2", "Turn 3"])
        await page.locator("#lanes .lane .lane-label").last.click()
        row = page.locator("#inspector dl > div", has_text="Turn")
        await expect(row.locator("dd")).to_have_text("3")
        cost = next(iter(server.state.runs)).summary().cost
        assert cost is not None
        # The usage is of all that is shown as one, as the line above it is.
        shown = await desk.usage(page, "Cost")
        await expect(shown).to_have_text(re.compile(rf"^{cost:.4g}\b"))
        await expect(page.locator("#run-facts")).to_contain_text(f"cost {money(cost)}")


async def test_an_earlier_part_that_is_not_kept_any_more_is_reported(desk: Desk) -> None:
    replies = [call("delete", path="a.txt"), say("Gone.")]
    settings = Settings(title="Desk", max_kept=1)
    async with desk.asking(GatedModel(replies, free=True), [delete], settings=settings) as page:
        await desk.press(page, "Approve", status="finished")
        other = await desk.open(f"#{desk.runs[1].id}")
        await lanes(other, "delete", "answer")
        await expect(other.locator("#timeline-note")).to_contain_text("no longer kept")


@pytest.mark.slow
async def test_a_decided_call_is_not_shown_as_waiting_and_the_focus_is_not_lost(desk: Desk) -> None:
    replies = [call("delete", path="a.txt") + call("delete", path="b.txt"), say("One is gone.")]
    async with desk.asking(GatedModel(replies, free=True), [delete]) as page:
        waiting = page.locator(".call[data-state=paused] .call-word")
        await expect(waiting).to_have_text(["waiting for you", "waiting for you"])
        await page.get_by_role("button", name="Approve", exact=True).press("Enter")
        await expect(waiting).to_have_text(["approved", "waiting for you"])
        await expect(page.locator("#approval")).to_be_focused()
        await page.get_by_role("button", name="Deny").press("Enter")
        await desk.status(page, "finished")
        await expect(page.locator("#conversation")).to_be_focused()
        await expect(page.locator(".call .call-word")).to_have_text([re.compile("^done"), "not run"])
        lane = page.locator("#lanes .lane", has_text="delete").last
        await expect(lane.locator(".lane-text")).to_have_text(re.compile("^not run"))
        await expect(page.locator("#lanes .lane", has_text="delete")).to_have_count(2)


@tool
async def reserve(context: ToolContext) -> str:
    """Reserve a room, after a question."""
    if context.begun is None:
        context.ask(Question("the hotel", "Which room?"))
    return "reserved"


@pytest.mark.slow
async def test_a_run_inside_a_call_takes_its_own_place_after_a_decision_and_a_question_waits_for_you(
    desk: Desk,
) -> None:
    inner = Worker(GatedModel([call("delete", path="a.txt"), say("Gone.")], free=True), tools=[delete])
    clean = worker_tool(inner, name="clean", description="Clean up.")
    replies = [call("clean", task="Clean a.txt"), call("reserve"), say("Done.")]
    async with desk.asking(GatedModel(replies, free=True), [clean, reserve]) as page:
        words = page.locator(".call .call-word")
        await expect(words).to_have_text(["waiting for you", "waiting for you"])
        await desk.press(page, "Approve")
        await expect(page.locator("#approval")).to_contain_text("Which room?")
        await expect(words).to_have_text([re.compile("^done"), re.compile("^done"), "waiting for you"])
        await expect(page.locator(".inner .message")).to_have_count(1)
        await desk.press(page, "I have visited it", status="finished")
        # Each call is one lane, though the calls of both runs have one id.
        calls = page.locator("#lanes .lane", has_text=re.compile("clean|delete|reserve"))
        await expect(calls).to_have_count(3)
        await expect(page.locator("#lanes")).not_to_contain_text("waiting for you")
