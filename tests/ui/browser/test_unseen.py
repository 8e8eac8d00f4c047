"""Nobody approves what cannot be seen: characters that hide, or turn the order of the text around them."""

from __future__ import annotations

import msgspec
import pytest
from playwright.async_api import expect

from rxworker import before_tool_call, tool
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import ToolMeta
from rxworker.testing import Call, Reply, call, say
from rxworker.tools import ToolContext
from tests.ui.browser.conftest import Desk, GatedModel

pytestmark = pytest.mark.asyncio(loop_scope="session")
deleted: list[str] = []
EVIL = "report\u202excod.sh\u200b\u2066\U000e0041"
SHOWN = r"report\u202excod.sh\u200b\u2066\udb40\udc41"


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return "gone"


@pytest.fixture(autouse=True)
def no_calls_yet() -> None:
    deleted.clear()


async def test_what_hides_in_the_arguments_of_a_call_is_shown_and_stays_as_it_was(desk: Desk) -> None:
    replies = [call("delete", path=EVIL), say("Gone.")]
    async with desk.asking(GatedModel(replies, free=True), [delete]) as page:
        await expect(page.get_by_label("path")).to_have_value(f'"{SHOWN}"')
        await desk.press(page, "JSON")
        field = page.get_by_label("With these arguments")
        await expect(field).to_have_value(f'{{\n  "path": "{SHOWN}"\n}}')
        await expect(page.locator(".call .call-brief")).to_have_text(f"path: {SHOWN}")
        await field.fill(f'{{"path": "{SHOWN}!"}}')
        await desk.press(page, "Approve with changes", status="finished")
        assert deleted == [EVIL + "!"]


class Shell:
    """A tool that takes a text as it is."""

    meta = ToolMeta(
        "shell", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}, format="text"
    )

    async def execute(self, arguments: str | bytes, context: ToolContext) -> str:
        deleted.append(msgspec.json.decode(arguments)["command"])
        return "done"


@before_tool_call
def ask(context: ToolCallContext) -> Pause:
    return Pause("Run it?")


@pytest.mark.slow
async def test_free_text_is_changed_as_it_is_or_as_json_if_it_hides_something(desk: Desk) -> None:
    asked = [Reply(tool_calls=(Call("shell", text),)) for text in (EVIL, "rm -r a")]
    replies = [asked[0], say("Gone."), asked[1], say("Gone.")]
    async with desk.asking(GatedModel(replies, free=True), [Shell()], hooks=[ask]) as page:
        field = page.get_by_label("With this text, written as JSON")
        await expect(field).to_have_value(f'"{SHOWN}"')
        await field.fill('{"rm": 1}')
        await desk.press(page, "Approve with changes")
        await expect(page.locator("#approval-error")).to_contain_text("this is a text")
        await field.fill(f'"{SHOWN}!"')
        await desk.press(page, "Approve with changes", status="finished")
        assert deleted == [EVIL + "!"]
        await desk.ask(page)
        await page.get_by_label("With this text").fill("rm -r b")
        await desk.press(page, "Approve with changes", status="finished")
        assert deleted == [EVIL + "!", "rm -r b"]
