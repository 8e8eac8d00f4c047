"""What a person types is never lost: drafts of several runs, messages that are sent while something else happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, Route, expect

from rxworker import tool
from rxworker.log import MemoryLog
from rxworker.testing import call, say
from tests.ui.browser.conftest import Desk, GatedModel
from tests.whole import one_of

LONG = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
BOX = "#composer-input"


@tool
async def look() -> str:
    """Look."""
    return "nothing"


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@asynccontextmanager
async def held(page: Page, address: str) -> AsyncGenerator[asyncio.Event, None]:
    """Requests to an address wait, once they are made, until the block ends; the event is set when one is."""
    made, free = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        made.set()
        await free.wait()
        await route.continue_()

    await page.route(address, hold)
    yield made
    free.set()


async def test_a_message_is_queued_until_the_model_reads_it(desk: Desk) -> None:
    model = GatedModel([say(LONG) + call("look"), say("Done.")])
    async with desk.asking(model, [look]) as page:
        model.let(1)
        await desk.answers(page, LONG[:4])
        await expect(page.locator("#composer-label")).to_have_text("Into the running run")
        for _ in range(2):  # one that is under way when the page is left goes back into the box
            async with page.expect_response("**/send"):
                await desk.ask(page, "And hurry")
        queue = page.locator("#queue-list li span")
        await expect(queue).to_have_text(["And hurry", "And hurry"])
        await expect(page.locator(BOX)).to_have_value("")
        await page.reload()
        await expect(queue).to_have_text(["And hurry", "And hurry"])
        model.let_all()
        await desk.status(page, "finished")
        await expect(page.locator("#queue")).to_be_hidden()
        await desk.answers(page, LONG, "Done.")
        await expect(page.locator(".message.user .text")).to_have_text(["Go", "And hurry", "And hurry"])
        await expect(page.locator(BOX)).to_have_value("")


@pytest.mark.slow
@pytest.mark.parametrize("has_log", one_of([True, False]))
async def test_a_queued_message_is_withdrawn(desk: Desk, has_log: bool) -> None:
    model = GatedModel([say(LONG) + call("look"), say("Done.")])
    async with desk.asking(model, [look], log=MemoryLog() if has_log else None) as page:
        model.let(1)
        await desk.answers(page, LONG[:4])
        for text in ("And hurry", "And hurry", "Be brief"):
            async with page.expect_response("**/send"):
                await desk.ask(page, text)
        queue = page.locator("#queue-list li span")
        async with page.expect_response("**/withdraw"):
            await page.get_by_role("button", name="Withdraw: And hurry").first.press("Enter")
        await expect(page.locator(BOX)).to_be_focused()
        await expect(queue).to_have_text(["And hurry", "Be brief"])
        await expect(page.locator(BOX)).to_have_value("And hurry")
        model.let_all()
        await desk.status(page, "finished")
        await expect(page.locator("#queue")).to_be_hidden()
        await expect(page.locator(".message.user .text")).to_have_text(["Go", "And hurry", "Be brief"])
        await expect(page.locator(BOX)).to_have_value("And hurry")


@pytest.mark.slow
async def test_a_queued_message_comes_back_when_the_run_is_cancelled(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.asking(model) as page:
        model.let(1)
        await desk.answers(page, LONG[:4])
        await desk.ask(page, "Wait for me")
        await expect(page.locator("#queue-list li span")).to_have_text(["Wait for me"])
        await page.locator(BOX).fill("typed since")
        await desk.press(page, "Cancel")
        await desk.press(page, "Cancel now", status="cancelled")
        await expect(page.locator(BOX)).to_have_value("Wait for me\ntyped since")
        await expect(page.locator("#queue")).to_be_hidden()
        await expect(page.locator("#composer-note")).to_contain_text("ended before")
        await page.reload()
        await expect(page.locator(BOX)).to_have_value("Wait for me\ntyped since")


async def test_a_queued_message_and_a_draft_survive_a_pause(desk: Desk) -> None:
    model = GatedModel([say(LONG) + call("delete", path="a"), say("Gone.")])
    async with desk.asking(model, [delete]) as page:
        model.let(1)
        await desk.answers(page, LONG[:4])
        async with page.expect_response("**/send"):
            await desk.ask(page, "Wait for me")
        await expect(page.locator("#queue-list li span")).to_have_text(["Wait for me"])
        await page.locator(BOX).fill("a thought")
        model.let_all()
        await desk.press(page, "Approve", status="finished")
        # The run that was paused has ended without reading it.
        await expect(page.locator(BOX)).to_have_value("Wait for me\na thought")
        await expect(page.locator("#queue")).to_be_hidden()


async def test_what_is_typed_while_a_message_is_sent_is_kept_also_when_it_cannot_be_sent(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.serve(model):
        page = await desk.open()
        async with held(page, "**/api/runs") as started:
            await desk.ask(page)
            await started.wait()
            await page.locator(BOX).press_sequentially("first")
        await desk.status(page, "running")
        await expect(page.locator(BOX)).to_have_value("first")
        await expect(page.locator(BOX)).to_be_focused()
        async with held(page, "**/send") as sent:
            await page.keyboard.press("Enter")
            await sent.wait()
            await page.locator(BOX).press_sequentially("second")
        await expect(page.locator("#composer-send")).to_be_enabled()
        await expect(page.locator(BOX)).to_have_value("second")
        made, free = asyncio.Event(), asyncio.Event()

        async def refuse(route: Route) -> None:
            made.set()
            await free.wait()
            await route.abort()

        await page.route("**/send", refuse)
        await desk.ask(page, "third")
        await made.wait()
        await page.locator(BOX).press_sequentially("fourth")
        free.set()
        await expect(page.locator(BOX)).to_have_value("third\nfourth")
        await expect(page.locator("#composer-note")).to_contain_text("cannot be reached")
        await expect(page.locator("#queue-list li span")).to_have_text(["first"])
    desk.problems.clear()  # the browser reports the request that was cut


@pytest.mark.slow
async def test_a_draft_belongs_to_its_run_and_outlives_a_reload(desk: Desk) -> None:
    model = GatedModel([say(LONG), say(LONG)])
    async with desk.serve(model) as server:
        for text in ("One", "Two"):
            server.state.runs.start(text)
        page = await desk.open()
        box = page.locator(BOX)
        one, two = (page.locator("#run-list a", has_text=text) for text in ("One", "Two"))
        await box.fill("for a new run")
        await one.click()
        await expect(box).to_have_value("")
        await box.fill("for the first")
        await two.click()
        await expect(box).to_have_value("")
        await box.fill("for the second")
        await page.reload()
        await expect(box).to_have_value("for the second")
        await one.click()
        await expect(box).to_have_value("for the first")
        await desk.press(page, "New run")
        await expect(box).to_have_value("for a new run")
        await one.click()
        await page.locator("#composer-send").click()
        await expect(page.locator("#queue-list li span")).to_have_text(["for the first"])
        # The server has accepted it: a reload before that would cancel the request.
        accepted = (
            "Object.entries(sessionStorage).some(([k, v]) => k.includes('outbox') && v.includes('for the first'))"
        )
        await page.wait_for_function(accepted)
        await page.reload()
        await expect(page.locator("#queue-list li span")).to_have_text(["for the first"])
        await expect(box).to_have_value("")


async def test_a_message_for_the_end_of_a_run_waits_for_it(desk: Desk) -> None:
    model = GatedModel([say(LONG), say("Done.")])
    async with desk.asking(model) as page:
        model.let(1)
        await desk.answers(page, LONG[:4])
        await page.locator(BOX).fill("More")
        await page.get_by_role("button", name="At the end", exact=True).click()
        await expect(page.locator("#queue-list li span")).to_have_text(["More"])
        await expect(page.locator(BOX)).to_have_value("")
        model.let_all()
        await desk.status(page, "finished")
        await desk.answers(page, LONG, "Done.")
        await expect(page.locator(".message.user .text")).to_have_text(["Go", "More"])


@pytest.mark.parametrize("by", one_of(["Now", "Control+Enter"]))
async def test_a_message_cuts_off_the_answer_that_is_being_written(desk: Desk, by: str) -> None:
    model = GatedModel([say(LONG), say("Done.")])
    async with desk.asking(model) as page:
        now = page.get_by_role("button", name="Now", exact=True)
        model.let(1)
        await desk.answers(page, LONG[:4])
        await page.locator(BOX).fill("Stop")
        if by == "Now":
            await page.keyboard.press("Tab")
            await expect(now).to_be_focused()
            await page.keyboard.press("Enter")
        else:
            await page.keyboard.press(by)
        await expect(page.locator(".message.user .text")).to_have_text(["Go", "Stop"])
        model.let_all()
        await desk.status(page, "finished")
        await desk.answers(page, LONG[:4], "Done.")
        await expect(now).to_be_hidden()
        await expect(page.locator(BOX)).to_have_value("")
