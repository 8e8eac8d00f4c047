"""The state of a run, folded from its records. Pure.

Theory of operation. The state of a run is never written by hand: it is `step_run` folded over the records, so that a
late watcher's snapshot, a resumed run and a test all see the same. A response lives in ``response`` from the start of
its attempt until something comes after it. It enters the conversation exactly once: at once when it completed, so that
tools and hooks find it there; when it failed or was cancelled, only when it is certain that no other attempt replaces
it. An attempt that is retracted leaves the conversation as it was when the attempt started, but its tokens count.

A conversation in the state can always be sent: calls that will not run are answered right away, and those that a stage
of the application leaves at the end of the turn. A run that is aborted keeps what its tools did, states for each of the
others whether it was started, and is repaired.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from rxworker import events
from rxworker.events.kinds import BLOCK_EVENTS, Deltas
from rxworker.messages import Conversation, Message, ToolCall, ToolResult, repair
from rxworker.messages.pairs import calls_made
from rxworker.messages.repair import NOT_RUN
from rxworker.messages.settings import shared_fields
from rxworker.messages.usage import SIZES, as_sum
from rxworker.state.inner import step_inner, step_tools, with_tokens
from rxworker.state.response import STARTED, ResponseState, step_events
from rxworker.state.run_state import CallState, Round, RunState, close, find_call, received, settle, with_duration
from rxworker.state.shared_state import apply_change

Cause: TypeAlias = Literal["cancel", "error", "abort", "limit"]


def response_ends(state: RunState, reason: str) -> list[events.Event]:
    """The aborts of the blocks that are open, and the status of the response, unless it has one.

    >>> response_ends(RunState(), "lunch")
    []
    """
    response = state.response
    if response is None:
        return []
    ends: list[events.Event] = [
        events.BlockAbort(block.index, block.block_type, reason) for block in response.open.values()
    ]
    if response.status is events.ResponseStatus.STARTED and response.error is None:
        ends.append(events.Status(events.ResponseStatus.CANCELLED))
    return ends


def call_ends(state: RunState, cause: Cause | Literal["cut"]) -> list[events.Event]:
    """An end for each running tool, and an error result for each call whose result the hooks have not passed.

    The state adds them to the conversation, and answers the other calls.
    """
    ended = {"cancel": "run was cancelled", "limit": "run reached a limit", "cut": "call was cut off"}
    what = ended.get(cause, "run failed")
    text = f"The {what} while this tool ran. Whether it had an effect is not known."
    ends: list[events.Event] = []
    for each in state.calls:
        call, place = each.call, each.place
        if each.phase == "running":
            result = ToolResult(call.id, text, is_error=True, name=call.name)
            ends.append(events.ToolStop(result, place=place))
        elif each.phase == "ended" and each.result is None:
            held = ToolResult(call.id, HELD_BACK, is_error=True, name=call.name)
            ends.append(events.ToolOutput(held, place))
    return ends


CUT_OFF = "This call was not run: the response was cut off by a message before its end."
STARTED_ONLY = "This call was started and did not finish: the run ended before it."
FORKED = "The run was forked while this call went on."
MAX_CYCLE = 8
"""How many different rounds a cycle may have."""
HELD_BACK = "This tool ran to its end; its result was held back: the run ended before the result was checked."


def step_run(state: RunState, record: events.Record) -> RunState:
    """The run after a record. A record that was seen already changes nothing.

    >>> from rxworker.events import Record, RunStart, TextDelta
    >>> from rxworker.messages import Conversation, Message
    >>> def record(seq: int, event: object) -> Record:
    ...     return Record(seq=seq, run_id="r", turn=1, attempt=1, time=0.0, event=event)
    >>> state = step_run(RunState(), record(1, RunStart(Conversation((Message.user("hi"),)))))
    >>> state = step_run(state, record(2, TextDelta(0, "hello")))
    >>> state.status, len(state.response.open)
    ('running', 1)
    """
    return fold_run((record,), state)


def fold_run(records: Iterable[events.Record], state: RunState | None = None) -> RunState:
    """The run after all these records: what a snapshot, a resumed run and a test begin with."""
    state = state or RunState()
    seq, path = state.seq, state.path
    row: list[Any] = []  # neighbours that are taken together
    step_row: Callable[[RunState, list[Any]], RunState] | None = None
    for record in records:
        if record.seq <= seq:
            continue
        seq = record.seq
        if record.path is not path and record.path != path:
            if record.path[: len(path)] == path:
                state = _step_inner(state, record)
            continue
        event: Any = record.event
        if (steps := _STEPS.get(event.__class__)) is None:
            continue
        found, step = steps
        if found is not step_row:
            if step_row is not None:
                state, row = step_row(state, row), []
            step_row = found
        if step is None:
            row.append(event)
        else:
            state = step(state, event)
    if step_row is not None:
        state = step_row(state, row)
    return state if seq == state.seq else replace(state, seq=seq)


def _step_response(state: RunState, row: Iterable[Any]) -> RunState:
    rest = iter(row)
    while (before := state.response) is None or (state.is_closed and before.status is None):
        # No attempt has begun, or the response was closed without any content: its first start opens it again.
        event = next(rest, None)
        if event is None:
            return state
        state = _step_first(state, before or ResponseState(), event)
    response, last = step_events(before, rest)
    while last is not None:
        if response.status is STARTED and type(last) is events.Status:
            # A response that starts for a second time retracts its events, and the results of its early calls.
            state = replace(state, calls=())
        state = received(state, response)
        response, last = step_events(response, rest)
    return state if response is state.response else replace(state, response=response)


def _step_first(state: RunState, before: ResponseState, event: Any) -> RunState:
    if event.__class__ not in _RESPONSES:
        return state
    response, _ = step_events(before, (event,))
    if state.response is not None and event.__class__ in _PARTS:
        return replace(state, response=response)
    return received(state, response)


def _step_inner(state: RunState, record: events.Record) -> RunState:
    event = record.event
    if isinstance(event, events.ToolStart | events.ToolStop):
        state = _count_tools(state, record.path, (event,))
    elif isinstance(event, events.AttemptStart) and (event.prices or event.is_unpriced):
        state = replace(state, prices={**state.prices, event.model: event.prices})
    inner = step_inner(state.inner, record)
    return state if inner is state.inner else replace(state, inner=inner)


def _run_start(state: RunState, event: events.RunStart) -> RunState:
    conversation = event.conversation
    before = conversation
    if event.added:
        before = conversation.with_messages(conversation.messages[: -event.added])
    return RunState(
        status="running",
        conversation=conversation,
        path=state.path,
        base=before,
        traceparent=event.traceparent,
        output_format=event.output_format,
        labels=event.labels,
    )


def _run_resume(state: RunState, event: events.RunResume) -> RunState:
    carried = shared_fields(event, RunState)  # what the run took before the pause counts
    carried |= {"status": "running", "pause": None, "reason": ""}
    return replace(
        settle(state),
        **carried,
        calls=_placed(event.conversation, event.pause),
        base=event.conversation,
        spent=as_sum(event.usage) if (event.usage.input_tokens or 0) > SIZES[0] else event.usage,
        spent_by_model=event.usage_by_model,
    )


def _run_recover(state: RunState, event: events.RunRecover) -> RunState:
    return state if event.output_format is None else replace(state, output_format=event.output_format)


def _run_pause(state: RunState, event: events.RunPause) -> RunState:
    state = close(state)
    pause = event.pause
    calls = _placed(state.conversation, pause)
    return replace(state, status="paused", reason=pause.hook, calls=calls, pause=pause)


def _placed(conversation: Conversation, pause: events.PauseState) -> tuple[CallState, ...]:
    """The calls that wait, and those that have a result already, in the order of the calls."""
    made = calls_made(conversation) if pause.refused else ()
    calls = [CallState(each.place, each.call) for each in pause.calls]
    for place, result in pause.refused.items():
        call = made[place] if place < len(made) else ToolCall(result.tool_use_id, result.name, {})
        calls.append(CallState(place, call, "ended", result))
    return tuple(sorted(calls, key=attrgetter("place")))


def _run_stop(state: RunState, _: events.RunStop) -> RunState:
    return replace(_end_calls(settle(state)), status="finished")


def _run_abort(state: RunState, event: events.RunAbort) -> RunState:
    state = _end_calls(settle(state))
    return replace(
        state,
        status="aborted",
        cause=event.cause,
        reason=event.reason,
        conversation=repair(state.conversation),
        background=(),
    )


def _end_calls(state: RunState) -> RunState:
    """The calls that have no result in the conversation get one: nothing more comes of them."""
    if not state.calls:
        return state
    answers = Message("user", tuple([_last_result(each) for each in state.calls]))
    return replace(state, conversation=repair(_answered(state.conversation, answers)), calls=())


def _run_requeue(state: RunState, _: events.RunRequeue) -> RunState:
    """The run goes on.

    Its calls have their results; a part of an answer, which the abort left at the end, is requested again.
    """
    if state.status != "aborted":
        return state
    conversation, last = state.conversation, state.conversation.last
    if state.stop_reason is None and last is not None and last.role == "assistant":
        conversation = state.base
    return replace(state, status="running", conversation=conversation, cause="", reason="")


def _last_result(each: CallState) -> ToolResult:
    """The result of a call of a run that has ended, for the model."""
    if each.result is not None:
        return each.result
    text = {"waiting": NOT_RUN, "running": STARTED_ONLY, "ended": HELD_BACK}[each.phase]
    return ToolResult(each.call.id, text, is_error=True, name=each.call.name)


def _answered(conversation: Conversation, answers: Message) -> Conversation:
    """The conversation with these results right after the calls, before the messages that hooks have added since."""
    messages = conversation.messages
    end = len(messages)
    while end and messages[end - 1].role != "assistant":
        end -= 1
    if not end or end == len(messages):
        return conversation.add(answers)
    return conversation.with_messages((*messages[:end], answers, *messages[end:]))


def _round(conversation: Conversation, results: Iterable[ToolResult]) -> Round:
    """The calls and results of this turn, to be compared with those of the turns before it.

    Errors that are the same are compared without the arguments.
    """
    calls: Iterable[ToolCall] = ()
    for message in reversed(conversation.messages):
        if calls := message.tool_calls:
            break
    told = [*map(attrgetter("content", "is_error"), results)]
    failed = all(map(itemgetter(1), told))
    return [(call.name, "" if failed else call.input) for call in calls], told


def sorted_json(value: object) -> bytes:
    """A value as JSON, the same for the same: 1, 1.0 and True differ, and the order of members does not count."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:  # half a character, which a model may write and UTF-8 cannot encode
        return json.dumps(msgspec.to_builtins(value), sort_keys=True).encode()


