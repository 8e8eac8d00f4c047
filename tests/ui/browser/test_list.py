"""The list of conversations: grouped, searched, filtered, and moved through by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rxworker import Worker
from rxworker.log import Replica, SQLiteLog
from rxworker.messages import Prices
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import Settings, WebServer

if TYPE_CHECKING:
    from conftest import Desk, GatedModel

pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_conversation_is_one_line_with_its_earlier_runs_below(
    desk: Desk, gated: type[GatedModel]
) -> None:
    async with desk.serve(gated([say("First."), say("Second.")], free=True)):
        page = await desk.open()
        await desk.ask(page, "Begin")
        await desk.status(page, "finished")
        await desk.ask(page, "More")
        await desk.answers(page, "First.", "Second.")
        line = page.locator("#run-list > li")
        await expect(line).to_have_count(1)
        await expect(line.locator("> a .run-line-title")).to_have_text("More")
        await expect(line.locator("> a .run-line-more")).to_have_text("2 runs")
        await line.locator(".run-earlier a").click()
        await expect(page.locator("#run-list [aria-current]")).to_contain_text("Begin")
        await expect(line).to_have_count(1)
        # Without a selection the earlier runs are folded.
        await desk.press(page, "New run")
        await expect(line.locator(".run-earlier")).to_have_count(0)


async def test_runs_are_found_by_their_texts_and_the_keyboard_alone_opens_them(
    desk: Desk, tmp_path: Path
) -> None:
    answers = iter(["An old silent pond.", "Rain.", "Hail.", "Snow."])

    def make() -> Worker:
        return Worker(ScriptedModel([next(answers)]))

    async with (
        SQLiteLog(tmp_path / "runs.db") as log,
        WebServer(make, port=0, log=log) as server,
    ):
        for text in ("A haiku", "The weather", "And tomorrow"):
            run = server.state.runs.start(text).run
            assert isinstance(run, Replica)
            await run.ended()
        page = await desk.open(url=server.url)
        lines = page.locator("#run-list > li")
        await expect(lines).to_have_count(3)
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("/")
        await page.keyboard.type("weath")
        await expect(lines).to_have_count(1)
        await page.keyboard.press("Escape")
        await expect(lines).to_have_count(3)
        await page.keyboard.type("POND")
        await expect(lines.locator(".run-line-excerpt")).to_have_text("An old silent pond.")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await desk.answers(page, "An old silent pond.")
        await page.keyboard.press("ArrowUp")
        await expect(page.locator("#run-search")).to_be_focused()
        await page.keyboard.type("nothing")
        await expect(page.locator("#no-runs")).to_have_text("No run matches.")
        # A run that matches later appears.
        await page.locator("#run-search").fill("snow")
        await expect(page.locator("#no-runs")).to_have_text("No run matches.")
        server.state.runs.start("More")
        await expect(lines.locator(".run-line-excerpt")).to_have_text("Snow.")
        await desk.close()


async def test_numbers_are_estimates_while_a_response_streams_and_belong_to_a_run_or_all(
    desk: Desk, gated: type[GatedModel]
) -> None:
    model = gated([say("An old silent pond. A frog.")])
    settings = Settings(title="Desk", prices={"gated-1": Prices(input=100.0, output=1000.0)})
    async with desk.serve(model, settings=settings):
        page = await desk.open()
        await desk.ask(page, "A haiku!")
        model.let(1)
        figures = page.locator("#figures > div")
        await expect(figures.nth(0)).to_contain_text("≈")
        await expect(figures.nth(1)).to_contain_text("≈")
        model.let_all()
        await desk.status(page, "finished")
        await expect(figures.nth(0)).to_have_text("Tokens15")
        await expect(page.locator("#models tbody tr")).to_have_text("gated-11150.00600 USD")
        await expect(figures.nth(1)).to_have_text("Cost0.00600 USD")
        await page.locator("#numbers-scope").get_by_role("button", name="All runs").click()
        await expect(figures.nth(0)).to_have_text("Runs1")
        await expect(page.locator("#models")).to_be_hidden()


async def test_head_and_panels_show_the_same_tokens_in_each_frame(
    desk: Desk, gated: type[GatedModel]
) -> None:
    model = gated([say("An old silent pond. A frog jumps into the pond. Splash! Silence again.")])
    async with desk.serve(model):
        page = await desk.open()
        await desk.ask(page, "A haiku!")
        await page.evaluate(
            """() => {
              globalThis.seen = new Set();
              const text = (at) => document.querySelector(at)?.textContent ?? "", whole = (at) => (text(at).match(/\\d+/g) ?? []).reduce((sum, n) => sum + Number(n), 0);
              (function look() {
                const head = Number(/(\\d+) tokens/.exec(text("#run-facts"))?.[1]);
                if (head > 0) globalThis.seen.add([head, whole("#figures > div > dd"), whole("#tokens-caption")].join(" "));
                requestAnimationFrame(look);
              })();
            }"""
        )
        # A frame shows a part of the tokens, and the rest follows only then.
        model.let(2)
        await expect(page.locator("#run-facts")).to_contain_text("≈")
        await page.wait_for_function("globalThis.seen.size")
        model.let_all()
        await desk.status(page, "finished")
        await expect(page.locator("#tokens-caption")).not_to_contain_text("≈")
        await page.wait_for_function("globalThis.seen.size > 1")
        seen: list[str] = await page.evaluate("[...globalThis.seen]")
        assert all(len(set(one.split())) == 1 for one in seen), seen
