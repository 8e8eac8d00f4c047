"""Messages on the page: with files, edited and sent again, answered again, copied."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, expect

from rxworker import Worker, tool
from rxworker.log import SQLiteLog
from rxworker.messages import Document, Image, Text
from rxworker.testing import ScriptedModel, call, say
from tests.ui.browser.conftest import Desk, GatedModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def file(name: str, kind: str, data: bytes) -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": data}


@pytest.mark.slow
async def test_files_go_with_a_message_that_is_answered_again_and_edited(desk: Desk) -> None:
    async with desk.serve(GatedModel([say("A dot."), say("Two."), say("Three.")], free=True)):
        page = await desk.open()
        # Made by the browser: to send it so many bytes takes a second.
        await page.locator("#attach-input").evaluate(
            """(input) => {
              const chosen = new DataTransfer();
              chosen.items.add(new File([new Uint8Array(5_000_001)], "big.png", { type: "image/png" }));
              input.files = chosen.files;
              input.dispatchEvent(new Event("change", { bubbles: true }));
            }"""
        )
        await expect(page.locator("#composer-note")).to_have_text("big.png is larger than 5 MB.")
        assert await page.locator("#attached").is_hidden()
        files = [
            file("dot.png", "image/png", PNG),
            file("a.pdf", "application/pdf", b"%PDF-"),
            file("b.txt", "text/plain", b"x"),
        ]
        await page.locator("#attach-input").set_input_files(files)
        await expect(page.locator("#attached li")).to_have_count(3)
        await page.get_by_role("button", name="Remove b.txt").click()
        await expect(page.locator("#attached li")).to_have_count(2)
        await desk.ask(page, "What is this?", status="finished")
        assert await page.locator("#attached").is_hidden()
        message = page.locator(".message.user")
        assert await message.locator("img.thumbnail").evaluate("(node) => node.naturalWidth") == 1
        await expect(message.locator(".attached")).to_have_text("a.pdf")
        await expect(message.locator(".text")).to_have_text("What is this?")
        heights: list[float] = await message.locator(".item-actions button").evaluate_all(
            "(buttons) => buttons.map((button) => button.getBoundingClientRect().height)"
        )
        assert len(set(heights)) == 1, "below a narrow message, too, no button takes two lines"
        content = desk.runs[0].state.conversation.messages[0].content
        assert [type(block) for block in content] == [Image, Document, Text]
        await desk.press(page, "Answer again")
        await desk.answers(page, "Two.")
        await desk.press(page, "Edit")
        await message.get_by_role("button", name="Remove a.pdf").click()
        await expect(message.locator(".edit li")).to_have_count(1)
        await message.get_by_role("textbox").fill("")
        await message.get_by_role("button", name="Send").click()
        await desk.answers(page, "Three.")
        sent = [run.state.conversation.messages[0].content for run in desk.runs]
        assert sent[1] == sent[0]
        assert sent[2] == sent[0][:1]


async def test_a_message_is_edited_and_answered_again(desk: Desk) -> None:
    model = GatedModel([say("One."), say("Two."), say("Three."), say("Four.")], free=True)
    async with desk.asking(model, text="first") as page:
        await desk.answers(page, "One.")
        await desk.ask(page, "second")
        await desk.answers(page, "One.", "Two.")
        second = page.locator(".message.user", has_text="second")
        await second.hover()
        await second.get_by_role("button", name="Edit").click()
        field = second.get_by_role("textbox", name="Edit the message")
        await field.press("Escape")
        await expect(second.locator(".text")).to_be_visible()
        await second.get_by_role("button", name="Edit").click()
        await field.fill("other")
        await field.press("Enter")
        await desk.answers(page, "One.", "Three.")
        await expect(page.locator(".message.user .text")).to_have_text(["first", "other"])
        first = page.locator(".message.user", has_text="first")
        await first.hover()
        await first.get_by_role("button", name="Answer again").click()
        await desk.answers(page, "Four.")
        assert len({run.session for run in desk.runs}) == 3


@pytest.mark.slow
async def test_branches_of_a_message_are_stepped_through_in_place_also_after_a_restart(
    desk: Desk, tmp_path: Path
) -> None:
    model = ScriptedModel(["One.", "Two.", "Three.", "Four.", "Five."])

    def make() -> Worker:
        return Worker(model)

    first, second = ("#conversation > .message.user:has-text('first')", ".message.user:has-text('second')")
    async with SQLiteLog(tmp_path / "runs.db") as log:
        async with desk.serve_workers(make, log=log):
            page = await desk.open()
            await desk.ask(page, "first")
            await desk.answers(page, "One.")
            await expect(page.locator(".branches")).to_have_count(0)
            await page.locator(first).get_by_role("button", name="Answer again").click()
            await desk.answers(page, "Two.")
            await expect(page.locator(f"{first} .branches")).to_contain_text("2/2")
            await desk.ask(page, "second")
            await desk.answers(page, "Two.", "Three.")
            # Of a branch, a message is edited: the one before it keeps its branches.
            await page.locator(second).get_by_role("button", name="Edit").click()
            await page.locator(second).get_by_role("textbox").fill("second, again")
            await page.locator(second).get_by_role("button", name="Send").click()
            await desk.answers(page, "Two.", "Four.")
            await expect(page.locator(f"{first} .branches")).to_contain_text("2/2")
            await expect(page.locator(f"{second} .branches")).to_contain_text("2/2")
            # The first message of the branch of a branch is one more branch of the first message.
            await page.locator(first).get_by_role("button", name="Answer again").click()
            await desk.answers(page, "Five.")
            await expect(page.locator(f"{first} .branches")).to_contain_text("3/3")
            await expect(page.locator("#run-list > li")).to_have_count(1)
        async with desk.serve_workers(make, log=log):
            page = await desk.open()
            await page.locator("#run-list a").first.click()
            await desk.answers(page, "Five.")
            await expect(page.locator(f"{first} .branches")).to_contain_text("3/3")
            forth = page.get_by_role("button", name="This is the last version")
            await expect(forth).to_be_disabled()
            # With the keyboard alone: the focus stays at the branches.
            await page.get_by_role("button", name="Show version 2 of 3").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator(f"{first} .branches")).to_contain_text("2/3")
            await expect(page.get_by_role("button", name="Show version 1 of 3")).to_be_focused()
            await desk.answers(page, "Two.", "Three.")
            await page.keyboard.press("Enter")
            await desk.answers(page, "One.")
            await page.reload()
            await desk.answers(page, "One.")
            await expect(page.locator(f"{first} .branches")).to_contain_text("1/3")
            await page.go_back()
            await desk.answers(page, "Two.", "Three.")
            await expect(page.locator(f"{second} .branches")).to_contain_text("1/2")


async def test_on_a_phone_the_actions_of_a_branch_and_a_hint_fit(desk: Desk) -> None:
    @tool(requires_approval=True)
    async def book(place: str) -> str:
        """Book."""
        return f"{place} is booked"

    model = GatedModel([say("One."), say("Two."), call("book", place="Rome")], free=True)
    async with desk.asking(model, [book], text="first", width=360) as page:
        await desk.answers(page, "One.")
        await desk.press(page, "Answer again")
        await desk.answers(page, "Two.")
        await expect(page.locator(".branches")).to_contain_text("2/2")
        wide: list[int] = await page.locator("#conversation").evaluate("(node) => [node.scrollWidth, node.clientWidth]")
        assert wide[0] == wide[1], "nothing is moved aside"
        await expect(page.get_by_role("button", name="Copy link").first).to_be_in_viewport(ratio=1)
        await desk.ask(page, "Book it")
        reason = page.get_by_role("textbox", name="Reason for the model")
        room: list[float] = await reason.evaluate("""(node) => {
              const style = getComputedStyle(node), pen = document.createElement("canvas").getContext("2d");
              pen.font = style.font;
              const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
              return [pen.measureText(node.placeholder).width, node.clientWidth - padding];
            }""")
        assert room[0] <= room[1], "the hint is not cut"
