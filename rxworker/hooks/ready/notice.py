"""A notice for people about a long answer."""

from __future__ import annotations

from typing import Any

from rxworker.hooks.base import Hook
from rxworker.hooks.contexts import TurnEndContext
from rxworker.hooks.points import HookPoint


def long_answer_notice(limit: int = 2000, *, name: str = "long_answer_notice") -> Hook[Any]:
    """Give the watchers a notice when an answer is long. The model does not hear it.

    Args:
        limit: How many characters an answer may have without a notice.
        name: What the hook is called.
    """

    def notice(context: TurnEndContext) -> None:
        length = len(context.text)
        if length > limit:
            context.send_system(f"A long answer, of {length} characters: scroll up to read it all.")

    return Hook[Any](notice, HookPoint.ON_TURN_END, name=name, on_failure="continue")


__all__ = ["long_answer_notice"]
