"""Calls on the page: results as what they are, arguments in a form, and tools that are always allowed."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from msgspec import to_builtins
from playwright.async_api import Locator, Page, expect

from rxworker import Worker, tool
from rxworker.events import Question
from rxworker.log import MemoryLog
from rxworker.messages import Image, JsonObject, Prices, Text
from rxworker.testing import call, say
from rxworker.tools import ToolContext
from rxworker.ui.web import Settings
from tests.ui.browser.conftest import Desk, GatedModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DIFF = """--- a/src/x.py
+++ b/src/x.py
@@ -1,3 +1,2 @@ def f():
-old
--- a comment
+new
 same
--- a/src/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""
MARKUP = "<img src=x onerror=alert(1)>"
WIDE = [{"id": n, "name": f"row {n}", "note": MARKUP if n == 7 else None} for n in range(300)]
DEEP: dict[str, Any] = {"big": 123, "a": {"b": {"c": [MARKUP] * 150}}, "z": [], "__proto__": {"x": 1}}
LONG = "a long note that needs much room in its row"
LINES = """(cell) => {
  const range = document.createRange(), text = document.createTreeWalker(cell, 4).nextNode();
  range.setStart(text, 0);
  range.setEnd(text, "Lisbon".length);
  return range.getClientRects().length;
}"""
"""On how many lines the first word of a cell is."""
results: dict[str, str] = {
    "tree": json.dumps(DEEP).replace("123", "12345678901234567890"),
    "table": json.dumps(WIDE),
    "diff": DIFF,
    "broken": '{"a": 1',
    "deep": "[" * 100_000,
    "log": "\n".join(f"line {n} of the log" for n in range(2_000)),
    "cities": json.dumps([{f"{key} {n}": f"Lisbon {LONG}" for n in range(6) for key in ("city", "note")}]),
}
booked: list[dict[str, Any]] = []


@tool
async def read(what: str) -> str | tuple[Text | Image, ...]:
    """Read."""
    if what == "image":
        return (Text("A pixel:"), Image("image/png", data=PIXEL))
    return results[what]


@tool(requires_approval=True)
async def book(
    hotel: str,
    nights: int = 2,
    room: Literal["single", "double"] = "double",
    guests: list[str] = [],  # noqa: B006 - never changed
    quiet: bool = False,
    extras: dict[str, int] | None = None,
) -> str:
    """Book a room.

    Args:
        hotel: Where.
        nights: How many nights.
        room: Which.
        guests: Who.
        quiet: Whether it must be quiet.
        extras: Other wishes.
    """
    booked.append({"hotel": hotel, "nights": nights, "room": room, "guests": guests, "quiet": quiet, "extras": extras})
    return "booked"


@pytest.fixture(autouse=True)
def nothing_booked() -> None:
    booked.clear()


@pytest.mark.slow
async def test_a_result_is_shown_as_what_it_is(desk: Desk) -> None:
    names = [*results, "image"]
    asked = call("read", what=names[0])
    for name in names[1:]:
        asked += call("read", what=name)
    async with desk.asking(GatedModel([asked, say("Read.")], free=True), [read], status="finished") as page:
        summary = "x.py +1 \N{MINUS SIGN}2, gone.py +0 \N{MINUS SIGN}1"
        await expect(page.locator(".call .outcome", has_text=summary)).to_be_visible()
        table = "300 rows \N{MULTIPLICATION SIGN} 3 columns: id, name, note"
        await expect(page.locator(".call .outcome", has_text=table)).to_be_visible()
        await page.evaluate("document.querySelectorAll('.call > details').forEach((one) => (one.open = true))")
        shown = dict(zip(names, await page.locator(".call").all(), strict=True))
        await expect(shown["broken"].locator(".result > pre")).to_have_text('{"a": 1')
        await expect(shown["deep"].locator(".result > pre")).to_be_visible()
        for kind, lines in {
            "insert": ["+new"],
            "deleted": ["-old", "--- a comment", "-gone"],
            "section": ["@@ -1,3 +1,2 @@ def f():", "@@ -1 +0,0 @@"],
        }.items():
            await expect(shown["diff"].locator(f".hl-{kind}")).to_have_text(lines)
        await expect(shown["image"].locator("img.thumbnail")).to_be_visible()
        await expect(page.locator("img[src=x]")).to_have_count(0)

        tree = shown["tree"].locator("[role=tree]")
        await expect(tree.locator(".json-number").first).to_have_text("12345678901234567890")
        await expect(tree.locator(".json-key", has_text="__proto__")).to_be_visible()
        await tree.locator("[role=treeitem]").first.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
            await page.keyboard.press(key)
        await expect(tree.locator(":focus .json-string").first).to_have_text(json.dumps(MARKUP))
        await page.keyboard.press("ArrowLeft")
        await expect(tree.locator(":focus")).to_have_attribute("aria-expanded", "false")

        table = shown["table"]
        await expect(table.locator("tbody tr")).to_have_count(200)
        await table.locator(".result-more", has_text="Show 100 more").click()
        await expect(table.locator("tbody tr")).to_have_count(300)
        await table.locator(".result-find").fill("ROW 29")
        await expect(table.locator("tbody tr")).to_have_count(11)
        await expect(table.locator(".result-count")).to_have_text("1 of 11")
        await table.get_by_role("button", name="Text", exact=True).click()
        await expect(table.locator(".result > pre")).to_have_text(results["table"])

        log = shown["log"]
        await expect(log.locator(".result")).to_have_class("result folded")
        await log.locator(".result-find").fill("line 19")
        await expect(log.locator(".result-count")).to_have_text("1 of 111")
        await log.locator(".result-find").press("Shift+Enter")
        await expect(log.locator(".result-count")).to_have_text("111 of 111")
        await expect(log.locator(".result")).to_have_class("result")
        await log.locator(".result-find").press("Escape")
        await expect(log.locator(".result-find")).to_have_value("")

        assert await shown["cities"].locator(".result-table td").first.evaluate(LINES) == 1, "its words stay whole"


