"""Nobody approves what cannot be seen: characters that hide, or turn the order of the text around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rxworker.testing import call, say
from rxworker.tools import tool

if TYPE_CHECKING:
    from conftest import Desk, GatedModel

pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import expect

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


async def test_what_hides_in_the_arguments_of_a_call_is_shown_and_stays_as_it_was(
    desk: Desk, gated: type[GatedModel]
) -> None:
    replies = [call("delete", path=EVIL), say("Gone.")]
    async with desk.serve(gated(replies, free=True), [delete]):
        page = await desk.open()
        await desk.ask(page)
        field = page.get_by_label("With these arguments")
        await expect(field).to_have_value(f'{{\n  "path": "{SHOWN}"\n}}')
        await expect(page.locator(".call .call-brief")).to_have_text(f"path: {SHOWN}")
        await field.fill(f'{{"path": "{SHOWN}!"}}')
        await desk.press(page, "Approve with changes")
        await desk.status(page, "finished")
        assert deleted == [EVIL + "!"]
