"""What a paused run waits for, by a name; and the answer that a client sends."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rxworker.errors import LocalProtocolError
from rxworker.messages import Message
from rxworker.worker import Decision


class Reply(Struct, frozen=True):
    """A client's answer to a paused run.

    Attributes:
        run: The run that was paused.
        call_id: The call that it is about, by the model's id; empty where the run was paused at the end of a turn.
        decision: What to do with the call.
        message: What to tell the model, at the end of a turn.
    """

    run: str
    call_id: str = ""
    decision: Decision | None = None
    message: Message | None = None


def interrupt_id(run: str, call_id: str) -> str:
    """The name of what a run waits for.

    >>> interrupt_id("run-1", "call_1")
    'run-1:call_1'
    """
    return f"{run}:{call_id}"


def split_interrupt(name: str) -> tuple[str, str]:
    """The run and the call that a name stands for.

    Raises:
        LocalProtocolError: It is none of ours.

    >>> split_interrupt("run-1:call_1")
    ('run-1', 'call_1')
    """
    run, colon, call_id = name.partition(":")
    if not colon or not run:
        raise LocalProtocolError(
            f"{name!r} is no interrupt of ours: send back the id that the paused run gave, as it was"
        )
    return run, call_id


def decisions_of(replies: Iterable[Reply]) -> dict[str, Decision]:
    """What was decided, by the calls' ids, as ``worker.resume`` takes it.

    >>> from rxworker.worker import Approve
    >>> decisions_of([Reply("run-1", "call_1", Approve()), Reply("run-1")])
    {'call_1': Approve(input=None)}
    """
    return {
        reply.call_id: reply.decision
        for reply in replies
        if reply.call_id and reply.decision is not None
    }


__all__ = ["Reply", "decisions_of", "interrupt_id", "split_interrupt"]
