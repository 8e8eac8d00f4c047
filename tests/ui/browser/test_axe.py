"""axe-core finds nothing in any state of the page, light, dark and with more contrast.

And the page can be installed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import pytest
from playwright.async_api import Page, expect

from rxworker import tool
from rxworker.log import SQLiteLog
from rxworker.protocols.socket import Marks
from rxworker.testing import call, fail, say, think
from rxworker.testing.lab import rerun_stored
from rxworker.ui.web import WebServer
from tests.ui.browser.conftest import Desk, GatedModel
from tests.whole import IS_WHOLE, one_of

AXE = Path(__file__).parents[2] / "integration/page/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ANSWER = """## Plan

| city | days |
|---|---:|
| Lisbon | 2 |

- [x] look up [the weather](https://weather.example/lisbon)
- [ ] book `a room`

> It is dry, $p < \\frac{1}{2}$.

$$
\\sum_n n^2
$$

```python
print("Lisbon", 2)  # a comment
```
"""


@tool
async def look(place: str) -> list[dict[str, Any]]:
    """Look at a place."""
    return [{"place": place, "degrees": 19}, {"place": "Kyoto", "degrees": 11}]


@tool(requires_approval=True)
async def book(city: str, nights: int = 2) -> str:
    """Book a room."""
    return f"{nights} nights in {city}"


@pytest.fixture
def axe() -> str:
    if not AXE.exists():
        missing = "axe-core is not installed: npm install --no-package-lock --prefix tests/integration/page"
        if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    return AXE.read_text(encoding="utf-8")


async def violations(page: Page, axe: str, only: Sequence[str]) -> list[str]:
    """What axe finds now: in the dialog that is open, or else in the whole page."""
    if not await page.evaluate("'axe' in globalThis"):  # it is half a megabyte
        await page.evaluate(axe)
    found: list[dict[str, Any]] = await page.evaluate(
        """async (only) => {
          const shown = document.querySelector("dialog:modal") ?? document;
          return (await axe.run(shown, { runOnly: only, resultTypes: ["violations"] })).violations;
        }""",
        only,
    )
    return [f"{one['id']}: {node['html'][:120]} {node['failureSummary']}" for one in found for node in one["nodes"]]


class Check(Protocol):
    """Checks a state in light, and its colours in dark, if it has any that others have not."""

    def __call__(self, state: str, *, dark: bool = True) -> Awaitable[None]: ...


async def states_of_a_run(desk: Desk, server: WebServer, page: Page, model: GatedModel, check: Check) -> None:
    """A run from its start to its end and its past, beside the list of runs."""
    await check("welcome")
    await desk.ask(page)
    model.let(40)
    await expect(page.locator("#conversation table")).to_be_visible()
    await check("streaming")
    model.let_all()
    await expect(page.locator("#approval")).to_be_visible()
    await check("paused")
    await page.keyboard.press("Control+k")
    await check("palette")
    await page.keyboard.press("Escape")
    await desk.press(page, "Approve")
    await desk.status(page, "finished")
    await page.locator("#conversation .call summary").first.click()
    await page.locator("#lanes .row .lane-name", has_text="look").click()
    await page.locator("#inspector summary").click()
    await check("finished, inspector")
    await desk.press(page, "Full width")
    await page.locator("#trace-search").fill("look")
    await desk.press(page, "Zoom in")  # which shows the overview
    await expect(page.locator(".overview-part")).to_be_visible()
    await check("timeline at full width")
    await desk.press(page, "Fit")
    await page.locator("#trace-search").fill("")
    await desk.press(page, "Full width")
    await page.locator("#inspector").get_by_role("button", name="Close").click()
    await page.locator("#board-panel").scroll_into_view_if_needed()
    await page.locator("#board .xray-button").first.click()
    await expect(page.locator(".xray-operator")).not_to_have_count(0)
    # What a scroll has left half under the time bar counts as too small a target.
    await page.evaluate("document.getElementById('side').scrollTop = 0")
    await check("x-ray")
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press(",")
    await desk.split(page, desk.runs[-1])  # a step is one record from now on
    await page.keyboard.press(",")
    await expect(page.locator("#time-bar")).to_have_attribute("data-past", "true")
    await check("past")
    await page.keyboard.press("?")
    await check("shortcuts", dark=False)
    await page.keyboard.press("Escape")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.locator("#menu").click()
    await check("list on a phone", dark=False)


async def states_of_other_pages(desk: Desk, server: WebServer, page: Page, model: GatedModel, check: Check) -> None:
    """What is done with runs that are over, and the pages for several of them."""
    model.let_all()
    await desk.ask(page, status="paused")
    await desk.press(page, "Approve", status="finished")
    await page.locator("#run-more").click()
    await check("menu of a run", dark=False)
    await page.get_by_role("button", name="Share a read-only link…").click()
    await page.get_by_role("button", name="Make a link").click()
    await expect(page.get_by_role("button", name="Revoke")).to_be_visible()
    await check("links of a run")
    shared = await page.get_by_label("Address of the link").input_value()
    await page.keyboard.press("Escape")
    await page.locator("#run-more").click()
    await page.get_by_role("button", name="Run again and compare…").click()
    await page.keyboard.press("Enter")
    await expect(page.locator("#rerun-dialog .rerun-outcome dl").first).to_be_visible()
    await check("a run that ran again")
    await page.keyboard.press("Escape")
    entry = server.state.runs.get(desk.runs[-1].id)
    assert entry is not None
    await server.state.store.mark(entry.conversation, Marks(tags=("trip",), pinned=True))
    await expect(page.locator(".run-line-tags span")).to_be_visible()
    await page.locator("#run-list .run-line-actions").first.click()
    await page.locator("#line-menu").get_by_role("button", name="Select").click()
    await check("lines that are selected")
    await page.locator("#run-selection").get_by_role("button", name="Add tags…").click()
    await check("dialog", dark=False)
    await page.keyboard.press("Escape")
    await page.locator("#run-selection").get_by_role("button", name="Done").click()
    await desk.press(page, "New run")
    await desk.ask(page, status="failed")
    await check("error")
    await page.emulate_media(contrast="more")
    await check("error, more contrast")
    await page.goto(f"{server.url}#{desk.runs[-1].id}~{desk.runs[0].id}")
    await expect(page.locator(".compare-row")).not_to_have_count(0)
    await check("two runs side by side")
    await page.goto(f"{server.url}fleet")
    await expect(page.locator("#fleet-rows tr")).not_to_have_count(0)
    await check("fleet")
    await page.goto(f"{server.url}boards/usage?last=900&status=finished")
    await expect(page.locator("#board canvas").first).to_be_visible()
    await page.locator(".board-menu-button").first.click()
    await check("a dashboard and the menu of a panel")
    await page.locator(".board-menu button").first.click()
    await check("a panel as a table")
    await page.set_viewport_size({"width": 390, "height": 844})
    await check("a dashboard on a phone", dark=False)
    await page.set_viewport_size({"width": 1400, "height": 900})
    await page.goto(shared)
    await expect(page.locator("#run-head")).to_be_visible()
    await check("a read-only link")


@pytest.mark.slow
@pytest.mark.parametrize("states", one_of([states_of_a_run, states_of_other_pages]))
async def test_axe_finds_nothing_in_any_state(
    desk: Desk, axe: str, tmp_path: Path, states: Callable[..., Awaitable[None]]
) -> None:
    """The suite checks one of four states of a run, the same in each run, and the step of the laws all."""
    replies = [
        think("Where to?") + say(ANSWER) + call("look", place="Lisbon"),
        say("Shall I?") + call("book", city="Lisbon"),
        say("Booked."),
        fail("overloaded", retryable=False),
    ]
    model, found = GatedModel(replies), dict[str, list[str]]()
    async with (
        SQLiteLog(tmp_path / "runs.db") as log,
        desk.serve_workers(desk.maker(model, [look, book], log=log), log=log, rerun=rerun_stored) as server,
    ):
        page = await desk.open()

        async def check(state: str, *, dark: bool = True) -> None:
            if not IS_WHOLE and crc32(state.encode()) % 4 != 1:
                return
            themes = [("light", RULES), ("dark", ["color-contrast"])]
            for theme, only in themes if dark else themes[:1]:
                await page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
                found[f"{state}, {theme}"] = await violations(page, axe, only)

        await states(desk, server, page, model, check)
    assert {state: these for state, these in found.items() if these} == {}


async def test_the_page_can_be_installed(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("A.")])):
        page = await desk.open()
        session: Any = await page.context.new_cdp_session(page)
        manifest: dict[str, Any] = await session.send("Page.getAppManifest")
        assert manifest["errors"] == []
        assert manifest["url"].endswith("/static/manifest.webmanifest")
        errors: dict[str, list[dict[str, Any]]] = await session.send("Page.getInstallabilityErrors")
        kinds: set[str] = {one["errorId"] for one in errors["installabilityErrors"]}
        assert kinds <= {"in-incognito"}  # which a window of a test is
