import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rxworker.cli.process import CommandError
from rxworker.cli.resolve import import_tool, import_tools

MODULE = '''
from rxworker import tool

def plain(city: str) -> str:
    """Look at a city."""
    return city

@tool(name="decorated_tool")
def decorated(city: str) -> str:
    return city

class App:
    @tool
    def method(self, city: str) -> str:
        return city

app = App()
untyped = lambda x: x
number = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "cli_tools.py").write_text(MODULE)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("path", "name"), [("plain", "plain"), ("decorated", "decorated_tool"), ("app.method", "method")]
)
def test_functions_tools_and_methods_are_found_in_the_current_directory(path: str, name: str, folder: Path) -> None:
    assert (folder / "cli_tools.py").exists()
    assert import_tool(f"cli_tools:{path}").meta.name == name


@pytest.mark.usefixtures("folder")
def test_several_tools_keep_their_order() -> None:
    names = import_tools(["cli_tools:decorated", "cli_tools:plain"]).names
    assert names == ("decorated_tool", "plain")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cli_tools", "write it as module:function"),
        ("cli_tools:", "write it as module:function"),
        (":plain", "write it as module:function"),
        ("cli_tools.py:plain", "that is a file; write it as module:function"),
        ("./cli_tools:plain", "that is a file"),
        ("no_such_module:plain", "there is no module 'no_such_module'"),
        ("cli_tools:plian", "there is no 'plian' in the module; did you mean 'plain'?"),
        ("cli_tools:app.nothing", "there is no 'nothing' in the App"),
        ("cli_tools:number", "that is 3, not a function"),
        ("cli_tools:App", "not a function"),
        ("cli_tools:untyped", "a lambda cannot be a tool"),
        ("cli_tools:App.method", "without its object"),
    ],
)
def test_what_is_not_a_tool_is_reported_in_one_line(name: str, reason: str) -> None:
    with pytest.raises(CommandError) as raised:
        import_tools([name])
    assert str(raised.value).startswith(f"--tool {name}: ")
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.code == 2


@pytest.mark.usefixtures("folder")
def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(CommandError, match="two tools are called 'plain'"):
        import_tools(["cli_tools:plain", "cli_tools:plain"])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1\nraise ValueError('broken')", "ValueError: broken (broken_tools.py, line 2)"),
        ("import not_there_at_all", "No module named 'not_there_at_all' (broken_tools.py, line 1)"),
        ("def f(:", "(broken_tools.py, line 1)"),
        ("import sys\nsys.exit(3)", "SystemExit: 3 (broken_tools.py, line 2)"),
    ],
)
def test_a_module_that_does_not_import_is_reported_with_the_place(source: str, reason: str, folder: Path) -> None:
    (folder / "broken_tools.py").write_text(source)
    with pytest.raises(CommandError) as raised:
        import_tool("broken_tools:f")
    assert reason in str(raised.value)
