"""What the page makes of characters that would hide or reorder a text: the same as the terminal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

import rxworker.ui.web
from rxworker import tool
from rxworker.testing import call, say, think
from rxworker.ui.clean import clean
from tests.ui.browser.conftest import Desk, GatedModel

STATIC = Path(rxworker.ui.web.__file__).parent / "static"
NODE = shutil.which("node")
READABLE = """
import { readFileSync } from "node:fs";
const { readable } = await import(process.argv[1]);
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(readable)));
"""
EVIL = "report\u202excod.sh \x1b[2J\u2066\u200f end"
SHOWN = "report\ufffdxcod.sh ␛[2J\ufffd end"


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_and_the_terminal_change_the_same_characters() -> None:
    assert NODE is not None
    texts = [chr(code) for code in (*range(0x3000), *range(0xFE00, 0x10000), 0x1F680, 0xE0041)]
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", READABLE, (STATIC / "model" / "format.js").as_uri()],
        input=msgspec.json.encode(texts),
        capture_output=True,
        timeout=50,
        check=True,
    )
    assert msgspec.json.decode(done.stdout) == [clean(text) for text in texts]


@tool
async def look(where: str) -> str:
    """Look."""
    return f"{where}: {EVIL}"


@pytest.mark.asyncio(loop_scope="session")
async def test_no_text_of_a_model_or_a_tool_hides_or_turns_anything(desk: Desk) -> None:
    pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    from playwright.async_api import expect

    replies = [think(EVIL) + say(EVIL) + call("look", where=EVIL), say("Done.")]
    async with desk.asking(GatedModel(replies, free=True), [look], text=f"Look at {EVIL}", status="finished") as page:
        await desk.answers(page, SHOWN, "Done.")
        await expect(page.locator(".message.user .text")).to_have_text(f"Look at {SHOWN}")
        await expect(page.locator(".block.thinking .text")).to_have_text(SHOWN)
        await page.locator(".call summary").click()
        await expect(page.locator(".call .result")).to_have_text(f"{SHOWN}: {SHOWN}")
        await expect(page.locator("#run-title")).to_have_text(f"Look at {SHOWN}")
        hidden = r"/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]/"
        assert not await page.evaluate(f"{hidden}.test(document.body.textContent + document.title)")
