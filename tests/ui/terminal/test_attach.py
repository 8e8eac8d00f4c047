"""Files that a message names, and what the input completes of their names."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from rxworker import Worker
from rxworker.errors import ConfigurationError
from rxworker.messages import Audio, Document, Image, Text
from rxworker.providers import Ollama
from rxworker.testing import ReplayServer, ScriptedModel, say, stall
from rxworker.ui.terminal.attach import MAX, attach, complete_path

from .conftest import Open

PNG = b"\x89PNG\r\n\x1a\n\0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of each sort."""
    files = {
        "notes.txt": b"On Monday.",
        "main.rs": b"fn main() {}",
        "film.ts": b"export {}",
        "my notes.md": "Grüße, 日本".encode(),
        "日本.txt": b"rain",
        "pond.png": PNG,
        "frog.wav": b"RIFF\0",
        "report.pdf": b"%PDF-\0",
        "docs/a.md": b"a",
        ".env": b"KEY=1",
        "empty.txt": b"",
        "blob.bin": b"\xff\0\xfe",
        "large.txt": b"x" * (MAX + 1),
    }
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("Read @notes.txt please", [("text/plain", b"On Monday.", "notes.txt")]),
        (
            "Read @notes.txt, (then @docs/a.md).",
            [("text/plain", b"On Monday.", "notes.txt"), ("text/plain", b"a", "docs/a.md")],
        ),
        ("@main.rs", [("text/plain", b"fn main() {}", "main.rs")]),
        ("@film.ts", [("text/plain", b"export {}", "film.ts")]),
        ('See\n@"my notes.md"', [("text/plain", "Grüße, 日本".encode(), "my notes.md")]),
        ("@日本.txt", [("text/plain", b"rain", "日本.txt")]),
        ("@notes.txt and @notes.txt again", [("text/plain", b"On Monday.", "notes.txt")]),
        ("@pond.png", [("image/png", PNG, None)]),
        ("@frog.wav", [("audio/x-wav", b"RIFF\0", None)]),
        ("@report.pdf", [("application/pdf", b"%PDF-\0", "report.pdf")]),
        ("me@example.org, @ home, a@notes.txt", []),
    ],
)
def test_files_that_a_text_names_are_content_of_its_message(
    text: str, blocks: list[tuple[str, bytes, str | None]], folder: Path
) -> None:
    first, *attached = attach(text, folder).content
    assert first == Text(text)
    found = [
        (
            each.media_type.replace("audio/wav", "audio/x-wav"),
            base64.b64decode(each.data or ""),
            getattr(each, "title", None),
        )
        for each in attached
        if isinstance(each, Document | Image | Audio)
    ]
    assert found == blocks


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nothing.txt", "is not a file in"),
        ("notes.txt/x", "is not a file in"),
        ("docs", "is a folder: name a file in it"),
        ("empty.txt", "is empty"),
        ("blob.bin", "is neither text in UTF-8 nor a picture"),
        ("large.txt", "has 5.0 MB, more than 5 MB: attach a part of it"),
        ("pipe", "is not an ordinary file"),
        ("a\0b", "is not a file in"),
        ("x" * 300, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_attached_is_refused_with_what_to_do(name: str, problem: str, folder: Path) -> None:
    if name == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("there are no pipes with names")
        os.mkfifo(folder / name)
    with pytest.raises(ConfigurationError) as raised:
        attach(f"Read @{name} please", folder)
    assert problem in str(raised.value)
    assert ": " in str(raised.value)


def test_two_at_signs_are_one_that_names_no_file(tmp_path: Path) -> None:
    assert attach("@@dataclass and @@x", tmp_path).content == (Text("@dataclass and @x"),)


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("Read @no", ["Read @notes.txt"]),
        ("@NO", ["@notes.txt"]),
        ("@my", ['@"my notes.md"']),
        ('@"my', ['@"my notes.md"']),
        ("@d", ["@docs/"]),
        ("@docs/", ["@docs/a.md"]),
        ("@.e", ["@.env"]),
        ("@.", ["@.env"]),
        ("@notes.txt", []),
        ("@nothing", []),
        ("@nothing/a", []),
        ("me@no", []),
        ("@no more", []),
    ],
)
def test_a_path_is_completed(text: str, choices: list[str], folder: Path) -> None:
    assert [written for written, _ in complete_path(text, folder)] == choices


def test_all_files_of_a_folder_are_offered_but_hidden_ones_and_those_that_cannot_be_shown(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden", "esc\x1b[31m", "new\nline", "turn\u202eed", 'quo"te'):
        (tmp_path / name).touch()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    assert [name for _, name in complete_path("@", tmp_path)] == ["a", "b"]


async def test_a_path_is_completed_in_the_middle_of_the_input_and_its_file_is_sent(
    open_app: Open, folder: Path
) -> None:
    model = ScriptedModel(["On Monday."])
    async with open_app(Worker(model, workspace=folder)) as person:
        await person.press(*"When? ok", "left", "left", "left", *" @no", sees="notes.txt")
        await person.press("tab")
        assert person.typed == "When? @notes.txt  ok"
        await person.press(*"x")
        assert person.typed == "When? @notes.txt x ok"
        await person.press("enter")
        await person.rest()
        assert "[document notes.txt, text/plain, 10 B]" in person.screen
    [message] = model.requests[0].conversation.messages
    assert message.text == "When? @notes.txt x ok"
    assert isinstance(message.content[1], Document)


async def test_enter_chooses_a_file_and_a_second_one_sends(open_app: Open, folder: Path) -> None:
    model = ScriptedModel(["Yes."])
    async with open_app(Worker(model, workspace=folder)) as person:
        await person.press(*"@do", sees="docs/")
        await person.press("enter")
        assert person.typed == "@docs/"
        await person.sees("a.md")
        await person.press("enter")
        assert person.typed == "@docs/a.md "
        assert not model.requests
        await person.press("enter")
        await person.rest()
    [message] = model.requests[0].conversation.messages
    assert message.content[1:] == (Document("text/plain", "YQ==", title="docs/a.md"),)


async def test_nothing_is_sent_if_a_file_is_missing_and_what_was_typed_stays(open_app: Open, folder: Path) -> None:
    model = ScriptedModel(["Yes."])
    async with open_app(Worker(model, workspace=folder)) as person:
        await person.say("Read @no-such.txt")
        await person.is_notified("@no-such.txt is not a file in")
        assert person.typed == "Read @no-such.txt"
        await person.ask("Read @@no-such.txt")
        assert "Read @no-such.txt" in person.screen
    [request] = model.requests
    assert request.conversation.messages[0].text == "Read @no-such.txt"


async def test_a_file_that_the_model_cannot_take_leaves_the_conversation_as_it_was(
    open_app: Open, folder: Path
) -> None:
    with ReplayServer(["Hello."]) as server:
        worker = Worker(Ollama("m", base_url=server.base_url), workspace=folder)
        async with open_app(worker) as person:
            await person.say("Listen: @frog.wav")
            await person.is_notified("Ollama takes no Audio; send its transcript as Text, or use")
            await person.ask("Hi")
            assert "Hello." in person.screen


async def test_a_message_with_a_file_that_was_not_read_comes_back_as_it_was_typed(open_app: Open, folder: Path) -> None:
    async with open_app(Worker(ScriptedModel([say("Once") + stall()]), workspace=folder)) as person:
        await person.say("Tell me.", sees="Once")
        await person.say("Read @notes.txt first.", sees="queued: Read @notes.txt first.")
        await person.press("ctrl+c")
        await person.rest()
        assert person.typed == "Read @notes.txt first."
