"""The points of the loop at which hooks run, and the verdicts that each accepts.

| point | verdicts |
|---|---|
| ``on_message_send`` | `Continue`, `Cancel` |
| ``before_tool_call`` | `Continue`, `Skip`, `Answer`, `Abort`, `Pause`, ``Finish(final=True)`` |
| ``after_tool_call`` | `Continue`, `Abort`, ``Finish(final=True)`` |
| ``on_turn_end`` | `Finish`, `ContinueWithMessages`, `Pause` |
| ``on_abort`` | none |

``None`` means `Continue`, and `Finish` at ``on_turn_end``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias, get_args

from msgspec import Struct

from rxworker.errors import ConfigurationError, HookError
from rxworker.events.pause import Begun
from rxworker.messages import Message
from rxworker.messages.content import ResultContent


class Continue(Struct, frozen=True):
    """Continue with the next hook, then with the action that follows the point."""


class Cancel(Struct, frozen=True):
    """Do not send the request; the run ends with `RunAbortedError`.

    The messages that this request would have sent for the first time are retracted from the conversation, so that the
    next run does not send it: in the first turn the input of the run, and whatever else was added to it; later what
    hooks have added and what was sent into the run since the last response. Responses and the results of tools stay.

    Attributes:
        reason: Shown to users; not interpreted.
    """

    reason: str


class Skip(Struct, frozen=True):
    """Do not run this call. The model reads why; the hooks after this one do not run for the call.

    Attributes:
        reason: For the model.
    """

    reason: str = "This call was not allowed."


class Answer(Struct, frozen=True, tag="answer", forbid_unknown_fields=True):
    """Do not run the call, and use this as its result.

    The verdict of a hook, for example with a cached result, or the decision of a person.

    The hooks after this one do not run for the call. The ``after_tool_call`` hooks run for the result.

    Attributes:
        content: The result for the model.
        is_error: Whether the result is an error.
    """

    content: ResultContent
    is_error: bool = False


class Abort(Struct, frozen=True):
    """End the run with `RunAbortedError`.

    Attributes:
        reason: Shown to users; not interpreted.
    """

    reason: str


class Pause(Struct, frozen=True):
    """End the run as `Paused`; ``worker.resume()`` continues it.

    Attributes:
        reason: Shown to users; not interpreted.
        begun: What the hook waits for; see `HookContext.until`, which makes it.
    """

    reason: str = ""
    begun: Begun | None = None


class Finish(Struct, frozen=True, omit_defaults=True):
    """The turn may end, if the next hooks agree.

    At the tool points only ``Finish(final=True)`` is accepted: the run ends as `Finished`, without another request. At
    ``before_tool_call`` no call of the response runs. At ``after_tool_call`` the other results are checked first, as
    usual, and the hooks after this one run, since what they change stays in the conversation.

    Attributes:
        final: Whether the turn ends at once: the hooks after this one do not run.
    """

    final: bool = False


class ContinueWithMessages(Struct, frozen=True):
    """The turn may not end yet: add these messages and request another response.

    Attributes:
        messages: The messages to add, for example the defects of the answer.
    """

    messages: tuple[Message, ...]

    @classmethod
    def user(cls, text: str) -> ContinueWithMessages:
        """Continue with one user message.

        >>> ContinueWithMessages.user("That is not JSON.").messages[0].role
        'user'
        """
        return cls((Message.user(text),))


class EndRun(Exception):  # noqa: N818 - a verdict, not an error
    """Raised within a hook to end the run with `RunAbortedError`, also where no verdict can do that.

    Attributes:
        reason: Shown to users; not interpreted.
        hook: The name of the hook; the caller fills that in.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hook = ""


MessageSendVerdict: TypeAlias = Continue | Cancel
"""What a hook of ``on_message_send`` may return."""
BeforeToolCallVerdict: TypeAlias = Continue | Skip | Answer | Abort | Pause | Finish
"""What a hook of ``before_tool_call`` may return."""
AfterToolCallVerdict: TypeAlias = Continue | Abort | Finish
"""What a hook of ``after_tool_call`` may return."""
TurnEndVerdict: TypeAlias = Finish | ContinueWithMessages | Pause
"""What a hook of ``on_turn_end`` may return."""
Verdict: TypeAlias = Continue | Cancel | Skip | Answer | Abort | Pause | Finish | ContinueWithMessages
"""Any verdict."""


REQUIRES_APPROVAL = "requires_approval"
"""In place of the name of a hook: the policy of a tool, which requires approval, paused the run."""


class HookPoint(Enum):
    """Where in the loop a hook runs.

    The names of the older hook system are understood as well: ``OnMessageSend``, ``PreToolUse``, ``PostToolUse`` and
    ``OnTurnCompleted``.

    >>> HookPoint("PreToolUse")
    <HookPoint.BEFORE_TOOL_CALL: 'before_tool_call'>
    """

    __hash__ = object.__hash__  # that of an Enum is a function in Python, called at each look into a table

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
    HookPoint.ON_MESSAGE_SEND: get_args(MessageSendVerdict),
    HookPoint.BEFORE_TOOL_CALL: get_args(BeforeToolCallVerdict),
    HookPoint.AFTER_TOOL_CALL: get_args(AfterToolCallVerdict),
    HookPoint.ON_TURN_END: get_args(TurnEndVerdict),
    HookPoint.ON_ABORT: (),
}


ENDINGS: dict[HookPoint, Callable[[str], Verdict]] = {
    HookPoint.ON_MESSAGE_SEND: Cancel,
    HookPoint.BEFORE_TOOL_CALL: Abort,
    HookPoint.AFTER_TOOL_CALL: Abort,
}
"""The verdict that ends the run, made of its reason; none at the other points."""


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
        what: The fault of the hook, for example ``answered True``.
        hook: The hook's name.
        point: The hook point.
        otherwise: The return values that are allowed in addition to the verdicts of the point.

    >>> wrong_verdict("answered True", "permit", HookPoint.AFTER_TOOL_CALL).message
    "hook 'permit' answered True at after_tool_call, where it may answer Continue, Abort, Finish or None"
    """
    verdicts = ", ".join(verdict.__name__ for verdict in VERDICTS[point])
    accepted = f"{verdicts} or {otherwise}" if verdicts else otherwise
    text = f"hook {hook!r} {what} at {point.value}, where it may answer {accepted}"
    return HookError(text, hook=hook, point=point.value, kind="verdict")
