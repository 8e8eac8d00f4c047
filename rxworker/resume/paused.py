"""Paused runs: a paused run as bytes, and how a run resumes with the decisions about its calls.

What a decision is, and how one is read: `decisions`. The bytes are JSON with a version and a digest of the rest, so
that changes on the way are detected. Without a key the digest finds accidents; with a key that only the application
has, it finds forgeries, too.

The decisions become the first events and the scope of the next turn. One rule defines which hooks run again. A call
that waits has the hooks that do not run for it again: all that were in force for a call that they have approved, and
those that were reached for the call that the run paused at, the last of which paused it: the decision of a person
replaces it. All other hooks run: the hooks after that one, hooks that were added since, and after other arguments all
hooks but that one. If that hook is no longer there, all hooks run. To a run that was imported no hook has agreed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.decisions import (
    Answer,
    Approve,
    Decided,
    Decision,
    Deny,
    PendingCalls,
    StoredDecision,
    check_members,
    decide,
    granted_by,
    message_in,
    read_stored,
    reply_of,
)
from rxworker.errors import ConfigurationError, DecisionError, InvalidArgumentError, LocalProtocolError
from rxworker.events import Event, MessageAdd, PausedCall, PauseState, RunResume, ToolStop
from rxworker.events.arguments import decode_arguments
from rxworker.events.pause import Begun
from rxworker.hooks import HookPoint, Hooks
from rxworker.hooks.registry import names_in, numbered
from rxworker.log.format import upgrade_pause
from rxworker.log.values import Command, decision_command, decisions_in
from rxworker.log.writer import has_json
from rxworker.messages import JsonObject, OutputFormat, ToolCall, ToolMeta, ToolResult
from rxworker.messages.settings import check_type, shared_fields
from rxworker.state.shared_state import checked_json
from rxworker.tools import Tool, Toolbox
from rxworker.turn.context import TurnScope
from rxworker.turn.result import Paused, check_signatures

RESERVED = 2.0
"""Seconds that a process has to resume a run that it has decided about, before another process does."""


def decide_command(paused: Paused[object], given: Decided, *, reserved: float = 0.0) -> Command:
    """The command that decides about a paused run, after a check of the decisions.

    Args:
        paused: The paused run.
        given: What is decided; `resume_turn` accepts it.
        reserved: Seconds for which other processes leave the run to the one that has decided.

    Raises:
        DecisionError: The decisions do not fit the calls.
        ConfigurationError: The shared state is not JSON.
    """
    pending, shared = PendingCalls.of(paused.pause), checked_json(given.shared_state)
    decided = decide(pending, given.decisions, wakes=not given.add)
    granted_by(pending, decided)  # raises where it is always allowed and cannot be
    return decision_command(StoredDecision(decided, tuple(given.add), shared, reserved))


WAKE = decision_command(StoredDecision((), reserved=RESERVED))
"""The command that resumes a run which waits for results alone; a decision that is stored before counts instead."""


def decision_of(commands: Iterable[Command]) -> StoredDecision | None:
    """What a ``decide`` command contains; ``None`` if there is none, or if it dismisses the run.

    Raises:
        DecisionError: It cannot be read; the message names the member.
    """
    found = decisions_in(commands)
    return read_stored(found[0].data) if found else None


IMPORTED = "The run was imported: no hook and no person has agreed to the call here."
VERSION = 3
"""The version of a saved run that is written.

