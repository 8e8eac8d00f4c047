"""A run as static HTML."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser

import pytest

from rxworker import Run, Worker, before_tool_call, tool
from rxworker.errors import RunCancelledError
from rxworker.events import Record, TextDelta
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import Image
from rxworker.testing import ScriptedModel, call, say, think
from rxworker.views import RunView, html, view_html

ATTACK = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e"


class Tags(HTMLParser):
    """The tags and attributes of a page, and whether they are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "hr":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def drawn(run: Run) -> str:
    bundle = run._repr_mimebundle_()
    assert bundle["text/plain"] == repr(run)
    return bundle["text/html"]


@tool
async def look(name: str) -> tuple[str, Image]:
    """Look."""
    return ATTACK, Image(data="QQ==")


async def test_what_a_model_and_a_tool_write_is_escaped() -> None:
    model = ScriptedModel([think(ATTACK) + call("look", name=ATTACK), say(ATTACK)])
    run = Worker(model, tools=[look]).run(ATTACK)
    await run
    tags = Tags(drawn(run))
    assert tags.names <= {"div", "small", "b", "i", "pre", "details", "summary", "code", "hr"}
    assert tags.attributes == {"class", "style"}
    assert "[Image]" in drawn(run)


async def test_a_run_is_drawn_as_it_is_now() -> None:
    @before_tool_call(name="permit")
    def permit(context: ToolCallContext) -> Pause:
        return Pause("May I?")

    model = ScriptedModel([call("look", name="x")])
    paused = Worker(model, tools=[look], hooks=[permit]).run("Hi")
    assert "running" in drawn(paused)
    await paused
    assert "May I?" in drawn(paused)
    run = Worker(ScriptedModel(["Hello"], delay=1.0)).run("Hi")
    await asyncio.sleep(0)
    await run.cancel(reason="lunch")
    with pytest.raises(RunCancelledError):
        await run
    assert "lunch" in drawn(run)


async def test_a_long_run_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_ITEMS", 2)
    monkeypatch.setattr(html, "MAX_TEXT", 10)
    model = ScriptedModel([call("look", name=str(n)) for n in range(3)] + [say("0123456789abc")])
    run = Worker(model, tools=[look]).run("Hi")
    await run
    shown = drawn(run)
    assert "2 earlier items" in shown
    assert "[3 characters before] 3456789abc" in shown
    view = RunView()
    view.step(Record(1, "run-1", 1, 1, 5.0, TextDelta(0, "half \ud83d")))
    assert "half ?" in view_html(view)
