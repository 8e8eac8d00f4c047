"""The page says what is true, once, and what has to be decided is in reach: on a phone, and with the keyboard."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from rxworker import before_tool_call, tool
from rxworker.hooks import Skip, ToolCallContext
from rxworker.messages import Prices
from rxworker.testing import ScriptedModel, call, fail, say
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk, GatedModel
from tests.whole import one_of

LONG = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
WHY = "Looking is not allowed here."
deleted: list[str] = []


@tool(requires_approval=True)
async def delete(path: str, reason: str = "", depth: int = 0) -> str:
    """Delete a file."""
    deleted.append(path)
    return "gone"


@tool
async def look(where: str = "here") -> str:
    """Look."""
    return f"nothing {where}"


@before_tool_call(name="guard", matcher="look")
def guard(context: ToolCallContext) -> Skip:
    return Skip(WHY)


@pytest.fixture(autouse=True)
def nothing_deleted() -> None:
    deleted.clear()


@pytest.mark.parametrize(("width", "height"), one_of([(667, 320), (740, 360), (360, 560), (320, 480)]))
async def test_a_decision_is_in_view_on_a_phone(desk: Desk, width: int, height: int) -> None:
    asked = call("delete", path="/a/rather/long/path" * 8, reason="because " * 40, depth=3)
    async with desk.serve(GatedModel([say(LONG * 4) + asked, say("Gone.")], free=True), [delete]):
        page = await desk.open(width=width)
        await page.set_viewport_size({"width": width, "height": height})
        await desk.ask(page, "A question that is rather long for the phone on which it is asked")
        await expect(page.locator("#approval")).to_be_visible()
        for part in ("Approve", "Deny"):
            button = page.get_by_role("button", name=part, exact=True)
            await expect(button).to_be_in_viewport(ratio=1)
        await expect(page.locator("#approval h3")).to_be_in_viewport(ratio=1)
        await expect(page.locator("#approval .field :is(input, textarea)").first).to_be_in_viewport(ratio=0.05)
        await desk.press(page, "Approve", status="finished")


@pytest.mark.slow
async def test_a_decision_is_near_for_the_keyboard_and_its_skip_link(desk: Desk) -> None:
    replies = [say("May I?") + call("delete", path="a.txt"), say("Gone.")]
    async with desk.serve(GatedModel(replies, free=True), [delete]):
        page = await desk.open()
        keys, skip = page.keyboard, page.locator(".skip")
        await expect(skip).to_have_text("Skip to the message box")
        await page.locator("#composer-input").fill("Go")
        await keys.press("Enter")
        await expect(page.locator("#approval")).to_be_focused()
        await expect(skip).to_have_text("Skip to the decision")
        await skip.focus()
        await keys.press("Enter")
        await expect(page.locator("#approval")).to_be_focused()
        # A key that was meant for the message box decides nothing.
        await keys.press("Enter")
        await keys.press("Space")
        await expect(page.locator("#approval")).to_be_visible()
        assert deleted == []
        later = await desk.open(f"#{desk.runs[0].id}")
        await expect(later.locator("#approval")).to_be_focused()
        await later.close()
        for name in ("Form", "JSON"):
            await keys.press("Tab")
            await expect(page.get_by_role("button", name=name)).to_be_focused()
        await keys.press("Enter")
        await keys.press("Tab")
        await expect(page.locator("#approval-input")).to_be_focused()
        await keys.press("Tab")
        await expect(page.get_by_role("button", name="Approve")).to_be_focused()
        await keys.press("Enter")
        await desk.status(page, "finished")
        assert deleted == ["a.txt"]
        await expect(skip).to_have_attribute("href", "#composer-input")


async def test_a_refusal_is_shown_once(desk: Desk) -> None:
    replies = [call("look", where="there"), say("So be it.")]
    async with desk.asking(GatedModel(replies, free=True), [look], hooks=[guard], status="finished") as page:
        await expect(page.locator(".call .outcome")).to_have_text(WHY)
        await expect(page.locator(".call .verdicts li")).to_have_text("Skip by guard")
        await expect(page.locator("#notes li")).to_contain_text("Skip · look")
        shown = await page.locator("body").inner_text()
        assert shown.count(WHY) == 1


async def test_a_failure_of_the_provider_reads_failed_and_is_reported_once(desk: Desk) -> None:
    seen = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait until the page shows the run."""
        await seen.wait()
        return "done"

    model = ScriptedModel([call("wait"), say("Half a sen") + fail("The key is not valid", "auth")])
    async with desk.asking(model, [wait]) as page:
        await expect(page.locator(".call .call-word")).to_have_text("running")
        seen.set()
        await desk.status(page, "failed")
        await expect(page.locator("#run-list .status")).to_have_text("failed")
        await expect(page.locator("#announcer")).to_contain_text("The run has failed")
        note = page.locator("#conversation .note")
        await expect(note).to_have_count(1)
        await expect(note).to_contain_text("Ended early")
        await expect(note).to_contain_text("The key is not valid")
        await expect(page.locator("#notes li")).to_have_count(1)
        await expect(page.locator(".block.text .reason")).to_have_text("Cut off here")


async def test_numbers_have_their_unit_and_words_of_help(desk: Desk) -> None:
    prices = {"gated-1": Prices(input=3.0, output=15.0, currency="EUR")}
    settings = Settings(title="Desk", prices=prices)
    model = GatedModel([say(LONG)])
    async with desk.asking(model, settings=settings) as page:
        model.let(1)
        await expect(page.locator(".watcher-how")).to_have_text("merges")
        await expect(page.locator(".watcher-how")).to_have_attribute("title", HELP)
        await expect(page.locator(".watcher-how")).to_have_attribute("aria-description", HELP)
        model.let_all()
        await desk.status(page, "finished")
        await expect(page.locator("#run-facts")).to_contain_text(" EUR")
        await expect(await desk.usage(page, "Cost")).to_contain_text(" EUR")


HELP = "When it is behind, neighbouring pieces of one text are joined into one record. Nothing is lost."


async def test_a_page_without_a_run_leads_to_the_newest(desk: Desk) -> None:
    model = GatedModel(lambda _: say("Hello."), free=True)
    async with desk.serve(model) as server:
        empty = await desk.open(width=360)
        await expect(empty.locator("#welcome-look")).to_be_hidden()
        for n in range(4):
            server.state.runs.start(f"Question {n}")
        await asyncio.gather(*desk.runs)
        page = await desk.open(width=360)
        links = page.locator("#welcome-runs a")
        told = [f"Question {n} (finished)" for n in (3, 2, 1)]
        await expect(links).to_have_text(told)
        await links.nth(1).click()
        await expect(page.locator("#run-title")).to_have_text("Question 2")
