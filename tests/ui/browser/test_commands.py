"""Shortcuts, the palette, links to a moment or an entry, and runs that are saved as files."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from rxworker import tool
from rxworker.testing import call, say, think
from tests.ui.browser.conftest import Desk, GatedModel

EVIL = "<img src=x onerror=alert(1)> </style><script>alert(2)</script>"
CODE = "```python\nprint('</script>')\n```"
ANSWER = f"**Bold** {EVIL}\n\n[bad](javascript:alert(3)) ![far](https://far.example/a.png) $x^2$\n\n{CODE}"


@tool
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: ```nothing``` {EVIL}"


def talk() -> list[Any]:
    return [think("Hm.") + say("Let me look.") + call("look", place=EVIL), say(ANSWER)]


SENTENCE = "fix the bug now, please? 3 tests, just yes"


@pytest.mark.slow
async def test_what_is_typed_goes_into_the_message_box_and_every_shortcut_is_listed_once(desk: Desk) -> None:
    """No key without a modifier starts a run, changes a setting or leaves the run; Escape closes what is open."""
    async with desk.serve(GatedModel(talk(), free=True), [look]):
        page = await desk.open()
        field, keys = page.locator("#composer-input"), page.keyboard
        await expect(field).to_be_focused()
        await desk.ask(page, status="finished")
        await page.reload()
        await expect(field).to_be_focused()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(f"{request.method} {request.url}"))
        address, theme = page.url, await page.locator("html").get_attribute("data-theme")
        places = ["#run-title", "#conversation", "#run-list a", "#lanes .row .lane-name", "#side"]
        for place in [None, *places]:
            await field.fill("")
            if place is not None:
                await page.locator(place).first.click(position={"x": 3, "y": 3})
            if await page.locator("#inspector").is_visible():
                await keys.press("Escape")
            typed = SENTENCE if place is None else "".join(dict.fromkeys(SENTENCE))  # each key once
            await keys.type(typed)
            await expect(field).to_have_value(typed)
            await expect(field).to_be_focused()
        assert page.url == address
        assert len(desk.runs) == 1
        assert not [each for each in requests if not each.startswith("GET")]
        assert await page.locator("html").get_attribute("data-theme") == theme
        await field.fill("")
        await field.focus()
        await keys.press("?")
        await expect(field).to_have_value("?")  # a field takes the key itself
        await field.fill("")
        await keys.press("Escape")
        await expect(field).not_to_be_focused()
        await keys.press("?")
        sheet = page.get_by_role("dialog", name="Keyboard shortcuts")
        await expect(sheet).to_be_visible()
        names = await sheet.locator("dt").all_text_contents()
        assert len(names) == len(set(names)) > 7
        await keys.press("Escape")
        await expect(sheet).to_be_hidden()
        await keys.press(",")
        await expect(page.locator("#time-bar")).to_have_attribute("data-past", "true")
        await keys.press("Escape")
        await expect(page.locator("#time-bar")).to_have_attribute("data-past", "false")
        await page.locator("#lanes .row .lane-name").first.click()
        await expect(page.locator("#inspector")).to_be_visible()
        await keys.press("Escape")
        await expect(page.locator("#inspector")).to_be_hidden()
        await keys.press("?")
        await page.get_by_label("Use shortcuts of a single key").uncheck()
        await keys.press("Escape")
        await page.locator("#run-title").click()
        await keys.press("?")
        await expect(sheet).to_be_hidden()  # it is switched off
        await expect(field).to_have_value("?")


async def test_a_phone_does_not_open_its_keyboard(desk: Desk) -> None:
    async with desk.serve(GatedModel([])):
        page = await desk.open(width=390, has_touch=True, is_mobile=True)
        await expect(page.locator("#composer-input")).not_to_be_focused()


async def test_the_palette_finds_commands_and_runs_by_some_letters(desk: Desk) -> None:
    async with desk.asking(
        GatedModel([say("A."), say("B.")], free=True), text="The weather in Lisbon", status="finished"
    ) as page:
        await page.locator("#new-run").click()
        await desk.ask(page, EVIL)
        await desk.answers(page, "B.")  # and not the run before, which has finished too
        await desk.status(page, "finished")
        await page.keyboard.press("Control+k")
        field = page.get_by_role("combobox", name="Search for commands and runs")
        await expect(field).to_be_focused()
        options = page.locator("#palette").get_by_role("option")
        await expect(options.first).to_have_attribute("aria-selected", "true")
        await page.keyboard.type("wlis")
        await expect(options).to_have_count(1)
        await expect(options).to_contain_text("The weather in Lisbon")
        await page.keyboard.press("Enter")
        await expect(page.locator("#run-title")).to_have_text("The weather in Lisbon")
        await expect(page.locator("#run-list .run-line-title")).to_have_text(
            [EVIL, "The weather in Lisbon"]
        )  # the palette has the runs that are listed when it opens
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("option", name=EVIL)).to_be_visible()  # markup is text
        await page.keyboard.type("zzz")
        await expect(page.locator("#palette-none")).to_be_visible()
        await field.fill("new run")
        await page.keyboard.press("Enter")
        await expect(page.locator("#welcome")).to_be_visible()
        await expect(page.locator("#composer-input")).to_be_focused()


async def saved(page: Page, name: str) -> str:
    """Save the run that is shown by the menu; return the file."""
    await page.locator("#run-more").click()
    async with page.expect_download() as download:
        await page.locator("#run-menu").get_by_role("button", name=name).click()
    path = await (await download.value).path()
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
async def test_a_run_is_linked_and_saved_as_markdown_records_and_a_page_without_scripts(
    desk: Desk, browser: Browser
) -> None:
    async with desk.asking(GatedModel(talk(), free=True), [look], text=f"Why? {EVIL}", status="finished") as page:
        run = desk.runs[0]
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        answer = page.locator("#conversation > .block.text").first
        await answer.hover()
        await answer.get_by_role("button", name="Copy link").click()
        await expect(answer.get_by_role("button", name="Copied")).to_be_visible()
        link = await page.evaluate("navigator.clipboard.readText()")
        assert link == f"{desk.url}#{run.id}/3"  # behind the question and the thought
        other = await desk.open(url=link)
        await expect(other.locator("#conversation > .found")).to_contain_text("Let me look.")

        moment = await desk.open(f"#{run.id}@5")
        await expect(moment.locator("#conversation")).to_have_attribute("data-seq", "5")
        await expect(moment.locator("#time-bar")).to_have_attribute("data-past", "true")
        await moment.evaluate(f"location.hash = '#{run.id}@7'")
        await expect(moment.locator("#conversation")).to_have_attribute("data-seq", "7")
        await moment.evaluate(f"location.hash = '#{run.id}@999999'")  # the end
        await expect(moment.locator("#time-bar")).to_have_attribute("data-past", "false")

        text = await saved(page, "Save as Markdown")
        assert text.startswith("# Why? ")
        assert "> Hm." in text
        assert ANSWER in text
        assert f"````\n{EVIL}: ```nothing``` {EVIL}\n````" in text  # a longer fence
        lines = (await saved(page, "Save the records as JSONL")).splitlines()
        records = [msgspec.json.decode(line) for line in lines]
        assert records[0].get("covers", 1) >= 1
        assert records[-1]["seq"] == run.last_seq
        await expect(page.locator(".math.drawn")).to_be_visible()
        html = await saved(page, "Save as HTML page")
    assert "<script" not in html
    assert 'href="javascript' not in html
    assert "<button" not in html
    context = await browser.new_context(color_scheme="dark")
    alone = await context.new_page()
    asked: list[str] = []
    alone.on("request", lambda request: asked.append(request.url))
    await alone.set_content(html)
    await expect(alone.locator("strong").first).to_have_text("Bold")
    await expect(alone.locator("h1")).to_contain_text(EVIL)
    await expect(alone.locator(".call .result")).to_contain_text(EVIL)
    assert await alone.locator("img").count() == 0
    await expect(alone.locator("math msup")).to_be_visible()
    assert await alone.locator(".katex-html").count() == 0
    background = await alone.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(17, 20, 21)"
    assert [url for url in asked if not url.startswith("about:")] == []
    await context.close()