async def test_a_form_changes_only_what_is_touched_and_names_the_fault(desk: Desk) -> None:
    replies = [call("book", hotel="Avenida", guests=["Ada"]), say("Booked.")]
    async with desk.asking(GatedModel(replies, free=True), [book]) as page:
        await page.get_by_label("nights").fill("two")
        await page.get_by_label("extras").fill("[1]")
        await desk.press(page, "Approve with changes")
        await expect(page.get_by_label("nights")).to_be_focused()
        await expect(problem(page, "nights")).to_have_text("This is not a number.")
        await expect(problem(page, "extras")).to_contain_text("object")
        await page.get_by_label("hotel").fill("")
        await page.get_by_label("nights").fill("1.5")
        await expect(problem(page, "nights")).to_have_text("This is not a whole number.")
        await page.get_by_label("nights").fill("4")
        await page.get_by_label("extras").fill("")
        await page.get_by_label("hotel").fill("Palace")
        await page.get_by_label("guests").fill("Ada\nGrace\n")
        await page.get_by_label("room").select_option("single")
        await page.get_by_label("quiet").check()
        await desk.press(page, "JSON")
        value = {"hotel": "Palace", "guests": ["Ada", "Grace"], "nights": 4, "room": "single", "quiet": True}
        assert json.loads(await page.locator("#approval-input").input_value()) == value
        await page.locator("#approval-input").fill(json.dumps({**value, "nights": 5}))
        await desk.press(page, "Form")
        await expect(page.get_by_label("nights")).to_have_value("5")
        await desk.press(page, "Approve with changes", status="finished")
        assert booked == [{**value, "nights": 5, "extras": None}]


@dataclass
class Guest:
    """A guest."""

    name: str
    age: int = 30


@tool(requires_approval=True)
async def invite(host: Guest, guests: list[Guest], place: str = "here") -> str:
    """Invite guests."""
    booked.append(to_builtins({"host": host, "guests": guests, "place": place}))
    return "invited"


@pytest.mark.slow
async def test_objects_and_arrays_of_objects_are_fields_and_json_is_compared_with_the_schema(desk: Desk) -> None:
    guests: list[Any] = [{"name": "Bob", "age": 50}, {"name": "Cy", "age": 60}]
    asked = call("invite", host={"name": "Ada", "age": 40}, guests=guests)
    async with desk.asking(GatedModel([asked, say("Invited.")], free=True), [invite]) as page:
        host = page.get_by_role("group", name="host").first
        await host.get_by_label("age").fill("old")
        await desk.press(page, "Approve with changes")
        await expect(host.get_by_label("age")).to_be_focused()
        await host.get_by_label("age").fill("41")
        await desk.press(page, "Remove item 1")
        await desk.press(page, "Add an item")
        await desk.press(page, "Approve with changes")
        third = page.get_by_role("group", name="guests 3")
        await expect(third.get_by_label("name")).to_be_focused()
        await third.get_by_label("name").fill("Dan")
        await desk.press(page, "JSON")
        area = page.locator("#approval-input")
        value: dict[str, Any] = {"host": {"name": "Ada", "age": 41}, "guests": [guests[1], {"name": "Dan"}]}
        assert json.loads(await area.input_value()) == value
        mistakes: list[tuple[dict[str, Any], str]] = [
            ({**value, "guests": [{"name": 1}]}, 'guests[0].name: Write a text: "…"'),
            ({"guests": []}, "host: This is required."),
            ({**value, "plaice": ""}, "plaice: There is no such argument."),
        ]
        for wrong, message in mistakes:
            await area.fill(json.dumps(wrong))
            await desk.press(page, "Approve with changes")
            await expect(page.locator("#approval-error")).to_have_text(message)
        await area.fill(json.dumps(value))
        await desk.press(page, "Approve with changes", status="finished")
        assert booked == [{**value, "place": "here"}]


def problem(page: Page, name: str) -> Locator:
    """The message of the field of that name."""
    return page.locator(".field", has=page.get_by_label(name)).locator(".field-error")


