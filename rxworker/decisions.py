"""Decisions about the calls that a paused run waits for, and the only place that reads one from outside. Pure.

Theory of operation. Everything that can allow a call comes here: the body of a request, the form of an MCP client, the
reply of an AG-UI or ``useChat`` client, the choice of an ACP client, the result that a client gives, a stored command.
A door translates its wire format into the arguments of a function of this module, and nothing else. What is read is
either a decision about exactly one pending call, or a `DecisionError` that names the member. Nothing has a default that
allows: a member that is missing, unknown, misspelt, given twice or of another type is an error, and the call stays
waiting. To go on without a decision takes a word as well.

A decision belongs to a call by its *index* among the pending calls. Ids are what clients send; two pending calls may
have one id, and then a decision by that id is refused, and the error names the form that is accepted: a list with one
decision for each call.

The pending calls of a run are a tree: a call that has begun a run which waits itself is followed by the calls of that
run. Each run of the tree is decided about as a whole, or not at all: then it goes on waiting. So is each call in the
background alone. To deny a call that waits with a run inside, or to answer it, ends that run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from rxworker.errors import DecisionError, nearest
from rxworker.events import PauseState, Question
from rxworker.events.form import check_form, form_problem
from rxworker.events.pause import (
    BACKGROUND,
    CLIENT_TOOL,
    QUESTION,
    RECOVERY,
    Begun,
    Reply,
    TreeCall,
    parts_of,
    woken_by,
)
from rxworker.hooks.points import Answer
from rxworker.messages import Json, JsonObject, Message, ToolCall

S = TypeVar("S", bound=Struct)
K = TypeVar("K", bound=str)
N = TypeVar("N", "Deny", "Dismiss")


class Approve(Struct, frozen=True, tag="approve", forbid_unknown_fields=True):
    """Run the call.

    Attributes:
        input: Other arguments than the model's, a text for a tool that takes free text; ``None`` runs it with exactly
            the arguments that were shown.
    """

    input: JsonObject | str | None = None


class Deny(Struct, frozen=True, tag="deny", forbid_unknown_fields=True):
    """Do not run the call.

    Attributes:
        reason: For the model.
    """

    reason: str = "This call was not approved."


Decision: TypeAlias = Approve | Deny | Answer
"""A decision about a pending call."""
Decisions: TypeAlias = Mapping[str, Decision] | Sequence[Decision | None]
"""Decisions about pending calls: by the ids of the calls, or one for each call in order, ``None`` for no decision."""


class ApproveAlways(Approve, frozen=True, tag="approve_always", forbid_unknown_fields=True):
    """Run the call, and from now on calls of its tool in this conversation without approval.

    Only the call that a run paused at can be approved so.

    It counts as soon as the decision does: where that is refused, since another one was first, nothing is allowed.
    `withdraw` ends it, in any process.
    """


class Received(Approve, frozen=True, tag="received", forbid_unknown_fields=True):
    """Go on with a call that waits for a message. It is stored by the process that found one, and no door takes it.

    Attributes:
        message: The id of the message.
    """

    message: str = ""


def message_in(decision: Approve) -> str:
    """The id of the message by which a call goes on; empty: something else has ended its wait."""
    return decision.message if isinstance(decision, Received) else ""


GO_ON: Decisions = {}
"""No decision about any call: for a run that does not wait for one."""

EXAMPLES = "Approve(), Approve(input={...}), Deny('why') or Answer('the result')"
ANSWERS = "Approve(input={...}) with the content of the form, Approve() for an address that was visited, or Deny()"
BODY = (
    'send {"decisions": {"<id of the call>": {"type": "approve"}}}, {"type": "deny", "reason": "why"} or {"type":'
    ' "answer", "content": "the result"} for each call that is decided about, or {"continue": true} for a run that'
    " waits for no call"
)


class PendingCalls(Struct, frozen=True):
    """The calls that a paused run waits for, as far as decisions about them need it.

    Attributes:
        calls: The calls, in order; see `PauseState.tree`.
        required: The indices of the calls that need a decision.
        hook: The name of the hook that paused the run.
        questions: The questions of the calls that have one, by their indices.
        nodes: The calls as they stand in the tree; by default all are calls of the run itself.
    """

    calls: tuple[ToolCall, ...] = ()
    required: tuple[int, ...] = ()
    hook: str = ""
    questions: Mapping[int, Question] = {}
    nodes: tuple[TreeCall, ...] = ()

    @classmethod
    def of(cls, pause: PauseState) -> PendingCalls:
        """The pending calls of a pause.

        Raises:
            DecisionError: The pause contradicts itself, so that it is not known what it waits for.

        >>> from rxworker.events import PausedCall
        >>> PendingCalls.of(PauseState("permit", (PausedCall(0, ToolCall("x", "pay", {})),), (0,))).ids
        ('x',)
        """
        _check_pause(pause)
        nodes = pause.tree
        required = tuple([at for at, each in enumerate(nodes) if each.needs_decision])
        questions = {at: each.question for at, each in enumerate(nodes) if each.question is not None}
        return cls(tuple([each.call for each in nodes]), required, pause.hook, questions, nodes)

    @property
    def own(self) -> tuple[int, ...]:
        """The indices of those that need a decision before the run goes on: none in its background."""
        own = parts_of(self.nodes)[0] if self.nodes else self.required
        return tuple([index for index in self.required if index in own])

    @property
    def by_client(self) -> tuple[int, ...]:
        """The indices of the calls that a client runs: the run pauses at them again until it has their results."""
        return tuple([at for at in range(len(self.calls)) if self.node(at).hook == CLIENT_TOOL])

    def node(self, index: int) -> TreeCall:
        """A call as it stands in the tree."""
        return self.nodes[index] if self.nodes else TreeCall(self.calls[index], hook=self.hook)

    def around(self, index: int) -> tuple[str, ...]:
        """The names of the tools whose calls a call is inside, the outermost first."""
        found = [at for at in range(index) if index in self.inside(at)]
        return tuple([self.calls[at].name for at in found])

    def inside(self, index: int) -> range:
        """The indices of the calls in the run that a call waits with."""
        return range(index + 1, index + 1 + self.node(index).inner)

    def without_client(self) -> list[Decision | None]:
        """What a client that runs no tools decides: its calls have failed, and the others are left open.

        >>> PendingCalls((ToolCall("x", "open_tab", {}),), hook=CLIENT_TOOL).without_client()
        [Answer(content='This client cannot run open_tab.', is_error=True)]
        """
        decisions: list[Decision | None] = [None] * len(self.calls)
        for index in self.by_client:
            decisions[index] = Answer(f"This client cannot run {self.calls[index].name}.", is_error=True)
        return decisions

    @property
    def allowable(self) -> tuple[str, str] | None:
        """What a person allows who always allows the call that the run paused at.

        Its tool, and the hook that then pauses no run for it; ``None`` if that cannot be allowed always.

        Whether a call that may have had its effect is repeated is a question about this one call, and so is that of its
        tool. A call in a run inside is one of a conversation that ends with that run.

        >>> PendingCalls((ToolCall("x", "pay", {}),), (0,), RECOVERY).allowable is None
        True
        """
        if not self.required or (node := self.node(self.required[0])).hook in (QUESTION, RECOVERY) or node.path:
            return None
        return node.call.name, node.hook

    @property
    def ids(self) -> tuple[str, ...]:
        """A different id for each call: its own, with ``~2`` for the second pending call of an id.

        That of a call in a run inside begins with its path.

        >>> PendingCalls((ToolCall("x", "pay", {}), ToolCall("x", "pay", {}))).ids
        ('x', 'x~2')
        """
        return distinct([self.node(index).name for index in range(len(self.calls))])

    def describe(self, index: int) -> str:
        """The id and the tool of a call, and the tools that it is inside."""
        around = "".join(f" in {name}" for name in reversed(self.around(index)))
        return f"{self.node(index).name!r} of {self.calls[index].name}{around}"

    def index_of(self, call_id: str, ids: Sequence[str] = ()) -> int:
        """The index of the call with an id.

        Args:
            call_id: The id.
            ids: Different ids, under which a door has shown the calls; by default their own, which may not differ.

        Raises:
            DecisionError: No pending call has it, or several have it.

        >>> PendingCalls((ToolCall("x", "pay", {}),)).index_of("y")
        Traceback (most recent call last):
        ...
        rxworker.errors.DecisionError: no pending call has the id 'y'; pending are: 'x' of pay
        More: rxworker docs cancel-and-pause
        """
        if call_id in ids:
            return ids.index(call_id)
        names = [self.node(index).name for index in range(len(self.calls))]
        indices = [index for index, name in enumerate(names) if name == call_id] or [
            index for index, call in enumerate(self.calls) if call.id == call_id
        ]
        if not indices:
            known = ", ".join(map(self.describe, range(len(self.calls)))) or "none"
            near = nearest(call_id, [call.id for call in self.calls])
            raise DecisionError(f"no pending call has the id {call_id!r}{near or ';'} pending are: {known}")
        if len(indices) > 1:
            raise DecisionError(
                f"{len(indices)} pending calls have the id {call_id!r}, so the decision is ambiguous: give a list with "
                "one decision for each pending call in order, and None (null in JSON) where nothing is decided"
            )
        return indices[0]


def distinct(ids: Sequence[str]) -> tuple[str, ...]:
    """Different ids for the pending calls of these ids; see `PendingCalls.ids`.

    >>> distinct(["x", "x", "x~2"])
    ('x', 'x~3', 'x~2')
    """
    taken, chosen = set(ids), list[str]()
    for call_id in ids:
        name, number = call_id, 1
        while name in chosen or (number > 1 and name in taken):
            number += 1
            name = f"{call_id}~{number}"
        chosen.append(name)
    return tuple(chosen)


def decide(pending: PendingCalls, decisions: Decisions | None, *, wakes: bool = True) -> tuple[Decision | None, ...]:
    """The decision about each pending call.

    Args:
        pending: The calls.
        decisions: The decisions. The program itself may leave them out: ``None`` approves the call that the run paused
            at, unless it has a question or is one of several. No door may.
        wakes: Whether to go on without any decision wakes what waits for a moment, a signal, a message or a run.

    Raises:
        DecisionError: A decision is not one, or is about no pending call or several of one id; or a call needs a
            decision and has none.

    >>> decide(PendingCalls((ToolCall("x", "pay", {}), ToolCall("y", "pay", {})), (1,)), {"y": Deny()})
    (None, Deny(reason='This call was not approved.'))
    """
    calls = pending.calls
    if decisions is None:
        decided: list[Decision | None] = [
            Approve()
            if (index,) == pending.own and pending.node(index).hook not in (CLIENT_TOOL, QUESTION, RECOVERY)
            else None
            for index in range(len(calls))
        ]
    elif isinstance(decisions, Mapping):
        decided = [None] * len(calls)
        for call_id, decision in decisions.items():
            decided[pending.index_of(call_id)] = decision
    elif not decisions and pending.hook == BACKGROUND:  # a result has come, and what waits goes on waiting
        return (None,) * len(calls)
    else:
        decided = [*decisions]
        if len(decided) != len(calls):
            waits = ", ".join(map(pending.describe, range(len(calls)))) or "none"
            raise DecisionError(
                f"there are {len(decided)} decisions about {len(calls)} pending calls ({waits}): "
                "give one for each, and None (null in JSON) where nothing is decided"
            )
    if wakes and (decisions is None or isinstance(decisions, Mapping)) and not any(decided):
        # In the background of a run that has paused for something else it goes on waiting.
        end = len(calls) if pending.hook == BACKGROUND else parts_of(pending.nodes)[0].stop
        waits = woken_by(pending.nodes)
        decided = [Approve() if wait and at < end else None for at, wait in enumerate(waits)] or [None] * len(calls)
    for index, decision in enumerate(decided):
        _check_decision(pending.describe(index), decision)
        if index in pending.questions and isinstance(decision, Approve | Deny):
            reply_of(pending.questions[index], decision)
        if pending.node(index).inner_run and isinstance(decision, Approve) and decision != Approve():
            raise DecisionError(
                f"the call {pending.describe(index)} has begun and waits with a run inside: decide about the calls in "
                "that run, or deny this one"
            )
    for index in _missing(pending, decided):
        what = pending.describe(index)
        if index in pending.questions:
            raise DecisionError(
                f"the call {what} waits for an answer ({pending.questions[index]}), and none was given: give {ANSWERS}"
            )
        why = (
            f"it is not known whether the call {what} had an effect"
            if pending.node(index).hook == RECOVERY
            else f"the run paused at the call {what}"
        )
        raise DecisionError(f"{why}, and no decision was given for it: give {EXAMPLES} for it")
    return tuple(decided)


def _missing(pending: PendingCalls, decided: Sequence[Decision | None]) -> list[int]:
    """The indices of the calls that need a decision and have none."""
    ended, is_any = set[int](), False  # the calls in runs that end
    for index, decision in enumerate(decided):
        inside = pending.inside(index)
        if isinstance(decision, Deny | Answer):
            ended.update(inside)
        if decision is not None and pending.node(index).inner_run:  # that run ends, or waits for nothing and goes on
            is_any |= isinstance(decision, Deny | Answer) or not any(at in inside for at in pending.required)
    left = [index for index in pending.required if index not in ended]
    about = [index for index, one in enumerate(decided) if one is not None and index not in ended]
    about = [index for index in about if index in left or pending.node(index).wait is not None]
    given = {_group(pending.node(index)): pending.node(index).path for index in about}
    if not given and not is_any:  # what waits in the background goes on waiting, if the run waits for something else
        return left if pending.hook == BACKGROUND else [index for index in left if index in pending.own]

    def is_needed(node: TreeCall) -> bool:
        # Whether an effect is to be repeated is decided before anything inside goes on.
        is_doubtful = node.hook == RECOVERY
        return _group(node) in given or (is_doubtful and any(p[: len(node.path)] == node.path for p in given.values()))

    return [index for index in left if decided[index] is None and is_needed(pending.node(index))]


def _group(node: TreeCall) -> tuple[str, str]:
    """Calls that are decided about together: those of a run, but each in its background alone."""
    return node.run, node.name if node.is_background else ""


def _check_pause(pause: PauseState) -> None:
    """Refuse a pause that contradicts itself."""
    if not set(pause.required).issubset(range(len(pause.calls))):
        raise DecisionError(f"required: {list(pause.required)} are not indices of {len(pause.calls)} pending calls")
    places = [each.place for each in pause.calls]
    taken = {*places, *pause.refused}
    if len(taken) < len(places) + len(pause.refused) or min(taken, default=0) < 0:
        raise DecisionError(
            f"places: {places} of pending calls and {list(pause.refused)} of results are not those of different calls"
        )
    for begun in [each.begun for each in (*pause.calls, *pause.background)]:
        if begun is not None and begun.inner is not None:
            _check_pause(begun.inner)


def granted_by(pending: PendingCalls, decided: Sequence[Decision | None]) -> tuple[str, str] | None:
    """What is always allowed from now on, by these decisions.

    The tool of the call that the run paused at, and the hook.

    Raises:
        DecisionError: A call is always allowed that cannot be.

    >>> granted_by(PendingCalls((ToolCall("x", "pay", {}),), (0,), "permit"), [ApproveAlways()])
    ('pay', 'permit')
    """
    always = [at for at, one in enumerate(decided) if isinstance(one, ApproveAlways)]
    if not always:
        return None
    if pending.allowable is None or always != [at for at in pending.required if not pending.node(at).path]:
        raise DecisionError(
            "always: only the call that the run paused at can be allowed always, no call of a run inside it, and no "
            "call whose effect is not known: leave it out"
        )
    return pending.allowable


def _check_decision(what: str, decision: object) -> None:
    """Reject what is not a decision. A program may pass any value, also one that it has decoded itself."""
    match decision:
        case None | Deny(reason=str()) | Answer(content=str() | tuple(), is_error=bool()):
            return
        case Approve(input=None | str()):
            return
        case Approve(input=dict() as edited):
            names = cast("dict[object, object]", edited)
            if all(isinstance(name, str) for name in names):
                return
            raise DecisionError(f"input of the decision about the call {what} has a name that is not a string")
        case Approve(input=edited):
            kind = type(edited).__name__
            raise DecisionError(
                f"input of the decision about the call {what} is of type {kind}: give an object with all arguments, "
                "or a text for a tool that takes free text"
            )
        case _:
            raise DecisionError(f"the decision about the call {what} is {decision!r:.80}: give {EXAMPLES}")


def reply_of(question: Question, decision: Approve | Deny) -> Reply:
    """The answer to a question that a decision about its call gives.

    Args:
        question: The question.
        decision: An approval, whose input is the content of the form; or a denial, which declines. The server does not
            read the reason.

    Raises:
        DecisionError: The content does not fit the form.

    >>> form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    >>> ask = Question("tides", "Where?", form)
    >>> reply_of(ask, Approve({"name": "Brest"})).content
    {'name': 'Brest'}
    >>> reply_of(ask, Approve())
    Traceback (most recent call last):
    ...
    rxworker.errors.DecisionError: input.name is missing: give the content of the form (tides has a question: Where?)
    More: rxworker docs cancel-and-pause
    """
    if isinstance(decision, Deny):
        return Reply("decline")
    content = {} if decision.input is None else decision.input
    if question.schema is None:
        problem = "" if content == {} else "input is given, and there is no form: leave it out"
    else:
        problem = check_form(question.schema) or form_problem(question.schema, content)
        problem += ": give the content of the form" if problem else ""
    if problem or isinstance(content, str):
        raise DecisionError(f"{problem} ({question})")
    return Reply("accept", content)


def assign(pending: PendingCalls, given: Iterable[tuple[str, Decision]]) -> tuple[Decision | None, ...]:
    """Decisions that came one by one, by the `PendingCalls.ids`, as a list with one for each pending call.

    Whether one is missing is left to `decide`.

    Args:
        pending: The calls.
        given: Ids of calls, and the decisions about them.

    Raises:
        DecisionError: No pending call has an id, or two different decisions are about one call.

    >>> pending = PendingCalls((ToolCall("x", "pay", {}), ToolCall("x", "pay", {})))
    >>> assign(pending, [("x~2", Deny("not twice"))])
    (None, Deny(reason='not twice'))
    """
    decided: list[Decision | None] = [None] * len(pending.calls)
    for call_id, decision in given:
        index = pending.index_of(call_id, pending.ids)
        if decided[index] is not None and decided[index] != decision:
            raise DecisionError(f"there are two different decisions about the call {pending.describe(index)}: send one")
        decided[index] = decision
    return tuple(decided)


# JSON


class _Approval(Struct, frozen=True, tag="approve", forbid_unknown_fields=True):
    input: JsonObject | str | UnsetType = UNSET
    always: bool = False


class _Result(Struct, frozen=True, tag="answer", forbid_unknown_fields=True):
    content: str


_KINDS: dict[str, type[_Approval | Deny | _Result]] = {"approve": _Approval, "deny": Deny, "answer": _Result}


class _Body(Struct, frozen=True, forbid_unknown_fields=True):
    decisions: dict[str, object] | list[object] | UnsetType = UNSET
    goes_on: bool | UnsetType = msgspec.field(name="continue", default=UNSET)


def read_resume(data: bytes | str) -> Decisions:
    """Read the JSON with which a client resumes a run: decisions about the calls that wait.

    Where none waits it is ``{"continue": true}``.

    Returns:
        The decisions, for `decide`; `GO_ON` if the client goes on without one.

    Raises:
        DecisionError: It is anything else; the message names the member.

    >>> read_resume('{"decisions": {"x": {"type": "deny", "reason": "too dear"}}}')
    {'x': Deny(reason='too dear')}
    >>> read_resume('{"decisions": {"x": {"type": "approve", "inputs": {}}}}')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    rxworker.errors.DecisionError: decisions['x'].inputs: there is no such member; did you mean 'input'? ...
    More: rxworker docs cancel-and-pause
    """
    body = decode_json(data if data.strip() else b"{}", "the body")
    given = read_struct(body, _Body, "the body", BODY)
    decisions, goes_on = given.decisions, given.goes_on
    if (decisions is UNSET) == (goes_on is UNSET):
        problem = "are both missing" if decisions is UNSET else "are both given"
        raise DecisionError(f"decisions and continue {problem}: {BODY}")
    if decisions is UNSET:
        if not goes_on:
            raise DecisionError(f"continue is false: it can only be true; {BODY}")
        return GO_ON
    read: Decisions
    if isinstance(decisions, dict):
        read = {name: read_decision(one, f"decisions[{name!r}]") for name, one in decisions.items()}
    else:
        each = enumerate(decisions)
        read = [None if one is None else read_decision(one, f"decisions[{index}]") for index, one in each]
    if not any(read.values() if isinstance(read, Mapping) else read):
        raise DecisionError(f"decisions has no decision: {BODY}")
    return read


def read_decision(value: object, where: str = "the decision") -> Decision:
    """Read one decision, from JSON that was decoded.

    Args:
        value: An object with the member ``type``.
        where: The name of the value, for the message of an error.

    Raises:
        DecisionError: It is not a decision.

    >>> read_decision({"type": "approve", "input": {"euros": 1}})
    Approve(input={'euros': 1})
    >>> read_decision({"type": "aprove"}, "x")
    Traceback (most recent call last):
    ...
    rxworker.errors.DecisionError: x.type is 'aprove'; did you mean 'approve'? It must be approve, deny or answer
    More: rxworker docs cancel-and-pause
    """
    if not isinstance(value, dict):
        raise DecisionError(f'{where} is {kind_of(value)}: give an object such as {{"type": "deny"}}')
    given = cast("dict[str, object]", value)
    kinds = "It must be approve, deny or answer"
    if "type" not in given:
        raise DecisionError(f"{where}.type is missing. {kinds}")
    kind = given["type"]
    struct = _KINDS.get(kind) if isinstance(kind, str) else None
    if struct is None:
        near = nearest(kind, _KINDS) if isinstance(kind, str) else ""
        raise DecisionError(f"{where}.type is {kind!r:.40}{near or '.'} {kinds}")
    read = read_struct(given, struct, where)
    match read:
        case _Approval(input=edited, always=always):
            approval = ApproveAlways if always else Approve
            return approval() if edited is UNSET else approval(edited)
        case Deny():
            return read
        case _Result(content=content):
            return Answer(content)


# The replies of AG-UI and useChat


class Dismiss(Struct, frozen=True):
    """End a paused run that waits for no call, instead of going on."""

    reason: str = "The user did not want to go on."


PAYLOAD = 'send {"approved": true}, with "editedArgs" for other arguments, or {"approved": false, "reason": "why"}'


class _Reply(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    approved: bool
    reason: str | None = None


def _denial(kind: type[N], reason: str | None) -> N:
    """The negative answer, with the reason if one was given."""
    return kind() if reason is None else kind(reason)


class _Payload(_Reply, frozen=True):
    edited_args: JsonObject | str | UnsetType = UNSET


def read_payload(payload: object) -> Decision:
    """Read the payload of an AG-UI client's answer about a call.

    Args:
        payload: A boolean, an object with the member ``approved``, or a text, which is then the result of the call.

    Raises:
        DecisionError: It is anything else.

    >>> read_payload({"approved": False, "reason": "too dear"})
    Deny(reason='too dear')
    """
    if payload is None:
        raise DecisionError(f"payload is missing: {PAYLOAD}")
    if isinstance(payload, bool):
        return Approve() if payload else Deny()
    if isinstance(payload, str):
        return Answer(payload)
    read = read_struct(payload, _Payload, "payload", PAYLOAD)
    if not read.approved:
        return _denial(Deny, read.reason)
    return Approve() if read.edited_args is UNSET else Approve(read.edited_args)


PAYLOAD_AT_END = "send a text for the model, or true to go on without one, or false to end the run"


def read_payload_at_end(payload: object) -> str | Dismiss:
    """Read the payload of an AG-UI client's answer to a pause that waits for no call.

    Args:
        payload: A message for the model, a boolean, or an object with the member ``approved``.

    Returns:
        The message, which may be empty; `Dismiss` if the run is not to go on.

    Raises:
        DecisionError: It is anything else.

    >>> read_payload_at_end("And in Rome?"), read_payload_at_end(True)
    ('And in Rome?', '')
    """
    if payload is None:
        raise DecisionError(f"payload is missing: {PAYLOAD_AT_END}")
    if isinstance(payload, str):
        return payload
    if isinstance(payload, bool):
        return "" if payload else Dismiss()
    read = read_struct(payload, _Reply, "payload", PAYLOAD_AT_END)
    return "" if read.approved else _denial(Dismiss, read.reason)


APPROVAL = "answer with addToolApprovalResponse({id, approved: true}), or false with a reason"


class _ChatApproval(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    id: str  # the first to be named, if several are missing
    approved: bool
    reason: str | None = None
    # What the server has sent with its request comes back.
    request_reason: str | None = None
    is_automatic: bool = False
    signature: str | None = None


def read_approval(approval: object) -> Approve | Deny:
    """Read the ``approval`` of a tool part that a ``useChat`` client has responded to.

    Raises:
        DecisionError: It is not a decision.

    >>> read_approval({"id": "run-1:x", "approved": False})
    Deny(reason='This call was not approved.')
    """
    read = read_struct(approval, _ChatApproval, "approval", APPROVAL)
    return Approve() if read.approved else _denial(Deny, read.reason)


# The forms of MCP and the choices of ACP


class _Form(Struct, frozen=True, forbid_unknown_fields=True):
    approve: bool
    reason: str | None = None


def read_form(content: object) -> Approve | Deny:
    """Read the form that the user of an MCP client has accepted.

    Only ``approve: true`` approves; anything else denies, and the reason names the member.

    >>> read_form({"approve": True})
    Approve(input=None)
    >>> read_form({"Approve": True}).reason.partition(": ")[2]
    "form.Approve: there is no such member; did you mean 'approve'? There are: approve, reason"
    """
    try:
        read = read_struct({} if content is None else content, _Form, "form")
    except DecisionError as error:
        return Deny(f"The form was not filled in: {error}")
    if read.approve:
        return Approve()
    return Deny(read.reason) if read.reason else Deny()


def read_answer(question: Question, action: str, content: object) -> Approve | Deny:
    """Read what the user of an MCP client has answered to the question of a tool.

    Only a form that is filled in as it must be, or an address that was visited, is accepted.

    >>> read_answer(Question("tides", "Sign in.", url="https://example.org"), "accept", None)
    Approve(input=None)
    >>> read_answer(Question("tides", "Sign in.", url="https://example.org"), "acept", None).reason
    'This call was not approved.'
    """
    if action != "accept":
        return Deny()
    approval = Approve(None if question.schema is None else msgspec.to_builtins(content or {}))
    try:
        reply_of(question, approval)
    except DecisionError as error:
        return Deny(f"The form was not filled in: {error}")
    return approval


CHOICES = {"allow_once": True, "allow_always": True, "reject_once": False, "reject_always": False}
"""Whether the call runs, by the kind of the option that the user of an ACP client has chosen."""


def read_choice(option: str, offered: Sequence[K]) -> K:
    """The option that was chosen among those that were offered.

    Raises:
        DecisionError: It was not offered.

    >>> read_choice("reject_once", ["allow_once", "reject_once"])
    'reject_once'
    """
    for known in offered:
        if known == option:
            return known
    problem = f"is {option!r:.80}" if option else "is missing"
    there = f"{nearest(option, offered) or ';'} there are: {', '.join(offered)}"
    raise DecisionError(f"optionId {problem}{there}")


# Stored commands


class Decided(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is decided about a paused run.

    Attributes:
        decisions: The decisions; ``None`` approves the call that the run paused at.
        add: Messages to add.
        shared_state: The shared state with which the run is resumed; ``None``: that of the paused run.
    """

    decisions: Decisions | None
    add: Sequence[Message] = ()
    shared_state: Json = None


