"""Chat where nobody sits at a terminal: lines in, text out."""

import io
import sys
from pathlib import Path

import pytest

from rxworker.cli import main
from rxworker.messages import JsonObject
from rxworker.testing import ReplayServer, Reply, ServedResponse, anthropic_frames, call, fail, say, think

TOOLS = '''
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} means \\x1b[31m rain"
'''


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def piped(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def chat(server: ReplayServer | None, *options: str, provider: str = "anthropic") -> int:
    where = ["--base-url", server.base_url] if server else []
    return main(["chat", "--provider", provider, "--model", "m", *where, *options])


def test_the_first_chat_needs_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat"]) == 2
    assert "chat needs --provider and --model, such as --provider anthropic" in capsys.readouterr().err


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "openai_chat"])
def test_each_line_is_a_message_and_the_conversation_continues(
    provider: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "Hello?\n\nAnd then?")
    with ReplayServer(["Hi.", "Bye.\n"]) as server:
        assert chat(server, provider=provider) == 0
        last = str(server.requests[1].body)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("Hi.\nBye.\n", "")
    assert "Hello?" in last
    assert "Hi." in last
    assert "And then?" in last


def test_tools_are_imported_and_called_and_noted_beside_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat_tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    piped(monkeypatch, "What is ame?\n")
    answers = [think("Hm.") + say("Wait.") + call("look_up", word="ame"), "It is rain."]
    with ReplayServer(answers) as server:
        assert chat(server, "--tool", "chat_tools:look_up", "--system", "Be brief.") == 0
        first, second = (str(request.body) for request in server.requests)
    shown = capsys.readouterr()
    assert shown.out == "Wait.\nIt is rain.\n"
    assert '-> look_up(word="ame")\n<- look_up: ame means ␛[31m rain (' in shown.err
    assert "Be brief." in first
    assert "look_up" in first
    assert "ame means" in second


def test_text_of_the_model_moves_no_cursor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    piped(monkeypatch, "Hello?\n")
    with ReplayServer([say("\x1b[2J\x1b]0;owned\x07[bold]x[/bold]", chunk=2)]) as server:
        assert chat(server) == 0
    assert capsys.readouterr().out == "␛[2J␛]0;owned␇[bold]x[/bold]\n"


def test_an_error_is_one_line_and_ends_it_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "Hello?\nStill there?\n")
    body: JsonObject = {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}
    with ReplayServer([ServedResponse.from_status(401, body=body)]) as server:
        assert chat(server) == 1
        assert len(server.requests) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "bad key" in shown.err
    assert "ANTHROPIC_API_KEY or --api-key-env" in shown.err


def test_text_before_an_error_is_kept_on_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "Hello?\n")
    with ReplayServer([say("Half a sen") + fail("Bad", "invalid_request")]) as server:
        assert chat(server) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("Half a s")
    assert shown.out.endswith("\n")
    assert "Bad" in shown.err


def started_twice(first: Reply, second: Reply, *, dropped: int) -> ServedResponse:
    """A body in which the message starts again before the first one has ended."""
    frames = anthropic_frames(first)
    return ServedResponse((*frames[: len(frames) - dropped], *anthropic_frames(second)))


@pytest.mark.parametrize("dropped", [3, 4])
def test_a_message_that_starts_again_is_marked_and_begins_a_line(
    dropped: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "What is it?\n")
    first, second = say("The answer is 41."), say("The answer is 42.")
    with ReplayServer([started_twice(first, second, dropped=dropped)]) as server:
        assert chat(server, "--plain") == 0
    shown = capsys.readouterr()
    before, mark, after = shown.out.splitlines()
    assert before.startswith("The answer is 41")
    assert mark == "[retracted: the response starts again]"
    assert after == "The answer is 42."
    assert shown.err == ""


def test_an_attempt_that_is_retracted_is_marked_where_its_text_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "What is it?\n")
    busy = say("The answer is 41.") + fail("Overloaded", "overloaded_error")
    with ReplayServer([busy, "The answer is 42."]) as server:
        assert chat(server) == 0
    before, mark, after = capsys.readouterr().out.splitlines()
    assert before.startswith("The answer is 41")
    assert mark.startswith("[retracted, requesting again: ")
    assert after == "The answer is 42."


def test_what_was_not_printed_needs_no_mark_in_the_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "What is it?\n")
    frames = started_twice(think("Hm. It is"), say("The answer is 42."), dropped=3)
    with ReplayServer([frames]) as server:
        assert chat(server) == 0
    shown = capsys.readouterr()
    assert shown.out == "The answer is 42.\n"
    assert "starts again" in shown.err


def test_a_missing_key_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    piped(monkeypatch, "Hello?\n")
    assert chat(None) == 1
    error = capsys.readouterr().err
    assert "set the environment variable ANTHROPIC_API_KEY" in error
    assert "--api-key-env" in error
    assert error.count("\n") == 1


def test_the_key_comes_from_the_variable_that_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "Hello?\n")
    monkeypatch.setenv("MY_KEY", "secret-key-of-mine")
    seen: list[bool] = []
    with ReplayServer(["Hi."]) as server:
        assert chat(server, "--api-key-env", "MY_KEY", "--max-tokens", "77") == 0
        seen.append("77" in str(server.requests[0].body))
    assert seen == [True]
    assert capsys.readouterr().out == "Hi.\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--api-key-env", "NOT_SET"], "the variable 'NOT_SET' is not set"),
        (["--base-url", "ftp://x"], "--base-url 'ftp://x' is not an address"),
        (["--tool", "nothing"], "write it as module:function"),
        (["--max-tokens", "0"], "'0' is not a number above 0"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chat(None, *options) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_empty_input_is_not_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    piped(monkeypatch, "")
    assert chat(None) == 0
    assert capsys.readouterr().out == ""


def test_bytes_that_are_not_text_do_not_stop_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, b"caf\xe9?\n")
    with ReplayServer(["Yes."]) as server:
        assert chat(server) == 0
    assert capsys.readouterr().out == "Yes.\n"
