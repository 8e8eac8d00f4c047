"""What the last chat was called with."""

import os
import stat
from pathlib import Path

import pytest

from rxworker.cli.chat import LastChat, chat_file, last_chat, remember_chat


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"provider":1,"model":"m"}',
        b'{"provider":"\xff","model":"m"}',
        b'{"provider":"\\ud800","model":"m"}',
    ],
)
def test_what_is_not_a_chat_is_as_if_there_were_none(data: bytes) -> None:
    chat_file().parent.mkdir(parents=True)
    chat_file().write_bytes(data)
    assert last_chat() is None
    remember_chat(LastChat("anthropic", "m"))
    assert last_chat() == LastChat("anthropic", "m")


def test_a_log_is_found_from_another_folder(home: Path) -> None:
    remember_chat(LastChat("anthropic", "m", log="sqlite:chats.db"))
    assert last_chat() == LastChat("anthropic", "m", log=f"sqlite:{home / 'chats.db'}")


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_no_other_user_reads_it() -> None:
    chat_file().parent.mkdir(parents=True)
    chat_file().write_bytes(b"{}")
    chat_file().chmod(0o644)
    chat = LastChat("anthropic", "m", log="postgresql://me:secret@db.example/runs")
    remember_chat(chat)
    assert last_chat() == chat
    assert stat.S_IMODE(chat_file().stat().st_mode) == 0o600


def test_what_cannot_be_written_is_not_remembered(home: Path) -> None:
    remember_chat(LastChat("anthropic", "m", log="sqlite:\udcff"))
    assert last_chat() is None
    (home / "state").mkdir()
    (home / "state" / "rxworker").write_bytes(b"a file in place of the folder")
    remember_chat(LastChat("anthropic", "m"))
    assert last_chat() is None
