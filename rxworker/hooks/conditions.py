"""Conditions for hooks, to be given as ``when``."""

from __future__ import annotations

import os
from collections.abc import Callable

from rxworker.hooks.context import HookContext

NO = frozenset({"", "0", "false", "no", "off"})


def enabled_by(variable: str, *, default: bool = False) -> Callable[[HookContext], bool]:
    """A condition: the hook is asked while an environment variable says so. It is looked at each time.

    Args:
        variable: Its name. ``0``, ``false``, ``no``, ``off`` and nothing mean no, everything else yes.
        default: What it means when the variable is not set.

    >>> from rxworker.messages import Conversation
    >>> context = HookContext(conversation=Conversation(), emit=print)
    >>> enabled_by("A_VARIABLE_THAT_NOBODY_SETS", default=True)(context)
    True
    """

    def is_enabled(context: HookContext) -> bool:
        del context
        value = os.environ.get(variable)
        return default if value is None else value.strip().lower() not in NO

    return is_enabled


def first_turn(context: HookContext) -> bool:
    """A condition: the hook is asked in the first turn of a run only, not again after tools have run.

    A run that was paused counts its turns on.

    >>> from rxworker.messages import Conversation
    >>> [first_turn(HookContext(conversation=Conversation(), emit=print, turn=turn)) for turn in (1, 2)]
    [True, False]
    """
    return context.turn <= 1


__all__ = ["enabled_by", "first_turn"]
