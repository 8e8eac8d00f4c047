"""A guard against commands that destroy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rxworker.hooks.base import Hook
from rxworker.hooks.contexts import ToolCallContext
from rxworker.hooks.points import HookPoint
from rxworker.hooks.verdicts import Skip
from rxworker.messages import Json

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


def dangerous_command_guard(
    patterns: Iterable[str] = DANGEROUS,
    *,
    matcher: str = COMMAND_TOOLS,
    name: str = "dangerous_command_guard",
) -> Hook[Any]:
    """Refuse calls whose arguments hold a command that destroys; the model reads why.

    It catches slips. It is no fence: there are more ways to destroy than can be listed. All texts among the arguments are
    looked at, and a list of words is looked at as one text, too.

    Args:
        patterns: Regular expressions; upper and lower case are the same.
        matcher: Which tools run commands.
        name: What the hook is called.
    """
    found = [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns]

    def guard(context: ToolCallContext) -> Skip | None:
        for text in _texts(context.call.input):
            for pattern in found:
                match = pattern.search(text)
                if match is not None:
                    return Skip(f"A command with {match[0]!r} is too dangerous to be run here.")
        return None

    return Hook[Any](guard, HookPoint.BEFORE_TOOL_CALL, name=name, matcher=matcher)


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


__all__ = ["COMMAND_TOOLS", "DANGEROUS", "dangerous_command_guard"]
