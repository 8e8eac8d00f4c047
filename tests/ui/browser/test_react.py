"""The pages of ``examples/react``, built with Vite.

UseChat with ``<rx-run>``, and assistant-ui over AG-UI, in a browser.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Browser, Page, expect

from rxworker.testing import call, say
from tests.ui.browser.conftest import GatedModel

pytestmark = pytest.mark.asyncio(loop_scope="session")
EXAMPLE = Path(__file__).parents[3] / "examples" / "react"


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The program of the example, with the pages as Vite has built them for these tests."""
    node, vite = shutil.which("node"), EXAMPLE / "node_modules" / "vite" / "bin" / "vite.js"
    if node is None or not vite.exists():
        what = "the packages of the pages are missing: npm install --no-package-lock --prefix examples/react"
        if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
            pytest.fail(what)
        pytest.skip(what)
    pages = tmp_path_factory.mktemp("pages")
    command = [node, str(vite), "build", "--logLevel", "error", "--emptyOutDir", "--outDir"]
    subprocess.run([*command, str(pages)], cwd=EXAMPLE, check=True, timeout=120)
    spec = importlib.util.spec_from_file_location("react_example", EXAMPLE / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.PAGES = pages
    return module


@asynccontextmanager
async def page_of(example: Any, browser: Browser, model: GatedModel, path: str) -> AsyncGenerator[Page, None]:
    """A page of the example, which complains of nothing."""
    runner = web.AppRunner(example.make_site(partial(example.make_worker, model)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    context = await browser.new_context()
    problems: list[str] = []
    try:
        page = await context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        await page.goto(f"http://127.0.0.1:{runner.addresses[0][1]}/{path}")
        yield page
    finally:
        await context.close()
        await runner.cleanup()
    assert problems == []


async def ask(page: Page, text: str) -> None:
    await page.get_by_role("textbox").fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


@pytest.mark.slow
async def test_a_page_with_use_chat(example: ModuleType, browser: Browser) -> None:
    plan = call("add_step", title="Write") + call("paint", color="teal")
    mail = call("send_mail", to="Ada")
    model = GatedModel([plan, say("It is done. Or is it?"), mail, say("Sent."), say("On and on and on.")])
    async with page_of(example, browser, model, "chat.html") as page:
        # The worker's tool and that of the page, of one response; the text arrives in pieces.
        await ask(page, "Plan it")
        await expect(page.locator("#steps li")).to_have_text(["Write"])
        await expect(page.locator("header > .mark")).to_have_css("background-color", "rgb(0, 128, 128)")
        model.let(1)
        answer = page.locator("[data-role=assistant] p")
        await expect(answer).not_to_have_text(["It is done. Or is it?"])
        model.let(100)
        await expect(answer).to_have_text(["It is done. Or is it?"])
        await ask(page, "Mail it")
        await page.get_by_role("button", name="Approve").click()
        await expect(answer.last).to_have_text("Sent.")
        await expect(page.locator("pre").last).to_contain_text("Sent to Ada.")
        # The trace of the run, with the one that paused for the approval.
        await expect(page.locator("rx-run").get_by_role("button", name="send_mail")).to_be_visible()
        await expect(page.locator("rx-run .turn")).to_have_count(2)
        # The panels are those of the conversation.
        panel = page.locator("rx-panel[panel=calls-by-tool]")
        await expect(panel.locator("tbody tr")).to_have_count(2)
        # What the package for JavaScript shows of it: the run that continues, with the mail.
        await expect(page.locator("#run")).to_have_text(re.compile(r"^finished · 1 call · [1-9]\d* tokens$"))
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.locator("[data-role]")).to_have_count(4)
        await expect(answer.last).to_have_text("Sent.")
        await expect(page.locator("#steps li")).to_have_text(["Write"])
        model._allowed = type(model._allowed)(1)  # pyright: ignore[reportPrivateUsage]
        await ask(page, "Talk")
        await expect(answer).to_have_count(3)
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


async def test_a_page_with_assistant_ui_over_ag_ui(example: ModuleType, browser: Browser) -> None:
    plan = call("add_step", title="Write") + call("throw_confetti", color="teal")
    again = call("add_step", title="Test") + call("send_mail", to="Ada")
    model = GatedModel([plan, say("It is done."), again, say("Sent."), say("On and on and on.")], free=True)
    async with page_of(example, browser, model, "agui.html") as page:
        await ask(page, "Plan it")
        await expect(page.locator("#steps li")).to_have_text(["Write"])
        await expect(page.locator("header > .mark")).to_have_css("background-color", "rgb(0, 128, 128)")
        await expect(page.locator("[data-role=assistant] p").last).to_have_text("It is done.")
        # The page changes the state, and the worker continues with it.
        await page.get_by_role("button", name="Begin anew").click()
        await ask(page, "Mail it")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("[data-role=assistant] p").last).to_have_text("Sent.")
        await expect(page.locator("#steps li")).to_have_text(["Begin anew", "Test"])
        model._free = False  # pyright: ignore[reportPrivateUsage]
        model.let(1)
        await ask(page, "Talk")
        await expect(page.locator("[data-role=assistant] p").last).to_contain_text("On")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