Version 2, in which the parts of a pause were members of the run, is read.
"""


class _Envelope(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    seal: str
    state: msgspec.Raw


def save_paused(paused: Paused[object], *, key: bytes | None = None) -> bytes:
    """The paused run as JSON.

    Args:
        paused: The result of a paused run. Of the requested output type its schema is kept.
        key: A secret of the application; loading needs the same one.

    Raises:
        LocalProtocolError: It contains a value that JSON cannot keep, such as half of a surrogate pair or a variable
            that is an object of the program; the message names it.
        ConfigurationError: The key is empty or not bytes, or ``paused`` is not a `Paused`.
    """
    _check_key(key)
    if not isinstance(paused, Paused):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(f"paused is {paused!r:.60}; only a result of type Paused can be saved")
    _check_variables(paused)
    try:
        state = msgspec.json.encode(paused)
    except (TypeError, UnicodeError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"this paused run cannot be saved: {error}") from error
    return msgspec.json.encode(_Envelope(VERSION, _seal(VERSION, state, key), msgspec.Raw(state)))


def _check_variables(paused: Paused[Any]) -> None:
    for name, value in paused.variables.items():
        if not has_json({name: value}):
            raise LocalProtocolError(
                f"this paused run cannot be saved: the variable {name!r} is a {type(value).__name__} that JSON does "
                "not keep as it is; keep texts, numbers, booleans, None, lists and dicts of these, or remove it before "
                "the run pauses"
            )
    for inner in paused.nested.values():
        _check_variables(inner)


def load_paused(data: bytes | str, *, key: bytes | None = None) -> Paused[None]:
    """Load a paused run from the output of `save_paused`.

    Raises:
        LocalProtocolError: The data is not a paused run, was changed, was signed with another key, or has a newer
            version.
        DecisionError: It contradicts itself, or a member that decides what may run is missing.
        ConfigurationError: The key is empty or not bytes.
    """
    _check_key(key)
    try:
        raw = data.encode() if isinstance(data, str) else data
        version = msgspec.json.decode(raw, type=_Version).version
        if not 2 <= version <= VERSION:
            raise LocalProtocolError(
                f"this paused run is of version {version}, and this rxworker knows versions 2 to {VERSION}: "
                "resume it with the rxworker that saved it"
            )
        envelope = msgspec.json.decode(raw, type=_Envelope)
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
        raise LocalProtocolError(f"this is not a paused run: {error}") from error
    state = bytes(envelope.state)
    seal = _seal(version, state, key)
    # As bytes: a digest that was tampered with may be any text.
    if not hmac.compare_digest(seal.encode(), envelope.seal.encode(errors="replace")):
        raise LocalProtocolError(
            "this paused run was changed after it was saved, or was saved with another key: "
            "what was approved may not be what would run, so it is not resumed"
        )
    try:
        paused = msgspec.json.decode(_upgraded(state) if version == 2 else state, type=Paused[None])
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise LocalProtocolError(f"this is not a paused run: {error}") from error
    PendingCalls.of(paused.pause)  # it does not contradict itself
    return paused


IN_2 = frozenset(["pending", "paused_at", "hook", "seals", "let_through", "places", "hooks", "asked", "unknown"])
"""The members of a run of version 2 that decide what may run.

