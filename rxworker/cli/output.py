"""Standard input and output, whatever they are connected to."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import suppress
from typing import TextIO

from rxworker.messages import JsonObject

# JSON leaves these as they are; a terminal may take some for the beginning of a command.
_LATE_CONTROLS = re.compile("[\x7f-\x9f]")


def prepare_streams() -> None:
    """Let a character that the terminal's encoding does not have become a question mark, not an exception."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is at the other end; nobody is where the stream was closed."""
    return stream is not None and stream.isatty()


def write_line(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)


def write_error(text: str) -> None:
    """A line on standard error, which may be gone."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def write_json(value: JsonObject) -> None:
    """One line of JSON on standard output, in UTF-8 whatever the terminal's encoding is."""
    data = (to_line(value) + "\n").encode("utf-8", "backslashreplace")
    buffer = getattr(sys.stdout, "buffer", None)
    if isinstance(buffer, io.BufferedIOBase):
        sys.stdout.flush()
        buffer.write(data)
        buffer.flush()
    else:
        print(data.decode(), end="", flush=True)


def to_line(value: JsonObject) -> str:
    r"""The value as one line of JSON without control characters.

    >>> to_line({"text": "京\n\x9b"})
    '{"text": "京\\n\\u009b"}'
    """
    return _LATE_CONTROLS.sub(_escape, json.dumps(value, ensure_ascii=False))


def read_input() -> bytes:
    """All of standard input.

    Raises:
        OSError: It is closed, or cannot be read.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - closed with <&-
        raise OSError("standard input is closed")
    buffer = getattr(sys.stdin, "buffer", None)
    return buffer.read() if isinstance(buffer, io.BufferedIOBase) else sys.stdin.read().encode()


def flush() -> None:
    """Write out what is held back, so that a reader who is gone is noticed here and not at exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed with >&-
            stream.flush()


def silence() -> None:
    """Nobody reads standard output any more: let what is held back go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


__all__ = [
    "flush",
    "is_terminal",
    "prepare_streams",
    "read_input",
    "silence",
    "to_line",
    "write_error",
    "write_json",
    "write_line",
]
