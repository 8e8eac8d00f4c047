"""A chat front end that runs in the browser, as a page of another origin."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Browser

from rxworker import Worker
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import Settings, WebServer
from tests.ui.browser.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
TOKEN = "a-very-secret-token-0123456789"
ASK = """async ([url, token]) => {
  const answer = await fetch(`${url}v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", "X-Client": "1" },
    body: JSON.stringify({ model: "worker", stream: true, messages: [{ role: "user", content: "hi" }] }),
  });
  return answer.text();
}"""


def make_worker() -> Worker:
    return Worker(ScriptedModel([say("Hello!")]))


async def front(_: web.Request) -> web.Response:
    return web.Response(text="<!doctype html><title>Chat</title>", content_type="text/html")


async def test_a_page_of_an_allowed_origin_shows_an_answer(browser: Browser, make_site: Site) -> None:
    app = web.Application()
    app.add_routes([web.get("/", front)])
    page = await browser.new_page()
    try:
        async with make_site("/chat/", app) as site:
            settings = Settings(token=TOKEN, allowed_origins=(site.rstrip("/"),))
            await page.goto(f"{site}chat/")
            for allowed in (settings, Settings(token=TOKEN)):
                async with WebServer(make_worker, port=0, settings=allowed) as server:
                    answer = page.evaluate(ASK, [server.url, TOKEN])
                    if allowed is settings:
                        text: Any = await answer
                        assert "Hello!" in text
                        assert text.endswith("data: [DONE]\n\n")
                    else:
                        with pytest.raises(Exception, match="Failed to fetch"):
                            await answer
    finally:
        await page.close()
