"""Hooks that are ready to be used. Each is made by a function; ``.but(...)`` gives it other settings."""

from __future__ import annotations

from typing import Any

from rxworker.hooks.base import Hook
from rxworker.hooks.ready.files import FILE_TOOLS, auto_read, git_status
from rxworker.hooks.ready.guard import COMMAND_TOOLS, DANGEROUS, dangerous_command_guard
from rxworker.hooks.ready.notice import long_answer_notice
from rxworker.hooks.ready.stamp import time_stamp


def terminal_hooks() -> list[Hook[Any]]:
    """The hooks that suit somebody who works with a model in a terminal, made anew for each worker.

    >>> [hook.name for hook in terminal_hooks()]
    ['time_stamp', 'dangerous_command_guard', 'git_status', 'auto_read', 'long_answer_notice']
    """
    return [
        time_stamp(),
        dangerous_command_guard(),
        git_status(),
        auto_read(),
        long_answer_notice(),
    ]


__all__ = [
    "COMMAND_TOOLS",
    "DANGEROUS",
    "FILE_TOOLS",
    "auto_read",
    "dangerous_command_guard",
    "git_status",
    "long_answer_notice",
    "terminal_hooks",
    "time_stamp",
]
