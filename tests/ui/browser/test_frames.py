"""A frame draws what fits into it, and the next ones the rest."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from rxworker import tool
from rxworker.testing import Call, Reply, say
from tests.ui.browser.conftest import Desk, GatedModel


async def test_what_does_not_fit_into_a_frame_is_drawn_in_the_next_before_anything_newer(desk: Desk) -> None:
    async with desk.serve(GatedModel([])):
        page = await desk.open()
        drawn = await page.evaluate(
            """async () => {
              const { Frames } = await import("./static/views/dom.js");
              const drawn = [];
              let passes = 0, frame = 0;
              const count = () => { frame += 1; requestAnimationFrame(count); };
              requestAnimationFrame(count);
              await new Promise((done) => {
                const frames = new Frames(function* () {
                  passes += 1;
                  const pass = passes;
                  for (const step of [1, 2, 3]) {
                    drawn.push([pass, step, frame]);
                    if (pass === 1) frames.schedule();
                    for (const begun = performance.now(); performance.now() - begun < 40; );
                    yield;
                  }
                  if (pass === 2) done();
                });
                frames.schedule();
              });
              return drawn;
            }"""
        )
        assert [one[:2] for one in drawn] == [[a, b] for a in (1, 2) for b in (1, 2, 3)]
        assert len({one[2] for one in drawn}) == len(drawn)


@pytest.mark.slow
async def test_of_a_run_with_many_calls_the_last_are_drawn_and_the_others_on_request(desk: Desk) -> None:
    @tool
    async def look(n: int) -> str:
        """Look."""
        return f"nothing at {n}"

    calls = tuple(Call("look", f'{{"n": {n}}}') for n in range(400))
    async with desk.asking(
        GatedModel([Reply(tool_calls=calls), say("Done.")], free=True), [look], status="finished"
    ) as page:
        await page.evaluate("location.hash = ''")
        await expect(page.locator("#welcome")).to_be_visible()
        await page.evaluate(f"location.hash = '#{desk.runs[0].id}'")
        await desk.answers(page, "Done.")
        await expect(page.locator(".conversation > .item")).to_have_count(150)
        await expect(page.locator(".outcome").last).to_have_text("nothing at 399")
        await expect(page.locator("#lanes > .lane").last).to_have_attribute("aria-setsize", "405")
        assert await page.locator("#lanes > .lane").count() < 60
        await page.locator(".earlier").click()
        await expect(page.locator(".conversation > .item")).to_have_count(300)