def _hook_verdict(state: RunState, event: events.HookVerdict) -> RunState:
    if event.verdict != "ContinueWithMessages":
        return state
    return replace(state, continuations=state.continuations + 1)


def _turn_start(state: RunState, _: events.TurnStart) -> RunState:
    if state.response is not None:
        state = settle(state)
    return replace(_end_calls(state), status="running", turns=state.turns + 1)


def _turn_stop(state: RunState, _: events.TurnStop) -> RunState:
    state = settle(state)
    if not state.calls:
        return state
    left = _round(state.conversation, [_last_result(each) for each in state.calls])
    return _with_round(_end_calls(state), left)


def _attempt_start(state: RunState, event: events.AttemptStart) -> RunState:
    if state.response is not None:
        state = settle(state)
    return replace(
        state,
        attempts=state.attempts + 1,
        provider=event.provider or state.provider,
        service=event.service,
        model=event.model or state.model,
        own_tools=event.own_tools,
        prices={**state.prices, event.model: event.prices} if event.prices or event.is_unpriced else state.prices,
        response=ResponseState(model=event.model or None),
        stop_reason=None,
        base=state.conversation,
    )


def _attempt_retract(state: RunState, _: events.AttemptRetract) -> RunState:
    return replace(
        state,
        conversation=state.conversation if state.response is None else state.base,
        spent=state.own_usage,
        spent_by_model=state.own_by_model,
        response=None,
        is_closed=False,
        calls=(),
    )


