"""The trace: turns, attempts and what they took, zoom, and the inspector."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise

import pytest
from playwright.async_api import expect

from rxworker import tool
from rxworker.testing import call, fail, say
from tests.ui.browser.conftest import Desk, GatedModel


@tool
async def look(place: str, days: int = 1) -> str:
    """Look at a place."""
    return f"{place}: <b>nothing</b>"


@tool
async def wait() -> str:
    """Take a while."""
    await asyncio.sleep(0.3)
    return "waited"


async def test_turns_and_attempts_have_rows_and_a_retraction_its_reason(desk: Desk) -> None:
    half = say("Half") + fail("overloaded", retryable=True)
    model = GatedModel([half, say("Let me look.") + call("look", place="here"), say("Done.")], free=True)
    async with desk.asking(model, [look], status="finished") as page:
        rows = page.locator("#lanes .row .lane-name")
        await expect(rows).to_have_text(
            ["Turn 1", "request", "answer", "attempt 2", "answer", "look", "Turn 2", "request", "answer"]
        )
        retracted = page.locator("#lanes .attempt[data-state=retracted] .lane-text")
        await expect(retracted).to_contain_text("overloaded")
        await expect(page.locator("#lanes .turn .mark")).not_to_have_count(0)
        await expect(page.locator("#lanes .attempt .lane-text").last).to_contain_text("first after")


async def test_a_row_is_inspected_with_its_arguments_result_and_events(desk: Desk) -> None:
    model = GatedModel([call("look", place="<i>here</i>"), say("Done.")], free=True)
    async with desk.asking(model, [look], status="finished") as page:
        await page.locator("#lanes .lane-label", has_text="look").click()
        inspector = page.locator("#inspector")
        await expect(inspector.locator("h3")).to_have_text("look")
        await expect(inspector.locator("figure.code code").first).to_have_text('{\n  "place": "<i>here</i>"\n}')
        await expect(inspector.locator(".result pre")).to_have_text("<i>here</i>: <b>nothing</b>")
        await inspector.locator("summary").click()
        await expect(inspector.locator(".events li")).not_to_have_count(0)
        events = await inspector.locator(".events li").all_text_contents()
        kinds = [event.split('"type":"')[1].split('"')[0] for event in events]
        assert [kind for kind in kinds if kind != "input_json_delta"] == [
            "block_start",
            "block_stop",
            "tool_start",
            "tool_stop",
        ]
        await page.keyboard.press("Escape")
        assert await inspector.is_hidden()
        await page.locator("#lanes .attempt .lane-label").first.click()
        await expect(inspector.locator("dd")).to_contain_text(["done", "1"])
        await expect(inspector).to_contain_text("gated-1")
        await page.locator("#lanes .turn .lane-label").last.click()
        await inspector.get_by_text("Request as sent").click()
        await expect(inspector.locator(".doubts")).to_contain_text("not called over HTTP")
        tree = inspector.get_by_role("tree")
        await expect(tree.locator(".json-key", has_text="messages")).to_be_visible()
        await page.route("**/requests/*", lambda route: route.abort())
        await page.locator("#lanes .attempt .lane-label").first.click()
        await inspector.get_by_text("Request as sent").click()
        await expect(inspector.locator(".request-body")).to_contain_text("cannot be reached")
        desk.problems.clear()  # the browser complains of the refused request


TEXTS = """() => [...document.querySelectorAll(".axis-marks span")].filter(
  (mark) => getComputedStyle(mark).visibility !== "hidden",
).map((mark) => {
  const range = document.createRange();
  range.selectNodeContents(mark);
  const { left, right } = range.getBoundingClientRect();
  return [left, right];
})"""
"""Where the texts of the axis begin and end."""


@pytest.mark.slow
async def test_the_axis_is_zoomed_and_fitted_with_the_thumb_of_the_slider_and_texts_that_do_not_overlap(
    desk: Desk,
) -> None:
    apart = """() => {
      const slider = document.querySelector("#time-slider"), lanes = document.querySelector("#lanes");
      const { left, width } = lanes.querySelector(".track").getBoundingClientRect();
      const box = slider.getBoundingClientRect(), value = (slider.value - slider.min) / (slider.max - slider.min);
      const of = (name) => Number(lanes.style.getPropertyValue(name));
      const now = left + (width * (of("--now") - of("--at"))) / of("--span");
      return Math.abs(box.left + 8 + (box.width - 16) * value - now);
    }"""
    move = (
        "(n, part) => { n.value = Number(n.min) + (n.max - n.min) * part; n.dispatchEvent(new Event('input', { bubbles:"
        " true })); }"
    )
    async with desk.asking(GatedModel([call("wait"), say("Done.")], free=True), [wait], status="finished") as page:
        shown = (
            "() => { const { style } = document.querySelector('#lanes'); return "
            "[Number(style.getPropertyValue('--at')), Number(style.getPropertyValue('--span'))]; }"
        )
        whole: list[float] = await page.evaluate(shown)
        await page.get_by_role("button", name="Zoom in").click()
        from_, span = await page.evaluate(shown)
        assert span == pytest.approx(whole[1] / 2)
        await page.locator("#lanes .lane-label").first.focus()
        await page.keyboard.press("ArrowRight")
        moved: list[float] = await page.evaluate(shown)
        assert moved[0] == pytest.approx(from_ + 0.2 * span)
        await page.get_by_role("button", name="Fit").click()
        assert await page.evaluate(shown) == whole
        assert await page.get_by_role("button", name="Fit").is_disabled()
        slider, lanes = page.locator("#time-slider"), page.locator("#lanes")
        await slider.evaluate(move, 0.5)
        await expect(lanes).to_have_attribute("data-past", "true")
        await page.wait_for_function(f"() => ({apart})() < 1.5")
        # The axis stays as it is, and a part of it can be moved through.
        await page.get_by_role("button", name="Zoom in").click()
        await expect(slider).not_to_have_attribute("min", "0")  # the slider is drawn on that part
        await slider.evaluate(move, 0.2)
        await page.wait_for_function(f"() => ({apart})() < 1.5")
        await expect(page.get_by_role("button", name="Fit")).to_be_enabled()
        await page.set_viewport_size({"width": 800, "height": 800})
        await expect(page.locator("main > #time-bar")).to_be_visible()
        await page.locator("#time-live").click()
        await expect(lanes).to_have_attribute("data-past", "false")
        await page.set_viewport_size({"width": 320, "height": 800})
        await page.locator("#views button[data-view=timeline]").click()
        await desk.press(page, "Fit")
        for zooms in range(3):
            if zooms:
                await page.get_by_role("button", name="Zoom in").click()
            # They are placed when the axis has a width.
            await page.wait_for_function(f"() => ({TEXTS})().length >= 3")
            texts: list[list[float]] = await page.evaluate(TEXTS)
            assert all(before[1] < after[0] for before, after in pairwise(texts))


@pytest.mark.slow
async def test_the_trace_has_the_full_width_its_arguments_and_a_search(desk: Desk) -> None:
    calls = call("look", place="Lisbon") + call("look", place="Kyoto", days=2)
    model = GatedModel([calls, say("Done."), call("book")], free=True)

    @tool(requires_approval=True)
    async def book() -> str:
        """Book."""
        return "booked"

    async with desk.asking(model, [look, book], status="finished") as page:
        rows, lanes = page.locator("#lanes .row:visible"), page.locator("#lanes")
        await expect(rows).to_have_count(7)
        await expect(page.locator(".lane-arguments").first).to_be_hidden()
        await page.get_by_role("button", name="Full width").click()
        await expect(page.locator("#composer")).to_be_hidden()
        await expect(page.locator(".lane-arguments:visible")).to_have_text(["(place=Lisbon)", "(place=Kyoto, days=2)"])
        # The thumb of the slider is above the end of the tracks, as beside the conversation.
        ends: list[float] = await page.evaluate(
            """() => {
              const right = (at) => document.querySelector(at).getBoundingClientRect();
              return [right(".time-slider").left + 8, right("#lanes .track").left];
            }"""
        )
        assert abs(ends[0] - ends[1]) < 2
        search = page.get_by_role("searchbox", name="Search the timeline")
        await expect(search).to_be_focused()
        await page.keyboard.type("look kyo")
        await expect(page.locator("#trace-found")).to_have_text("1 of 1")
        here = lanes.locator("[data-found=here]")
        await expect(here).to_have_count(1)
        await here.get_by_role("button").click()
        await expect(page.locator("#inspector")).to_contain_text("Kyoto")
        # The conversation is hidden: to show a row in it leaves the full width.
        await page.get_by_role("button", name="Show in the conversation").click()
        await expect(page.locator("#conversation .call", has_text="Kyoto")).to_be_in_viewport()
        await page.get_by_role("button", name="Full width").click()
        await expect(page).to_have_url(re.compile(r"\?trace=wide#"))  # it follows after a rest
        await search.fill("look kyo")
        await search.press("Escape")
        await expect(here).to_have_count(0)
        await expect(rows).to_have_count(7)
        # A new run has its box, and what waits for a decision is shown.
        await desk.press(page, "New run")
        await expect(page.locator("#composer")).to_be_visible()
        await desk.ask(page)
        await expect(page.locator("#approval")).to_be_visible()
        await page.go_back()
        await expect(page.locator("#welcome")).to_be_visible()
        await page.go_back()
        await expect(page.locator(".lane-arguments:visible")).to_have_count(2)
        await page.get_by_role("button", name="Full width").click()
        await expect(page.locator("#composer")).to_be_visible()
        await expect(lanes.locator(".lane-arguments:visible")).to_have_count(0)
        # A narrow page has the whole width in any case.
        await page.set_viewport_size({"width": 800, "height": 800})
        await expect(page.get_by_role("button", name="Full width")).to_have_count(0)


@pytest.mark.slow
async def test_a_long_trace_is_searched_and_has_an_overview(desk: Desk) -> None:
    names = ["Lisbon", "Kyoto", "Quito"]
    reply = call("look", place="Lisbon")
    for n in range(1, 60):
        reply += call("look", place=names[n % 3])
    shown = (
        "() => { const { style } = document.querySelector('#lanes'); return [Number(style.getPropertyValue('--at')), "
        "Number(style.getPropertyValue('--span'))]; }"
    )
    async with desk.asking(
        GatedModel([reply + call("wait"), say("Done.")], free=True), [look, wait], status="finished"
    ) as page:
        lanes, here = page.locator("#lanes"), page.locator("#lanes [data-found=here]")
        strip = page.get_by_role("slider", name="What the timeline shows")
        await expect(strip).to_be_visible()  # beside the conversation, too
        found, search = (page.locator("#trace-found"), page.get_by_role("searchbox", name="Search the timeline"))
        # It has followed its end; what is over begins at its top.
        assert await lanes.evaluate("(n) => n.scrollTop") > 0
        await page.reload()
        await desk.status(page, "finished")
        await expect(lanes.locator(".lane").first).to_be_in_viewport()
        assert await lanes.evaluate("(n) => n.scrollTop") == 0
        await lanes.evaluate("(n) => (n.scrollTop = n.scrollHeight)")
        # What a tool took is on its row.
        await expect(lanes.locator(".lane", has_text="wait").locator(".lane-text")).to_have_text(
            re.compile(r"0\.\d s · waited")
        )
        # From the first to the last and around.
        await lanes.evaluate("(n) => (n.scrollTop = 0)")
        await search.fill("kyoto")
        places: list[str] = []
        for at in range(1, 21):
            await expect(found).to_have_text(f"{at} of 20")
            await expect(here).to_be_in_viewport()
            places.append(await here.get_attribute("aria-posinset") or "")
            await search.press("Enter")
        assert len(set(places)) == 20
        await expect(found).to_have_text("1 of 20")
        await search.press("Shift+Enter")
        await expect(found).to_have_text("20 of 20")
        await page.get_by_role("button", name="Next", exact=True).click()
        await expect(here).to_have_attribute("aria-posinset", places[0])
        await search.fill("nowhere")
        await expect(found).to_have_text("not found")
        await expect(page.get_by_role("button", name="Next", exact=True)).to_be_disabled()
        await search.fill("")
        # Something is drawn in the band of the tools, and in that of what was found only while something is.
        drawn = """() => {
          const strip = document.querySelector(".overview canvas"), { width, height } = strip;
          const copy = Object.assign(document.createElement("canvas"), { width, height });
          const pen = copy.getContext("2d", { willReadFrequently: true });
          pen.drawImage(strip, 0, 0);
          const any = (top, high) => pen.getImageData(0, top, width, high).data.some((n) => n > 0);
          return [any(17, 9), any(28, Math.min(4, height - 28))];
        }"""
        await expect(page.locator("#trace-found")).to_be_empty()
        assert await page.evaluate(drawn) == [True, False]
        await search.fill("quito")
        assert await page.evaluate(drawn) == [True, True]
        await search.fill("")
        # A window is drawn with the mouse, moved, and made wider.
        whole: list[float] = await page.evaluate(shown)
        box = await strip.bounding_box()
        assert box is not None

        async def drag(begin: float, end: float) -> list[float]:
            y = box["y"] + box["height"] / 2
            await page.mouse.move(box["x"] + begin * box["width"], y)
            await page.mouse.down()
            await page.mouse.move(box["x"] + end * box["width"], y, steps=3)
            await page.mouse.up()
            window: list[float] = await page.evaluate(shown)
            return [window[0] / whole[1], window[1] / whole[1]]

        near = 4 / box["width"]
        assert await drag(0.2, 0.6) == pytest.approx([0.2, 0.4], abs=near)
        assert await drag(0.4, 0.5) == pytest.approx([0.3, 0.4], abs=near)
        assert await drag(0.7, 0.9) == pytest.approx([0.3, 0.6], abs=near)
        await strip.dblclick()
        assert await page.evaluate(shown) == whole
        # And with the keyboard.
        await strip.focus()
        await page.keyboard.press("ArrowUp")
        from_, span = await page.evaluate(shown)
        assert span == pytest.approx(whole[1] / 2)
        await page.keyboard.press("ArrowRight")
        assert (await page.evaluate(shown))[0] > from_ or from_ == pytest.approx(whole[1] / 2)
        await page.keyboard.press("Home")
        assert await page.evaluate(shown) == [0, pytest.approx(whole[1] / 2)]
        await expect(strip).to_have_attribute("aria-valuenow", "0")
        await expect(lanes.locator("[aria-posinset='1']")).to_be_in_viewport()
        await page.keyboard.press("End")
        assert await page.evaluate(shown) == pytest.approx([whole[1] / 2, whole[1] / 2])
        await page.keyboard.press("0")
        assert await page.evaluate(shown) == whole
        # A click leads to the rows of its time.
        await strip.click(position={"x": box["width"] - 2, "y": 10})
        await expect(lanes.locator(".row").last).to_be_in_viewport()
        await page.mouse.click(box["x"], box["y"] + 10)
        await expect(lanes.locator("[aria-posinset='1']")).to_be_in_viewport()
