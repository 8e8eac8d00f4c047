"""What a message has besides the text that is typed: files that it names as ``@path``, and folded pastes.

A name begins after a space or at the begin of a line, and ends at a space; one with spaces is written as ``@"my
notes.txt"``. ``@@`` is an ``@`` that names no file.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import re
import stat
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

from rxworker.errors import ConfigurationError
from rxworker.messages import Audio, Document, Image, Message
from rxworker.ui.clean import clean, one_line

MAX = 5_000_000
"""Bytes of a file that is attached; the page takes as many."""
MAX_CHOICES = 50
MAX_SCANNED = 5_000
"""Entries of a folder that are looked at to complete a path."""

_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"@]\S*))')
_BEGUN = re.compile(r'(?<!\S)@(?:"([^"\n]*)|([^\s"@]*))$')
_AT = re.compile(r"(?<!\S)@")
_LITERAL = re.compile(r"(?<!\S)@@")
_AFTER = ".,;:!?)]}'"
"""Characters that end a sentence and no name, unless there is such a file."""

Attached = Image | Audio | Document


def attach(text: str, folder: Path, pastes: Mapping[str, str] | None = None) -> Message:
    """Return the message of a text that was typed: the text, and the files that it names.

    Args:
        text: The text.
        folder: The folder of relative paths.
        pastes: The texts that are folded, by what stands for them in the text. What they name is not attached.

    Raises:
        ConfigurationError: A file is missing, empty, too large or binary, or cannot be read.

    >>> attach("Mail me@example.org, @@home", Path(".")).text
    'Mail me@example.org, @home'
    """
    blocks = {name: None for match in _NAMED.finditer(text) for name in (match[1] or match[2],)}
    attached = [_read(name, folder) for name in blocks]
    text = _LITERAL.sub("@", text)
    if pastes:
        labels = re.compile("|".join(map(re.escape, pastes)))
        text = labels.sub(lambda match: pastes[match[0]], text)
    return Message.user(text, *attached)


def escape(text: str) -> str:
    r"""Return the text as it is typed so that no ``@`` of it names a file.

    >>> escape("@dataclass\nclass Frog:")
    '@@dataclass\nclass Frog:'
    """
    return _AT.sub("@@", text)


def is_name(text: str) -> bool:
    """Whether a text is the name of a file and nothing else.

    >>> is_name("@notes.txt"), is_name("Read @notes.txt")
    (True, False)
    """
    return _NAMED.fullmatch(text) is not None


def complete_path(text: str, folder: Path) -> list[tuple[str, str]]:
    """Return the files and folders that may follow an ``@``.

    Args:
        text: The input before the cursor.
        folder: The folder of relative paths.

    Returns:
        The input before the cursor with each, and its name; none if the text does not end with the begin of a name, or
        that is the name of a file.
    """
    begun = _BEGUN.search(text)
    if begun is None:
        return []
    head, slash, tail = (begun[1] or begun[2] or "").rpartition("/")
    choices: list[tuple[str, str]] = []
    try:
        with os.scandir(_path(head + slash, folder)) as entries:
            for _, entry in zip(range(MAX_SCANNED), entries, strict=False):
                name = entry.name
                is_hidden = name.startswith(".") and not tail.startswith(".")
                # A name that the input cannot show as it is cannot be chosen either.
                if is_hidden or not name.isprintable() or clean(name) != name or '"' in name:
                    continue
                if not name.lower().startswith(tail.lower()):
                    continue
                is_folder = entry.is_dir()
                if name == tail and not is_folder:
                    return []
                path = f"{head}{slash}{name}"
                quote = '"' if " " in path or begun[1] is not None else ""
                end = "/" if is_folder else quote
                choices.append((f"{text[: begun.start()]}@{quote}{path}{end}", name + "/" * is_folder))
    except (OSError, ValueError):
        return []
    return sorted(choices, key=itemgetter(1))[:MAX_CHOICES]


def _path(name: str, folder: Path) -> Path:
    # expanduser of pathlib raises where there is no home.
    return Path(folder, os.path.expanduser(name))


def _read(name: str, folder: Path) -> Attached:
    """The content of a file that is named, also where a sentence ends after its name."""
    path = _path(name, folder)
    try:
        if not path.exists() and (bare := name.rstrip(_AFTER)) and _path(bare, folder).exists():
            name, path = bare, _path(bare, folder)
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise _refuse(name, "is a folder", "name a file in it")
        if not stat.S_ISREG(found.st_mode):  # to read a pipe or a device may never end
            raise _refuse(name, "is not an ordinary file", "copy its content into one")
        with path.open("rb") as file:
            data = file.read(MAX + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        todo = f"correct the path, or write @@{one_line(name, 60)} where no file is meant"
        raise _refuse(name, f"is not a file in {folder.resolve()}", todo) from error
    except OSError as error:
        todo = "make it readable, or paste its content"
        raise _refuse(name, f"cannot be read ({error.strerror or error})", todo) from error
    if len(data) > MAX:
        size = f"has {found.st_size / 1e6:,.1f} MB, more than {MAX / 1e6:.0f} MB"
        raise _refuse(name, size, "attach a part of it, or give the worker a tool that reads it")
    if not data:
        raise _refuse(name, "is empty", "attach another file")
    return _block(name, path, data)


def _block(name: str, path: Path, data: bytes) -> Attached:
    kind = mimetypes.guess_type(path.name)[0] or ""
    if _is_text(data):  # also source code, whose extension has no media type, or that of a film, as .ts
        return Document("text/plain", base64.b64encode(data).decode("ascii"), title=name)
    if kind.startswith("image/"):
        return Image.from_file(path)
    if kind.startswith("audio/"):
        return Audio.from_file(path)
    if kind == "application/pdf":
        return Document.from_file(path, title=name)
    raise _refuse(name, "is neither text in UTF-8 nor a picture, a PDF or a recording", "convert it to one of these")


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _refuse(name: str, problem: str, todo: str) -> ConfigurationError:
    return ConfigurationError(f"@{one_line(name, 60)} {problem}: {todo}")
