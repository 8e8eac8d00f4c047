"""What ``rxworker demo --web`` shows in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rxworker.cli.demo_script import QUESTION
from rxworker.cli.serve import WATCHERS, watch_each, watched_worker
from rxworker.ui.web import WebServer

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_three_watchers_are_in_view_without_scrolling(browser: Browser) -> None:
    async with WebServer(watched_worker, port=0, on_run=watch_each()) as server:
        run = server.state.runs.start(QUESTION)
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        await page.goto(f"{server.url}#{run.id}")
        await expect(page.locator("#lanes .lane").nth(5)).to_be_attached()  # the second answer
        for name, _, _ in WATCHERS:
            line = page.locator("#watchers li", has_text=name)
            await expect(line).to_be_in_viewport(ratio=1)
        await page.close()
