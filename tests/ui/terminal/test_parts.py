"""The small parts: documents, approvals, advice, opening."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest
from msgspec import UNSET
from rich.console import Console

from rxworker import Worker
from rxworker.errors import ConfigurationError, LimitExceededError, LocalProtocolError, ProviderError, TransportError
from rxworker.messages import Json, JsonObject
from rxworker.testing import ScriptedModel
from rxworker.ui.terminal import run_app, run_app_async
from rxworker.ui.terminal.dialogs import _HIDDEN, Field
from rxworker.ui.terminal.section import MAX, DocumentSection, draw_document, is_document
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
    assert not is_document("**a**" * MAX)


VALUES: list[Json] = [
    "ls -l\n\tall", "", '"quoted"', "5", "true", "ls\x1b[2J", "a\u202eb", "a\r\nb", "\ud83d",
    0, 2.5, True, False, ["a\u200bc", 1, None], {"n": [1, {"x\x9b": None}]}, [], {},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=ascii)
def test_a_field_shows_what_a_terminal_would_hide_and_keeps_its_value(value: Json) -> None:
    kinds: dict[type, str] = {
        str: "string",
        int: "integer",
        float: "number",
        bool: "boolean",
        list: "array",
        dict: "object",
    }
    field = Field("a", value, {"type": kinds[type(value)]})
    assert _HIDDEN.search(field.text) is None
    for known in (field, Field("a", value), Field("a", value, {"type": [*kinds.values()]})):
        assert known.read(field.text) == value
        if isinstance(value, str) and "\\u" in field.text:  # it is JSON then, also where it is changed
            assert known.read(field.text[:-1] + '!"') == f"{value}!"
            with pytest.raises(ValueError, match="is not"):
                field.read(value[:1])


ANY = {"type": "object", "properties": {"of": {"type": "integer"}}, "required": ["of"]}


@pytest.mark.parametrize(
    ("schema", "text", "read"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "5.5", "is not a whole number"),
        ({"type": "integer"}, "true", "is not a whole number"),
        ({"type": "number"}, "NaN", "is not a number"),
        ({"type": "number", "minimum": 3}, "2", "is below 3"),
        ({"type": "boolean"}, "false", False),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", 5),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "five", "five"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "is not a whole number or null"),
        ({"type": "string", "enum": ["a", "b"]}, "c", "is not among: a, b"),
        ({"enum": [1, 2]}, "3", "is not among: 1, 2"),
        ({"const": 1}, "1", 1),
        ({"type": "string", "maxLength": 2}, "abc", "has more than 2 characters"),
        ({"type": "array", "items": {"type": "integer"}}, '[1, "a"]', "[1] is not a whole number"),
        ({"type": "array", "minItems": 2}, "[1]", "has fewer than 2 items"),
        (ANY, '{"of": 1}', {"of": 1}),
        (ANY, "{}", ".of is missing"),
        (ANY, '{"of": []}', ".of is not a whole number"),
        (ANY, "{", "is not an object in JSON"),
        (ANY, "[" * 100_000, "is n"),
        ({}, "5", 5),
        ({}, "five", "is not JSON"),
    ],
)
def test_a_field_reads_what_its_schema_allows(schema: JsonObject, text: str, read: Json) -> None:
    found: object
    try:
        found = Field("a", schema=schema).read(text)
    except ValueError as error:
        found = str(error)[: len(str(read))]
    assert (found, type(found)) == (read, type(read))


def test_a_field_that_is_empty_is_left_out_unless_it_had_a_text_or_is_required() -> None:
    schema: JsonObject = {"type": "string"}
    assert Field("a", schema=schema).read("") is UNSET
    assert Field("a", "", schema).read("") == ""
    assert Field("a", "b", schema).read("") == ""
    with pytest.raises(ValueError, match="is missing"):
        Field("a", schema=schema, is_required=True).read("")


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
def test_the_stream_that_is_not_a_terminal_is_named(
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
    with pytest.raises(ConfigurationError, match=r"pip install '/path/to/the/checkout\[tui\]'"):
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
        return ["".join(segment.text for segment in row).rstrip() for row in section.rows]

    assert rows(grown) == rows(whole)
    assert "See a (http://a.org)." in rows(grown)
