"""The time bar: a run is shown as it was at one of its records, it is played, and it is forked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from rxworker import tool
from rxworker.cli.demo_script import QUESTION
from rxworker.cli.serve import WatchedWorker
from rxworker.events import Record
from rxworker.testing import call, say, think
from rxworker.ui.web import WebServer

if TYPE_CHECKING:
    from conftest import Desk, GatedModel
    from playwright.async_api import Page, Route

pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import expect
from test_fold import NODE, page_folds

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
MOVE = "(n, part) => { n.value = n.max * part; n.dispatchEvent(new Event('input', { bubbles: true })); }"
SLIDER = "#time-slider"


async def move(page: Page, part: float) -> int:
    """Drag the slider to a part of its length; return the number of the record that is shown then."""
    await page.locator(SLIDER).evaluate(MOVE, part)
    await drawn(page)
    return await seq(page)


async def drawn(page: Page) -> None:
    """Wait until the page has drawn what was asked for."""
    await page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


async def seq(page: Page) -> int:
    """The number of the record that the conversation shows."""
    return int(await page.locator("#conversation").get_attribute("data-seq") or 0)


async def past(page: Page, is_past: bool) -> None:
    """Wait until the past or the present is shown."""
    await expect(page.locator("#time-bar")).to_have_attribute("data-past", str(is_past).lower())


async def answers(page: Page) -> list[str]:
    """The answers that are shown."""
    return await page.locator(
        "#conversation > .block.text:not(.retracted) .text"
    ).all_text_contents()


async def agree(page: Page, records: Sequence[Record]) -> None:
    """The page shows what these records fold to, and nothing else."""
    [folded] = page_folds(records)
    assert await seq(page) == folded["seq"]
    kinds = {"text", "thinking"}
    texts = [one["text"] for one in folded["items"] if one["kind"] in kinds]
    assert await page.locator("#conversation > .block .text").all_text_contents() == texts
    calls = [one["name"] for one in folded["items"] if one["kind"] == "call"]
    assert await page.locator("#conversation > .call .call-name").all_text_contents() == calls
    await expect(page.locator("#lanes .lane")).to_have_count(folded["lanes"])
    usage = folded["usage"]
    numbers = [(usage["input_tokens"], "read"), (usage["output_tokens"], "written")]
    expected = " · ".join(f"{n} {word}" for n, word in numbers if n is not None)
    await expect(page.locator("#tokens-caption")).to_have_text(
        expected or "no numbers yet", use_inner_text=True
    )
    await expect(page.locator("#run-facts")).to_contain_text(
        f"{(usage['input_tokens'] or 0) + (usage['output_tokens'] or 0)} tokens"
    )


@tool
async def look(where: str) -> str:
    """Look."""
    await asyncio.sleep(0.1)
    return f"nothing {where}"


@pytest.mark.skipif(NODE is None, reason="node is not installed")
async def test_the_page_shows_what_the_records_up_to_the_slider_fold_to(
    desk: Desk, gated: type[GatedModel]
) -> None:
    replies = [think("Hm.") + say(LONG) + call("look", where="there"), say("Nothing is there.")]
    async with desk.serve(gated(replies, free=True), [look]):
        page = await desk.open()
        await expect(page.locator("#time-bar")).to_be_hidden()
        await desk.ask(page)
        await desk.status(page, "finished")
        await past(page, False)
        last, shown = await seq(page), await answers(page)
        records = [record for batch in desk.runs[0].history for record in [batch]]
        seen = set[int]()
        for part in (0.5, 0.9, 0.2, 0.0, 0.7):
            at = await move(page, part)
            await past(page, True)
            # The records arrive one by one after the first move.
            await agree(page, [record for record in records if record.seq <= await seq(page)])
            assert 1 <= at < last
            assert "".join(shown).startswith("".join(await answers(page)))
            seen.add(at)
        assert len(seen) > 2
        await expect(page.locator("#run-status")).to_have_text("finished")
        await page.locator("#time-live").click()
        await past(page, False)
        await desk.same(page, desk.runs[0])