class StoredDecision(Decided, frozen=True):
    """The data of a ``decide`` command.

    A decision for each pending call, in order, and ``None`` where nothing is decided.

    Attributes:
        reserved: Seconds for which other processes leave the run to the one that has decided.
        woken: What the wait of a hook at the end of a turn has ended with.
        by: The id of the message that has ended it, if it is one.
    """

    decisions: tuple[Decision | ApproveAlways | Received | None, ...]
    add: tuple[Message, ...] = ()
    shared_state: Json = None
    reserved: float = 0.0
    woken: Json = None
    by: str = ""


def read_stored(data: object) -> StoredDecision:
    """Read the data of a ``decide`` command.

    Raises:
        DecisionError: It is not the data of this command, or a newer rxworker has written it.

    >>> read_stored({"decisions": [{"type": "deny"}]}).decisions
    (Deny(reason='This call was not approved.'),)
    """
    advice = "the run stays paused; resume it in a program with worker.resume(await worker.load(run), decisions=...)"
    return read_struct(data, StoredDecision, "the stored decision", advice)


def inner_decisions(begun: Begun) -> tuple[Decision | None, ...] | None:
    """The decisions about the calls in the run that a call has begun; ``None``: it goes on waiting.

    >>> inner_decisions(Begun(run="run-1.1", decided=({"type": "deny", "reason": "no"}, None)))
    (Deny(reason='no'), None)
    """
    return None if begun.decided is None else read_stored({"decisions": begun.decided}).decisions


