"""Read-only links on the page: what their visitors see, in a browser that has no other right, and how they end."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from rxworker import tool
from rxworker.messages import Prices
from rxworker.testing import call, say
from rxworker.ui.web import Settings
from rxworker.ui.web.boards.links import PREFIX
from tests.ui.browser.conftest import Desk, GatedModel

TOKEN = "a-very-secret-token-0123456789"
LOCKED = Settings(title="Desk", token=TOKEN, prices={"gated-1": Prices(input=3.0, output=15.0, currency="EUR")})
OVER = "this link was revoked or has ended: its owner can make another one"
HIDDEN = ["#runs", "#composer", "#approval", "#controls", "#board-scope", "#board-share"]


@tool(requires_approval=True)
def look(where: str) -> str:
    """Look."""
    return f"nothing {where}"


async def make_link(page: Page) -> str:
    """Make a link in the dialog that is open; returns its address."""
    await page.get_by_role("button", name="Make a link").click()
    address = page.get_by_label("Address of the link")
    await expect(address).to_have_value(re.compile(f"/shared#link={PREFIX}"))
    return await address.input_value()


async def share_run(page: Page) -> str:
    await page.locator("#run-more").click()
    await page.get_by_role("button", name="Share a read-only link…").click()
    return await make_link(page)


async def test_a_link_shows_a_run_as_it_goes_on_and_nothing_can_be_done(desk: Desk) -> None:
    model = GatedModel([say("Now it goes on.", chunk=3)])
    async with desk.serve(model, settings=LOCKED, dashboards=None):
        page = await desk.open(f"?token={TOKEN}")
        await desk.ask(page)
        model.let(1)
        address = await share_run(page)
        guest = await desk.open(url=address)
        await desk.answers(guest, "Now")
        await expect(guest.locator("#run-title")).to_have_text("Go")
        await expect(guest.locator("#share-note")).to_be_visible()
        for each in HIDDEN:
            await expect(guest.locator(each)).to_be_hidden()
        model.let_all()
        await desk.status(guest, "finished")
        await desk.answers(guest, "Now it goes on.")
        await expect(guest.locator("#run-facts")).to_contain_text(re.compile(r"cost .* EUR"))
        # Its dashboards are part of it.
        await desk.view(guest, "#board-panel")
        await expect(guest.locator("#board .board-panel").first).to_be_visible()
        # A moment is part of the address, as on the page.
        await guest.evaluate("document.activeElement.blur()")
        await guest.locator("#time-slider").press("Home")
        await expect(guest.locator("#time-bar")).to_have_attribute("data-past", "true")
        # The visitor reloads, and has what the link shows again, at that moment; nothing else is offered by the
        # commands.
        await guest.reload()
        await expect(guest.locator("#time-bar")).to_have_attribute("data-past", "true")
        await guest.locator("#time-slider").press("End")
        await desk.answers(guest, "Now it goes on.")
        await guest.locator("#commands").click()
        offered = await guest.locator("#palette-list").inner_text()
        assert not {"New run", "Pause", "Share a read-only link…"} & set(offered.splitlines())


@pytest.mark.slow
async def test_a_link_that_is_revoked_ends_before_the_eyes_of_its_visitor(desk: Desk) -> None:
    model = GatedModel([say("Now never.", chunk=3)])
    async with desk.asking(model) as page:
        model.let(1)
        address = await share_run(page)
        guest = await desk.open(url=address)
        await desk.answers(guest, "Now")
        await page.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_role("button", name="Revoke")).to_have_count(0)
        await expect(page.get_by_label("Address of the link")).to_be_hidden()
        await expect(guest.locator("#banner")).to_have_text(OVER)
        await desk.answers(guest, "Now")  # what was seen stays readable
        late = await guest.context.new_page()
        await late.goto(address)
        await expect(late.locator("#banner")).to_have_text(OVER)
        for each in ("main", "#link"):  # it shows no run that seems to start, and does not try again
            await expect(late.locator(each)).to_be_hidden()
        await late.goto(desk.url + "shared")
        await expect(late.locator("#banner")).to_contain_text("This address has no link")
        # The browser reports each refused request.
        assert all("401" in text or "INCOMPLETE" in text for text in desk.problems), desk.problems
        desk.problems.clear()
        model.let_all()


@pytest.mark.slow
async def test_a_link_to_a_dashboard_shows_that_one_alone(desk: Desk) -> None:
    model = GatedModel([call("look", where="here")], free=True)
    async with desk.asking(model, [look], status="paused", dashboards=None) as page:
        await desk.view(page, "#board-panel")
        await page.locator("#board-choice").select_option("runs")
        await page.locator("#board-scope button", has_text="Its conversation").click()
        await page.locator("#board-share").click()
        dialog = page.locator("#share-dialog")
        await expect(dialog).to_contain_text("of this conversation")
        guest = await desk.open(url=await make_link(page))
        await expect(guest.locator("#board-choice option")).to_have_count(1)
        await expect(guest.locator("#board .board-panel").first).to_be_visible()
        await expect(guest.locator("#board")).to_contain_text("paused")
        await expect(guest.get_by_role("heading", level=1)).to_have_text("Desk")
        for each in (*HIDDEN, "#conversation", "#time-bar"):
            await expect(guest.locator(each)).to_be_hidden()
