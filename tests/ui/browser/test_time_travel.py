"""The time bar: a run is shown as it was at one of its records, it is played, and it is forked."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from rxworker import Run, tool
from rxworker.cli import demo_script
from rxworker.cli.demo_script import QUESTION, demo_worker
from rxworker.events import Record
from rxworker.hub import Reliable
from rxworker.testing import ScriptedModel, call, say, think
from tests.ui.browser.conftest import Desk, GatedModel
from tests.ui.browser.test_fold import NODE, STATIC, page_tells

LONG = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
MOVE = "(n, part) => { n.value = n.max * part; n.dispatchEvent(new Event('input', { bubbles: true })); }"
SLIDER = "#time-slider"


NEAR = """
const { Moments } = await import(process.argv[1]), moments = new Moments();
moments.take([[0, 5, 5, 5, 6].map((time, n) => ({ seq: n + 1, time, event: { type: "status" } }))]);
console.log(JSON.stringify([[5], [5, 3], [9, 2], [5.5, 4], [-1, 1]].map((given) => moments.near(0, ...given)[0])));
"""


def test_of_records_of_one_time_the_one_that_was_shown_is_shown_when_more_arrive() -> None:
    """The moments have other numbers then, and are found by their times and their records."""
    assert NODE is not None
    command = [NODE, "--input-type=module", "-e", NEAR, (STATIC / "model" / "travel.js").as_uri()]
    done = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(done.stdout) == [3, 2, 1, 3, 0]


SEEK = """
const [{ Travel }, { Timeline }, { newRun }] = await Promise.all(process.argv.slice(1).map((file) => import(file)));
const record = (seq, covers = 1) => ({ seq, covers, time: seq, event: { type: "status" } });
const timeline = new Timeline([Object.assign(newRun("run"), { started: 1, last: 20 })]);
let tape = [record(1), record(2), record(12, 10), record(20, 8)];
const travel = new Travel({ tape: () => tape }, { timeline, refine() {} });
travel.update(0);
travel.seekClock(7);
travel.update(0);
tape = Array.from({ length: 20 }, (_, n) => record(n + 1));
travel.update(0);
console.log(travel.place.seq);
"""


def test_a_moment_between_merged_records_is_that_of_the_last_one_before_it_once_they_are_received_one_by_one() -> None:
    assert NODE is not None
    files = [(STATIC / "model" / name).as_uri() for name in ("travel.js", "timeline.js", "fold.js")]
    done = subprocess.run([NODE, "--input-type=module", "-e", SEEK, *files], capture_output=True, check=True)
    assert json.loads(done.stdout) == 7


async def move(page: Page, part: float) -> int:
    """Drag the slider to a part of its length; return the number of the record that is shown then."""
    await page.locator(SLIDER).evaluate(MOVE, part)
    await drawn(page)
    return await seq(page)


async def drawn(page: Page) -> None:
    """Wait until the page has drawn what was asked for."""
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def seq(page: Page) -> int:
    """The number of the record that the conversation shows."""
    return int(await page.locator("#conversation").get_attribute("data-seq") or 0)


async def past(page: Page, is_past: bool) -> None:
    """Wait until the past or the present is shown."""
    await expect(page.locator("#time-bar")).to_have_attribute("data-past", str(is_past).lower())


async def answers(page: Page) -> list[str]:
    """The answers that are shown."""
    return await page.locator("#conversation > .block.text:not(.retracted) .text").all_text_contents()


async def agree(page: Page, records: Sequence[Record]) -> None:
    """The page shows what these records fold to, and nothing else."""
    [folded] = page_tells([records])
    assert await seq(page) == folded["seq"]
    kinds = {"text", "thinking"}
    texts = [one["text"].rstrip() for one in folded["items"] if one["kind"] in kinds]
    shown = await page.locator("#conversation > .block .text").all_text_contents()
    # Markdown has no space at the end of a paragraph, where the moment may be.
    assert [text.rstrip() for text in shown] == texts
    calls = [one["name"] for one in folded["items"] if one["kind"] == "call"]
    assert await page.locator("#conversation > .call .call-name").all_text_contents() == calls
    await expect(page.locator("#lanes .lane")).to_have_count(folded["lanes"])
    usage, about = folded["totals"]["usage"], "≈ " if folded["totals"]["isEstimate"] else ""
    await expect(page.locator("#run-facts")).to_contain_text(
        f"{about}{(usage['input_tokens'] or 0) + (usage['output_tokens'] or 0)} tokens"
    )


@tool
async def look(where: str) -> str:
    """Look."""
    await asyncio.sleep(0.1)
    return f"nothing {where}"


async def records_of(run: Run[object]) -> list[Record]:
    """The single records of a run that has ended."""
    return [record async for batch in run.watch(Reliable(None)).batches() for record in batch]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
async def test_the_page_shows_what_the_records_up_to_the_slider_fold_to(desk: Desk) -> None:
    replies = [think("Hm.") + say(LONG) + call("look", where="there"), say("Nothing is there.")]
    async with desk.serve(ScriptedModel(replies, delay=0.02), [look]):
        page = await desk.open()
        await expect(page.locator("#time-bar")).to_be_hidden()
        await desk.ask(page, status="finished")
        await past(page, False)
        [run] = desk.runs
        records, whole = await records_of(run), "".join(await answers(page))
        # A page that is opened later receives the texts as wholes; it asks for their parts when they are needed.
        later = await desk.open(f"#{run.id}")
        await desk.answers(later, LONG, "Nothing is there.")
        await move(later, 0.5)
        await desk.split(later, run)
        seen = set[int]()
        for part in (0.5, 0.9, 0.2, 0.0, 0.7):
            at = await move(later, part)
            seen.add(at)
            await past(later, True)
            await agree(later, records[:at])
            assert whole.startswith("".join(await answers(later)))
        assert len(seen) > 3
        await desk.status(later, "finished")
        await later.locator("#time-live").click()
        await past(later, False)
        assert await seq(later) == run.last_seq
        await desk.answers(later, LONG, "Nothing is there.")


@pytest.mark.slow
async def test_the_arrows_go_from_record_to_record(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.asking(model) as page:
        for n in range(1, 6):
            model.let(1)
            await desk.answers(page, LONG[: 4 * n])
        last = await seq(page)
        slider = page.locator(SLIDER)
        await slider.focus()
        for back in (1, 2, 3):
            await page.keyboard.press("ArrowLeft")
            await desk.answers(page, LONG[: 4 * (5 - back)])
            assert await seq(page) == last - back
        text = await slider.get_attribute("aria-valuetext")
        assert text is not None
        assert text.endswith(f"record {last - 3}")
        for forth in (2, 1, 0):
            await past(page, True)
            await page.keyboard.press("ArrowRight")
            await desk.answers(page, LONG[: 4 * (5 - forth)])
        await past(page, False)
        await page.keyboard.press("Home")
        await desk.answers(page)
        assert await seq(page) == 1
        model.let_all()
        await desk.status(page, "finished")


async def test_a_run_goes_on_behind_its_past(desk: Desk) -> None:
    model = GatedModel([say(LONG)])
    async with desk.asking(model) as page:
        model.let(3)
        await desk.answers(page, LONG[:12])
        await expect(page.locator("#time-live")).to_have_text("Live")
        await move(page, 0)
        assert await answers(page) == []
        end = float(await page.locator(SLIDER).get_attribute("max") or 0)
        model.let_all()
        await desk.status(page, "finished")
        await desk.answers(page)
        await past(page, True)
        assert await seq(page) == 1
        assert float(await page.locator(SLIDER).get_attribute("max") or 0) > end
        await desk.press(page, "End")
        await desk.same(page, desk.runs[0])
        # What follows is shown as it arrives.
        await desk.ask(page, "More")
        await expect(page.locator("#time-bar")).to_have_attribute("data-past", "false")


def slow_records(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let so many seconds be between two records of a run, without a wait."""
    now = itertools.count(1e9, seconds)
    clock = SimpleNamespace(time=lambda: next(now))
    monkeypatch.setattr("rxworker.worker.session_base.time", clock)