# Reading


def decode_json(data: bytes | str, where: str) -> object:
    """JSON, decoded. An object that has a member twice is refused: which of the two counts would be a guess.

    Raises:
        DecisionError: It is not JSON, or has a member twice.

    >>> decode_json(b'{"approved": false, "approved": true}', "payload")
    Traceback (most recent call last):
    ...
    rxworker.errors.DecisionError: payload has the member 'approved' twice: send it once
    More: rxworker docs cancel-and-pause
    """
    try:
        value: object = msgspec.json.decode(data)  # strict about everything but this
    except (ValueError, RecursionError) as error:
        raise DecisionError(f"{where} is not valid JSON: {error}") from error
    check_members(data, where)
    return value


def check_members(data: bytes | str, where: str) -> None:
    """Refuse JSON in which an object has a member twice.

    A door that reads a permission out of a larger message checks the whole message.

    Raises:
        DecisionError: An object has a member twice, or it is not JSON.

    >>> check_members(b'{"resume": [], "resume": [1]}', "the input")
    Traceback (most recent call last):
    ...
    rxworker.errors.DecisionError: the input has the member 'resume' twice: send it once
    More: rxworker docs cancel-and-pause
    """

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) < len(pairs):
            twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
            raise DecisionError(f"{where} has the member {twice!r} twice: send it once")
        return members

    try:
        json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise DecisionError(f"{where} is not valid JSON: {error}") from error


