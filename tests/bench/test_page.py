"""What the page may take of the time of its browser.

Nothing else measures time in a browser: a machine that does other work would fail a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from rxworker import tool
from rxworker.messages import ToolMeta
from rxworker.testing import Reply, call, say
from rxworker.tools import ToolContext
from tests.ui.browser.conftest import Desk, GatedModel, browser, desk, windows

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["browser", "desk", "windows"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.bench]

Replies = Callable[[], list[Reply]]


@tool(max_output=None)
async def fetch(size: int) -> str:
    """Fetch much."""
    return "0123456789abcde\n" * (size // 16)


class Write:
    """A tool that takes arguments of any size."""

    meta = ToolMeta("write", "Write.", {"type": "object"})

    async def execute(self, arguments: str | bytes, context: ToolContext) -> str:
        return "written"


def many(count: int, between: str = "") -> Reply:
    """So many calls, with a text before each but the first."""
    reply = call("write", text="0")
    for n in range(1, count):
        reply += (say(between * 20, chunk=4) if between else Reply()) + call("write", text=f"{n}")
    return reply


PARAGRAPH = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. " * 3 + "\n\n"
SCENES: dict[str, Replies] = {
    "an answer of two megabytes": lambda: [say(PARAGRAPH * 12_000, chunk=200)],
    "a result of a megabyte": lambda: [call("fetch", size=1_000_000), say("Done.")],
    "arguments in many pieces": lambda: [call("write", text="word " * 16_000), say("Done.")],
    "180 lanes": lambda: [many(180), say("Done.")],
}
WATCH = """() => {
  window.slow = [0];
  const add = (list) => list.getEntries().forEach((e) => window.slow.push(e.duration));
  new PerformanceObserver(add).observe({ type: "longtask" });
}"""


@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_holds_the_page_up_for_long(desk: Desk, scene: str) -> None:
    async with desk.serve(GatedModel(SCENES[scene](), free=True), [fetch, Write()]):
        page = await desk.open()
        await page.evaluate(WATCH)
        await desk.ask(page)
        await desk.status(page, "finished")
        await page.evaluate("document.querySelector('.call summary')?.click()")
        await desk.same(page, desk.runs[0])
        assert await page.evaluate("Math.max(...window.slow)") < 1_500


async def test_five_thousand_runs_are_filtered_within_a_frame(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("Hello.")], free=True)):
        page = await desk.open()
        slowest = await page.evaluate("""async () => {
              const { RunsView } = await import("./static/views/runs.js");
              const runs = Array.from({ length: 5000 }, (_, n) => ({
                id: `run-${n}`, conversation: `c-${n % 4000}`, worker: "worker", status: "finished", cause: "",
                title: `Question ${n} about ponds`,
                started: 1e9 - n, ended: 1e9 - n + 5, cost: n / 1000, resumed_as: null }));
              document.querySelector("#run-options").replaceChildren();
              const list = new RunsView({ search: async () => ({ runs: [] }), now: () => 1e9 });
              list.draw(runs, null);
              // The best of several times: other work on the machine takes its part of each.
              const best = (act) => Math.min(...[1, 2, 3, 4, 5].map(() => {
                list.fields.set("q", "-");
                const began = performance.now();
                act();
                document.body.offsetHeight;
                return performance.now() - began;
              }));
              const texts = ["q", "qu", "question 4", "question 49", "pond", ""];
              const times = texts.map((text) => best(() => list.fields.set("q", text)));
              times.push(best(() => list.fields.set("q", "pond") ?? list.draw(runs.map((run) => ({ ...run })), null)));
              return times;
            }""")
        assert max(slowest) < 50, slowest


async def test_a_move_in_a_run_of_twenty_thousand_records_is_fast(desk: Desk) -> None:
    model = GatedModel([many(300, "Answer. "), say("Done.")], free=True)
    async with desk.serve(model, [Write()]):
        page = await desk.open()
        await desk.ask(page)
        await desk.status(page, "finished")
        [run] = desk.runs
        assert run.last_seq > 10_000
        later = await desk.open(f"#{run.id}")
        await later.wait_for_selector(f"#conversation[data-seq='{run.last_seq}']")
        await moves(later, [0.5])
        await desk.split(later, run)
        took = await moves(later, [0.9, 0.89, 0.5, 0.3, 0.31, 0.32, 0.95, 0.1, 0.94])
        # About 50 milliseconds on a free machine.
        assert sorted(took)[len(took) // 2] < 300, took
        assert await later.locator("#lanes .lane").count() < 60


async def moves(page: Page, parts: list[float]) -> list[float]:
    """Drag the slider to these parts of its length; the milliseconds until each is drawn."""
    took: Any = await page.evaluate(
        """async (parts) => {
          const slider = document.querySelector("#time-slider"), took = [];
          for (const part of parts) {
            slider.value = slider.max * part;
            const started = performance.now();
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => requestAnimationFrame(() => { document.body.offsetHeight; done(); }));
            took.push(performance.now() - started);
          }
          return took;
        }""",
        parts,
    )
    return took
