"""The list of conversations: grouped, searched, filtered, and moved through by keyboard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from rxworker import Limits, Worker
from rxworker.log import Replica, SQLiteLog
from rxworker.messages import Prices
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk, GatedModel


async def test_costs_are_listed_in_their_currencies_and_unknown_ones_as_such(desk: Desk, tmp_path: Path) -> None:
    prices = {"gpt-5.1": None, "mine": None, "ours": Prices(1000.0, 1000.0, currency="EUR")}
    models = iter(["mine", "gpt-5.1", "ours", "ours"])

    def make() -> Worker:
        name = next(models)
        return Worker(ScriptedModel(["Well."], model=name), limits=Limits(prices=prices[name]))

    async with SQLiteLog(tmp_path / "runs.db") as log, desk.serve_workers(make, log=log) as server:
        for text in ("unknown", "dollars", "euros"):
            run = server.state.runs.start(text).run
            assert isinstance(run, Replica)
            await run.ended()
        page = await desk.open("?sort=cost")
        lines = page.locator("#run-list > li > a")
        await expect(lines.locator(".run-line-title")).to_have_text(["euros", "dollars", "unknown"])
        await expect(lines.locator(".run-line-when")).to_have_text(["0.015 EUR", "0.0000625 USD", "?"])


async def test_a_conversation_is_one_line_with_its_earlier_runs_below(desk: Desk) -> None:
    async with desk.asking(
        GatedModel([say("First."), say("Second.")], free=True), text="Begin", status="finished"
    ) as page:
        await desk.ask(page, "More")
        await desk.answers(page, "First.", "Second.")
        line = page.locator("#run-list > li")
        await expect(line).to_have_count(1)
        await expect(line.locator("> a .run-line-title")).to_have_text("More")
        await expect(line.locator("> a .run-line-more")).to_have_text("2 runs")
        await line.locator(".run-earlier a").click()
        await expect(page.locator("#run-list [aria-current]")).to_contain_text("Begin")
        await expect(line).to_have_count(1)
        # Without a selection the earlier runs are folded.
        await desk.press(page, "New run")
        await expect(line.locator(".run-earlier")).to_have_count(0)


async def test_runs_are_found_by_their_texts_and_the_keyboard_alone_opens_them(desk: Desk, tmp_path: Path) -> None:
    answers = iter(["An old silent pond.", "Rain.", "Hail.", "Snow."])

    def make() -> Worker:
        return Worker(ScriptedModel([next(answers)]))

    async with SQLiteLog(tmp_path / "runs.db") as log, desk.serve_workers(make, log=log) as server:
        for text in ("A haiku", "The weather", "And tomorrow"):
            run = server.state.runs.start(text).run
            assert isinstance(run, Replica)
            await run.ended()
        page = await desk.open()
        lines = page.locator("#run-list > li")
        await expect(lines).to_have_count(3)
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("/")
        await page.keyboard.type("weath")
        await expect(lines).to_have_count(1)
        await page.keyboard.press("Escape")
        await expect(lines).to_have_count(3)
        await page.keyboard.type("POND")
        await expect(lines.locator(".run-line-excerpt")).to_have_text("An old silent pond.")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await desk.answers(page, "An old silent pond.")
        await expect(page.locator("#conversation .found")).to_contain_text("An old silent pond.")
        await page.keyboard.press("ArrowUp")
        await expect(page.locator("#run-search")).to_be_focused()
        await page.keyboard.type("nothing")
        await expect(page.locator("#no-runs")).to_have_text("No run matches.")
        await page.get_by_role("button", name="Show all").press("Enter")
        await expect(lines).to_have_count(3)
        await expect(page.locator("#run-search")).to_be_focused()
        # A run that matches later appears.
        await page.locator("#run-search").fill("snow")
        await expect(page.locator("#no-runs")).to_have_text("No run matches.")
        server.state.runs.start("More")
        await expect(lines.locator(".run-line-excerpt")).to_have_text("Snow.")


@pytest.mark.slow
async def test_on_a_phone_the_keyboard_opens_the_list_and_a_run_and_a_touch_beside_the_list_closes_it(
    desk: Desk,
) -> None:
    """With motion: the list is not visible when it begins to move."""
    async with desk.asking(GatedModel([say("A frog.")], free=True), width=600, status="finished") as page:
        await page.emulate_media(reduced_motion="no-preference")
        await desk.press(page, "More")
        await page.keyboard.press("Escape")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("/")
        await expect(page.locator("#run-search")).to_be_focused()
        await page.evaluate("location.hash = ''")
        await expect(page.locator("#welcome")).to_be_visible()
        await expect(page.locator("#runs")).to_be_hidden()
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("/")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await desk.answers(page, "A frog.")
        await expect(page.locator("#menu")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#menu")).to_have_attribute("aria-expanded", "true")
        await page.mouse.click(590, 300)
        await expect(page.locator("#menu")).to_have_attribute("aria-expanded", "false")


async def test_numbers_are_estimates_while_a_response_streams_and_belong_to_a_run_or_all(desk: Desk) -> None:
    model = GatedModel([say("An old silent pond. A frog.")])
    settings = Settings(title="Desk", prices={"gated-1": Prices(input=100.0, output=1000.0)})
    async with desk.asking(model, settings=settings, text="A haiku!") as page:
        model.let(1)
        await expect(page.locator("#run-facts")).to_contain_text(re.compile("≈ .*≈ "))
        written = await desk.usage(page, "Text so far, about")
        await expect(written).to_have_text(re.compile("^[0-9.]+ tokens$"))
        model.let_all()
        await desk.status(page, "finished")
        await expect(page.locator("#run-facts")).not_to_contain_text("≈")
        await expect(await desk.usage(page, "Tokens")).to_have_text("15")
        await expect(await desk.usage(page, "Cost")).to_have_text("0.006 USD")
        by_model = await desk.usage(page, "Cost by model", "tr")
        await expect(by_model).to_have_text("gated-10.006 USD")
        await page.locator("#usage-scope").get_by_role("button", name="All runs").click()
        await expect(await desk.usage(page, "Runs")).to_have_text("1")
        # It is a choice of the reader, and not of the address.
        assert "of=" not in page.url


@pytest.mark.slow
async def test_a_conversation_is_named_tagged_pinned_and_deleted_from_the_list(desk: Desk, tmp_path: Path) -> None:
    model = ScriptedModel(["One.", "Two.", "Three."])

    def make() -> Worker:
        return Worker(model)

    def line(title: str) -> Locator:
        return page.locator("#run-list > li", has=page.locator(f".run-line-title:text('{title}')"))

    async def act(title: str, command: str) -> None:
        await page.get_by_role("button", name=f"Actions of {title}", exact=True).click()
        await page.locator("#line-menu").get_by_role("button", name=command, exact=True).click()

    dialog_field = "#field-dialog input"
    async with SQLiteLog(tmp_path / "runs.db") as log:
        async with desk.serve_workers(make, log=log) as server:
            for text in ("first", "second", "third"):
                run = server.state.runs.start(text).here
                assert run is not None
                await run
            page = await desk.open()
            await line("first").locator("a").click()
            await desk.answers(page, "One.")
            await act("first", "Rename…")
            await expect(page.locator(dialog_field)).to_have_value("first")
            await page.locator(dialog_field).fill("The pond")
            await page.keyboard.press("Enter")
            await expect(page.locator("#run-title")).to_have_text("The pond")
            more = page.get_by_role("button", name="Actions of The pond", exact=True)
            await expect(more).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.locator("#line-menu button").first).to_be_focused()
            await page.keyboard.press("Escape")
            await act("The pond", "Tags…")
            await page.locator(dialog_field).fill("water, frogs")
            await page.keyboard.press("Enter")
            await expect(line("The pond").locator(".run-line-tags span")).to_have_text(["water", "frogs"])
            # The pinned one is the first, though the oldest.
            titles = page.locator("#run-list > li > a .run-line-title")
            await expect(titles).to_have_text(["third", "second", "The pond"])
            await act("The pond", "Pin")
            await expect(titles).to_have_text(["The pond", "third", "second"])
        async with desk.serve_workers(make, log=log) as server:
            page = await desk.open()
            titles = page.locator("#run-list > li > a .run-line-title")
            await expect(titles).to_have_text(["The pond", "third", "second"])
            # A filter is saved under a name, and applied again after a reload.
            await page.get_by_role("button", name="Filter and sort").click()
            await page.get_by_role("combobox", name="Tag", exact=True).select_option("frogs")
            await expect(titles).to_have_text(["The pond"])
            await page.get_by_role("button", name="Save this filter").click()
            await page.locator(dialog_field).fill("Frogs")
            await page.keyboard.press("Enter")
            saved = page.locator("#run-saved").get_by_role("button", name="Frogs", exact=True)
            await expect(saved).to_have_attribute("aria-pressed", "true")
            await saved.click()
            await expect(titles).to_have_count(3)
            await expect(page).not_to_have_url(re.compile("frogs"))
            await page.reload()
            await saved.click()
            await expect(titles).to_have_text(["The pond"])
            await page.get_by_role("button", name="Forget the filter Frogs").click()
            await expect(page.locator("#run-saved")).to_be_hidden()
            await page.keyboard.press("Escape")
            await expect(titles).to_have_count(3)
            # Several at once.
            await line("third").locator("a").click()
            await desk.answers(page, "Three.")
            await act("third", "Select")
            await page.get_by_role("checkbox", name="Select second").check()
            bar = page.locator("#run-selection")
            await expect(bar.get_by_role("status")).to_have_text("2 selected")
            await bar.get_by_role("button", name="Add tags…").click()
            await page.locator(dialog_field).fill("old")
            await page.keyboard.press("Enter")
            await expect(page.locator(".run-line-tags span", has_text="old")).to_have_count(2)
            await bar.get_by_role("button", name="Delete…").click()
            dialog = page.get_by_role("dialog", name="Delete…")
            await expect(dialog).to_contain_text("Delete 2 conversations with 2 runs?")
            await dialog.get_by_role("button", name="Cancel").click()
            await expect(titles).to_have_count(3)
            await bar.get_by_role("button", name="Delete…").click()
            await dialog.get_by_role("button", name="Delete", exact=True).click()
            await expect(titles).to_have_text(["The pond"])
            await expect(page.locator("#welcome")).to_be_visible()
            await bar.get_by_role("button", name="Done").click()
            await expect(bar).to_be_hidden()
            assert [info.row.title for info in await log.list()] == ["first"]


async def test_the_dialog_states_why_a_conversation_cannot_be_deleted(desk: Desk) -> None:
    model = GatedModel([say("A frog jumps.")])
    async with desk.asking(model, text="Go", status="running") as page:
        await page.get_by_role("button", name="Actions of Go", exact=True).click()
        await page.locator("#line-menu").get_by_role("button", name="Delete…").click()
        dialog = page.get_by_role("dialog", name="Delete…")
        await dialog.get_by_role("button", name="Delete", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("is running: cancel it")
        await dialog.get_by_role("button", name="Cancel").click()
        model.let_all()
        await desk.status(page, "finished")
        desk.problems.clear()  # the browser reports the answer 409