def read_struct(value: object, kind: type[S], where: str, advice: str = "") -> S:
    """Decoded JSON as a struct that forbids unknown fields.

    Args:
        value: The JSON.
        kind: The struct.
        where: The name of the value, for the message of an error.
        advice: The remedy.

    Raises:
        DecisionError: It is not such a struct; the message names the member.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem = _explained(str(error), kind, where)
        raise DecisionError(f"{problem}: {advice}" if advice else problem) from None


_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$(.*)`)?")
_MISSING = re.compile(r"Object missing required field `(.*?)`(?: - at `\$(.*)`)?")
_OTHER = re.compile(r"(.*?)(?: - at `\$(.*)`)?")


def _explained(problem: str, kind: type[Struct], where: str) -> str:
    if (match := _UNKNOWN.fullmatch(problem)) is not None:
        name, path = match[1], match[2] or ""
        known = [] if path else _members_of(kind)
        there = f"{nearest(name, known) or '.'} There are: {', '.join(known)}" if known else ""
        return f"{where}{path}.{name}: there is no such member{there}"
    if (match := _MISSING.fullmatch(problem)) is not None:
        return f"{where}{match[2] or ''}.{match[1]} is missing"
    match = _OTHER.fullmatch(problem)
    assert match is not None
    return f"{where}{match[2] or ''}: {match[1][:1].lower()}{match[1][1:]}"


def _members_of(kind: type[Struct]) -> list[str]:
    tag = ["type"] if kind in _KINDS.values() else []
    return [*tag, *(field.encode_name for field in msgspec.structs.fields(kind))]


_JSON_KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """What a JSON value is.

    >>> kind_of([1])
    'a list'
    """
    return _JSON_KINDS.get(type(value), type(value).__name__)