def _tool_events(state: RunState, row: Sequence[events.ToolStart | events.ToolStop]) -> RunState:
    state = _count_tools(state, state.path, row)
    calls, by_id, started = [*state.calls], dict[str, list[int]](), 0
    for event in row:
        place, call_id = event.place, event.call.id if type(event) is events.ToolStart else event.call_id
        is_there = 0 <= place < len(calls) and calls[place].place == place and calls[place].call.id == call_id
        at = place if is_there else find_call(calls, place, call_id, by_id)  # usually all calls of a response are there
        if type(event) is events.ToolStart:
            started += 1
            each = CallState(event.place, event.call, "running")
        else:
            name = "" if event.result is None else event.result.name
            call = ToolCall(event.call_id, name, {}) if at is None else calls[at].call
            each = CallState(event.place, call, "ended", event.result)
        if at is not None:
            place = calls[at].place
            calls[at] = each if each.place == place else replace(each, place=place)
        elif not state.is_closed:  # one that no complete response has made has its answer
            if by_id:
                by_id.setdefault(each.call.id, []).append(len(calls))
            calls.append(each)
    return replace(state, tool_calls=state.tool_calls + started, calls=tuple(calls))


def _count_tools(state: RunState, path: tuple[str, ...], row: Sequence[events.ToolStart | events.ToolStop]) -> RunState:
    """The figures of tools after events of the run, or of a run inside."""
    running, ended = step_tools(state.running_tools, path, row)
    errors, seconds, durations = state.tool_errors, state.tool_seconds, state.tool_durations
    for event in ended:
        errors, seconds = errors + event.is_error, seconds + event.seconds
        if event.seconds:  # a tool that was cancelled has no duration
            durations = with_duration(durations, event.seconds)
    return replace(state, running_tools=running, tool_errors=errors, tool_seconds=seconds, tool_durations=durations)


