"""How a paused run goes on: what was decided about its calls, as the first events and the scope of its next turn.

Which hooks are asked again follows one rule. `Paused.hooks` are the hooks that were in force, and the first `Paused.asked` of
them were asked about what the run paused at; the last of these paused it. A hook that agreed to a call is not asked about the
same call again, and the decision of a person stands for the hook that paused. Everything else is asked: the hooks behind that
one, hooks that were added since, and after other arguments all hooks but that one. Where that hook is not there any more, all
hooks are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.events import Event, MessageAdd, RunResume, ToolStop
from rxworker.hooks import HookPoint, Hooks
from rxworker.hooks.ask import names_in, numbered
from rxworker.messages import Message, ToolResult
from rxworker.messages.pairs import calls_made, places_left, places_of
from rxworker.worker.approval import APPROVAL, Answer, Approve, Decision, Decisions, Deny
from rxworker.worker.arguments import expect
from rxworker.worker.context import TurnScope, Waiting
from rxworker.worker.pausing import BY_CALLER
from rxworker.worker.result import Paused
from rxworker.worker.seal import check_sealed

EXAMPLES = "Approve(), Approve(input={...}), Deny('why') or Answer('the result')"

Spared = frozenset[tuple[str, int]]


def resumed(
    paused: Paused[Any], decisions: Decisions | None, added: Sequence[Message], hooks: Hooks
) -> tuple[list[Event], TurnScope]:
    """The first events, and the scope of the turn that goes on.

    Args:
        paused: What waits.
        decisions: By the ids of the calls, or one for each call. None at all approve the call that the run paused at.
        added: Messages for the model, behind the results.
        hooks: The hooks that are in force now.

    Raises:
        LocalProtocolError: A call was changed other than by its decision, or the decisions do not fit the calls.
        ConfigurationError: Something is of another kind altogether.
    """
    _check_kinds(paused, decisions, added)
    check_sealed(paused.pending, paused.seals)
    decided = _decided(paused, decisions)
    made = calls_made(paused.conversation)
    places = places_of(paused.pending, paused.places, made)
    refused = dict(zip(places_left(paused.refused, places, made), paused.refused, strict=True))
    before, asked, pauser = _spared(paused, hooks)
    until = -1 if paused.paused_at is None else paused.let_through
    waiting: list[Waiting] = []
    answered: list[tuple[Waiting, ToolResult]] = []
    denied: dict[int, ToolResult] = {}
    for number, (call, place, decision) in enumerate(
        zip(paused.pending, places, decided, strict=True)
    ):
        match decision:
            case Deny(reason=reason):
                denied[place] = ToolResult(call.id, reason, is_error=True, name=call.name)
            case Answer(content=content, is_error=is_error):
                answer = ToolResult(call.id, content, is_error, call.name)
                answered.append((Waiting(place, call), answer))
            case Approve(input=edited) if edited is not None:
                other = replace(call, input=edited)
                waiting.append(Waiting(place, other, pauser, is_approved=True))
            case _ if number < until:
                waiting.append(Waiting(place, call, before, is_approved=True))
            case Approve():
                spared = asked if number == until else pauser
                waiting.append(Waiting(place, call, spared, is_approved=True))
            case None:
                waiting.append(Waiting(place, call))
    refused |= denied
    # Without calls and with something new to say, the next thing is a request.
    asks = not paused.pending and (bool(added) or _has_results(paused))
    scope = TurnScope(
        is_resumed=not asks,
        resumed=tuple(waiting),
        answered=tuple(answered),
        refused=refused,
        spared=frozenset() if asks or paused.pending else asked,
        key=paused.key,
    )
    pending = [*waiting, *(each for each, _ in answered)]
    pending.sort(key=lambda each: each.place)
    resume = RunResume(
        paused.conversation,
        tuple([each.call for each in pending]),
        tuple([refused[place] for place in sorted(refused)]),
        usage=paused.usage,
        turns=paused.turns,
        tool_calls=paused.tool_calls,
        continuations=paused.continuations,
        resumes=paused.run,
        places=tuple([each.place for each in pending]),
    )
    first: list[Event] = [resume]
    first += [ToolStop(result, place=place) for place, result in denied.items()]
    if added:
        first.append(MessageAdd(tuple(added), "resume"))
    return first, scope


def _spared(paused: Paused[Any], hooks: Hooks) -> tuple[Spared, Spared, Spared]:
    """The hooks that are not asked again: about calls that were let through, about what it paused at, and about a call that a person has decided about otherwise."""
    if paused.hook == BY_CALLER and not paused.hooks:
        return (
            frozenset(),
            frozenset(),
            frozenset(),
        )  # no hook has paused it, though one may have this name
    # A run that was saved by an older version knows only the hook that paused it.
    names = paused.hooks or (paused.hook,)
    asked = numbered(names)[: paused.asked if paused.hooks else 1]
    before: Spared = frozenset(numbered(names))
    if not asked or asked[-1][0] != paused.hook or paused.hook == APPROVAL:
        return before, frozenset(asked), frozenset()
    point = HookPoint.BEFORE_TOOL_CALL if paused.pending else HookPoint.ON_TURN_END
    pauser = frozenset(asked[-1:])
    is_here = pauser.issubset(numbered(names_in(hooks.at(point))))
    return (before, frozenset(asked), pauser) if is_here else (before, frozenset(), frozenset())


def _has_results(paused: Paused[Any]) -> bool:
    """Whether it was paused between two turns: tools have run, and the model has not read their results."""
    for message in reversed(paused.conversation.messages):
        if message.role == "assistant":
            return False
        if message.tool_results:
            return True
    return False


def _check_kinds(paused: object, decisions: object, added: Sequence[object]) -> None:
    expect("paused", paused, Paused, "worker.resume(load_paused(data))")
    if decisions is not None and (
        isinstance(decisions, str) or not isinstance(decisions, Mapping | Sequence)
    ):
        expect("decisions", decisions, Mapping, "decisions={call.id: Approve()}")
    for message in added:
        expect("a message of add", message, Message, "add=[Message.user('...')]")


def _decided(paused: Paused[Any], decisions: Decisions | None) -> list[Decision | None]:
    """The decision about each pending call."""
    waits = [f"{call.id!r} of {call.name}" for call in paused.pending]
    until = None if paused.paused_at is None else paused.let_through
    if decisions is None or decisions == {}:
        return [Approve() if number == until else None for number in range(len(waits))]
    if isinstance(decisions, Mapping):
        _check_ids([call.id for call in paused.pending], decisions)
        decided = [decisions.get(call.id) for call in paused.pending]
    else:
        decided = [*decisions]
        if len(decided) != len(waits):
            text = f"there are {len(decided)} decisions about {len(waits)} pending calls ({', '.join(waits) or 'none'}): "
            raise LocalProtocolError(text + "give one for each, and None where nothing is decided")
    for what, decision in zip(waits, decided, strict=True):
        given = cast("object", decision)
        if not isinstance(given, Approve | Deny | Answer | None):
            message = f"the decision about the call {what} is {given!r}: give {EXAMPLES}"
            raise LocalProtocolError(message)
    if until is not None and decided[until] is None:
        raise LocalProtocolError(
            f"the run paused at the call {waits[until]}, and the decisions say nothing about it: give {EXAMPLES} for it, or "
            "no decisions to approve this call alone"
        )
    return decided


def _check_ids(pending: Sequence[str], decisions: Iterable[str]) -> None:
    for call_id in decisions:
        times = pending.count(call_id)
        if times == 0:
            known = ", ".join(sorted(pending)) or "none"
            raise LocalProtocolError(
                f"no pending call has the id {call_id!r}; pending are: {known}"
            )
        if times > 1:
            raise LocalProtocolError(
                f"{times} pending calls have the id {call_id!r}, so it does not say which of them is meant: "
                "give a list with one decision for each call of paused.pending, and None where nothing is decided"
            )


__all__ = ["resumed"]
