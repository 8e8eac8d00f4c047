"""What the library logs: stable loggers, messages and fields, which the reference lists; and nothing is printed."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rxworker
from rxworker import Worker, tool
from rxworker.adapters.logs import JsonFormatter
from rxworker.events import Record
from rxworker.testing import ScriptedModel, call, fail

LIBRARY = Path(rxworker.__file__).parent
PAGE = LIBRARY.parent / "docs" / "reference" / "logging.md"
LOGGER = re.compile(r"^### `(rxworker\.[^`]+)`\n\n((?:- .*\n)+)", re.M)
MESSAGE = re.compile(r"^- (\w+): `([^`]+)`(?: \((.*)\))?$", re.M)
Row = tuple[str, str, str, tuple[str, ...]]

RESPONSES = LIBRARY / "ui" / "web" / "http" / "responses.py"


def calls(function: str = "") -> Iterator[tuple[Path, ast.Call]]:
    """The calls in the library, by file."""
    for path in sorted(LIBRARY.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if function in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    yield path, node


def loggers() -> dict[Path, str]:
    """The logger of each file that has one."""
    found: dict[Path, str] = {}
    for path, node in calls("getLogger"):
        if ast.unparse(node.func) == "logging.getLogger":
            assert path not in found
            (name,) = node.args
            found[path] = ast.literal_eval(name)
    return found


def messages() -> set[Row]:
    """Every message: logger, level, first line, fields."""
    names, found = loggers(), set[Row]()
    for path, node in calls("logger."):
        function = node.func
        if not (isinstance(function, ast.Attribute) and ast.unparse(function.value) == "logger"):
            continue
        if ast.unparse(node.args[0]) == "'%s\\n%s'":  # that of `log_error`
            continue
        level = function.attr.replace("exception", "error")
        text = str(ast.literal_eval(node.args[0])).partition("\n")[0]
        fields: tuple[str, ...] = ()
        for keyword in node.keywords:
            if keyword.arg == "extra":
                assert isinstance(keyword.value, ast.Dict), f"{path}: write the fields out"
                keys = [key for key in keyword.value.keys if key is not None]
                fields = tuple([ast.literal_eval(key) for key in keys])
        # A file without a logger imports that of its package.
        found.add((names.get(path, names[RESPONSES]), level, text, fields))
    for _, node in calls("log_error("):
        if ast.unparse(node.func) == "log_error":
            fields = tuple([str(keyword.arg) for keyword in node.keywords])
            found.add((names[RESPONSES], "error", _text_of(node.args[0]), fields))
    return found


def _text_of(text: ast.expr) -> str:
    """A text with ``%s`` for what is put in."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join([str(p.value) if isinstance(p, ast.Constant) else "%s" for p in parts])


def test_the_reference_lists_every_message_with_its_logger_level_and_fields() -> None:
    listed = {
        (name, level, text, tuple(re.findall(r"`(\w+)`", fields)))
        for name, lines in LOGGER.findall(PAGE.read_text(encoding="utf-8"))
        for level, text, fields in MESSAGE.findall(lines)
    }
    assert listed == messages()


def test_the_reference_explains_every_field() -> None:
    told = PAGE.read_text(encoding="utf-8").partition("## Messages")[0]
    fields = {field for row in messages() for field in row[3]}
    assert {field for field in fields if f"`{field}`" not in told} == set()
    reserved = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    assert not fields & reserved


def test_every_logger_has_the_name_of_a_package_below_rxworker() -> None:
    for path, name in loggers().items():
        assert (LIBRARY.parent / name.replace(".", "/") / "__init__.py").exists(), path
        assert name.startswith("rxworker."), path


def test_only_the_commands_print() -> None:
    printing = {
        path.relative_to(LIBRARY).parts[0]
        for path, node in calls("print(")
        if ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    }
    assert printing == {"cli"}


async def test_a_message_about_a_run_has_its_fields_and_no_secret(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOORS_API_KEY", "open sesame")

    def broken(record: Record) -> None:
        raise ValueError("the key is open sesame")

    watched = Worker(ScriptedModel(["Hello!"])).run("Hi")
    watched.watch(name="dashboard").subscribe(broken, print)
    await watched
    unwatched = Worker(ScriptedModel([fail("No.", "authentication")])).run("Hi")
    await asyncio.wait([unwatched._driver.outcome])
    await asyncio.sleep(0)
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert "open sesame" not in "".join(lines)
    detached, ended = map(json.loads, lines)
    assert (detached["watcher"], detached["run"]) == ("dashboard", watched.id)
    assert "ValueError: the key is ***" in detached["exception"]
    assert (ended["run"], ended["turn"], ended["logger"]) == (unwatched.id, 1, "rxworker.worker")


async def test_a_failed_call_is_logged_for_those_who_debug(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def fall() -> str:
        """Fail."""
        raise ValueError("too deep")

    with caplog.at_level(logging.DEBUG, "rxworker.tools"):
        await Worker(ScriptedModel([call("fall"), "Ok."]), tools=[fall]).run("Go.")
    (line,) = [JsonFormatter().format(each) for each in caplog.records if "tool" in vars(each)]
    told = json.loads(line)
    assert (told["level"], told["tool"], told["call"]) == ("debug", "fall", "call_1_1")


def test_fields_of_any_type_are_written_and_none_takes_the_place_of_another() -> None:
    made = {"levelname": "INFO", "msg": "x", "runs": ["a"], "level": "mine", "n": 3, "o": object}
    told = json.loads(JsonFormatter().format(logging.makeLogRecord(made)))
    assert (told["level"], told["runs"], told["n"]) == ("info", "['a']", 3)