@pytest.mark.slow
async def test_a_run_is_played_to_its_end_with_a_bar_that_fits_and_can_be_touched(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_records(monkeypatch, 0.2)
    async with desk.asking(GatedModel([say(LONG)], free=True), status="finished") as page:
        await page.locator("#time-speeds button").last.click()
        await page.locator(SLIDER).focus()
        watch = """() => {
          const talk = document.querySelector('#conversation');
          window.seen = [];
          new MutationObserver(() => window.seen.push(Number(talk.dataset.seq))).observe(talk, { attributes: true });
        }"""
        await page.evaluate(watch)
        await page.keyboard.press("Space")
        last = desk.runs[0].last_seq
        await page.wait_for_function("(last) => window.seen.at(-1) === last", arg=last)
        await past(page, False)
        await expect(page.locator("#time-play")).to_have_attribute("aria-label", "Play")
        seen: list[int] = await page.evaluate("window.seen")
        assert seen[0] < last
        assert seen == sorted(seen)
        await desk.answers(page, LONG)
        await page.evaluate("document.querySelector('#time-fork').hidden = false")
        for width in (1280, 360):
            await page.set_viewport_size({"width": width, "height": 800})
            await move(page, 0.5)
            await past(page, True)
            small: list[str] = await page.evaluate(
                """() => [...document.querySelectorAll("#time-bar button, #time-bar input")].filter((node) => {
                  const box = node.getBoundingClientRect();
                  const isOut = box.left < 0 || box.right > innerWidth;
                  return !node.checkVisibility() || box.height < 40 || box.width < 40 || isOut;
                }).map((node) => node.id)"""
            )
            assert small == [], width
        for node in await page.locator("#time-bar button, #time-bar input").all():
            named = await node.evaluate("(n) => n.ariaLabel || n.textContent.trim()")
            assert named


async def test_playing_stops_where_it_is(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_records(monkeypatch, 100.0)
    async with desk.asking(GatedModel([say(LONG)], free=True), status="finished") as page:
        await desk.press(page, "Play")
        await past(page, True)
        await desk.press(page, "Stop playing")
        at = await page.locator(SLIDER).input_value()
        await drawn(page)
        assert await page.locator(SLIDER).input_value() == at
        await past(page, True)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="node is not installed")
async def test_the_demo_and_the_run_that_continues_it_have_one_past(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_script, "PACE", demo_script.PACE / 4)
    async with desk.serve_workers(lambda: demo_worker(always_books=True)) as server:
        entry = server.state.runs.start(QUESTION)
        page = await desk.open(f"#{entry.id}")
        await expect(page.locator("#approval")).to_be_visible()
        await move(page, 0.5)
        await expect(page.locator("#approval")).to_be_hidden()
        run = entry.run
        assert isinstance(run, Run)
        await desk.split(page, run)
        records = await records_of(run)
        for part in (0.5, 0.7, 0.3):
            at = await move(page, part)
            await agree(page, records[:at])
        await page.locator("#time-live").click()
        await page.get_by_role("button", name="Approve", exact=True).click()
        await expect(page.locator("#run-status")).to_have_text("finished")
        whole = await answers(page)
        assert len(whole) == 3
        await move(page, 0.3)
        await past(page, True)
        await expect(page.locator("#lanes .lane-break")).to_have_count(0)
        half = "".join(await answers(page))
        assert half
        assert "".join(whole).startswith(half)
        assert half != "".join(whole)
        # Before the pause, the call is not there yet; after it, both runs are on one axis.
        await move(page, 0.95)
        await expect(page.locator("#lanes .lane-break")).to_have_count(1)
        await expect(page.locator("#conversation .call")).to_have_count(3)
        await page.locator("#time-live").click()
        await past(page, False)
        assert await answers(page) == whole


@pytest.mark.slow
async def test_a_run_is_forked_where_the_server_can(desk: Desk) -> None:
    model = GatedModel([say(LONG), say("Other.")], free=True)
    asked: list[tuple[str, Any]] = []
    async with desk.serve(model) as server:
        page = await desk.asked(status="finished")
        await expect(page.locator("#time-fork")).to_be_hidden()
        fork = server.state.runs.start("The fork")
        await asyncio.gather(*desk.runs)

        async def info(route: Route) -> None:
            response = await route.fetch()
            await route.fulfill(response=response, json=await response.json() | {"can_fork": True})

        async def post(route: Route) -> None:
            asked.append((route.request.url, json.loads(route.request.post_data or "")))
            if len(asked) == 1:
                error = {"code": "bad_record", "message": "It cannot begin there."}
                await route.fulfill(status=409, json={"error": error})
                return
            summary = await page.evaluate("(id) => fetch(`api/runs/${id}`).then((answer) => answer.json())", fork.id)
            await route.fulfill(status=201, json=summary)

        await page.route("**/api/info", info)
        await page.route("**/api/runs/*/fork", post)
        await page.reload()
        await desk.answers(page, LONG)
        await move(page, 0.5)
        at = await seq(page)
        button = page.get_by_role("button", name="Fork from here")
        await button.click()
        await expect(page.locator("#composer-note")).to_have_text("It cannot begin there.")
        await past(page, True)
        await button.click()
        await expect(page.locator("#run-title")).to_have_text("The fork")
        await past(page, False)
        assert page.url.endswith(f"#{fork.id}")
        assert [body for _, body in asked] == [{"seq": at}, {"seq": at}]
        assert asked[0][0].endswith(f"/api/runs/{desk.runs[0].id}/fork")
    desk.problems.clear()  # the browser reports the refusal
