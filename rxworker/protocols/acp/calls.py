"""Tool calls as the Agent Client Protocol shows them: title, kind, the files that they touch, and diffs."""

from __future__ import annotations

import re
from pathlib import PurePath

from rxworker.messages import JsonObject, ToolCall
from rxworker.protocols.acp.wire import CallFields, Diff, Location, ToolKind
from rxworker.tools import FileEdit

KINDS: tuple[tuple[ToolKind, str], ...] = (
    ("delete", "delete remove rm unlink"),
    ("move", "move rename mv"),
    ("edit", "edit write create patch apply replace insert append save"),
    ("search", "search grep find glob query"),
    ("execute", "run exec execute bash shell terminal command python test"),
    ("fetch", "fetch http web url browse download"),
    ("think", "think plan"),
    ("read", "read view open cat list ls get look show"),
)
"""The kinds of tools, and the words in a tool's name that state them. The first row that fits is taken."""

PATHS = ("path", "file_path", "file", "filename")
"""The arguments that name a file."""
CHANGES = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"))
"""The arguments of tools that replace a text in a file."""
NEW = ("content", "new_text", "file_text", "text")
"""The arguments of tools that write a file."""

MAX = 80
UNNAMED = "call"
"""The title of a call whose tool has no name."""


def kind_of(name: str) -> ToolKind:
    """The kind of a tool, which a client draws as an icon, from the words of its name.

    >>> kind_of("read_file"), kind_of("searchCode"), kind_of("forecast")
    ('read', 'search', 'other')
    """
    words = {word.lower() for word in re.findall("[A-Z]?[a-z]+", name)}
    for kind, known in KINDS:
        if not words.isdisjoint(known.split()):
            return kind
    return "other"


def title_of(call: ToolCall) -> str:
    """The name of the tool, and the first text among the arguments, in one line.

    >>> title_of(ToolCall("1", "forecast", {"days": 2, "city": "Kyoto"}))
    'forecast: Kyoto'
    """
    given = (call.input,) if isinstance(call.input, str) else call.input.values()
    first = next((value for value in given if isinstance(value, str) and value.strip()), "")
    line = " ".join(first[: 4 * MAX].split())
    line = line if len(line) <= MAX else f"{line[: MAX - 1]}…"
    name = call.name or UNNAMED
    return f"{name}: {line}" if line else name


def call_fields(name: str, call: ToolCall, cwd: str) -> CallFields:
    """The fields of a call that follow from its arguments.

    Args:
        name: The call's id, as it is shown.
        call: The call.
        cwd: The folder of the session, for relative paths.

    >>> call_fields("1", ToolCall("1", "read_file", {"path": "a.py"}), "/home/me").locations
    [Location(path='/home/me/a.py', line=None)]
    """
    arguments = call.input if isinstance(call.input, dict) else {}
    kind = kind_of(call.name)
    path = next((path for key in PATHS if isinstance(path := arguments.get(key), str)), "")
    edit = edit_of(path, arguments) if path and kind == "edit" else None
    line = arguments.get("line")
    return CallFields(
        tool_call_id=name,
        title=title_of(call),
        kind=kind,
        content=None if edit is None else [diff_of(edit, cwd)],
        locations=[Location(absolute(path, cwd), line if type(line) is int and line >= 0 else None)] if path else None,
        raw_input=call.input,
    )


def edit_of(path: str, arguments: JsonObject) -> FileEdit | None:
    """The edit that the arguments of a call describe, if they do; a tool that reports a `FileEdit` knows better.

    >>> edit_of("a.py", {"old_string": "x = 1", "new_string": "x = 2"})
    FileEdit(path='a.py', new_text='x = 2', old_text='x = 1')
    """
    for before, after in CHANGES:
        old, new = arguments.get(before), arguments.get(after)
        if isinstance(old, str) and isinstance(new, str):
            return FileEdit(path, new, old)
    for name in NEW:
        new = arguments.get(name)
        if isinstance(new, str):
            return FileEdit(path, new)
    return None


def diff_of(edit: FileEdit, cwd: str) -> Diff:
    """An edit as a diff. The protocol requires absolute paths."""
    return Diff(absolute(edit.path, cwd), edit.new_text, edit.old_text)


def absolute(path: str, cwd: str) -> str:
    """A path from a folder on, unless it is absolute.

    >>> absolute("a.py", "/home/me")
    '/home/me/a.py'
    """
    return str(PurePath(cwd) / path)
