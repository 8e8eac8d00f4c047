"""The page in a real browser: runs are steered, with the mouse, the keyboard, and on a phone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

from rxworker import tool
from rxworker.messages import ToolMeta
from rxworker.state import fold_run
from rxworker.testing import Call, Reply, call, say
from rxworker.tools import ClientTool
from tests.ui.browser.conftest import Desk, GatedModel

LONG = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
deleted: list[str] = []


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return f"{path} is gone"


@tool
async def look() -> str:
    """Look."""
    return "nothing"


@pytest.fixture(autouse=True)
def nothing_deleted() -> None:
    deleted.clear()


async def test_calls_are_approved_with_other_arguments_and_denied_with_a_reason(desk: Desk) -> None:
    twins = tuple([Call("delete", {"path": path}, "x") for path in ("a.txt", "b.txt")])
    replies = [
        *(say("May I?") + call("delete", path="a.txt"), say("It is gone.")),
        *(Reply(tool_calls=twins), say("One of them."), call("open_tab"), say("It is shut.")),
    ]
    open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"}))
    async with desk.asking(GatedModel(replies, free=True), [delete, open_tab]) as page:
        await desk.press(page, "JSON")
        field = page.locator("#approval-input")
        await expect(field).to_have_value('{\n  "path": "a.txt"\n}')
        await field.fill('{"path": ')
        await desk.press(page, "Approve with changes")
        await expect(page.locator("#approval-error")).to_contain_text("not valid JSON")
        await expect(field).to_be_focused()
        await field.fill("[1]")
        await desk.press(page, "Approve with changes")
        await expect(page.locator("#approval-error")).to_contain_text("object")
        assert deleted == []
        await field.fill('{"path": "b.txt"}')
        await desk.press(page, "Approve with changes", status="finished")
        assert deleted == ["b.txt"]
        await expect(page.locator("#approval")).to_be_hidden()
        await expect(page.locator(".call .outcome")).to_have_text("b.txt is gone")
        await expect(page.locator(".call .call-brief")).to_have_text("changed: path: b.txt")
        await desk.same(page, desk.runs[1])
        # A run that was resumed is one line with the one that went on.
        await expect(page.locator("#run-list li")).to_have_count(1)

        # Two calls of one id are decided about one by one.
        deleted.clear()
        await desk.press(page, "New run")
        await desk.ask(page)
        await desk.press(page, "Form")
        field = page.locator("#approval .field input")
        await expect(field).to_have_value("a.txt")
        await page.get_by_label("Reason for the model").fill("it is needed")
        await desk.press(page, "Deny")
        await expect(field).to_have_value("b.txt")
        await desk.press(page, "Approve", status="finished")
        await expect(page.locator(".call .outcome", has_text="it is needed")).to_be_visible()
        await expect(page.locator("#composer-input")).to_be_enabled()
        assert deleted == ["b.txt"]
        # The page does not run the tool of another client: resumed without its result, a run pauses at it again.
        await desk.press(page, "New run")
        await desk.ask(page, status="paused")
        await expect(page.locator("#approval button")).to_have_text(["Deny"])
        await desk.press(page, "Deny", status="finished")
        await desk.same(page, desk.runs[-1])


@pytest.mark.slow
async def test_what_one_tab_decides_the_others_follow(desk: Desk) -> None:
    replies = [call("delete", path="a.txt"), say("Gone.")]
    async with desk.asking(GatedModel(replies, free=True), [delete]) as first:
        await expect(first.locator("#approval")).to_be_visible()
        other = await desk.open(f"#{desk.runs[0].id}")
        await expect(other.locator("#approval")).to_be_visible()
        await desk.press(first, "Approve")
        for page in (first, other):
            await desk.status(page, "finished")
            await desk.same(page, desk.runs[1])
        assert deleted == ["a.txt"]


async def test_a_run_is_cancelled_and_another_is_paused_and_resumed(desk: Desk) -> None:
    model = GatedModel([say(LONG), say(LONG) + call("look"), say("Nothing.")])
    async with desk.asking(model, [look]) as page:
        model.let(2)
        await expect(page.locator(".block.text .text")).to_have_text(LONG[:8])
        await desk.press(page, "Cancel")
        await desk.press(page, "Keep running", status="running")
        await desk.press(page, "Cancel")
        await desk.press(page, "Cancel now", status="cancelled")
        await expect(page.locator("#conversation .note")).to_contain_text("cancelled from the page")
        await expect(page.locator(".block.text")).to_have_attribute("data-phase", "aborted")
        await desk.same(page, desk.runs[0])

        await desk.press(page, "New run")
        await desk.ask(page)
        model.let(1)
        await expect(page.locator(".block.text .text")).to_have_text(LONG[:4])
        async with page.expect_response("**/pause"):
            await desk.press(page, "Pause")
        model.let_all()
        await desk.status(page, "paused")
        await page.locator("#approval .primary").click()
        await desk.status(page, "finished")
        await expect(page.locator(".block.text .text")).to_have_text([LONG, "Nothing."])
        await desk.same(page, desk.runs[2])


@pytest.mark.slow
async def test_everything_is_done_with_the_keyboard(desk: Desk) -> None:
    replies = [say("May I?") + call("delete", path="a.txt"), say("It is gone.")]
    async with desk.serve(GatedModel(replies, free=True), [delete]):
        page = await desk.open()
        keys = page.keyboard
        await expect(page.locator("#composer-input")).to_be_focused()
        await tab_to(page, ".skip")
        await keys.press("Enter")
        await expect(page.locator("#composer-input")).to_be_focused()
        await keys.type("Go")
        await keys.press("Enter")
        await expect(page.locator("#approval")).to_be_visible()
        await tab_to(page, "#approval .field input")
        await tab_to(page, "#approval .primary")
        await keys.press("Enter")
        await desk.status(page, "finished")
        assert deleted == ["a.txt"]
        await tab_to(page, "#theme")
        await keys.press("Space")
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await tab_to(page, "#run-list a")
        await tab_to(page, ".call summary")
        await keys.press("Enter")
        await expect(page.locator(".call .result")).to_be_visible()
        await tab_to(page, "#lanes .lane .lane-label")

        # Focus that a script has put on the conversation draws no ring.
        await page.evaluate("""async () => {
          const { placeFocus } = await import("/static/views/dom.js");
          placeFocus(document.getElementById("conversation"));
        }""")
        ring = """() => {
          const { activeElement: node } = document;
          return [node.id, getComputedStyle(node).outlineStyle];
        }"""
        assert await page.evaluate(ring) == ["conversation", "none"]
        await keys.press("Tab")
        await keys.press("Shift+Tab")
        await expect(page.locator("#conversation")).to_be_focused()
        assert await page.evaluate(ring) == ["conversation", "solid"]


async def tab_to(page: Page, selector: str) -> None:
    """Go on with Tab until something of this kind has the focus, which must be visible."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await page.evaluate("(s) => document.activeElement?.matches(s)", selector):
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert await page.evaluate(outline) != "none"
            return
    raise AssertionError(f"{selector} cannot be reached with the keyboard")


