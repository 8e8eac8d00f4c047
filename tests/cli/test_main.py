import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rxworker import __version__
from rxworker.cli import main
from rxworker.cli.main import COMMANDS, OPTIONS, WORKER, Parser, make_parser
from rxworker.cli.resolve import WorkerOptions
from rxworker.cli.runs import ACTIONS
from rxworker.testing import anthropic_frames, say

COMMAND = [sys.executable, "-m", "rxworker"]


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rxworker {__version__}\n"


@pytest.mark.parametrize("command", [[], ["demo"], ["chat"], ["decode"]])
def test_help_is_not_a_failure(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: rxworker")


def test_without_a_command_the_help_is_shown_and_it_is_a_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "decode" in capsys.readouterr().err


def test_an_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dance"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("rxworker: argument command: invalid choice: 'dance'")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [["demo"], ["chat", "--provider", "anthropic", "--model", "m"]])
def test_without_rich_demo_and_chat_name_the_package_to_install(command: list[str]) -> None:
    code = f"import sys; sys.modules['rich'] = None; from rxworker.cli import main; sys.exit(main({command!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install '/path/to/the/checkout[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_decode_and_help_need_neither_rich_nor_a_worker(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    path.write_bytes(b"".join(anthropic_frames(say("Hi"))))
    code = (
        "import sys; sys.modules['rich'] = sys.modules['aiohttp'] = None; from rxworker.cli import main; "
        f"sys.exit(main(['--version']) + main(['decode', 'anthropic', {str(path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Hi" in done.stdout


def test_a_reader_who_leaves_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    path.write_bytes(b"".join(anthropic_frames(say("word " * 100_000, chunk=1000))))
    for option in ([], ["--json"]):
        with subprocess.Popen(
            [*COMMAND, "decode", "anthropic", str(path), *option], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 0


def test_a_full_disk_is_one_line() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    with full.open("w") as out:
        done = subprocess.run(
            [*COMMAND, "decode", "anthropic", "-"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left" in done.stderr


def test_ctrl_c_before_a_command_runs_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("rxworker.cli.decode.decode", interrupt)
    assert main(["decode", "anthropic", "-"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_a_parameter_of_its_function(command: str) -> None:
    """An option that no parameter takes would be accepted and have no effect."""
    actions: Any = make_parser()._actions
    parser: Parser = next(each.choices for each in actions if each.dest == "command")[command]
    module, _, name = COMMANDS[command].function.partition(":")
    taken = {action.dest for action in parser._actions} - {"help", "function", "log_level", "log_format"}
    if WORKER in COMMANDS[command].options:
        taken = {*(taken - set(WorkerOptions.__struct_fields__)), "options"}
    called = getattr(importlib.import_module(f"rxworker.cli.{module}"), name)
    inspect.signature(called).bind_partial(**dict.fromkeys(taken))


def test_every_option_that_is_read_is_one_of_a_command() -> None:
    """One that no command has would be left over, or misspelt."""
    known: set[str] = set()
    for name, command in COMMANDS.items():
        actions = {f"{name} {action}": options for action, options in command.actions.items()}
        for path, options in {name: command.options, **actions}.items():
            known.update(options.split(), [f"{path} {option}" for option in options.split()])
    assert OPTIONS.keys() <= known


@pytest.mark.parametrize("action", ACTIONS)
def test_every_option_of_an_action_is_a_parameter_of_its_function(action: str) -> None:
    runs = Parser(prog="rxworker runs")
    runs.add_actions("runs", "action", COMMANDS["runs"].actions)
    actions: Any = next(each.choices for each in runs._actions if each.dest == "action")
    taken: set[str] = {each.dest for each in actions[action]._actions} - {"help"}
    inspect.signature(ACTIONS[action]).bind_partial(**dict.fromkeys(taken))


@pytest.mark.parametrize(("argv", "command"), [(["chat", "hello"], "rxworker chat"), (["--foo"], "rxworker")])
def test_an_argument_that_is_not_known_names_the_help_of_its_command(
    argv: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert f"unrecognized arguments: {argv[-1]} (see {command} --help)" in capsys.readouterr().err


def test_an_option_that_help_txt_lacks_is_refused_when_the_parser_is_made() -> None:
    with pytest.raises(KeyError, match="--colour"):
        Parser(prog="rxworker demo").add_options("--colour")
