"""The small parts: documents, approvals, advice, opening."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest
from rich.console import Console
from rich.style import Style

from rxworker import Worker
from rxworker.errors import (
    ConfigurationError,
    LimitExceededError,
    LocalProtocolError,
    ProviderError,
    TransportError,
)
from rxworker.messages import JsonObject
from rxworker.testing import ScriptedModel
from rxworker.ui.terminal import run_app, run_app_async
from rxworker.ui.terminal.dialogs import arguments_text, read_arguments
from rxworker.ui.terminal.section import MOST, DocumentSection, draw_document, is_document
from rxworker.ui.terminal.session import advise


def drawn(text: str, width: int = 40) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    rows = draw_document(text, console, width, is_dark=True)
    return ["".join(segment.text for segment in row).rstrip() for row in rows]


def test_a_document_hides_neither_html_nor_addresses() -> None:
    assert drawn("a <b>b</b>\n\n<i>c</i>") == ["a <b>b</b>", "", "<i>c</i>"]
    assert drawn("[here](http://x.y/z)") == ["here (http://x.y/z)"]


def test_a_table_has_no_empty_rows_around_it() -> None:
    rows = drawn("before\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nbehind")
    assert [rows[0], rows[1], rows[-2], rows[-1]] == ["before", "", "", "behind"]
    assert [row.split() for row in (rows[2], rows[4])] == [["a", "b"], ["1", "2"]]
    assert len(rows) == 7


def test_code_keeps_its_lines() -> None:
    assert drawn("```\na\n\n\nb\n```") == ["  a", "", "", "  b"]


def test_a_very_long_text_stays_as_it_is() -> None:
    assert not is_document("**a**" * MOST)


def test_arguments_show_what_a_terminal_would_hide_and_keep_their_value() -> None:
    value: JsonObject = {"path": "a\u202eb\u200bc\x1b\x9b", "n": [1, {"x": None}]}
    shown = arguments_text(dict(value))
    assert shown.isascii()
    assert read_arguments(shown, {}) == value


@pytest.mark.parametrize("text", ["ls -l\n\tall", "", '"quoted"'])
def test_free_text_is_shown_and_read_as_it_is(text: str) -> None:
    assert arguments_text(text) == text
    assert read_arguments(text, text) == text


@pytest.mark.parametrize("text", ["ls\x1b[2J", "a\u202eb", "a\r\nb", "\ud83d"])
def test_free_text_that_hides_something_is_shown_and_read_as_json(text: str) -> None:
    shown = arguments_text(text)
    assert shown.isascii()
    assert read_arguments(shown, text) == text
    with pytest.raises(ValueError, match="free text"):
        read_arguments("{}", text)


@pytest.mark.parametrize("text", ["[1]", '"a"', "{", ""])
def test_arguments_are_a_json_object(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        read_arguments(text, {})


@pytest.mark.parametrize(
    ("error", "todo"),
    [
        (ProviderError("x", kind="overloaded"), "Wait a moment"),
        (ProviderError("x", kind="rate_limit", retry_after=7.0), "Wait 7 s"),
        (ProviderError("x", kind="unknown", retryable=True), "Try again"),
        (TransportError("x"), "Check the address"),
        (ConfigurationError("x"), "set it"),
        (LimitExceededError("max_turns", 3), "max_turns"),
        (ValueError("x"), "is kept"),
    ],
)
def test_an_error_names_the_remedy(error: Exception, todo: str) -> None:
    _, text = advise(error, "x")
    assert text.startswith("x\n")
    assert todo in text


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stdin__", io.StringIO())


def test_without_a_terminal_it_is_not_opened() -> None:
    with pytest.raises(ConfigurationError, match="terminal"):
        run_app(Worker(ScriptedModel([])))


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("redirected", "named"),
    [
        (("__stdout__",), "standard output is not a terminal"),
        (("__stdin__",), "standard input is not a terminal"),
        (("__stdin__", "__stdout__"), "standard input and standard output are not terminals"),
    ],
)
def test_the_stream_that_is_no_terminal_is_named(
    redirected: tuple[str, ...], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in ("__stdin__", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, stream, TerminalStream())
    for stream in redirected:
        monkeypatch.setattr(sys, stream, io.StringIO())
    with pytest.raises(ConfigurationError, match=named):
        run_app(Worker(ScriptedModel([])))


def test_without_textual_it_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'rxworker\[tui\]'"):
        run_app(Worker(ScriptedModel([])))


async def test_where_a_loop_runs_it_names_what_to_await() -> None:
    worker = Worker(ScriptedModel([]))
    with pytest.raises(LocalProtocolError, match="run_app_async"):
        run_app(worker)
    with pytest.raises(ConfigurationError, match="terminal"):
        await run_app_async(worker)
    assert asyncio.get_running_loop().is_running()


MARKDOWN = (
    "# Trip\n\nIt **is** so.\n\n- one\n- two\n\n  more\n\n```python\nx = 1\n\ny = 2\n```\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n1. first\n2. second\n\nEnd\n---\n\n[a]: http://a.org\n\nSee [a].\n"
)


@pytest.mark.parametrize("size", [1, 7, 400])
def test_markdown_that_grows_ends_as_it_is_drawn_at_once(size: int) -> None:
    console = Console(width=40, file=io.StringIO())
    grown = DocumentSection("", console, is_dark=True)
    grown.resize(40)
    for at in range(0, len(MARKDOWN), size):
        grown.append(MARKDOWN[at : at + size])
    whole = DocumentSection(MARKDOWN, console, is_dark=True)
    whole.resize(40)

    def rows(section: DocumentSection) -> list[str]:
        count = section.height(unfolded=False)
        shown = [section.row(n, lambda _: Style(), unfolded=False) for n in range(count)]
        return ["".join(segment.text for segment in row).rstrip() for row in shown]

    assert rows(grown) == rows(whole)
    assert "See a (http://a.org)." in rows(grown)
