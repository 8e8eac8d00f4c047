import importlib.metadata
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rxworker.cli import main
from rxworker.cli.chat import chat
from rxworker.cli.decode import decode
from rxworker.cli.main import _arguments, make_parser
from rxworker.cli.protocols import acp, mcp
from rxworker.cli.serve import demo_web, serve
from rxworker.cli.work import submit, work
from rxworker.testing import anthropic_frames, say

COMMAND = [sys.executable, "-m", "rxworker.cli"]


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rxworker {importlib.metadata.version('rxworker')}\n"


@pytest.mark.parametrize("command", [[], ["demo"], ["chat"], ["decode"]])
def test_help_is_no_failure(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: rxworker")


def test_without_a_command_the_help_is_shown_and_it_is_a_misuse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert "decode" in capsys.readouterr().err


def test_an_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dance"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("rxworker: argument command: invalid choice: 'dance'")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [["demo"], ["chat", "--provider", "anthropic", "--model", "m"]])
def test_without_rich_demo_and_chat_name_the_package_to_install(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "pip install 'rxworker[cli]'" in error
    assert error.count("\n") == 1


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
            [*COMMAND, "decode", "anthropic", str(path), *option],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
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


@pytest.mark.parametrize(
    ("words", "function"),
    [
        ("demo --web", demo_web),
        ("chat --provider p --model m", chat),
        ("serve", serve),
        ("mcp", mcp),
        ("acp", acp),
        ("decode p f", decode),
        ("work --log l m:f", work),
        ("submit --log l text", submit),
    ],
)
def test_the_function_of_a_command_takes_each_of_its_options(
    words: str, function: Callable[..., int]
) -> None:
    """An option that no parameter takes would be accepted and have no effect."""
    inspect.signature(function).bind(**_arguments(make_parser().parse_args(words.split())))
