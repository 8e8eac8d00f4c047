"""The page in a real browser: runs appear as they happen, whatever becomes of the connection."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from rxworker import tool
from rxworker.events import Record
from rxworker.testing import ScriptedModel, call, fail, say, think
from tests.ui.browser.conftest import Desk, GatedModel, Proxy

LONG = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
ATTACK = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script> & done"


async def test_text_appears_as_it_is_written_and_whole_after_a_reload(desk: Desk) -> None:
    model = GatedModel([think("Hm.") + say(LONG)])
    async with desk.asking(model) as page:
        model.let(3)
        await desk.answers(page, LONG[:12])
        await desk.status(page, "running")
        desk.received[page].clear()
        await page.reload()
        await desk.answers(page, LONG[:12])
        model.let_all()
        await desk.answers(page, LONG)
        await desk.status(page, "finished")
        await desk.same(page, desk.runs[0])
        await expect(page.locator("#lanes .lane")).to_have_count(2)
        await expect(page).to_have_title("Go · Desk")


@pytest.mark.slow
async def test_three_tabs_show_the_same(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.asking(model) as first:
        model.let(2)
        await desk.answers(first, LONG[:8])
        address = f"#{desk.runs[0].id}"
        pages = [first, await desk.open(address), await desk.open(address)]
        for page in pages:
            await desk.answers(page, LONG[:8])
        await expect(first.locator("#watchers li")).to_have_count(3)
        model.let_all()
        for page in pages:
            await desk.answers(page, LONG)
            await desk.same(page, desk.runs[0])


async def test_a_connection_that_is_cut_again_and_again_loses_and_doubles_nothing(
    desk: Desk, make_proxy: type[Proxy]
) -> None:
    model = GatedModel([say(LONG)])
    async with desk.serve(model), make_proxy(desk).open() as proxy:
        page = await desk.open(url=proxy.url)
        await desk.ask(page)
        for cut in range(1, 5):
            model.let(2)
            await desk.answers(page, LONG[: 8 * cut])
            proxy.cut()
            await expect(page.locator("#banner")).to_contain_text("connection was lost")
            proxy.is_cut = False
            # The waits between attempts grow: the browser says that the network is back.
            await page.evaluate("dispatchEvent(new Event('online'))")
            await expect(page.locator("#link")).to_have_text("Connected")
            await expect(page.locator("#banner")).to_be_hidden()
        model.let_all()
        await desk.answers(page, LONG)
        await desk.same(page, desk.runs[0])
    desk.problems.clear()  # the browser tells of each lost connection


async def test_after_a_restart_of_the_server_the_page_shows_what_is_gone_and_works_on(desk: Desk) -> None:
    first, second = GatedModel([say(LONG)]), GatedModel([say("New words.")], free=True)
    async with desk.asking(first, closes=False) as page:
        first.let(2)
        await desk.answers(page, LONG[:8])
        await expect(page.locator("#run-title")).to_have_text("Go")  # its title comes with the list of runs
        port = desk.port
    async with desk.serve(second, port=port):
        await expect(page.locator("#banner")).to_contain_text("Gone: “Go”")
        await desk.status(page, "gone")
        await desk.answers(page, LONG[:8])
        # It has neither a cursor nor a clock.
        await expect(page.locator("#conversation .block.text")).to_have_attribute("data-phase", "aborted")
        await expect(page.locator("#lanes .lane")).to_have_attribute("data-state", "aborted")
        await expect(page.locator("#no-watchers")).to_contain_text("does not know this run")
        bar = "document.querySelector('.bar.written').style.getPropertyValue('--for')"
        seconds = "document.querySelector('#run-facts').textContent"
        before = await page.evaluate(f"[{bar}, {seconds}]")
        # Longer than the page's clock ticks, in its own time.
        await page.evaluate("new Promise((done) => setTimeout(done, 500))")
        assert await page.evaluate(f"[{bar}, {seconds}]") == before
        await expect(page.locator("#run-title")).to_have_text("Go")
        await expect(page.locator("#run-list li")).to_have_count(0)
        await desk.ask(page, "Again")
        await desk.answers(page, "New words.")
        await desk.same(page, desk.runs[1])
    desk.problems.clear()  # the browser tells of the lost connection


async def test_text_of_users_and_models_stays_text(desk: Desk) -> None:
    @tool
    async def look(where: str) -> str:
        """Look."""
        return f"{ATTACK} {where}"

    replies = [think(ATTACK) + say(ATTACK) + call("look", where=ATTACK), say("Done")]
    async with desk.asking(GatedModel(replies, free=True), [look], text=ATTACK, status="finished") as page:
        await desk.answers(page, ATTACK, "Done")
        await expect(page.locator("#conversation img, #conversation script")).to_have_count(0)
        await page.locator(".call summary").click()
        await expect(page.locator(".call .result")).to_have_text(f"{ATTACK} {ATTACK}")
        assert "owned" not in (await page.title()).replace(ATTACK, "")


async def test_retracted_text_is_struck_through(desk: Desk) -> None:
    half = say("This goes wr") + fail("Overloaded", "overloaded", retryable=True)
    async with desk.asking(ScriptedModel([half, say("This goes well.")]), status="finished") as page:
        await desk.answers(page, "This goes well.")
        gone = page.locator(".block.retracted")
        await expect(gone.locator(".text")).to_have_text("This goes wr")
        await expect(gone.locator(".speaker")).to_have_text("Answer, retracted")
        await expect(gone.locator(".text")).to_have_css("text-decoration-line", "line-through")
        await expect(page.locator("#notes")).to_contain_text("Overloaded")


async def test_a_long_answer_is_followed_to_its_end(desk: Desk) -> None:
    text = ("Lorem ipsum dolor sit amet, consectetur adipiscing elit. " * 3 + "\n\n") * 2_000
    async with desk.asking(GatedModel([say(text, chunk=200)], free=True), status="finished") as page:
        [run] = desk.runs
        await page.wait_for_selector(f"#conversation[data-seq='{run.last_seq}']")
        desk.check(page, run)
        # The browser only guesses how high what is far away is.
        talk = await page.locator("#conversation").element_handle()
        at_end = "(n) => n.scrollHeight - n.scrollTop - n.clientHeight < 48"
        await page.wait_for_function(at_end, arg=talk)
        await expect(page.locator("#latest")).to_be_hidden()


@pytest.mark.slow
async def test_an_unknown_run_is_shown_as_gone_and_a_conversation_goes_on_with_the_next_run(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("First."), say("Second.")], free=True), dashboards=None):
        page = await desk.open("#run-of-yesterday")
        await expect(page.locator("#welcome-title")).to_have_text("This run is gone")
        for hidden in ("#run-head", "#side", "#banner"):
            await expect(page.locator(hidden)).to_be_hidden()
        await desk.ask(page)
        await desk.answers(page, "First.")
        await expect(page.locator("#welcome")).to_be_hidden()
        await desk.status(page, "finished")
        await expect(page.locator("#run-facts")).to_contain_text("15 tokens")
        await expect(await desk.usage(page, "Tokens")).to_have_text("15")
        kinds = await desk.usage(page, "Tokens by kind", "tr")
        await expect(kinds).to_have_text(["read10", "written5"])
        await desk.ask(page, "More")
        await desk.answers(page, "First.", "Second.")
        await expect(page.locator("#run-list li")).to_have_count(2)
        await page.locator("#run-list li").nth(1).locator("a").click()
        await desk.answers(page, "First.")
        await page.go_back()
        await desk.answers(page, "First.", "Second.")


def stumble(_record: Record) -> None:
    """Watch, and fall."""
    raise RuntimeError("stumbled")


async def test_watchers_are_shown_with_how_far_behind_they_are_and_one_that_was_detached(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.asking(model) as page:
        model.let(1)
        await desk.answers(page, LONG[:4])
        leaves, batches = (desk.runs[0].watch(name=name).batches() for name in ("leaver", "sleeper"))
        for each in (leaves, batches):
            await anext(each)
        model.let(8)
        await desk.answers(page, LONG[:36])
        line = page.locator("#watchers li", has_text="leaver")
        await expect(line.locator(".watcher-lag")).to_have_text("8 behind")
        await leaves.aclose()
        await expect(line).to_have_count(0)
        raises = desk.runs[0].watch(name="clumsy").subscribe(stumble)
        model.let_all()
        await desk.status(page, "finished")
        await expect(page.locator("#notes li.warn")).to_contain_text("clumsy: ")
        raises.dispose()
        lag = page.locator("#watchers li", has_text="sleeper").locator(".watcher-lag")
        await expect(lag).to_contain_text("behind")
        await expect(page.locator("#watchers-note")).to_contain_text("catching up")
        async for _ in batches:
            pass
        # Whoever has seen all of it has left.
        await expect(lag).to_have_count(0)
        await expect(page.locator("#no-watchers")).to_contain_text("The run has ended")
        await expect(page.locator("body")).not_to_contain_text("Nobody watches")