async def test_a_narrow_page_needs_no_sideways_scrolling_and_has_room_for_fingers(desk: Desk) -> None:
    replies = [say(LONG) + call("delete", path="a" * 200), say("Gone.")]
    async with desk.asking(
        GatedModel(replies, free=True),
        [delete],
        text="A question that is rather long for a page that is rather narrow",
        width=360,
    ) as page:
        await expect(page.locator("#approval")).to_be_visible()
        await fits(page)
        await desk.press(page, "Approve", status="finished")
        views = {"Timeline": "#lanes", "Numbers": "#watchers-title", "Conversation": "#conversation"}
        for view in views:
            await desk.press(page, view)
            for name, part in views.items():
                await expect(page.locator(part)).to_be_visible(visible=name == view)
            await fits(page)
        await desk.press(page, "Runs")
        await expect(page.locator("#run-list a")).to_be_visible()
        await fits(page)
        await page.keyboard.press("Escape")
        await expect(page.locator("#run-list a")).to_be_hidden()


async def fits(page: Page) -> None:
    """Nothing is wider than the page, and what is pressed is large enough."""
    wide = "document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth"
    assert await page.evaluate(wide)
    small: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll("button, select, textarea, input, summary, .runs a")]
             .filter((n) => n.checkVisibility({ visibilityProperty: true }) && n.getBoundingClientRect().height < 40)
             .filter((n) => !n.closest(".message.system"))
             .map((n) => n.outerHTML.slice(0, 80))"""
    )
    assert small == []


async def test_the_theme_is_that_of_the_system_or_the_chosen_one_and_no_other_server_is_requested(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("Hello")], free=True)):
        page = await desk.open(scheme="dark")
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await desk.press(page, "Use light colours")
        asked: list[str] = []
        note: Callable[[object], None] = lambda request: asked.append(request.url)  # type: ignore[attr-defined]  # noqa: E731
        page.on("request", note)
        await page.reload()
        await expect(page.locator("html")).to_have_attribute("data-theme", "light")
        await desk.ask(page, status="finished")
        assert asked
        assert [url for url in asked if not url.startswith(desk.url)] == []


@pytest.mark.slow
async def test_a_screen_reader_announces_sentences_and_the_end_of_the_run_and_no_old_run(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.asking(model) as page:
        heard = page.locator("#announcer")
        model.let(4)
        await expect(page.locator(".block.text .text")).to_have_text(LONG[:16])
        await expect(heard).to_contain_text("One. Two.")
        assert re.search(r"[a-z]$", (await heard.inner_text()).strip()) is None
        model.let_all()
        await expect(heard).to_contain_text("Ten.")
        await expect(heard).to_contain_text("The run is finished")
        for name in ("banner", "navigation", "main"):
            await expect(page.get_by_role(name).first).to_be_visible()  # pyright: ignore[reportArgumentType]
        later = await desk.open()
        await later.locator("#run-list a").click()
        await desk.answers(later, LONG)
        await expect(later.locator("#announcer")).to_have_text("")


async def test_what_the_server_refuses_is_reported(desk: Desk) -> None:
    model = GatedModel([say(LONG), say("More")])
    async with desk.asking(model) as page:
        model.let(1)
        await expect(page.locator(".block.text .text")).to_have_text(LONG[:4])
        await page.route("**/send", lambda route: route.abort())
        await desk.ask(page, "Hello?")
        await expect(page.locator("#composer-note")).to_contain_text("cannot be reached")
        await expect(page.locator("#composer-input")).to_have_value("Hello?")
        model.let_all()
        await desk.status(page, "finished")
        await asyncio.wait_for(desk.runs[0], 60)
        records = desk.records_of(page, desk.runs[0])
        assert fold_run(records).status == "finished"
    desk.problems.clear()  # the browser tells of the request that was cut
