"""The time, in front of what the user says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from rxworker.hooks.base import Hook
from rxworker.hooks.contexts import MessageSendContext
from rxworker.hooks.points import HookPoint
from rxworker.messages import Message, Text


def local_now() -> datetime:
    """The time on the wall."""
    return datetime.now().astimezone()


class _TimeStamp:
    """Remembers which message was stamped when: a message that was sent once is sent with the same stamp again."""

    def __init__(self, now: Callable[[], datetime], form: str) -> None:
        self._now = now
        self._form = form
        # By identity, with the message kept alive by the entry; those that are gone from the conversation are let go.
        self._stamps: dict[int, tuple[Message, str]] = {}

    def __call__(self, context: MessageSendContext) -> None:
        stamps: dict[int, tuple[Message, str]] = {}
        for place, message in enumerate(context.messages):
            if message.role != "user" or message.tool_results or not message.text:
                continue
            known = self._stamps.get(id(message))
            stamp = self._now().strftime(self._form) if known is None else known[1]
            stamps[id(message)] = (message, stamp)
            context.messages[place] = Message("user", (Text(f"[{stamp}] "), *message.content))
        self._stamps = stamps


def time_stamp(
    now: Callable[[], datetime] = local_now, *, form: str = "%H:%M:%S", name: str = "time_stamp"
) -> Hook[Any]:
    """Tell the model when the user said what: ``[12:00:00]`` in front of each message of the user's.

    Only the requests carry it, the conversation does not. A message keeps its stamp from one request to the next, so that
    a provider's cache still fits.

    Args:
        now: Tells the time.
        form: How it is written, as for ``strftime``.
        name: What the hook is called.
    """
    return Hook[Any](_TimeStamp(now, form), HookPoint.ON_MESSAGE_SEND, name=name)


__all__ = ["local_now", "time_stamp"]
