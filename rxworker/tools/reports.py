"""Progress that user interfaces draw: an edit of a file, and a plan; and a tool with which the model shows its plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject
from rxworker.tools.base import ToolContext
from rxworker.tools.function import tool

PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
PlanPriority: TypeAlias = Literal["high", "medium", "low"]


class FileEdit(Struct, frozen=True, tag="file_edit", tag_field="report", omit_defaults=True):
    """Progress of a tool that has changed a file: ``context.progress(FileEdit(path, new_text, old_text))``.

    Editors show it as a diff.

    Attributes:
        path: The file, absolute or relative to the folder that the worker works in.
        new_text: The text of the file after the change, or of the part that was changed.
        old_text: The text before; ``None`` for a new file.
    """

    path: str
    new_text: str
    old_text: str | None = None


class PlanStep(Struct, frozen=True, omit_defaults=True):
    """A step of a plan.

    Attributes:
        content: The task, in one line.
        status: Its status.
        priority: Its priority.
    """

    content: str
    status: PlanStatus = "pending"
    priority: PlanPriority = "medium"


class Plan(Struct, frozen=True, tag="plan", tag_field="report"):
    """Progress of a tool that shows a plan: ``context.progress(Plan(steps))``.

    It replaces the plan that was shown before.

    Attributes:
        steps: All steps, in order.
    """

    steps: tuple[PlanStep, ...]


Report: TypeAlias = FileEdit | Plan
"""Any report."""


def read_report(progress: Json) -> Report | None:
    """The edit or the plan that a progress value stands for; ``None`` for any other value.

    >>> read_report({"report": "file_edit", "path": "a.py", "new_text": "x = 1"})
    FileEdit(path='a.py', new_text='x = 1', old_text=None)
    >>> read_report({"files": 3})
    """
    if not isinstance(progress, dict) or "report" not in progress:
        return None
    try:
        return msgspec.convert(progress, Report)
    except msgspec.ValidationError:
        return None


PATHS = ("path", "file_path", "filePath", "file", "filename", "file_name")
CHANGES = (
    ("old_string", "new_string"),
    ("old_text", "new_text"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("old", "new"),
)
TEXTS = ("content", "contents", "new_text", "file_text", "text")
"""The names of arguments that usual tools for files have."""


def edit_in(arguments: JsonObject | str) -> FileEdit | None:
    """The edit that a call would make, if its arguments are those of a usual tool for files.

    That of a file that would be written has no old text.

    >>> edit_in({"path": "a.py", "old_string": "x = 1", "new_string": "x = 2"})
    FileEdit(path='a.py', new_text='x = 2', old_text='x = 1')
    >>> edit_in({"city": "Kyoto"})
    """
    path = first_text(arguments, PATHS)
    if isinstance(arguments, str) or not path:
        return None
    for old, new in CHANGES:
        before, after = arguments.get(old), arguments.get(new)
        if isinstance(before, str) and isinstance(after, str):
            return FileEdit(path, after, before)
    text = first_text(arguments, TEXTS)
    return None if text is None else FileEdit(path, text)


def first_text(arguments: JsonObject | str, names: Iterable[str]) -> str | None:
    """The first text that one of these arguments has."""
    given = {} if isinstance(arguments, str) else arguments
    return next((v for n in names if isinstance(v := given.get(n), str)), None)


@tool(effect="idempotent")
def update_plan(steps: list[PlanStep], context: ToolContext) -> str:  # noqa: D417 - the model does not see the context
    """Show the user your plan for a task of several steps. Call it again whenever a step begins or is completed.

    Args:
        steps: All steps of the plan, in order, each with its present status.
    """
    context.progress(Plan(tuple(steps)))
    return "The plan is shown."
