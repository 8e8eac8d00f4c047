"""Images and documents from disk."""

import base64
from pathlib import Path

import pytest

from rxworker.errors import ConfigurationError
from rxworker.messages import Audio, Document, Image


def test_an_image_is_read_from_disk_with_its_media_type(tmp_path: Path):
    path = tmp_path / "cat.jpg"
    path.write_bytes(b"bytes")
    assert Image.from_file(path) == Image("image/jpeg", base64.b64encode(b"bytes").decode())
    assert Image.from_file(str(path)) == Image.from_file(path)


def test_a_document_is_read_from_disk_and_named_after_its_file(tmp_path: Path):
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")
    data = base64.b64encode(b"%PDF").decode()
    assert Document.from_file(path) == Document(data=data, title="report.pdf")
    assert Document.from_file(path, title="Report").title == "Report"


def test_a_recording_is_read_from_disk_with_its_media_type(tmp_path: Path):
    path = tmp_path / "hello.mp3"
    path.write_bytes(b"sound")
    assert Audio.from_file(path) == Audio("audio/mpeg", base64.b64encode(b"sound").decode())
    assert Audio.from_file(str(path)) == Audio.from_file(path)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("missing.png", Image, "cannot be read"),
        ("a.txt", Image, "use Document.from_file"),
        ("a.png", Document, "use Image.from_file"),
        ("a.unheardof", Document, "media type"),
        ("a.txt.gz", Document, "media type"),
        ("missing.wav", Audio, "cannot be read"),
        ("a.png", Audio, "image/png, not audio"),
        ("a.unheardof", Audio, "media type"),
    ],
)
def test_a_file_that_does_not_fit_raises_and_names_what_to_do(
    tmp_path: Path, name: str, kind: type[Image | Document | Audio], message: str
):
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ConfigurationError, match=message):
        kind.from_file(tmp_path / name)
