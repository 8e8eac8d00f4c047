"""A page over servers that share a log: it outlives each of them, and receives each record once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.async_api import expect

from rxworker import Worker, tool
from rxworker.log import Replica, SQLiteLog
from rxworker.log.format import records_of
from rxworker.providers import Request
from rxworker.state import fold_run
from rxworker.testing import Reply, ScriptedModel, call, fail, say
from rxworker.ui.web import WebServer
from rxworker.ui.web.runs.workers import MakeServedWorker
from tests.ui.browser.conftest import Desk, GatedModel

Makers = Mapping[str, MakeServedWorker]


@asynccontextmanager
async def serve(desk: Desk, file: Path, makers: Makers, *, closes: bool = True) -> AsyncGenerator[WebServer, None]:
    """A server of a process of its own, as far as the log knows."""
    async with SQLiteLog(file, lease=1.0) as log, desk.serve_workers(makers, log=log, closes=closes) as server:
        yield server


@pytest.mark.slow
async def test_the_page_outlives_its_server(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    model = GatedModel([say("One. Two. Three.")] * 2)
    clerk: Makers = {"clerk": desk.maker(model, name="clerk")}
    async with serve(desk, file, clerk, closes=False):
        page = await desk.asked("Count.")
        model.let(2)
        await desk.answers(page, "One. Two")
        run = desk.runs[0].id
    await expect(page.locator("#link")).not_to_have_attribute("data-state", "open")

    other: Makers = {"other": desk.maker(model, name="other")}
    async with serve(desk, file, other, closes=False):
        await expect(page.locator("#link")).to_have_attribute("data-state", "open")
        await desk.status(page, "recovering")
        assert "is being recovered" in (await page.locator("#run-status").get_attribute("title") or "")

    async with serve(desk, file, clerk):
        await desk.status(page, "running")
        model.let_all()
        await desk.status(page, "finished")
        await desk.answers(page, "One. Two. Three.")
        async with SQLiteLog(file) as log:
            stored = [*records_of([entry async for entry in log.read(run)], run)]
        received = [record for record in desk.received[page] if record.run_id == run]
        assert received[0].first == 1
        for one, next_one in pairwise(received):
            assert next_one.first == one.seq + 1
        assert received[-1].seq == stored[-1].seq
        assert fold_run(received).conversation == fold_run(stored).conversation
    # The browser reports each attempt to connect to a server that is not there.
    desk.problems[:] = [one for one in desk.problems if "ERR_CONNECTION_REFUSED" not in one]


@tool(effect="idempotent")
async def look(where: str) -> str:
    """Look."""
    return f"nothing {where}"


async def test_a_run_of_an_earlier_server_is_opened_and_forked(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"

    def make() -> Worker:
        answers = [call("look", where="there"), say("Nothing is there.")]
        return Worker(ScriptedModel(answers), tools=[look], name="clerk")

    def make_other() -> Worker:
        return Worker(ScriptedModel([say("It is a secret.")]), tools=[look], name="clerk")

    async with serve(desk, file, {"clerk": make}) as server:
        run = server.state.runs.start("What is there?").run
        assert isinstance(run, Replica)
        await run.ended()
    async with serve(desk, file, {"clerk": make_other}) as server:
        page = await desk.open(f"#{run.id}")
        await desk.status(page, "finished")
        await desk.answers(page, "Nothing is there.")
        async with SQLiteLog(file) as log:
            [after_the_tool] = [entry.last async for entry in log.read(run.id) if entry.kind == "tool_stop"]
        await page.goto(f"{server.url}#{run.id}@{after_the_tool}")
        await desk.answers(page)
        await page.locator("#time-fork").click()
        await desk.answers(page, "It is a secret.")
        await desk.status(page, "finished")
        assert not page.url.endswith(f"#{run.id}")
        await expect(page.locator("#runs .run-line-title")).to_have_count(2)


@pytest.mark.slow
async def test_a_run_is_rated_and_all_see_it_and_its_length_remains(desk: Desk, tmp_path: Path) -> None:
    makers: Makers = {"clerk": desk.maker(ScriptedModel([say("An old pond.")]), name="clerk")}
    async with serve(desk, tmp_path / "runs.db", makers):
        page = await desk.asked("A haiku.")
        await desk.status(page, "finished")
        other = await desk.open(f"#{desk.runs[0].id}")
        await desk.status(other, "finished")
        facts = await page.locator("#run-facts").inner_text()
        await desk.press(page, "Poor")
        await page.get_by_label("Why?").fill("It has no frog.")
        await page.keyboard.press("Enter")
        for each in (page, other):
            await expect(each.locator(".stream")).to_contain_text("Annotation: rating")
            await expect(each.locator(".stream")).to_contain_text("poor · It has no frog.")
            await desk.status(each, "finished")
            assert await each.locator("#run-facts").inner_text() == facts
        await expect(page.get_by_role("button", name="Poor")).to_be_focused()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("good")
        await page.keyboard.press("Enter")
        await page.get_by_label("Why?").press("Enter")
        await expect(other.locator(".stream")).to_contain_text("Annotation: ratinggood")
        assert desk.problems == []


@pytest.mark.slow
async def test_a_failed_run_is_put_back_on_its_page_and_on_that_of_all_runs(desk: Desk, tmp_path: Path) -> None:
    is_out = True

    def answer(request: Request) -> Reply:
        return fail("The cable is out.", "bad_request") if is_out else say("It is in.")

    makers: Makers = {"clerk": desk.maker(ScriptedModel(answer), name="clerk")}
    async with serve(desk, tmp_path / "runs.db", makers) as server:
        page = await desk.open()
        other = await desk.open()
        await desk.ask(page, "First.", status="failed")
        again = page.get_by_role("button", name="Answer again")
        await expect(again.locator("..")).to_have_css("opacity", "1")  # without the pointer above it
        run = desk.runs[0].id
        await other.goto(f"{server.url}#{run}")
        await desk.status(other, "failed")
        await desk.press(page, "New run")
        await desk.ask(page, "Second.", status="failed")
        await expect(page.get_by_role("button", name="Put back")).to_be_visible()
        is_out = False
        await desk.press(other, "Put back")
        await desk.status(other, "finished")
        await desk.answers(other, "It is in.")
        await page.goto(server.url + "fleet")
        rows = page.locator("#fleet-rows tr")
        await expect(rows.locator(".status")).to_have_text(["failed", "finished"])
        await desk.press(page, "Put back: Second.")
        await expect(rows.locator(".status")).to_have_text(["finished", "finished"])
        await expect(rows.get_by_role("button")).to_have_count(0)


async def test_a_conversation_that_no_worker_of_the_server_can_continue_takes_no_message(
    desk: Desk, tmp_path: Path
) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        run = Worker(ScriptedModel(["Hello."]), name="clerk", log=log).run("Hi")
        await run
        other: Makers = {"other": desk.maker(GatedModel([]), name="other")}
        async with desk.serve_workers(other, log=log):
            page = await desk.open(f"#{run.id}")
            await desk.answers(page, "Hello.")
            label = page.get_by_label("No worker of this server can go on with this conversation")
            await expect(label).to_be_disabled()
            await expect(page.locator("#composer-send")).to_be_disabled()
            await page.locator("#new-run").click()
            await expect(page.locator("#composer-input")).to_be_enabled()
