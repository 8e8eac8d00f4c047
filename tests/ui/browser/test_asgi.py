"""The FastAPI program, under uvicorn as its first lines say, with httpx and in a browser."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest_asyncio.fixture(loop_scope="session")
async def program() -> AsyncGenerator[str, None]:
    """The address of the program, in a process of its own."""
    options = ["--app-dir", str(EXAMPLES), "--port", "0", "--timeout-graceful-shutdown", "2"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", *options, "fastapi_app:app"),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUTF8": "1", "NO_PROXY": "127.0.0.1"},
    )
    assert process.stderr is not None
    lines = b""
    try:
        while b"running on" not in lines:
            line = await process.stderr.readline()
            assert line, lines.decode()
            lines += line
        yield lines.decode().rpartition("running on ")[2].split()[0]
    finally:
        process.terminate()
        _, rest = await process.communicate()
    assert b"Error" not in rest, rest.decode()
    assert b"Finished server process" in rest


async def test_an_address_of_the_program_starts_a_run_that_the_api_shows(program: str) -> None:
    async with httpx.AsyncClient(base_url=program, trust_env=False) as http:
        answer = (await http.post("/ask", params={"question": "What is the moon?"})).json()
        assert answer["answer"] == "The moon is a stone that shines."
        run = (await http.get(f"/desk/api/runs/{answer['run']}")).json()
        assert (run["title"], run["status"]) == ("What is the moon?", "finished")
        started = (await http.post("/desk/api/runs", json={"input": "Again"})).json()
        async with http.stream("GET", f"/desk/api/runs/{started['id']}/events") as events:
            assert events.headers["Content-Type"].startswith("text/event-stream")
            assert "event: end" in (await events.aread()).decode()
        assert (await http.get("/desk")).status_code == 307
        assert (await http.get("/desk/api/nothing")).json()["error"]["code"] == "not_found"


@pytest.mark.slow
async def test_the_page_works_below_a_prefix(program: str, browser: Browser) -> None:
    page = await browser.new_page()
    try:
        await page.goto(f"{program}/desk/")
        await page.locator("#composer-input").fill("What is the moon?")
        await page.keyboard.press("Enter")
        await page.get_by_text("The moon is a stone that shines.").first.wait_for()
    finally:
        await page.close()
