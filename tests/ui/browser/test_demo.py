"""What ``rxworker demo --web`` shows in a real browser."""

from __future__ import annotations

from playwright.async_api import expect

from rxworker import Worker
from rxworker.cli.demo_script import QUESTION, first_answer, make_book_room, make_forecast, second_answer
from rxworker.cli.serve import WATCHERS, watch_each
from rxworker.testing import ScriptedModel, stall
from tests.ui.browser.conftest import Desk


async def test_the_three_watchers_are_in_view_without_scrolling(desk: Desk) -> None:
    def make() -> Worker:
        # The watchers leave when the run pauses after the second answer, so that answer does not end.
        model = ScriptedModel([first_answer(), second_answer(books=True) + stall()])
        return Worker(model, tools=[make_forecast(fast=True), make_book_room(fast=True)])

    names = [name for name, _, _ in WATCHERS]
    async with desk.serve_workers(make, on_run=watch_each(fast=True)) as server:
        run = server.state.runs.start(QUESTION)
        page = await desk.open(f"#{run.id}")
        await page.set_viewport_size({"width": 1280, "height": 900})
        # All lanes and the line of the page itself move the watchers down: before that, they are in view anyhow.
        await expect(page.locator("#lanes .lane", has_text="book_room")).to_be_attached()
        await expect(page.locator("#watchers li")).to_contain_text([*names, "(this page)"])
        for name in names:
            line = page.locator("#watchers li", has_text=name)
            await expect(line).to_be_in_viewport(ratio=1)
