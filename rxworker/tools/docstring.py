"""Reading docstrings: what a function is for, and what its parameters mean.

Three common styles are read: Google's (``Args:``), reStructuredText's (``:param x:``) and NumPy's (headings with a line below). What is meant for people who
call the function from Python, such as what it returns or raises, is left out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from itertools import zip_longest

from msgspec import Struct

PARAMETERS = re.compile(
    r"(Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters):\s*",
    re.IGNORECASE,
)
OTHERS = re.compile(
    r"(Returns?|Yields?|Receives|Raises|Examples?|Attributes|Methods|See Also|References|Todo|Warns):\s*",
    re.IGNORECASE,
)
GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:(?:\s+(.*))?")
REST_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:(?:\s+(.*))?")
RULE = re.compile(r"-{3,}|={3,}")
REST_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


class Docstring(Struct, frozen=True):
    """What a docstring says.

    Attributes:
        description: The summary and the paragraphs under it.
        parameters: What each parameter means, as far as it says so.
    """

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    r"""Read a docstring of any of the three styles.

    Args:
        text: The docstring, indented as it stands in the source.

    >>> parse_docstring("Look it up.\n\nArgs:\n    city: Where to look.")
    Docstring(description='Look it up.', parameters={'city': 'Where to look.'})
    >>> parse_docstring("Look it up.\n\n:param str city: Where to look.").parameters
    {'city': 'Where to look.'}
    >>> parse_docstring("Look it up.\n\nParameters\n----------\ncity : str\n    Where to look.").parameters
    {'city': 'Where to look.'}
    """
    reader = _Reader()
    lines = inspect.cleandoc(text or "").splitlines()
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        reader.read(line, below)
    return Docstring(
        "\n".join(reader.description).strip(),
        {name: _one_line(lines) for name, lines in reader.parameters.items()},
    )


class _Reader:
    """Goes through the lines once.

    ``entry`` is where a continuation line goes: the lines of a parameter, or ``None`` where they are left out.
    ``section`` is ``text`` (the description), ``parameters``, ``other``, or one of NumPy's, whose entries stand at the left edge:
    ``numpy parameters`` or ``numpy other``.
    """

    def __init__(self) -> None:
        self.description: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self.section = "text"
        self.depth: int | None = None
        self.entry: list[str] | None = None
        self.is_rule = False

    def read(self, line: str, below: str) -> None:
        indent = len(line) - len(line.lstrip())
        if self.is_rule:
            self.is_rule = False
            return
        if line[:1].strip() and RULE.fullmatch(below) and self.numpy_heading(line.strip()):
            return
        if self.section.startswith("numpy"):
            self.numpy_line(line.strip(), indent)
            return
        if line.strip() and indent == 0 and self.heading(line.strip()):
            return
        if self.section == "text":
            self.description.append(line)
        elif self.section == "parameters":
            self.parameter(line.strip(), indent)
        elif self.entry is not None:
            self.entry.append(line.strip())

    def heading(self, line: str) -> bool:
        """Whether a line at the left edge begins something new; if it does, begin it."""
        self.entry = None if self.section != "text" else self.entry
        field = REST_FIELD.fullmatch(line)
        if PARAMETERS.fullmatch(line):
            self.section, self.depth = "parameters", None
        elif OTHERS.fullmatch(line):
            self.section = "other"
        elif field is not None:
            self.section = "other"
            if field[1].lower() in REST_PARAMETER and (field[2] or "").strip():
                # ``:param str city:`` names its type first.
                self.entry = self.begin(field[2].split()[-1], field[3])
        else:
            # A line at the left edge ends a section; what follows is said to everybody.
            self.section = "text"
            return False
        return True

    def numpy_heading(self, line: str) -> bool:
        """Whether a line with a rule below begins a section of parameters, or one that is left out; if it does, begin it."""
        is_parameters = PARAMETERS.fullmatch(f"{line}:") is not None
        self.is_rule = is_parameters or OTHERS.fullmatch(f"{line}:") is not None
        self.entry = None
        if self.is_rule:
            self.section = "numpy parameters" if is_parameters else "numpy other"
        else:
            self.section = "text"
        return self.is_rule

    def numpy_line(self, line: str, indent: int) -> None:
        """A line of a NumPy section: ``a, b : int`` at the left edge, and below it, indented, what they mean."""
        if indent and self.entry is not None:
            self.entry.append(line)
        elif line and not indent and self.section == "numpy parameters":
            self.entry = []
            for name in line.partition(":")[0].split(","):
                self.parameters[name.strip().lstrip("*")] = self.entry

    def parameter(self, line: str, indent: int) -> None:
        if not line:
            return
        self.depth = indent if self.depth is None else self.depth
        match = GOOGLE_ENTRY.fullmatch(line) if indent <= self.depth else None
        if match is not None:
            self.entry = self.begin(match[1], match[2])
        elif self.entry is not None:
            self.entry.append(line)

    def begin(self, name: str, text: str | None) -> list[str]:
        lines = self.parameters[name.lstrip("*")] = [text or ""]
        return lines


def _one_line(lines: Iterable[str]) -> str:
    return " ".join(line for line in lines if line).strip()


__all__ = ["Docstring", "parse_docstring"]