None has a default there: one that is missing may be misspelt.
"""


def _upgraded(state: bytes) -> bytes:
    """A run of version 2 in the present version."""
    members = msgspec.json.decode(state, type=dict[str, object])
    for name in sorted(IN_2.difference(members)):
        raise ValueError(f"{name} is missing: what may run is not known, so it is not resumed")
    members["signatures"] = members.pop("seals")
    return msgspec.json.encode({"is_foreign": False, **upgrade_pause(members)})


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
    return hmac.new(key or b"rxworker", b"%d:%b" % (version, state), hashlib.sha256).hexdigest()


def resume_turn(
    paused: Paused[object],
    given: Decided,
    hooks: Hooks,
    tools: Toolbox,
    traceparent: str = "",
    output_format: OutputFormat | None = None,
) -> tuple[list[Event], TurnScope, tuple[str, str] | None]:
    """The first events and the scope of the turn that continues a paused run, and what is always allowed from then on.

    Args:
        paused: The paused run.
        given: The decisions, and messages for the model, after the results. Without any decision, the call that the run
            paused at is approved.
        hooks: The hooks that are in force now.
        tools: The tools that there are now.
        traceparent: The trace context of the caller; by default that of the paused run.
        output_format: The form of the answer.

    Raises:
        LocalProtocolError: A call was changed other than by its decision, the decisions do not fit the calls, or the
            arguments of one do not fit its tool.
        ConfigurationError: An argument has the wrong type.
    """
    decisions = cast("object", given.decisions)
    if decisions is not None and (isinstance(decisions, str) or not isinstance(decisions, Mapping | Sequence)):
        check_type("decisions", decisions, Mapping, "decisions={call.id: Approve()}")
    _check_shown(paused)
    pause, added, pending = paused.pause, given.add, PendingCalls.of(paused.pause)
    decided = decide(pending, given.decisions, wakes=not given.add)  # a message alone wakes nothing
    by_call = _by_call(pause, decided)
    if paused.is_foreign:
        pause = replace(pause, calls=tuple(map(_not_agreed, pause.calls)))
    reached, pauser = _spared(pause, hooks)
    calls, answered, denied = _decided(pause, by_call, reached, pauser, tools)
    # Without calls, and with new messages or results, the turn starts with a request. Results that the conversation
    # does not have yet come first.
    is_between = not pause.calls and not pause.refused
    sends_request = is_between and (bool(added) or _has_results(paused))
    left = replace(
        pause,
        calls=tuple(calls),
        required=(),
        refused=pause.refused | denied,
        spared=() if sends_request or pause.calls else reached,
    )
    if left.held is not None and left.held.wait is not None and not added:
        value, by = (given.woken, given.by) if isinstance(given, StoredDecision) else (None, "")
        left = replace(left, held=left.held.wake(value, by))
    scope = TurnScope(is_resumed=not sends_request, pause=left, answered=answered)
    resume = replace(
        RunResume(**shared_fields(paused, RunResume)),
        pause=left,
        background=tuple([replace(each, reason=IMPORTED, begun=None) for each in paused.background])
        if paused.is_foreign
        else paused.background,
        resumes=paused.run_id,
        traceparent=traceparent or paused.traceparent,
        output_format=output_format,
        own_tools=tools.own_names,
    )
    first: list[Event] = [resume]
    first += [ToolStop(result, place=place) for place, result in denied.items()]
    if added:
        first.append(MessageAdd(tuple(added), "resume"))
    return first, scope, granted_by(pending, decided)


SparedHooks: TypeAlias = tuple[tuple[str, int], ...]
DecidedCalls: TypeAlias = list[tuple[Decision | None, Sequence[Decision | None]]]


def _by_call(pause: PauseState, decided: Sequence[Decision | None]) -> DecidedCalls:
    """The decision about each call of the run itself, and those about the calls in the run that it waits with."""
    found, at = DecidedCalls(), 0
    for each in pause.calls:
        own, end = decided[at], at + 1 + (0 if each.inner is None else len(each.inner.tree))
        is_own = each.inner is None or isinstance(own, Deny | Answer)  # an approval of the call is that it goes on
        found.append((own if is_own else None, decided[at + 1 : end]))
        at = end
    return found


def _decided(
    pause: PauseState, decided: DecidedCalls, reached: SparedHooks, pauser: SparedHooks, tools: Toolbox
) -> tuple[list[PausedCall], dict[int, ToolResult], dict[int, ToolResult]]:
    """The calls that go on; by their places the results that a person has given, and those of calls that are denied.

    Args:
        pause: The pause.
        decided: The decisions about each call.
        reached: The hooks that do not run again for the call that the run paused at.
        pauser: The hooks that do not run again for the others.
        tools: The tools.
    """
    calls: list[PausedCall] = []
    answered: dict[int, ToolResult] = {}
    denied: dict[int, ToolResult] = {}
    for index, (each, (decision, inside)) in enumerate(zip(pause.calls, decided, strict=True)):
        call, place, begun = each.call, each.place, each.begun
        if begun is not None and each.inner is not None and decision is None:
            calls.append(replace(each, begun=_decided_inside(begun, each.inner, inside, tools.get(call.name))))
            continue
        if each.waiting is not None and isinstance(decision, Approve):
            calls.append(each.wake(decision.input, message_in(decision)))
            continue
        if each.begun is not None and each.question is not None and isinstance(decision, Approve | Deny):
            calls.append(replace(each, begun=replace(each.begun, reply=reply_of(each.question, decision))))
            continue
        match decision:
            case Deny(reason=reason):
                denied[place] = ToolResult(call.id, reason, is_error=True, name=call.name)
                continue
            case Answer(content=content, is_error=is_error):
                answered[place] = ToolResult(call.id, content, is_error, call.name)
                calls.append(PausedCall(place, call))
            case Approve(input=edited) if edited is not None:
                if each.begun is not None:
                    raise DecisionError(
                        f"the call {call.id!r} of {call.name} has begun with its arguments, which cannot be changed "
                        "any more: approve it without input, or deny it"
                    )
                other = replace(call, input=_edited(call, edited, tools))
                calls.append(PausedCall(place, other, pauser, is_approved=True))
            case Approve() if not each.is_approved:
                spared = reached if index == pause.at else pauser
                calls.append(replace(each, spared=spared, is_approved=True))
            case None if index in pause.required and each.question is None:
                calls.append(PausedCall(place, call, begun=begun))  # it goes on waiting: the hooks run for it again
            case _:
                calls.append(each)
    return calls, answered, denied


def _decided_inside(begun: Begun, inner: PauseState, decided: Sequence[Decision | None], tool: Tool | None) -> Begun:
    """How a call goes on that waits with a run inside, with the decisions about the calls in that run.

    Raises:
        DecisionError: The arguments that a person has given a call do not fit its tool.
    """
    if not any(decided) and any(each.needs_decision for each in inner.tree):
        return begun  # it goes on waiting
    tools = getattr(tool, "inner_tools", None)
    if isinstance(tools, Toolbox):  # otherwise it is found out when that run resumes
        _decided(inner, _by_call(inner, decided), (), (), tools)
    return replace(begun, decided=msgspec.to_builtins(decided))


def _check_shown(paused: Paused[Any]) -> None:
    """Refuse a call that was changed since the run paused, in it or in a run inside.

    Raises:
        LocalProtocolError: A call differs.
    """
    check_signatures(paused.pending, paused.signatures)
    for at, node in enumerate(paused.pause.tree):
        if (inner := paused.nested.get(node.inner_run)) is not None:
            check_signatures(inner.pending, paused.signatures[at + 1 : at + 1 + node.inner])


def _not_agreed(each: PausedCall) -> PausedCall:
    """The call of a pause that was imported, without what people and hooks have agreed to elsewhere.

    One whose question a person has answered there, or that has begun a run, starts again.
    """
    begun = each.begun
    is_kept = begun is not None and begun.reply is None and begun.paused is None
    return PausedCall(each.place, each.call, begun=begun if is_kept else None)


def _edited(call: ToolCall, given: JsonObject | str, tools: Toolbox) -> JsonObject | str:
    """The arguments that a person has given a call, as its hooks and its tool receive them."""
    tool = tools.get(call.name)
    if tool is None and isinstance(call.input, str):
        return given  # its tool may take free text, which the process that has the tool knows
    meta = ToolMeta(call.name, "", {}) if tool is None else tool.meta
    why = "invalid arguments at $: this is not a JSON object"
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


def _spared(pause: PauseState, hooks: Hooks) -> tuple[SparedHooks, SparedHooks]:
    """The hooks that do not run again.

    For the call or turn that it paused at, and for a call that a person has edited.
    """
    reached = pause.spared if pause.at is None else pause.calls[pause.at].spared
    if not reached or reached[-1][0] != pause.hook:  # no hook has paused it
        return reached, ()
    point = HookPoint.BEFORE_TOOL_CALL if pause.calls else HookPoint.ON_TURN_END
    is_here = reached[-1] in numbered(names_in(hooks.orders[point]))
    return (reached, reached[-1:]) if is_here else ((), ())


def _has_results(paused: Paused[object]) -> bool:
    """Whether it was paused between two turns: tools have run, and the model has not received their results."""
    for message in reversed(paused.conversation.messages):
        if message.role == "assistant":
            return False
        if message.tool_results:
            return True
    return False