@pytest.mark.slow
async def test_a_tool_that_is_always_allowed_is_listed_until_it_is_removed(desk: Desk) -> None:
    asked = [call("book", hotel=name) for name in "abcd"]
    replies = [asked[0], asked[1], say("Both."), asked[2], say("More.")]
    async with desk.asking(GatedModel(replies, free=True), [book]) as page:
        await desk.press(page, "Always allow here", status="finished")
        assert [each["hotel"] for each in booked] == ["a", "b"]
        await expect(page.locator("#allowed li span")).to_have_text(["book"])
        other = await desk.open(f"#{desk.runs[1].id}")
        await expect(other.locator("#allowed li")).to_have_count(1)
        await desk.press(page, "Ask again before book")
        for one in (page, other):
            await expect(one.locator("#allowed")).to_be_hidden()
        await desk.ask(page, "And c", status="paused")
        assert [each["hotel"] for each in booked] == ["a", "b"]

        # What is typed after New run is in the message box: the keys come in the same turn of the page as the click.
        await page.locator("#approval").wait_for()
        await page.evaluate("""() => {
          document.getElementById("new-run").click();
          document.execCommand("insertText", false, "Hello");
        }""")
        await expect(page.locator("#composer-input")).to_have_value("Hello")


async def test_a_run_of_the_program_has_a_form_and_a_cost(desk: Desk) -> None:
    settings = Settings(prices={"gated-1": Prices(input=1e6, output=1e6)})
    async with desk.serve(GatedModel([]), settings=settings) as server:
        model = GatedModel([call("book", hotel="Avenida"), say("Booked, as you wish.")])
        run = Worker(model, tools=[book]).run("Go")
        server.add(run)
        page = await desk.open(f"#{run.id}")
        await page.get_by_label("hotel").fill("Palace")
        await desk.press(page, "Approve with changes", status="running")
        model.let(1)
        await expect(page.locator("#run-facts")).to_contain_text(re.compile("≈ cost .*[1-9]|cost ≈ .*[1-9]"))
        await expect(await desk.usage(page, "Cost")).to_have_text(re.compile("[1-9].* USD"))
        model.let_all()
        await desk.status(page, "finished")
        assert [each["hotel"] for each in booked] == ["Palace"]


PARTY: JsonObject = {
    "type": "object",
    "properties": {
        "guests": {"type": "integer", "minimum": 1},
        "day": {"type": "string", "default": "Friday"},
        "room": {"type": "string", "oneOf": [{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]},
    },
    "required": ["guests"],
}


@tool
async def reserve(context: ToolContext) -> str:
    """Reserve a table, after a form, and after an address."""
    if context.begun is None:
        context.ask(Question("tables (python)", "How many?", PARTY))
    reply = context.begun.reply
    assert reply is not None
    if context.begun.state is None:
        context.ask(Question("tables (python)", "Sign in.", url="https://a.example/in?x"), reply.content)
    booked.append({"form": context.begun.state, "sign": reply.action})
    return "reserved"


@pytest.mark.slow
@pytest.mark.parametrize("has_log", [True, False])
async def test_a_question_in_the_background_is_answered_while_the_run_goes_on(desk: Desk, has_log: bool) -> None:
    may_end = asyncio.Event()

    @tool
    async def hold() -> str:
        await may_end.wait()
        return "held"

    late = tool(name="late", background=True)(reserve_late)
    model = GatedModel([call("late"), call("hold"), *[say("Done.")] * 3], free=True)
    async with MemoryLog() as log, desk.asking(model, [late, hold], log=log if has_log else None) as page:
        panel = page.locator("#approval")
        await expect(panel).to_contain_text("Sign in.")
        await desk.press(page, "I have visited it", status="running")
        await expect(panel).to_be_hidden()
        may_end.set()
        await desk.status(page, "finished")
        await expect(page.locator("#conversation")).to_contain_text("signed in")


async def reserve_late(context: ToolContext) -> str:
    """Sign in, in the background."""
    if context.begun is None:
        context.ask(Question("tables (python)", "Sign in.", url="https://a.example/in?x"))
    return "signed in"


@pytest.mark.slow
async def test_a_question_of_a_tool_has_a_form_and_an_address_that_the_page_does_not_open(desk: Desk) -> None:
    async with desk.asking(GatedModel([call("reserve"), say("Done.")], free=True), [reserve]) as page:
        panel = page.locator("#approval")
        await expect(panel).to_contain_text("A question of tables (python), for reserve")
        await expect(panel).to_contain_text("How many?")
        await desk.press(page, "Send the answer")
        await expect(page.get_by_label("guests")).to_be_focused()
        assert booked == []
        await page.get_by_label("guests").fill("2")
        await expect(panel.get_by_label("day")).to_have_value("Friday")
        await panel.get_by_label("room").select_option("Double")
        await desk.press(page, "Send the answer")
        link = panel.get_by_role("link")
        await expect(link).to_have_text("https://a.example/in?x")
        await expect(link).to_have_attribute("rel", "noopener noreferrer")
        await expect(panel.locator("strong")).to_have_text("a.example")
        await desk.press(page, "I have visited it", status="finished")
        form = {"guests": 2, "day": "Friday", "room": "d"}
        assert booked == [{"form": form, "sign": "accept"}]
