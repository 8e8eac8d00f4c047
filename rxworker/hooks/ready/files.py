"""After a tool has changed a file: what git says to it, and what is in the file now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from rxworker.hooks.base import Hook
from rxworker.hooks.contexts import ToolResultContext
from rxworker.hooks.points import HookPoint
from rxworker.messages import JsonObject

FILE_TOOLS = r"(?i).*(edit|create|write).*"
PATHS = ("file_path", "path", "file", "filename")
# A workspace is not always ours: git must not start what its settings name.
STATUS = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain")


class _GitStatus:
    """Remembers what it told last, and tells nothing twice."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    async def __call__(self, context: ToolResultContext) -> None:
        if context.result.is_error:
            return
        status = await context.run_command(STATUS, limit=8_192)
        run_and_place = f"{context.run} {context.workspace}"
        if not status.ok or self._told.get(run_and_place) == status.output:
            return
        self._told = {run_and_place: status.output}
        if status.output.strip():
            context.add_message(f"Files have changed:\n{status.output}", "system")


def git_status(*, matcher: str = FILE_TOOLS, name: str = "git_status") -> Hook[Any]:
    """Tell the model what git says after a tool has changed files, when that is something new.

    Where there is no git, or the workspace is no repository, it says nothing.

    Args:
        matcher: Which tools change files.
        name: What the hook is called.
    """
    return Hook[Any](
        _GitStatus(),
        HookPoint.AFTER_TOOL_CALL,
        name=name,
        matcher=matcher,
        on_failure="continue",
        timeout=10.0,
    )


def auto_read(
    *, matcher: str = FILE_TOOLS, limit: int = 65_536, name: str = "auto_read"
) -> Hook[Any]:
    """Show the watchers what is in a file after a tool has changed it. The model does not hear it.

    The path is that of the result, where it is JSON with a ``file_path``, or of the call's arguments. A file outside of
    the workspace is not read.

    Args:
        matcher: Which tools change files.
        limit: How many bytes are shown.
        name: What the hook is called.
    """

    async def read(context: ToolResultContext) -> None:
        named = None if context.result.is_error else _path_in(context)
        if named is None:
            return
        root = context.workspace.resolve()
        path = (root / named).resolve()
        if not path.is_relative_to(root):
            context.send_system(f"{named} is outside of the workspace, and not shown.")
            return
        try:
            text = await asyncio.to_thread(_read, path, limit)
        except OSError as error:
            context.send_system(f"{named} cannot be read: {error.strerror or error}")
            return
        context.send_system(f"{named}:\n{text}")

    return Hook[Any](
        read,
        HookPoint.AFTER_TOOL_CALL,
        name=name,
        matcher=matcher,
        on_failure="continue",
        timeout=10.0,
    )


def _path_in(context: ToolResultContext) -> str | None:
    for place in (_object(context.content), context.tool_args or {}):
        for key in PATHS:
            path = place.get(key)
            if isinstance(path, str) and path:
                return path
    return None


def _object(text: str) -> JsonObject:
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return msgspec.convert(value, JsonObject) if isinstance(value, dict) else {}


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        found = file.read(limit + 1)
    if b"\0" in found:
        return "(no text)"
    text = found[:limit].decode("utf-8", "replace")
    return f"{text}\n(and more)" if len(found) > limit else text


__all__ = ["FILE_TOOLS", "auto_read", "git_status"]
