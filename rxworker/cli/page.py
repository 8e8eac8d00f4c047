"""Where a conversation is written: a terminal, in styles, or a pipe, as plain text."""

from __future__ import annotations

import sys
from typing import Literal, Protocol, TypeAlias

from rich.console import Console

from rxworker.cli.output import write_error
from rxworker.ui.clean import clean

Voice: TypeAlias = Literal["text", "thinking"]

STYLES = {"text": "", "thinking": "dim italic"}


class Page(Protocol):
    """Takes what is said as it comes, and notes about it, each on a line of its own."""

    def say(self, voice: Voice, piece: str) -> None:
        """More of what the model says or thinks."""
        ...

    def note(self, line: str, *, failed: bool = False) -> None:
        """A line about what happens."""
        ...

    def mark(self, line: str) -> None:
        """A line between two parts of the text, where the text stands: what came before it is no longer valid."""
        ...

    def end_line(self) -> None:
        """Begin a new line, unless at the beginning of one."""
        ...


class TerminalPage:
    """A page for a person.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._voice: Voice | None = None
        self._in_line = False

    def say(self, voice: Voice, piece: str) -> None:
        """More of what the model says or thinks."""
        if voice != self._voice:
            self.end_line()
            self._voice = voice
            piece = piece.lstrip("\n")
        if piece:
            self._console.out(clean(piece), style=STYLES[voice], end="", highlight=False)
            self._in_line = not piece.endswith("\n")

    def note(self, line: str, *, failed: bool = False) -> None:
        """A line about what happens."""
        self.end_line()
        self._console.out(f"  {line}", style="red" if failed else "dim", highlight=False)

    def mark(self, line: str) -> None:
        """A line between two parts of the text."""
        self.end_line()
        self._console.out(f"[{line}]", style="yellow", highlight=False)

    def end_line(self) -> None:
        """Begin a new line, unless at the beginning of one."""
        if self._in_line:
            self._console.out("")
        self._in_line, self._voice = False, None


class PlainPage:
    """A page for a program: what the model says on standard output, notes on standard error, thoughts nowhere."""

    def __init__(self) -> None:
        self._in_line = False

    def say(self, voice: Voice, piece: str) -> None:
        """More of what the model says or thinks."""
        if voice == "text" and piece:
            print(clean(piece), end="", flush=True)
            self._in_line = not piece.endswith("\n")

    def note(self, line: str, *, failed: bool = False) -> None:
        """A line about what happens."""
        self.end_line()
        write_error(f"rxworker: {line}" if failed else line)

    def mark(self, line: str) -> None:
        """A line between two parts of the text, on standard output: who reads only that must not join them."""
        self.end_line()
        print(f"[{line}]", flush=True)

    def end_line(self) -> None:
        """Begin a new line, unless at the beginning of one."""
        if self._in_line:
            print(flush=True, file=sys.stdout)
        self._in_line = False


__all__ = ["Page", "PlainPage", "TerminalPage", "Voice"]
