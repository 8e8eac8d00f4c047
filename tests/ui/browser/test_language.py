"""A second language: every text of the page is in the language file."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, Route, expect

import rxworker.ui.web
from rxworker import tool
from rxworker.testing import call, say, think
from tests.ui.browser.conftest import Desk, GatedModel

STATIC = Path(rxworker.ui.web.__file__).parent / "static"
FILES = "const FILES = {};"
MARKED = """
const mark = (value) => typeof value === "string" ? `«${value}»`
  : Object.fromEntries(Object.entries(value).map(([name, one]) => [name, mark(one)]));
export const words = mark(english);
"""
"""Makes the words of a language of which each text is recognised."""
DATA = {
    "Desk", "worker", "gated-1", "Wetter", "Ob es regnet?", "Ich sehe nach.", "look", "Look at a place.", "place",
    "place: Rom", "(place=Rom)", "look(place=Rom)", '{\n  "place": "Rom"\n}',
    '"place"', '"Rom"', "dry", "look requires approval", "Ctrl K", "Esc", "json", "Runs",
}  # fmt: skip
"""The texts of the server, the model and the tools, and names of keys and formats.

They are shown as they are, as the titles and names of panels are.
"""
UNMARKED = """() => {
  const names = ["aria-label", "title", "placeholder", "aria-description", "alt"];
  const texts = [...document.body.querySelectorAll("*:not(script, style, .board *)")].flatMap((node) => [
    ...[...node.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE).map((one) => one.data),
    ...names.map((name) => node.getAttribute(name) ?? ""),
  ]);
  const all = [...new Set(texts.map((text) => text.trim()))];
  return all.filter((text) => /[A-Za-z]{2}/.test(text) && !text.includes("«"));
}"""


@tool(requires_approval=True)
async def look(place: str) -> str:
    """Look at a place."""
    return "dry"


async def test_no_text_of_the_page_is_missing_from_the_language_file(desk: Desk, browser: Browser) -> None:
    language = (STATIC / "model/language.js").read_text(encoding="utf-8")
    english = (STATIC / "languages/en.js").read_text(encoding="utf-8")
    assert FILES in language
    served = {
        "language.js": language.replace(FILES, 'const FILES = { de: () => import("../languages/de.js") };'),
        "de.js": english.replace("export const words", "const english") + MARKED,
    }

    async def serve(route: Route) -> None:
        body = served[route.request.url.rpartition("/")[2]]
        await route.fulfill(body=body, content_type="text/javascript")

    replies = [think("Ob es regnet?") + say("Ich sehe nach.") + call("look", place="Rom"), say("")]
    async with desk.serve(GatedModel(replies, free=True), [look]):
        context = await browser.new_context(locale="de-DE", reduced_motion="reduce")
        desk.contexts.append(context)
        page = await context.new_page()
        desk.attend(page)
        await page.route("**/model/language.js", serve)
        await page.route("**/languages/de.js", serve)
        await page.goto(desk.url)
        await page.wait_for_selector("#link[data-state=open]")
        unmarked = set[str](await page.evaluate(UNMARKED))
        await desk.ask(page, "Wetter")
        await expect(page.locator("#approval")).to_be_visible()
        unmarked |= set(await page.evaluate(UNMARKED))
        await desk.press(page, "«Approve»", status="«finished»")
        await page.locator("#lanes .row .lane-name", has_text="look").click()
        await expect(page.locator("#inspector")).to_be_visible()
        unmarked |= set(await page.evaluate(UNMARKED))
    assert unmarked <= DATA, unmarked - DATA
