"""What hooks leave behind is checked where they leave it, so that nothing else has to doubt it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import cast

from rxworker.errors import HookError, LocalProtocolError
from rxworker.events import Event, HookMessage, MessageAdd
from rxworker.hooks import HookPoint, MessageSendContext, ToolResultContext
from rxworker.messages import Document, Image, Message, Text, ToolResult

Emit = Callable[[Event], None]
logger = logging.getLogger("rxworker.hooks")
ROLES = ("system", "user", "assistant")


def checked(emit: Emit, has_ended: Callable[[], bool] = lambda: False) -> Emit:
    """Emits what a hook says, unless it adds something other than messages to the conversation, or the run has ended.

    Args:
        emit: Emits an event.
        has_ended: Whether the run has ended. A message for the watchers is then dropped with a warning in the log ``rxworker.hooks``;
            to change the conversation raises a `LocalProtocolError`.

    >>> checked(print)(MessageAdd(("hi",), "greet"))
    Traceback (most recent call last):
    ...
    TypeError: 'hi' is no Message; write Message.user('...')
    """

    def emit_checked(event: Event) -> None:
        if has_ended():
            _too_late(event)
            return
        if isinstance(event, MessageAdd):
            for message in _odd(event.messages):
                raise TypeError(f"{message!r} is no Message; write Message.user('...')")
            for message in event.messages:
                _check_added(message)
        emit(event)

    return emit_checked


def _too_late(event: Event) -> None:
    if isinstance(event, HookMessage):
        logger.warning("hook %s sent a message after its run had ended: it is dropped", event.hook)
        return
    raise LocalProtocolError(
        "this run has ended, and its conversation with it: a hook adds messages while it is asked; "
        "afterwards change worker.conversation between two runs"
    )


def messages_of(asked: MessageSendContext) -> tuple[Message, ...]:
    """The messages to send, which a hook may have made anything of.

    Raises:
        HookError: They are none.
    """
    given = cast("object", asked.messages)
    if not isinstance(given, list | tuple):
        raise _error(f"the messages are {given!r}, which is no list", asked.hook, "on_message_send")
    for message in _odd(cast("Iterable[object]", given)):
        text = f"the messages hold {message!r}, which is no Message"
        raise _error(text, asked.hook, "on_message_send")
    return tuple(asked.messages)


def result_of(asked: ToolResultContext, result: ToolResult) -> ToolResult:
    """The result for the model, which a hook may have made anything of.

    Raises:
        HookError: It is none, or that of another call.
    """
    left = cast("object", asked.result)
    if not isinstance(left, ToolResult):
        text = f"the result is {left!r}, which is no ToolResult; for a text use set_content(...)"
        raise _error(text, asked.hook, "after_tool_call")
    if left.tool_use_id != result.tool_use_id:
        text = f"the result is for the call {left.tool_use_id!r} instead of {result.tool_use_id!r}"
        raise _error(text, asked.hook, "after_tool_call")
    content = cast("object", left.content)
    is_blocks = isinstance(content, list | tuple) and all(
        isinstance(block, Text | Image | Document) for block in cast("Iterable[object]", content)
    )
    if not isinstance(content, str) and not is_blocks:
        text = (
            f"the content of the result is {content!r}, which is neither a text nor content blocks"
        )
        raise _error(text, asked.hook, "after_tool_call")
    return left


def _check_added(message: Message) -> None:
    """A hook may say something. Calls and their results are the loop's own."""
    if message.role not in ROLES:
        raise TypeError(f"{message.role!r} is no role: {', '.join(ROLES)}")
    if message.tool_calls or message.tool_results:
        raise TypeError(
            "a hook adds no tool calls and no results; use set_content, Skip, or a tool"
        )


def _odd(messages: Iterable[object]) -> Iterable[object]:
    return (message for message in messages if not isinstance(message, Message))


def _error(text: str, hook: str, point: str) -> HookError:
    return HookError(f"after hook {hook!r} {text}", hook=hook, point=HookPoint(point).value)


__all__ = ["Emit", "checked", "messages_of", "result_of"]
