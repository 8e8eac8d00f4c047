"""The points of the loop at which hooks are asked, under their names and under the names they used to have."""

from __future__ import annotations

from enum import Enum

from rxworker.errors import ConfigurationError, HookError
from rxworker.hooks.verdicts import (
    Abort,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    Pause,
    Skip,
    Verdict,
)


class HookPoint(Enum):
    """Where in the loop a hook is asked.

    The names of the older hook system are understood as well: ``OnMessageSend``, ``PreToolUse``, ``PostToolUse`` and
    ``OnTurnCompleted``.

    >>> HookPoint("PreToolUse")
    <HookPoint.BEFORE_TOOL_CALL: 'before_tool_call'>
    """

    ON_MESSAGE_SEND = "on_message_send"
    BEFORE_TOOL_CALL = "before_tool_call"
    AFTER_TOOL_CALL = "after_tool_call"
    ON_TURN_END = "on_turn_end"
    ON_ABORT = "on_abort"

    @classmethod
    def _missing_(cls, value: object) -> HookPoint | None:
        name = OLDER_NAMES.get(value) if isinstance(value, str) else None
        return None if name is None else cls(name)


OLDER_NAMES = {
    "OnMessageSend": "on_message_send",
    "PreToolUse": "before_tool_call",
    "PostToolUse": "after_tool_call",
    "OnTurnCompleted": "on_turn_end",
}

VERDICTS: dict[HookPoint, tuple[type[Verdict], ...]] = {
    HookPoint.ON_MESSAGE_SEND: (Continue, Cancel),
    HookPoint.BEFORE_TOOL_CALL: (Continue, Skip, Abort, Pause),
    HookPoint.AFTER_TOOL_CALL: (Continue, Abort),
    HookPoint.ON_TURN_END: (Finish, ContinueWithMessages, Pause),
    HookPoint.ON_ABORT: (),
}


def point_of(name: HookPoint | str) -> HookPoint:
    """The point of that name.

    Raises:
        ConfigurationError: There is none.
    """
    try:
        return HookPoint(name)
    except ValueError as error:
        known = ", ".join([*(point.value for point in HookPoint), *OLDER_NAMES])
        raise ConfigurationError(f"there is no point {name!r}; there are: {known}") from error


def wrong_verdict(what: str, hook: str, point: HookPoint, otherwise: str = "None") -> HookError:
    """The error for an answer that a point does not accept.

    Args:
        what: What the hook did, for example ``answered True``.
        hook: The hook's name.
        point: Where it was asked.
        otherwise: What it may answer besides the verdicts of the point.

    >>> wrong_verdict("answered True", "permit", HookPoint.AFTER_TOOL_CALL).message
    "hook 'permit' answered True at after_tool_call, where it may answer Continue, Abort or None"
    """
    verdicts = ", ".join(verdict.__name__ for verdict in VERDICTS[point])
    accepted = f"{verdicts} or {otherwise}" if verdicts else otherwise
    text = f"hook {hook!r} {what} at {point.value}, where it may answer {accepted}"
    return HookError(text, hook=hook, point=point.value, kind="verdict")


__all__ = ["OLDER_NAMES", "VERDICTS", "HookPoint", "point_of", "wrong_verdict"]
