"""Hooks that are ready to be used.

A function makes each; ``.replace(...)`` changes its settings, such as the name, and the matcher of its tools. If the
usual matcher matches no tool of a run, a warning is logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rxworker.hooks.base import Hook, HookSettings
from rxworker.hooks.context import MessageSendContext, ToolCallContext, ToolResultContext, TurnEndContext
from rxworker.hooks.points import REQUIRES_APPROVAL, HookPoint, Skip
from rxworker.messages import Json, Message, Text
from rxworker.messages.lenient_json import as_object, read_json

COMMAND_TOOLS = r"(?i).*(execute|exec|shell|bash|terminal|command).*"

DANGEROUS = (
    r"\brm\s+(-\S+\s+)*(-[a-z]*r[a-z]*f|-[a-z]*f[a-z]*r|(-r|-R|--recursive)\s+(-\S+\s+)*(-f|--force))",
    r"\brm\s+(-\S+\s+)*(-f|--force)\s+(-\S+\s+)*(-r|-R|--recursive)",
    r"\bmkfs(\.\w+)?\b",
    r"\bdd\s+.*\b(if|of)=",
    r"\bformat\s+[a-z]:",
    r">\s*/dev/(sd|hd|nvme|disk)",
    r"\bchmod\s+(-\S+\s+)*-R\s+.*\s/\s*$",
    r":\s*\(\s*\)\s*\{.*\}\s*;\s*:",
    r"\b(shutdown|reboot|poweroff)\b",
    r"\b(del|rd|rmdir)\s+(/\w\s+)*/s\b",
)


def dangerous_command_guard(patterns: Iterable[str] = DANGEROUS) -> Hook[Any]:
    """Refuse calls whose arguments hold a command that destroys; the model reads why.

    It catches slips. It is not a security boundary: there are more ways to destroy than can be listed. All texts among
    the arguments are looked at, and a list of words is looked at as one text, too.

    Args:
        patterns: Regular expressions; upper and lower case are the same.
    """
    found = [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns]

    def guard(context: ToolCallContext) -> Skip | None:
        for text in _texts(context.call.input):
            for pattern in found:
                match = pattern.search(text)
                if match is not None:
                    return Skip(f"A command with {match[0]!r} is too dangerous to be run here.")
        return None

    name = "dangerous_command_guard"
    return Hook[Any](guard, HookPoint.BEFORE_TOOL_CALL, name=name, matcher=COMMAND_TOOLS, unmatched="warn")


def _after_change(show: Callable[[ToolResultContext], Awaitable[None]], name: str) -> Hook[Any]:
    """A hook that shows what tools have changed: the run goes on if it fails."""
    settings = HookSettings(name=name, matcher=FILE_TOOLS, unmatched="warn", on_failure="continue", timeout=10.0)
    return Hook[Any](show, HookPoint.AFTER_TOOL_CALL, **settings)


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        yield " ".join(str(inner) for inner in value if isinstance(inner, str))
        for inner in value:
            if not isinstance(inner, str):
                yield from _texts(inner)


FILE_TOOLS = r"(?i).*(edit|create|write).*"
PATHS = ("file_path", "path", "file", "filename")
# A workspace is not always ours: git must not start what its settings name.
STATUS = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain")


def git_status() -> Hook[Any]:
    """Send the model the git status after a tool has changed files, if it differs from the last one sent.

    If git is missing, or the workspace is not a repository, it sends nothing.
    """
    sent: tuple[str, Path, str] | None = None  # is not sent twice

    async def send_status(context: ToolResultContext) -> None:
        nonlocal sent
        if context.result.is_error:
            return
        status = await context.run_command(STATUS, limit=8_192)
        found = (context.run_id, context.workspace, status.output)
        if not status.ok or found == sent:
            return
        sent = found
        if status.output.strip():
            context.add_message(f"Files have changed:\n{status.output}", "system")

    return _after_change(send_status, "git_status")


def auto_read(*, limit: int = 65_536) -> Hook[Any]:
    """Send the watchers the content of a file after a tool has changed it. The model does not receive it.

    The path is that of the result, where it is JSON with a ``file_path``, or of the call's arguments. A file outside of
    the workspace is not read.

    Args:
        limit: How many bytes are shown.
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

    return _after_change(read, "auto_read")


def _path_in(context: ToolResultContext) -> str | None:
    for place in (as_object(read_json(context.content)), context.tool_args or {}):
        for key in PATHS:
            path = place.get(key)
            if isinstance(path, str) and path:
                return path
    return None


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        found = file.read(limit + 1)
    if b"\0" in found:
        return "(no text)"
    text = found[:limit].decode("utf-8", "replace")
    return f"{text}\n(and more)" if len(found) > limit else text


def long_answer_notice(limit: int = 2000) -> Hook[Any]:
    """Send the watchers a notice when an answer is long. The model does not receive it.

    Args:
        limit: How many characters an answer may have without a notice.
    """

    def notice(context: TurnEndContext) -> None:
        length = len(context.text)
        if length > limit:
            context.send_system(f"A long answer, of {length} characters: scroll up to read it all.")

    return Hook[Any](notice, HookPoint.ON_TURN_END, name="long_answer_notice", on_failure="continue")


def local_now() -> datetime:
    """The time on the wall."""
    return datetime.now().astimezone()


def time_stamp(now: Callable[[], datetime] = local_now, *, form: str = "%H:%M:%S") -> Hook[Any]:
    """Put the time in front of each user message: ``[12:00:00]``.

    Only the requests carry it, the conversation does not. A message keeps its stamp from one request to the next, so
    that a provider's cache still fits.

    Args:
        now: Returns the time.
        form: The format of the date, as for ``strftime``.
    """
    # By identity, with the message kept alive by the entry; entries of messages that left the conversation are
    # released.
    stamps: dict[int, tuple[Message, str]] = {}

    def stamp(context: MessageSendContext) -> None:
        nonlocal stamps
        before, stamps = stamps, {}
        for place, message in enumerate(context.messages):
            if message.role != "user" or message.tool_results or not message.text:
                continue
            known = before.get(id(message)) or (message, now().strftime(form))
            stamps[id(message)] = known
            context.messages[place] = Message("user", (Text(f"[{known[1]}] "), *message.content))

    return Hook[Any](stamp, HookPoint.ON_MESSAGE_SEND, name="time_stamp")


def always_allow(tool: str, by: str = REQUIRES_APPROVAL) -> Hook[Any]:
    """Do not pause for calls of a tool: a person has allowed them for as long as this hook is registered.

    It prevents pauses of one cause only. Other hooks run as before, and may skip a call, abort the run or pause it.

    Args:
        tool: The name of the tool.
        by: The hook whose `Pause` is not wanted, as `Paused.hook` has it; ``requires_approval`` for the policy of the
            tool.

    >>> always_allow("delete").name
    'always_allow delete (requires_approval)'
    """

    def allow(context: ToolCallContext) -> None:
        context.allowed.add(by)

    return Hook[Any](
        allow,
        HookPoint.BEFORE_TOOL_CALL,
        name=f"always_allow {tool} ({by})",
        matcher=re.escape(tool),
        before=by.split("/")[0],
    )


def terminal_hooks() -> list[Hook[Any]]:
    """Hooks for work with a model in a terminal, created anew for each worker.

    >>> [hook.name for hook in terminal_hooks()]
    ['time_stamp', 'dangerous_command_guard', 'git_status', 'auto_read', 'long_answer_notice']
    """
    return [time_stamp(), dangerous_command_guard(), git_status(), auto_read(), long_answer_notice()]
