"""How a paused run goes on: what was decided about its calls, as the first events and the scope of its next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.events import Event, MessageAdd, RunResume, ToolStop
from rxworker.messages import Message, ToolCall, ToolResult
from rxworker.worker.approval import Answer, Approve, Decision, Deny
from rxworker.worker.arguments import expect
from rxworker.worker.context import TurnScope
from rxworker.worker.result import Paused
from rxworker.worker.seal import check_sealed


def resumed(
    paused: Paused[Any], decisions: Mapping[str, Decision], added: Sequence[Message]
) -> tuple[list[Event], TurnScope]:
    """The first events, and the scope of the turn that goes on.

    The call that the run paused at is approved, unless it is decided otherwise; the calls before it have been let through. A call
    behind it that nothing is decided about is asked about like any other.

    Args:
        paused: What waits.
        decisions: By the calls' ids.
        added: Messages for the model, behind the results.

    Raises:
        LocalProtocolError: A call was changed other than by its decision, or a decision is for no pending call, or is none.
        ConfigurationError: Something is of another kind altogether.
    """
    _check_kinds(paused, decisions, added)
    check_sealed(paused.pending, paused.seals)
    _check(paused, decisions)
    # By its place, not by its id: a provider may give two calls one id.
    until = paused.let_through if paused.paused_at is not None else -1
    pending: list[ToolCall] = []
    approved: list[int] = []
    decided: list[ToolResult] = []
    for place, call in enumerate(paused.pending):
        decision = decisions.get(call.id) or (Approve() if place <= until else None)
        match decision:
            case Deny(reason=reason):
                decided.append(ToolResult(call.id, reason, is_error=True, name=call.name))
                continue
            case Answer(content=content, is_error=is_error):
                decided.append(ToolResult(call.id, content, is_error, call.name))
                continue
            case Approve(input=edited):
                approved.append(len(pending))
                pending.append(call if edited is None else replace(call, input=edited))
            case None:
                pending.append(call)
    refused = (*paused.refused, *decided)
    # Without calls and with something new to say, the next thing is a request.
    asks = not paused.pending and (bool(added) or _has_results(paused))
    scope = TurnScope(
        is_resumed=not asks,
        resumed=tuple(pending),
        approved=frozenset(approved),
        refused=refused,
        finishes=not paused.pending and not asks,
        key=paused.key,
    )
    resume = RunResume(
        paused.conversation,
        tuple(pending),
        refused,
        usage=paused.usage,
        turns=paused.turns,
        tool_calls=paused.tool_calls,
        continuations=paused.continuations,
        resumes=paused.run,
    )
    first: list[Event] = [resume, *(ToolStop(result) for result in decided)]
    if added:
        first.append(MessageAdd(tuple(added), "resume"))
    return first, scope


def _has_results(paused: Paused[Any]) -> bool:
    """Whether it was paused between two turns: tools have run, and the model has not heard of it."""
    last = paused.conversation.last
    return last is not None and bool(last.tool_results)


def _check_kinds(paused: object, decisions: object, added: Sequence[object]) -> None:
    expect("paused", paused, Paused, "worker.resume(load_paused(data))")
    expect("decisions", decisions, Mapping, "decisions={call.id: Approve()}")
    for message in added:
        expect("a message of add", message, Message, "add=[Message.user('...')]")


def _check(paused: Paused[Any], decisions: Mapping[str, object]) -> None:
    known = {call.id for call in paused.pending}
    for call_id, decision in decisions.items():
        if call_id not in known:
            pending = ", ".join(sorted(known)) or "none"
            message = f"no pending call has the id {call_id!r}; pending are: {pending}"
            raise LocalProtocolError(message)
        if not isinstance(decision, Approve | Deny | Answer):
            message = (
                f"the decision about {call_id!r} is {decision!r}: give Approve(), Approve(input={{...}}), "
                "Deny('why') or Answer('the result')"
            )
            raise LocalProtocolError(message)


__all__ = ["resumed"]
