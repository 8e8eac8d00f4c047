"""The example for Textual, driven by its own pilot."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import runpy
from pathlib import Path
from typing import cast

import pytest
from textual.app import App
from textual.widgets import Label, Log

PROGRAM = Path(__file__).parents[2] / "examples" / "textual_view.py"


async def test_the_app_shows_the_text_and_the_tokens() -> None:
    view = cast("type[App[None]]", runpy.run_path(str(PROGRAM))["View"])
    app = view()
    async with app.run_test() as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        lines = list(app.query_one(Log).lines)
        tokens = str(app.query_one(Label).content)
    assert lines == ["The moon is a stone that shines.", "The sun does the work."]
    assert tokens == "15 tokens"


async def test_closing_the_app_in_the_middle_ends_its_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on: it is not for a view to end it."""
    program = runpy.run_path(str(PROGRAM))
    monkeypatch.setattr(program["MODEL"], "_delay", 60.0)  # it does not end by itself
    app = cast("type[App[None]]", program["View"])()
    async with app.run_test() as pilot:
        await pilot.pause()
        watching = list(app.workers)
        assert [worker.is_running for worker in watching] == [True]
    assert [worker.is_cancelled for worker in watching] == [True]
