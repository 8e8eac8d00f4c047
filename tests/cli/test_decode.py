import io
import json
from pathlib import Path
from typing import Any

import pytest

from rxworker.cli import main
from rxworker.providers import PROVIDERS
from rxworker.testing import Reply, anthropic_frames, call, cut, fail, openai_chat_frames, say, think

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
STREAMS = sorted(
    path for folder in PROVIDERS for path in (RECORDINGS / folder).glob("*") if path.suffix in (".sse", ".ndjson")
)


def decoded(capsys: pytest.CaptureFixture[str], provider: str, path: Path) -> dict[str, Any]:
    assert main(["decode", provider, str(path), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.count("\n") == 1
    value: dict[str, Any] = json.loads(shown.out)
    return value


def recorded(folder: Path, reply: Reply) -> Path:
    path = folder / "stream.sse"
    path.write_bytes(b"".join(anthropic_frames(reply)))
    return path


@pytest.mark.skipif(not STREAMS, reason=f"no recordings: {RECORDINGS} is absent")
def test_recordings_decode_to_what_is_expected_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    for path in STREAMS:
        expected = json.loads(path.with_suffix(".expected.json").read_text())
        shown = decoded(capsys, path.parent.name, path)
        keys = ("text", "thinking", "tool_calls", "usage")
        assert {key: shown[key] for key in keys} == {key: expected[key] for key in keys}, path
        stop = shown["stop_reason"]
        assert (stop["raw"] if stop else None) == expected["stop_reason"], path
        assert (shown["error"] is None) == (expected["error"] is None), path
        assert shown["truncated"] == (not expected["terminated"] and not expected["error"]), path


def test_a_message_that_starts_again_is_decoded_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (anthropic_frames(say(f"The answer is {n}.")) for n in (41, 42))
    path = tmp_path / "stream.sse"
    path.write_bytes(b"".join(first[:-3] + second))
    assert decoded(capsys, "anthropic", path)["text"] == "The answer is 42."
    assert main(["decode", "anthropic", str(path)]) == 0
    assert "41" not in capsys.readouterr().out


def test_json_has_exactly_the_promised_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path, think("Rain?") + say("Wait.") + call("look", city="京都"))
    assert decoded(capsys, "anthropic", path) == {
        "text": "Wait.",
        "thinking": "Rain?",
        "tool_calls": [{"id": "toolu_1_1", "name": "look", "input": {"city": "京都"}}],
        "stop_reason": {"kind": "ToolUse", "raw": "tool_use"},
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read": 0, "cache_creation": 0},
        "error": None,
        "truncated": False,
    }


@pytest.mark.parametrize("name", ["openai-chat", "openai_chat", "OpenAI-Chat"])
def test_a_provider_is_found_with_hyphens_too(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stream"
    path.write_bytes(b"".join(openai_chat_frames(say("Hi"))))
    assert decoded(capsys, name, path)["text"] == "Hi"


def test_a_cut_stream_is_truncated_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = decoded(capsys, "anthropic", recorded(tmp_path, say("half") + cut()))
    assert (shown["truncated"], shown["error"], shown["stop_reason"]) == (True, None, None)


def test_an_error_in_the_stream_is_reported_with_exit_code_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = decoded(capsys, "anthropic", recorded(tmp_path, fail("Overloaded", "overloaded")))
    assert shown["error"] == {"code": "overloaded_error", "message": "Overloaded"}


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00 no stream", b"<html>502</html>", b"{}"])
def test_whatever_can_be_read_is_decoded(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stream"
    path.write_bytes(data)
    shown = decoded(capsys, "anthropic", path)
    assert shown["truncated"] or shown["error"]


def test_json_holds_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\x1b[31m \x9b31m \x7f"
    assert decoded(capsys, "anthropic", recorded(tmp_path, say(text)))["text"] == text
    assert main(["decode", "anthropic", str(tmp_path / "stream.sse"), "--json"]) == 0
    assert all(" " <= c < "\x7f" or c == "\n" for c in capsys.readouterr().out)


def test_json_is_utf_8_whatever_the_terminal_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["decode", "anthropic", str(recorded(tmp_path, say("京都"))), "--json"]) == 0
    assert json.loads(raw.getvalue().decode("utf-8"))["text"] == "京都"


def test_a_hyphen_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = b"".join(anthropic_frames(say("piped")))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["decode", "anthropic", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "piped"


def test_the_account_is_shown_to_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reply = think("Rain?") + say("Two\nlines \x1b[31m") + call("look", city="Kyoto")
    assert main(["decode", "anthropic", str(recorded(tmp_path, reply))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "response   claude-scripted  msg_1",
        "thinking",
        "  Rain?",
        "text",
        "  Two",
        "  lines ␛[31m",
        'call       look {"city":"Kyoto"} [toolu_1_1]',
        "stop       ToolUse (tool_use)",
        "usage      10 in, 5 out, 0 read from cache, 0 written to cache",
    ]


def test_the_account_reports_errors_and_cuts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["decode", "anthropic", str(recorded(tmp_path, call("look", city="K") + cut()))])
    shown = capsys.readouterr().out
    assert "(cut off)" in shown
    assert "truncated  the stream ended before the response did" in shown
    main(["decode", "anthropic", str(recorded(tmp_path, say("a") + fail("Overloaded")))])
    assert "error      api_error: Overloaded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["anthropic", "/no/such/file"], "cannot read '/no/such/file': No such file"),
        (["anthropic", "."], "cannot read '.': Is a directory"),
        (["anthropic", "a\0b"], "cannot read 'a\\x00b'"),
        (["antropic", "-"], "unknown provider 'antropic': did you mean anthropic?"),
        (["anthropic"], "the following arguments are required: FILE"),
        (["anthropic", "-", "--xml"], "unrecognized arguments: --xml"),
    ],
)
def test_a_misuse_is_one_line_and_exit_code_2(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert reason in shown.err
    assert shown.err.count("\n") == 1
