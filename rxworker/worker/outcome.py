"""From the state of a run that has ended to its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from rxworker.messages import Conversation
from rxworker.state import RunState
from rxworker.worker.output import Output
from rxworker.worker.result import Finished, Paused, RunResult
from rxworker.worker.seal import seal_of

T = TypeVar("T")


def result_of(
    state: RunState,
    run: str,
    output: Output[T] | None,
    variables: Mapping[str, object],
    called: Iterable[str],
) -> RunResult[T]:
    """The result that a state stands for.

    A paused run keeps the variables, and the names of the tools that were called. The variables are in no record, so that no watcher sees them.
    """
    text = _answer(state.conversation)
    pause = state.pause
    if pause is None:
        return Finished(
            conversation=state.conversation,
            text=text,
            usage=state.usage,
            turns=state.turns,
            stop_reason=state.stop_reason,
            run=run,
            output=None if output is None or output.complaint(text) else output.decode(text),
        )
    return Paused(
        conversation=state.conversation,
        text=text,
        usage=state.usage,
        turns=state.turns,
        stop_reason=state.stop_reason,
        run=run,
        pending=pause.pending,
        paused_at=pause.paused_at,
        hook=pause.hook,
        reason=pause.reason,
        refused=pause.refused,
        tool_calls=state.tool_calls,
        continuations=state.continuations,
        let_through=pause.let_through,
        key=pause.key,
        places=pause.places,
        hooks=pause.hooks,
        asked=pause.asked,
        seals=tuple(seal_of(call) for call in pause.pending),
        variables=dict(variables),
        called=tuple(called),
    )


def _answer(conversation: Conversation) -> str:
    """The text of the model's last message."""
    for message in reversed(conversation.messages):
        if message.role == "assistant":
            return message.text
    return ""


__all__ = ["result_of"]
