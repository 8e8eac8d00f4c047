"""What is large, long or written in another direction: the page stays fluid, and within its bounds."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from rxworker import tool
from rxworker.testing import call, say
from tests.ui.browser.conftest import Desk, GatedModel

ARABIC = "مرحبا بالعالم، هذا نص."


@tool(max_output=None)
async def fetch(size: int) -> str:
    """Fetch much."""
    return "0123456789abcde\n" * (size // 16)


@tool(max_output=None)
async def write(text: str) -> str:
    """Write."""
    return f"{len(text)} written"


async def test_a_result_of_a_megabyte_is_laid_out_when_it_is_opened(desk: Desk) -> None:
    replies = [call("fetch", size=1_000_000), say("Done.")]
    async with desk.asking(GatedModel(replies, free=True), [fetch], status="finished") as page:
        assert await page.locator(".result").evaluate("(n) => n.textContent.length") == 0
        await page.locator(".call summary").click()
        await expect(page.locator(".result .chunk").first).to_be_attached()
        length = await page.locator(".result").evaluate("(n) => n.textContent.length")
        assert length == 1_000_000
        await expect(page.locator(".call .outcome")).to_be_hidden()
        await desk.same(page, desk.runs[0])


async def test_arguments_that_come_in_many_pieces_are_shown_whole(desk: Desk) -> None:
    text = "word " * 16_000
    replies = [call("write", text=text), say("Done.")]
    async with desk.asking(GatedModel(replies, free=True), [write], status="finished") as page:
        shown = await page.locator(".arguments").text_content()
        assert shown == f'{{\n  "text": "{text}"\n}}'
        await expect(page.locator(".call .outcome")).to_have_text("80000 written")


@pytest.mark.slow
async def test_a_long_trace_has_nodes_for_the_rows_that_are_seen(desk: Desk) -> None:
    reply = call("write", text="0")
    for n in range(1, 180):
        reply += call("write", text=f"{n}")
    model = GatedModel([reply, say("More.") + call("write", text="last"), say("Done.")])
    async with desk.asking(model, [write]) as page:
        await expect(page.locator(".call[data-state=done]")).to_have_count(180)
        model.let_all()
        await desk.status(page, "finished")
        rows, names = page.locator("#lanes > li"), page.locator("#lanes .lane-name")
        await expect(names.last).to_have_text("answer")
        # Three turns with a request each, and 183 lanes, in one height.
        await expect(rows.last).to_have_attribute("aria-posinset", "189")
        await expect(rows.last).to_have_attribute("aria-setsize", "189")
        lanes = page.locator("#lanes")
        assert await lanes.evaluate("(n) => n.scrollHeight") == 189 * 42
        assert await rows.count() < 60
        await page.wait_for_function(
            "() => { const n = document.querySelector('#lanes'); return n.scrollHeight - n.scrollTop - n.clientHeight <"
            " 48; }"
        )
        # The rows that come into sight have nodes, and are in order.
        await lanes.evaluate("(n) => (n.scrollTop = 90 * 42)")
        await expect(page.locator("#lanes > [aria-posinset='91']")).to_be_visible()
        places = await rows.evaluate_all("(all) => all.map((n) => Number(n.ariaPosInSet))")
        assert places == list(range(places[0], places[0] + len(places)))
        assert len(places) < 60
        await lanes.evaluate("(n) => (n.scrollTop = 0)")
        await expect(names.first).to_have_text("Turn 1")
        # The row that has the focus is left without a node: the focus is that of the list.
        await rows.first.get_by_role("button").focus()
        await lanes.evaluate("(n) => (n.scrollTop = n.scrollHeight)")
        await expect(lanes).to_be_focused()


async def test_long_words_and_other_directions_stay_within_their_bounds(desk: Desk) -> None:
    said = f"{ARABIC}\n\n{'Donaudampfschifffahrt' * 40}\n\n\U0001f469\u200d\U0001f467 \U0001f1ef\U0001f1f5"
    replies = [call("write", text="w" * 400), say(said)]
    async with desk.asking(GatedModel(replies, free=True), [write], text="Q" * 300, status="finished") as page:
        await desk.answers(page, said.replace("\n\n", ""))
        for width in (1280, 360):
            await page.set_viewport_size({"width": width, "height": 800})
            wide: list[str] = await page.evaluate(
                """() => {
                    const names = "main, .conversation, .side, .runs, .call, .block, .message, .lanes";
                    return [document.documentElement, ...document.querySelectorAll(names)]
                        .filter((n) => n.scrollWidth > n.clientWidth + 1 && n.clientWidth > 0)
                        .map((n) => n.className || n.tagName);
                }"""
            )
            assert wide == [], width
        # The first line begins at the right, where its words do.
        first = await page.locator(".block.text .text").evaluate(
            """(node) => {
              const range = document.createRange(), text = node.querySelector("p").firstChild;
              range.setStart(text, 0); range.setEnd(text, 1);
              return node.getBoundingClientRect().right - range.getBoundingClientRect().right;
            }"""
        )
        assert first < 4
