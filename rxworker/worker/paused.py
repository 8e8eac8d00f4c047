"""Paused runs: a stored decision, a paused run as bytes, and how a run resumes. What a decision is, and how one is read: `decisions`.

The bytes are JSON with a version and a digest of the rest, so that changes on the way are detected. Without
a key the digest finds accidents; with a key that only the application has, it finds forgeries, too.

The decisions become the first events and the scope of the next turn. One rule defines which hooks run again. `Paused.hooks` are the hooks
that were in force. The first `Paused.reached_count` of them were reached before the pause, and the last of these paused the run. A hook that
agreed to a call does not run for the same call again, and the decision of a person replaces the hook that paused. All other hooks run:
the hooks after that one, hooks that were added since, and after other arguments all hooks but that one. If that hook is no longer there, all
hooks run. To a run that was imported no hook has agreed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import (
    ConfigurationError,
    DecisionError,
    InvalidArgumentError,
    LocalProtocolError,
)
from rxworker.events import Event, MessageAdd, RunResume, ToolStop
from rxworker.events.arguments import decode_arguments
from rxworker.events.turn import CLIENT_TOOL
from rxworker.hooks import HookPoint, Hooks
from rxworker.hooks.points import REQUIRES_APPROVAL
from rxworker.hooks.runner import names_in, numbered
from rxworker.log.recover import DECIDE, DISMISS
from rxworker.log.values import Command
from rxworker.messages import (
    JsonObject,
    Message,
    OutputFormat,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.pairs import calls_made, places_left, places_of
from rxworker.tools import Toolbox
from rxworker.worker.arguments import expect
from rxworker.worker.context import TurnScope, Waiting
from rxworker.worker.decisions import (
    Answer,
    Approve,
    Decision,
    Decisions,
    Deny,
    PendingCalls,
    StoredDecision,
    check_members,
    decide,
    read_stored,
)
from rxworker.worker.journal import BY_CALLER
from rxworker.worker.result import Paused, check_signatures

RESERVED = 2.0
"""Seconds that a process has to resume a run that it has decided about, before another process does."""


def decide_command(
    paused: Paused[Any],
    decisions: Decisions | None,
    added: Sequence[Message],
    hooks: Hooks,
    tools: Toolbox,
    *,
    reserved: float = 0.0,
) -> Command:
    """The command that decides about a paused run. All of them have one key, so that the log takes the first.

    Args:
        paused: The paused run.
        decisions: The decisions.
        added: The messages to add.
        hooks: The hooks of the worker.
        tools: The tools of the worker, as far as it has them.
        reserved: Seconds for which other processes leave the run to the one that has decided.

    Raises:
        LocalProtocolError: As for `resume_turn`.
        ConfigurationError: As for `resume_turn`.
    """
    resume_turn(paused, decisions, added, hooks, tools)
    decided = decide(PendingCalls.of(paused), decisions)
    data = msgspec.to_builtins(StoredDecision(decided, tuple(added), reserved))
    return Command(DECIDE, data, key=DECIDE)


def decision_of(
    commands: Iterable[Command],
) -> tuple[Sequence[Decision | None], Sequence[Message]] | None:
    """The decisions and the messages of a ``decide`` command; ``None`` if there is none, or if it dismisses the run.

    Raises:
        DecisionError: It cannot be read; the message names the member.
    """
    for command in commands:
        if command.kind == DECIDE and DISMISS not in command.data:
            stored = read_stored(command.data)
            return stored.decisions, stored.add
    return None


VERSION = 2
"""Version 1 did not contain the hooks that had been reached, and its digest did not cover the version."""


PERMISSIONS = frozenset(
    {"run", "conversation", "pending", "paused_at", "hook", "seals", "let_through"}
)
"""The members of a saved run that decide what may run. None has a default there: one that is missing may be misspelt."""
SINCE_2 = PERMISSIONS | {"places", "hooks", "asked", "unknown"}


class _Envelope(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    seal: str
    state: msgspec.Raw


def save_paused(paused: Paused[Any], *, key: bytes | None = None) -> bytes:
    """The paused run as JSON.

    Args:
        paused: The result of a paused run. Of the requested output type its schema is kept.
        key: A secret of the application; loading needs the same one.

    Raises:
        LocalProtocolError: It contains a value that JSON cannot keep, such as half of a surrogate pair or a variable that is an object of
            the program; the message names it.
        ConfigurationError: The key is empty or not bytes, or ``paused`` is not a `Paused`.
    """
    _check_key(key)
    if not isinstance(paused, Paused):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(
            f"paused is {paused!r:.60}; only a result of type Paused can be saved"
        )
    for name, value in paused.variables.items():
        _check_json(name, value)
    try:
        state = msgspec.json.encode(paused)
    except (TypeError, UnicodeError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"this paused run cannot be saved: {error}") from error
    return msgspec.json.encode(_Envelope(VERSION, _seal(VERSION, state, key), msgspec.Raw(state)))


def load_paused(data: bytes | str, *, key: bytes | None = None) -> Paused[None]:
    """Load a paused run from the output of `save_paused`.

    Raises:
        LocalProtocolError: The data is not a paused run, was changed, was signed with another key, or has a newer version.
        DecisionError: It contradicts itself, or a member that decides what may run is missing.
        ConfigurationError: The key is empty or not bytes.
    """
    _check_key(key)
    try:
        raw = data.encode() if isinstance(data, str) else data
        version = msgspec.json.decode(raw, type=_Version).version
        if version > VERSION:
            raise LocalProtocolError(
                f"this paused run is of version {version}, and this rxworker knows versions up to {VERSION}: "
                "resume it with the rxworker that saved it, or a newer one"
            )
        envelope = msgspec.json.decode(raw, type=_Envelope)
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
        raise LocalProtocolError(f"this is no paused run: {error}") from error
    state = bytes(envelope.state)
    seal = _seal(version, state, key)
    # As bytes: a digest that was tampered with may be any text.
    if not hmac.compare_digest(seal.encode(), envelope.seal.encode(errors="replace")):
        raise LocalProtocolError(
            "this paused run was changed after it was saved, or was saved with another key: "
            "what was approved may not be what would run, so it is not resumed"
        )
    try:
        members = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
        paused = msgspec.json.decode(state, type=Paused[None])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise LocalProtocolError(f"this is no paused run: {error}") from error
    missing = sorted((PERMISSIONS if version == 1 else SINCE_2).difference(members))
    if missing:
        advice = "what may run is not known, so it is not resumed; save it again with save_paused"
        raise DecisionError(f"this is no paused run: {missing[0]} is missing: {advice}")
    PendingCalls.of(paused)  # it does not contradict itself
    return paused


def _check_json(name: str, value: object) -> None:
    """Reject a variable that JSON would change, such as a tuple, a date, or an object of the program."""
    try:
        is_kept = msgspec.json.decode(msgspec.json.encode({name: value})) == {name: value}
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        is_kept = False
    if not is_kept:
        raise LocalProtocolError(
            f"this paused run cannot be saved: the variable {name!r} is a {type(value).__name__} that JSON does not keep as it is; "
            "keep texts, numbers, booleans, None, lists and dicts of these, or remove it before the run pauses"
        )


class _Version(Struct, frozen=True):
    version: int


def _check_key(key: object) -> None:
    """Reject an empty key, which protects nothing. It usually comes from an environment variable that is not set."""
    if key is not None and not (isinstance(key, bytes) and key):
        # Without its value: it may be the secret as a text.
        what = "empty" if isinstance(key, bytes) else f"of type {type(key).__name__}"
        raise ConfigurationError(
            f"key is {what}: give the secret that save_paused and load_paused share as bytes, for example "
            "key=os.environ['PAUSED_RUN_KEY'].encode(), or leave key out to find accidents only"
        )


def _seal(version: int, state: bytes, key: bytes | None) -> str:
    sealed = state if version == 1 else b"%d:%b" % (version, state)
    return hmac.new(key or b"rxworker", sealed, hashlib.sha256).hexdigest()


Spared = frozenset[tuple[str, int]]


def resume_turn(
    paused: Paused[Any],
    decisions: Decisions | None,
    added: Sequence[Message],
    hooks: Hooks,
    tools: Toolbox,
    traceparent: str = "",
    output_format: OutputFormat | None = None,
) -> tuple[list[Event], TurnScope]:
    """The first events and the scope of the turn that continues a paused run.

    Args:
        paused: The paused run.
        decisions: By the ids of the calls, or one for each call. Without any, the call that the run paused at is approved.
        added: Messages for the model, after the results.
        hooks: The hooks that are in force now.
        tools: The tools that there are now.
        traceparent: The trace context of the caller; by default that of the paused run.
        output_format: The form of the answer.

    Raises:
        LocalProtocolError: A call was changed other than by its decision, the decisions do not fit the calls, or the arguments of one are no
            arguments of its tool.
        ConfigurationError: An argument has the wrong type.
    """
    _check_kinds(paused, decisions, added)
    check_signatures(paused.pending, paused.seals)
    decided = decide(PendingCalls.of(paused), decisions)
    made = calls_made(paused.conversation)
    places = places_of(paused.pending, paused.places, made)
    refused = dict(zip(places_left(paused.refused, places, made), paused.refused, strict=True))
    before, reached, pauser = _spared(paused, hooks)
    is_decided = paused.paused_at is not None or paused.hook == CLIENT_TOOL
    until = paused.approved_count if is_decided else -1
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
                other = replace(call, input=_edited(call, edited, tools))
                waiting.append(Waiting(place, other, pauser, is_approved=True))
            case None if paused.is_foreign:
                waiting.append(Waiting(place, call))
            case _ if number < until:
                waiting.append(Waiting(place, call, before, is_approved=True))
            case Approve():
                spared = reached if number == until else pauser
                waiting.append(Waiting(place, call, spared, is_approved=True))
            case None:
                waiting.append(Waiting(place, call))
    refused |= denied
    # Without calls, and with new messages or results, the turn starts with a request.
    sends_request = not paused.pending and (bool(added) or _has_results(paused))
    scope = TurnScope(
        is_resumed=not sends_request,
        resumed=tuple(waiting),
        answered=tuple(answered),
        refused=refused,
        spared=frozenset() if sends_request or paused.pending else reached,
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
        key=scope.key,
        spared=tuple([tuple(sorted(each.spared)) for each in pending]),
        approved=tuple([each.place for each in pending if each.is_approved]),
        traceparent=traceparent or paused.traceparent,
        output_format=output_format,
        own_tools=tools.own_names,
        is_offered=paused.hook == CLIENT_TOOL,
    )
    first: list[Event] = [resume]
    first += [ToolStop(result, place=place) for place, result in denied.items()]
    if added:
        first.append(MessageAdd(tuple(added), "resume"))
    return first, scope


def _edited(call: ToolCall, given: JsonObject | str, tools: Toolbox) -> JsonObject | str:
    """The arguments that a person has given a call, as its hooks and its tool receive them."""
    tool = tools.get(call.name)
    if tool is None and isinstance(call.input, str):
        return given  # its tool may take free text, which the process that has the tool knows
    meta = ToolMeta(call.name, "", {}) if tool is None else tool.meta
    why = "invalid arguments at $: this is no JSON object"
    try:
        decoded = decode_arguments(given, meta)
        # A model writes this for no arguments. A person may have meant those that were shown.
        if decoded or not isinstance(given, str) or given.lstrip().startswith("{"):
            if isinstance(given, str) and isinstance(decoded, dict):
                what = f"input of the decision about the call {call.id!r} of {call.name}"
                check_members(given, what)
            return decoded
    except InvalidArgumentError as error:
        why = error.message
    raise DecisionError(
        f"the decision about the call {call.id!r} of {call.name} gives {why}: give an object with all "
        "arguments, Approve(input={...}), or no input to run the call with the arguments that were shown"
    )


def _spared(paused: Paused[Any], hooks: Hooks) -> tuple[Spared, Spared, Spared]:
    """The hooks that do not run again: for approved calls, for the call or turn that it paused at, and for a call that a person has edited."""
    if paused.is_foreign or (paused.hook == BY_CALLER and not paused.hooks):
        # No hook of this process has agreed, or no hook paused it, though a hook may have this name.
        return frozenset(), frozenset(), frozenset()
    # A run that an older version saved contains only the hook that paused it.
    names = paused.hooks or (paused.hook,)
    reached = numbered(names)[: paused.reached_count if paused.hooks else 1]
    before: Spared = frozenset(numbered(names))
    if not reached or reached[-1][0] != paused.hook or paused.hook == REQUIRES_APPROVAL:
        return before, frozenset(reached), frozenset()
    point = HookPoint.BEFORE_TOOL_CALL if paused.pending else HookPoint.ON_TURN_END
    pauser = frozenset(reached[-1:])
    is_here = pauser.issubset(numbered(names_in(hooks.at(point))))
    return (before, frozenset(reached), pauser) if is_here else (before, frozenset(), frozenset())


def _has_results(paused: Paused[Any]) -> bool:
    """Whether it was paused between two turns: tools have run, and the model has not received their results."""
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