def _tool_output(state: RunState, event: events.ToolOutput) -> RunState:
    return _tool_events(state, (events.ToolStop(event.result, place=event.place),))


def _background_start(state: RunState, event: events.BackgroundStart) -> RunState:
    call = event.background
    others = tuple([each for each in state.background if each.id != call.id])
    if len(others) == len(state.background):  # its turn has its result: no process makes it again for the turn
        state = _tool_events(state, (events.ToolStop(call.placeholder, place=call.place),))
    return replace(state, background=(*others, call))


def _background_stop(state: RunState, event: events.BackgroundStop) -> RunState:
    seconds, durations = event.seconds, state.tool_durations
    return replace(
        state,
        background=tuple([each for each in state.background if each.id != event.id]),
        delivered=(*state.delivered, event.id),
        tool_errors=state.tool_errors + event.result.is_error,
        tool_seconds=state.tool_seconds + seconds,
        tool_durations=with_duration(durations, seconds) if seconds else durations,
    )


def _message_add(state: RunState, event: events.MessageAdd) -> RunState:
    if not state.is_closed:
        state = close(state, CUT_OFF)
    before = conversation = state.conversation
    results: list[ToolResult] = []
    for message in event.messages:
        answers = message.tool_results
        results += answers
        # Results stand right after the calls, before the messages that hooks have added in between.
        conversation = (_answered if answers else Conversation.add)(conversation, message)
    if not results:
        return replace(state, conversation=conversation)
    by_id: dict[str, list[CallState]] = {}
    for has_result in (False, True):  # those without a result first
        for each in state.calls:
            if (each.result is not None) is has_result:
                by_id.setdefault(each.call.id, []).append(each)
    gone, ids = set[int](), set[str]()
    for result in results:
        ids.add(result.tool_use_id)
        if same := by_id.get(result.tool_use_id):
            gone.add(id(same.pop(0)))
    calls = [each for each in state.calls if id(each) not in gone]
    if len(ids) < len(results) or "" in ids:
        conversation = repair(conversation)  # no provider accepts two calls with one id
    state = replace(state, conversation=conversation, calls=tuple(calls))
    return _with_round(state, _round(before, results))


