"""Screenshots of dashboards.

The views that ``docs/reference/boards.md`` makes, and the twenty runs of ``docs/how-to/dashboards.md``.

``python -m tests.ui.panel_screenshots`` makes them, into ``docs/pictures``. The panels are those of the page, whose
blocks are run for them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from playwright.async_api import Page, async_playwright

from rxworker import Worker, tool
from rxworker.boards import Dashboard, Panel
from rxworker.errors import RxWorkerError
from rxworker.panels import RUNS
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail, say
from rxworker.ui.web import WebServer
from tests.docs.test_blocks import blocks_of
from tests.ui.browser.conftest import CHROMIUM
from tests.ui.screenshots import ARGS, DOCS, shrink, used

PAGE = DOCS / "reference" / "boards.md"
PICTURES = DOCS / "pictures"
MODEL = "claude-sonnet-5-5"
CHART, SHOWN = ".u-over", ".board-value > *, .board-table tbody tr"
WIDE = {"table": 860, "lane": 560}
"""The width of the panels that need more than `NARROW`, in pixels."""
NARROW = 340
OWN_PAGE = """<!doctype html><html lang="en"><title>Views</title><link rel="icon" href="data:,">
<style>body {{ margin: 24px; background: white }} rx-panel {{ display: block; margin-bottom: 24px }}</style>
<script type="module" src="static/panel.js"></script>{panels}</html>"""


@tool
async def search(words: str) -> str:
    """Search the archive."""
    await asyncio.sleep(0.5)
    return f"a letter about {words}"


@tool
async def read_letter(name: str) -> str:
    """Read a letter."""
    await asyncio.sleep(0.9)
    return f"{name}: the roof leaks"


@tool
async def file_note(text: str) -> str:
    """File a note."""
    await asyncio.sleep(0.25)
    return "filed"


def answer(request: Request) -> Reply:
    """The answer of the scripted model: a search, a letter that is read, a note, and a text.

    The seventh question fails.
    """
    messages = request.conversation.messages
    asked = messages[0].text
    made = sum(len(message.tool_results) for message in messages)
    if asked.endswith(" 7?"):
        return fail("the service is down", retryable=False)
    letter = call("read_letter", name="March")
    if asked.endswith((" 1?", " 4?")):
        letter += call("read_letter", name="April")
    replies = [call("search", words="the roof"), letter, call("file_note", text="Leaks.")]
    if made < len(replies) + asked.endswith((" 1?", " 4?")):
        return replies[min(made, 2)] + used(900 + 250 * made, 40)
    text = "Two letters are about the roof. Both were written in March. The roof above the hall leaks."
    return say(text) + used(1_900, 210)


def make_worker() -> Worker:
    """A worker that needs a second or two."""
    model = ScriptedModel(answer, delay=0.02, model=MODEL)
    return Worker(model, tools=[search, read_letter, file_note])


def views() -> Dashboard:
    """The dashboard of the page."""
    names: dict[str, Any] = {"__name__": "views"}
    _, _, views = PAGE.read_text(encoding="utf-8").partition("## The views in pictures\n")
    for block in blocks_of(views):
        exec(block.code, names)  # the page is ours
    return Dashboard([value for name, value in names.items() if isinstance(value, Panel) and value.view == name])


async def ask(server: WebServer, number: int) -> None:
    """Start a run, and wait for its end."""
    run = make_worker().run(f"What is in room {number}?")
    server.add(run)
    with suppress(RxWorkerError):
        await run


async def explain(page: Page, server: WebServer) -> None:
    """The operators of a panel, on the page."""
    run = next(iter(server.state.runs))
    await page.goto(f"{server.url}?board=runs&of=all#{run.id}")
    await page.locator("#board-panel").scroll_into_view_if_needed()
    panel = page.locator('#board .board-panel[aria-label="Cost"]')
    await panel.get_by_role("button", name="X-ray").click()
    await panel.locator(".xray-marble").first.wait_for()
    await panel.screenshot(path=PICTURES / "xray.png")


async def main() -> None:
    """Make the screenshots."""
    shown = views()
    made = [PICTURES / f"panel-{each.view}.png" for each in shown.panels]
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = await browser.new_page(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
        page.on("pageerror", lambda error: print(error))
        async with WebServer(make_worker, port=0, dashboards=[shown]) as server:
            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(ask(server, number))
                    await asyncio.sleep(0.35)
            panels = "".join(
                f'<rx-panel src="api/boards/{shown.name}" panel="{each.name}" '
                f'style="width: {WIDE.get(each.view, NARROW)}px"></rx-panel>'
                for each in shown.panels
            )
            html = OWN_PAGE.format(panels=panels)
            await page.route("**/own", lambda route: route.fulfill(body=html, content_type="text/html"))
            await page.goto(f"{server.url}own")
            for each, path in zip(shown.panels, made, strict=True):
                panel = page.locator(f'rx-panel[panel="{each.name}"] .board-panel')
                await panel.locator(CHART if each.view in ("line", "area") else SHOWN).first.wait_for()
                await panel.screenshot(path=path)
        async with WebServer(make_worker, port=0, dashboards=[RUNS]) as server:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(ask(server, number))
                    await asyncio.sleep(0.2)
            await page.goto(f"{server.url}boards/runs")
            await page.locator(".board-table tbody tr").nth(19).wait_for()
            await page.locator(CHART).first.wait_for()
            await page.screenshot(path=PICTURES / "dashboard.png", clip={"x": 0, "y": 0, "width": 1280, "height": 700})
            await explain(page, server)
        await browser.close()
    shrink([*made, PICTURES / "dashboard.png", PICTURES / "xray.png"])


if __name__ == "__main__":
    asyncio.run(main())
