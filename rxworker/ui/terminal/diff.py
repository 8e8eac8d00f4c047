"""Edits of files as coloured lines: from reports of tools, arguments of a call that waits, and diffs as results."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from rxworker.messages import JsonObject
from rxworker.tools.reports import FileEdit, PlanStep, edit_in
from rxworker.ui.clean import clean, one_line

StyledLine: TypeAlias = tuple[str, str]
"""The name of a style, and a line."""

LARGEST = 500_000
"""Bytes of a file that is read for a diff."""
MAX_COMPARED = 2000
"""Lines of the changed part that are compared.

Of a longer one, all old lines are shown as removed and all new ones as added.
"""
CONTEXT = 3
LONGEST = 400
STYLES = {"+": "added", "-": "removed", "@": "more"}
"""The styles of lines of a diff by their first characters."""
_DIFF = re.compile(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@", re.MULTILINE)


def edit_of(arguments: JsonObject | str, folder: Path) -> FileEdit | None:
    """Return the edit that a call would make, if its arguments are those of a usual tool for files.

    Args:
        arguments: The arguments of the call.
        folder: The folder of relative paths. The present text of a file that would be written is read from there.

    >>> edit_of({"path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}, Path("."))
    FileEdit(path='a.py', new_text='x = 2', old_text='x = 1')
    >>> edit_of({"city": "Kyoto"}, Path("."))
    """
    edit = edit_in(arguments)
    return edit if edit is None or edit.old_text is not None else replace(edit, old_text=_present(folder / edit.path))


def is_diff(text: str) -> bool:
    r"""Whether a text is a unified diff.

    >>> is_diff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y"), is_diff("@ home")
    (True, False)
    """
    return _DIFF.search(text, 0, LARGEST) is not None


def edit_lines(edit: FileEdit) -> list[StyledLine]:
    r"""Return the path, the number of added and removed lines, and the unified diff.

    >>> edit_lines(FileEdit("a.py", "x = 2\ny = 1\n", "x = 1\ny = 1\n"))
    [('title', 'a.py +1 -1'), ('removed', '-x = 1'), ('added', '+x = 2'), ('dim', ' y = 1')]
    """
    old, new = (edit.old_text or "").splitlines(), edit.new_text.splitlines()
    lines = list(_changed(old, new))
    counts = [sum(style == name for style, _ in lines) for name in ("added", "removed")]
    what = " (new)" if edit.old_text is None else ""
    return [("title", f"{one_line(edit.path)}{what} +{counts[0]} -{counts[1]}"), *lines]


def diff_lines(text: str) -> list[StyledLine]:
    """Return the lines of a unified diff with their styles."""
    return [
        ("title" if line.startswith(("+++ ", "--- ")) else STYLES.get(line[:1], "dim"), line)
        for line in text.splitlines()
    ]


def plan_lines(steps: Iterable[PlanStep]) -> list[StyledLine]:
    """Return a plan, a line for each step.

    >>> plan_lines([PlanStep("Look", "completed"), PlanStep("Write", "in_progress")])
    [('good', '✓ Look'), ('busy', '▸ Write')]
    """
    signs = {"completed": ("good", "✓"), "in_progress": ("busy", "▸"), "pending": ("dim", "○")}
    return [(signs[step.status][0], f"{signs[step.status][1]} {one_line(step.content)}") for step in steps]


def _changed(old: list[str], new: list[str]) -> Iterable[StyledLine]:
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first, old_end, new_end = max(0, start - CONTEXT), len(old) - end, len(new) - end
    yield from ((("dim", _line(" ", line))) for line in old[first:start])
    if old_end + new_end - 2 * start > MAX_COMPARED:
        yield from (("removed", _line("-", line)) for line in old[start:old_end])
        yield from (("added", _line("+", line)) for line in new[start:new_end])
    else:
        yield from _compared(old[start:old_end], new[start:new_end])
    yield from (("dim", _line(" ", line)) for line in old[old_end : old_end + CONTEXT])


def _compared(old: list[str], new: list[str]) -> Iterable[StyledLine]:
    whole = max(len(old), len(new))
    diff = difflib.unified_diff(old, new, n=whole if whole <= 2 * CONTEXT else CONTEXT, lineterm="")
    for n, line in enumerate(diff):
        if n > 2 or (n == 2 and not line.startswith("@@")):  # the first hunk needs no heading
            sign = line[:1] or " "
            yield STYLES.get(sign, "dim"), ("…" if sign == "@" else _line(sign, line[1:]))


def _line(sign: str, line: str) -> str:
    return sign + clean(line[:LONGEST].expandtabs(4))


def _present(path: Path) -> str | None:
    """The text of a file; ``None`` if there is none, or if it is not text or too large."""
    try:
        if path.is_file() and path.stat().st_size <= LARGEST:
            return path.read_text("utf-8")
    except (OSError, ValueError):
        pass
    return None