def _with_round(state: RunState, this: Round) -> RunState:
    """The run after another round.

    Rounds that come again, in whatever order, are a cycle, which is as long as the way back to the farthest of them.
    """
    rounds, stale, cycle = state.rounds, 0, 1
    for back, other in enumerate(rounds, 1):
        if this == other and sorted_json(this) == sorted_json(other):  # to a tool 1, 1.0 and True differ
            stale, cycle = state.stale + 1, max(state.cycle, back)
            rounds = rounds[: back - 1] + rounds[back:]
            break
    return replace(state, rounds=(this, *rounds[: MAX_CYCLE - 1]), stale=stale, cycle=cycle, repeats=1 + stale // cycle)


def _conversation_replace(state: RunState, event: events.ConversationReplace) -> RunState:
    if not state.is_closed:
        state = close(state)
    # The messages that no request has sent yet are at the end, before and after.
    behind = len(state.conversation.messages) - len(state.base.messages)
    messages = event.conversation.messages
    base = event.conversation.with_messages(messages[: max(0, len(messages) - behind)])
    # A request that goes out now may still carry the short form, whose tokens then are not those of the conversation.
    is_whole_again = state.conversation.replaced and not event.conversation.replaced
    tokens = 0 if is_whole_again else None
    return replace(state, conversation=event.conversation, base=base, request_tokens=tokens)


def _conversation_compact(state: RunState, event: events.ConversationCompact) -> RunState:
    usage, spent = event.usage, state.spent
    if usage.total_tokens:
        by_model = with_tokens(state.spent_by_model, event.model, usage)
        state = replace(state, spent=spent + usage, spent_by_model=by_model)
    if not event.replaced:
        return state
    conversation = replace(state.conversation, replaced=event.replaced, instead=event.instead)
    return replace(state, conversation=conversation, request_tokens=None)


def _shared_state_change(state: RunState, event: events.SharedStateChange) -> RunState:
    return replace(state, shared_state=apply_change(state.shared_state, event))


def _limit_reached(state: RunState, event: events.LimitReached) -> RunState:
    return replace(state, reason=event.limit)


def _command_taken(state: RunState, event: events.CommandTaken) -> RunState:
    return replace(state, commands=max(state.commands, event.number))


def _fork(state: RunState, event: events.Fork) -> RunState:
    # What is delivered from outside goes to the run that has begun the call, and so does what its process returns.
    background = tuple([replace(each, is_delivered=False, reason=FORKED, begun=None) for each in state.background])
    # The commands to the fork are numbered from the first.
    return replace(state, labels=event.labels, background=background, commands=0)


# The turn events that are missing here are for watchers, and change nothing.
TURN_STEPS: dict[type[object], Callable[[RunState, Any], RunState]] = {
    events.RunStart: _run_start,
    events.RunResume: _run_resume,
    events.RunRecover: _run_recover,
    events.RunPause: _run_pause,
    events.RunStop: _run_stop,
    events.RunAbort: _run_abort,
    events.RunRequeue: _run_requeue,
    events.Fork: _fork,
    events.CommandTaken: _command_taken,
    events.TurnStart: _turn_start,
    events.TurnStop: _turn_stop,
    events.AttemptStart: _attempt_start,
    events.AttemptRetract: _attempt_retract,
    events.MessageAdd: _message_add,
    events.ToolOutput: _tool_output,
    events.BackgroundStart: _background_start,
    events.BackgroundStop: _background_stop,
    events.ConversationReplace: _conversation_replace,
    events.ConversationCompact: _conversation_compact,
    events.SharedStateChange: _shared_state_change,
    events.LimitReached: _limit_reached,
    events.HookVerdict: _hook_verdict,
}

# These come in rows, since tools run in parallel: a step takes several.
TOOL_STEPS: dict[type[object], Callable[[RunState, Any], RunState]] = dict.fromkeys(
    (events.ToolStart, events.ToolStop), _tool_events
)

_PARTS: frozenset[type[object]] = BLOCK_EVENTS | {events.Usage, Deltas}
_RESPONSES = _PARTS | {events.Status, events.Error}
# Neighbours of one sort are a row, which takes one step; any other event takes a step of its own.
_STEPS: dict[type[object], tuple[Callable[[RunState, list[Any]], RunState] | None, Callable[..., RunState] | None]] = {
    **dict.fromkeys(_RESPONSES, (_step_response, None)),
    **{kind: (step, None) for kind, step in TOOL_STEPS.items()},
    **{kind: (None, step) for kind, step in TURN_STEPS.items()},
}
