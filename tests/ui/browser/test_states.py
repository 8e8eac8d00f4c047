"""The page in every state: what went wrong, what hooks say, who was sent away, what needs a token."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from rxworker import Limits, Worker, before_tool_call, tool, worker_tool
from rxworker.hooks import ToolCallContext
from rxworker.testing import ScriptedModel, call, say, think
from rxworker.ui.web import Settings, make_app
from tests.ui.browser.conftest import Desk, GatedModel, Site

TOKEN = "a-very-secret-token"


@tool
async def look(where: str = "here") -> str:
    """Look."""
    return f"nothing {where}"


@before_tool_call(name="chatty")
def chatty(context: ToolCallContext) -> None:
    context.send_message("I have seen it.")
    context.send_system("Half of the budget is used.")
    context.send_debug("state", {"depth": 3})


async def test_a_limit_is_reported_once_with_what_to_do(desk: Desk) -> None:
    model = GatedModel(lambda _: call("look", where="again"), free=True)
    async with desk.asking(model, [look], limits=Limits(max_turns=2), status="stopped") as page:
        note = page.locator("#conversation .note")
        await expect(note).to_have_count(1)
        await expect(note).to_contain_text("Stopped by a limit")
        await expect(note).to_contain_text("raise the limit")


async def test_messages_of_hooks_are_shown_by_their_level(desk: Desk) -> None:
    replies = [call("look"), say("Nothing.")]
    async with desk.asking(GatedModel(replies, free=True), [look], hooks=[chatty], status="finished") as page:
        told = ["chattyI have seen it.", "chattyHalf of the budget is used."]
        await expect(page.locator("#conversation .note.info")).to_have_text(told)
        await expect(page.locator("#notes li")).to_have_count(3)
        await expect(page.locator("#notes .quiet .note-data")).to_have_text('{\n  "depth": 3\n}')


async def test_runs_three_deep_stand_within_one_another_also_two_at_once(desk: Desk) -> None:
    def inner() -> Worker:
        return Worker(ScriptedModel([call("look"), say("Deepest.")], delay=0.01), tools=[look])

    def middle() -> Worker:
        made = worker_tool(inner, name="inner", description="Goes deeper.")
        return Worker(ScriptedModel([call("inner", task="down"), say("Middle.")]), tools=[made])

    outer = worker_tool(middle, name="middle", description="Goes deep.")
    both = call("middle", task="go") + call("middle", task="too")
    async with desk.asking(ScriptedModel([both, say("Up.")]), [outer], status="finished") as page:
        deepest = page.locator(".call .inner .call .inner .block.text .text")
        await expect(deepest).to_have_text(["Deepest."] * 2)
        await page.set_viewport_size({"width": 1280, "height": 1600})
        await expect(page.locator("#lanes .lane")).to_have_count(11)
        depths = "(all) => all.map((lane) => lane.style.getPropertyValue('--depth'))"
        found = await page.locator("#lanes .lane").evaluate_all(depths)
        assert found == [*["1", "2", "3", "3", "2"] * 2, "1"]
        # A lane deep inside leads to its place.
        await page.locator("#lanes .lane .lane-label").nth(3).click()
        await expect(page.locator(".item.found")).to_contain_text("Deepest.")
        await desk.same(page, desk.runs[0])


@pytest.mark.slow
async def test_two_tabs_look_at_different_runs(desk: Desk) -> None:
    model = GatedModel([say("First. Words."), say("Second. Words.")])
    async with desk.serve(model):
        first, second = await desk.open(), await desk.open()
        await desk.ask(first, "One", status="running")
        await desk.ask(second, "Two", status="running")
        model.let_all()
        model.let(2)
        await desk.answers(first, "First. Words.")
        await desk.answers(second, "Second. Words.")
        for page, run in ((first, desk.runs[0]), (second, desk.runs[1])):
            await desk.same(page, run)
            await expect(page.locator("#run-list li")).to_have_count(2)
        assert desk.records_of(first, desk.runs[1]) == []


@pytest.mark.slow
async def test_the_page_works_with_a_token_below_another_address(desk: Desk, make_site: Site) -> None:
    model = GatedModel([think("Hm.") + say("Hello."), say("Again.")], free=True)
    app = make_app(desk.maker(model), settings=Settings(title="Desk", token=TOKEN))
    async with make_site("/desk/", app) as url:
        page = await desk.open(url=f"{url}desk/?token={TOKEN}")
        assert TOKEN not in page.url
        await desk.ask(page, status="finished")
        await desk.answers(page, "Hello.")
        await page.reload()
        await desk.answers(page, "Hello.")
        await expect(page.locator("#run-list li")).to_have_count(1)
        await desk.close()


async def test_a_server_that_wants_another_token_is_not_taken_for_a_lost_connection(desk: Desk) -> None:
    model = GatedModel([say("Hello.")], free=True)
    settings = Settings(title="Desk", token=TOKEN)
    async with desk.serve(model, settings=settings, closes=False):
        page = await desk.open(f"?token={TOKEN}")
        port = desk.port
    async with desk.serve(model, settings=Settings(token=TOKEN[::-1]), port=port):
        await expect(page.locator("#banner")).to_contain_text("needs its token")
    desk.problems.clear()  # the browser tells of what was refused


async def test_a_long_list_of_runs_is_shown_in_parts(desk: Desk) -> None:
    model = GatedModel(lambda _: say("Hello."), free=True)
    settings = Settings(title="Desk", max_kept=200, max_runs=200)
    async with desk.serve(model, settings=settings) as server:
        for n in range(120):
            server.state.runs.start(f"Question {n}")
        await asyncio.gather(*desk.runs)
        page = await desk.open()
        await expect(page.locator("#run-list li")).to_have_count(50)
        await desk.press(page, "Show older runs (70)")
        await expect(page.locator("#run-list li")).to_have_count(100)
        await expect(page.locator("#run-list li a").nth(50)).to_be_focused()
        # The run that is looked at is always among them.
        other = await desk.open(f"#{desk.runs[0].id}")
        await expect(other.locator("#run-list [aria-current]")).to_contain_text("Question 0")
