"""One turn: prepare the request, receive the response, call the tools, and decide whether another turn follows.

Theory of operation. A turn is four stages, each an observable of events, and `perform_turn` is their concatenation. A
stage changes nothing itself: what it emits goes to the journal at once, which folds it into the state, so that a stage
reads there what the one before has done. The ``TurnScope`` holds what is not in the records: the request, and what a
paused run has left. Each stage is followed in the task of the run, also one of the application. What a usual stage
waits for is awaited there, too (`rxworker.tools.coroutines`). With an operator around it, it has a task of its own,
which is cancelled when the operator disposes of it, and which the end of the run waits for. What surprises: within a
stage the state is up to date only if an operator around it passes events on at once; between two stages it always is.

The first and the last stage are here: `prepare` runs the hooks that may change the messages of the request, and
`decide` runs the hooks that may reject the answer. The stages between them are in `respond` and `call_tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HookError, RunAbortedError, nearest, reason_of
from rxworker.events import (
    ConversationReplace,
    Event,
    HookVerdict,
    MessageAdd,
    PauseState,
    RunAbort,
    RunPause,
    RunStop,
    TurnStart,
    TurnStop,
)
from rxworker.events.pause import NO_PAUSE, UNTIL
from rxworker.hooks import (
    Cancel,
    ContinueWithMessages,
    HookContext,
    HookPoint,
    MessageSendContext,
    Pause,
    TurnEndContext,
)
from rxworker.hooks.points import Verdict
from rxworker.hooks.registry import numbered
from rxworker.messages import Conversation, StopKind, StopReason
from rxworker.messages.settings import check_plain, check_type
from rxworker.operators.expect import EVENTS
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import Operator
from rxworker.providers import Request
from rxworker.state import RunState
from rxworker.state.response import message_of
from rxworker.tools.coroutines import CoroutineObservable, Emitter, pass_through
from rxworker.turn.account import counting
from rxworker.turn.apply import apply_operators, expect_observable
from rxworker.turn.call_tools import Told, call_tools, discard_early, end_calls, expect_told
from rxworker.turn.compaction import compacted
from rxworker.turn.context import (
    KEPT_TURNS,
    Edits,
    Emit,
    RunContext,
    StageName,
    Turn,
    TurnScope,
    TurnStage,
    admit,
    check_limits,
    check_spent,
    let_watchers_act,
    next_request,
)
from rxworker.turn.journal import WITHDRAWN
from rxworker.turn.rejoin import cancel_calls, ends_turn, join
from rxworker.turn.respond import PARTS, begin_attempt, expect_end, respond, retract
from rxworker.turn.result import Output

# Constants, since a member of an enumeration is slow to look up.
MESSAGE_SEND, TURN_END = HookPoint.ON_MESSAGE_SEND, HookPoint.ON_TURN_END
PAUSE_TURN = StopKind.PAUSE_TURN
REFUSALS = (StopKind.REFUSAL, StopKind.CONTENT_FILTER)
ENDS = (RunStop, RunPause, RunAbort)


def perform_turn(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """Emit the events from one request to the decision whether another follows: the stages, one after the other.

    prepare     --a|
    respond         b--c--d|
    call_tools             --e--f|
    decide                       g|
    [ perform_turn ]
    --a--b--c--d--e--f--g|

    A turn that continues a paused run begins with its calls, and one that continues a response with that. A stage that
    has ended or paused the run is the last one.
    """
    journal, one = context.journal, Turn(context, scope)
    stages = context.worker.stages[2:] if scope.is_resumed else context.worker.stages

    async def follow(emitter: Emitter[Event]) -> None:
        left, taken = stages, scope.taken_up
        try:
            if taken is not None:  # no request is sent, unless the response is gone
                await emitter.follow(stages[1](one), context.scheduler)
                context.mailbox.interrupt = None
                left = stages[2:] if scope.taken_up is taken else stages
            for stage in left:
                # The request of the usual stage alone is recorded as it is.
                is_counted = stage is context.worker.stages[1] and (stage is not respond or context.worker.operators)
                if is_counted:
                    await _counted(context, emitter, stage, one)
                else:
                    await emitter.follow(stage(one), context.scheduler)
                context.mailbox.interrupt = None
                # The usual ones before the calls end no run, and each look at the state folds the records that are new.
                if stage is not prepare and stage is not respond and journal.state.status != "running":
                    return
        except BaseException:
            discard_early(context, scope)  # before the last record
            raise
        if journal.hub.flush_scheduler.is_needed:
            await let_watchers_act(journal.hub.flush_scheduler)

    return CoroutineObservable(follow, context.tasks)


async def _counted(context: RunContext, emitter: Emitter[Event], stage: TurnStage, turn: Turn) -> None:
    with counting(context):
        await emitter.follow(stage(turn), context.scheduler)


def stages_of(
    stages: Mapping[StageName, TurnStage], around: Mapping[StageName, Operator[Event, Event]]
) -> tuple[TurnStage, ...]:
    """The stages of a worker's turns, in order.

    Args:
        stages: Stages in place of the usual ones, by the names of these.
        around: Operators around stages, by their names.

    Raises:
        ConfigurationError: There is no such stage, or one is not callable.
    """
    for what, given in (("stages", stages), ("around", around)):
        example = f"{what}={{'call_tools': my_{'stage' if given is stages else 'operator'}}}"
        for name in check_type(what, given, Mapping, example):
            if name not in STAGES:
                text = f"{what}: there is no stage {name!r}, only {', '.join(STAGES)}{nearest(str(name), STAGES)}"
                raise ConfigurationError(text)
    for name, stage in stages.items():
        if not callable(stage):
            text = f"stages: {name!r} is {stage!r:.80}: give a function of a Turn that returns an observable of events"
            raise ConfigurationError(text)
        check_plain(f"stages[{name!r}]", stage)
    for operator in around.values():
        expect_operator(operator)
    return tuple(
        [
            _guarded(stages.get(name, usual), around.get(name), name) if name in stages or name in around else usual
            for name, usual in STAGES.items()
        ]
    )


def _guarded(stage: TurnStage, operator: Operator[Event, Event] | None, name: StageName) -> TurnStage:
    """A stage of the application, or one with an operator of the application around it."""
    refusal = f"the stage {name} emitted a {{}}, which is not an event"

    def guarded(turn: Turn) -> Observable[Event]:
        source = expect_observable(stage, stage(turn), "the stage", "the observable of its events")
        several = () if operator is None else (operator,)
        context, scope, has_ended = turn._context, turn._scope, False
        told: Told | None = {} if name == "call_tools" else None
        scope.noted = told
        marks: set[type[Event]] = set()
        inner = _until_end(source, scope)
        events = apply_operators(several, inner, turn.scheduler, EVENTS, refusal)

        def may_follow(event: Event) -> bool:
            """Nothing follows the end of a run."""
            nonlocal has_ended
            if has_ended:
                return False
            kind = event.__class__
            if kind is TurnStart or kind is TurnStop:
                if kind in marks:
                    return False  # a turn starts and stops once
                marks.add(kind)
            elif name == "respond":
                begin_attempt(context, scope, event)
            elif kind in PARTS:
                text = (
                    f"the stage {name}, or an operator around it, emitted a {kind.__name__}: the events of a response "
                    "are those of the stage respond"
                )
                raise ConfigurationError(text)
            elif told is not None:
                expect_told(context, told, event)
            has_ended = isinstance(event, ENDS)
            return True

        def completed(_: abc.SchedulerBase) -> Observable[Event]:
            scope.noted = None
            if not has_ended:
                _expect_whole(context, scope, name, marks, told or {})
            return reactivex.empty()

        def failed(error: Exception, _: Observable[Event]) -> Observable[Event]:
            scope.noted = None
            return reactivex.empty() if has_ended else reactivex.throw(error)

        whole = events.pipe(ops.filter(may_follow), ops.concat(reactivex.defer(completed)))
        return whole.pipe(ops.catch(failed))

    return guarded


def _expect_whole(context: RunContext, scope: TurnScope, name: StageName, marks: set[type[Event]], told: Told) -> None:
    """Check that a stage of the application, or one with an operator around it, has left what the next one needs.

    Raises:
        TruncatedError: There is no complete response.
        RxWorkerError: The response failed.
        ConfigurationError: The turn has not started or stopped, or the start or the end of a call is not recorded.
    """
    if name == "respond":
        if scope.is_cut:
            return
        expect_end(context, "the stage respond, or an operator around it,")
        return
    needed = {"prepare": TurnStart, "decide": TurnStop}.get(name)
    lost = [kind.__name__ for (kind, _), events in told.items() if events]
    if needed and needed not in marks and not (name == "prepare" and scope.is_recovered):
        lost = [needed.__name__]
    if name == "call_tools":
        end_calls(context, scope, told)
    if name == "prepare" and not context.worker.hooks.orders[MESSAGE_SEND]:
        scope.request = None  # it is made of what is recorded, also where an operator has waited
    if lost:
        text = (
            f"the stage {name} completed, and {lost[0]} is not recorded: a stage in place of it emits one, and an "
            "operator around it passes each on"
        )
        raise ConfigurationError(text)


def _until_end(stage: Observable[Event], scope: TurnScope) -> Observable[Event]:
    """The events of a stage up to the end of the run.

    It holds for an operator that subscribes again too: then there are none, and after an abort by a hook the same
    error.
    """
    ends: list[RunAbortedError | None] = []

    def goes_on(event: Event) -> bool:
        if isinstance(event, ENDS):
            ends.append(None)
        return not ends

    def failed(error: Exception) -> None:
        scope.failed = reason_of(error)
        if isinstance(error, RunAbortedError):
            ends.append(error)

    def begin(_: abc.SchedulerBase) -> Observable[Event]:
        if not ends:
            up_to = ops.take_while(goes_on, inclusive=True)
            return stage.pipe(up_to, ops.do_action(on_error=failed))
        return reactivex.empty() if ends[0] is None else reactivex.throw(ends[0])

    return reactivex.defer(begin)


def prepare(turn: Turn) -> Observable[Event]:
    """Run the ``on_message_send`` hooks, and store the request in the scope.

    Raises:
        LimitExceededError: A limit is reached.
        RunAbortedError: A hook cancelled the request.
        HookError: A hook failed, or assigned a value that is not messages.

    In the last two cases the messages that this request would have been the first to send are removed from the
    conversation.
    """
    return CoroutineObservable(partial(_prepare, turn._context, turn._scope), turn._context.tasks)


async def _prepare(context: RunContext, scope: TurnScope, emitter: Emitter[Event]) -> None:
    emit = emitter.emit
    journal = context.journal
    state = journal.state
    check_spent(context, emit, max_turns=state.turns, max_depth=len(context.parents) - 1)
    if context.budgets:
        await admit(context, emit)
        state = journal.state
    if not scope.is_recovered:
        emit(TurnStart())
    if context.background.arrived:
        await join(context, scope, emit)
    # The start of a turn does not change the conversation.
    if context.mailbox.waiting or state.response is not None:
        context.mailbox.deliver(emit)
        state = journal.state
    hooked = partial(_after_send_hooks, context, scope, emit)
    if context.worker.compact is not None and await compacted(context, hooked, emit):
        check_spent(context, emit)
        if context.budgets:
            await admit(context, emit)
        state = journal.state
    conversation, edits = state.conversation.sent, ()
    if context.worker.hooks.orders[MESSAGE_SEND]:
        conversation, edits = await hooked()
        check_spent(context, emit)  # they may have sent requests, too
        if conversation != journal.state.conversation.sent:
            context.sent[journal.turn] = conversation
        context.sent.pop(journal.turn - KEPT_TURNS, None)
    scope.request = next_request(context, conversation, edits)


async def _after_send_hooks(
    context: RunContext, scope: TurnScope, emit: Callable[[Event], None], conversation: Conversation | None = None
) -> tuple[Conversation, Edits]:
    """The conversation of a request, after the hooks; and the request as each hook received it that has changed it.

    Args:
        context: The run.
        scope: The turn.
        emit: Emits the events of the hooks.
        conversation: What is about to be sent, if it is not that of the run.
    """
    hook_context = MessageSendContext(**context.hook_input(scope.variables))
    if conversation is not None:
        hook_context._begin(conversation)
    try:
        answer = await pass_through(context.worker.hooks.operator(MESSAGE_SEND, emit), hook_context)
        if isinstance(answer, Cancel):
            raise RunAbortedError(answer.reason, hook=hook_context.hook)
        edits = [(name, Request(before, tools, context.options)) for name, before, tools in hook_context.edits]
        return Conversation(tuple(hook_context.messages), hook_context.system), tuple(edits)
    except (RunAbortedError, HookError) as error:
        _retract(context.journal.state, error.hook or "", emit)
        raise


def _retract(state: RunState, hook: str, emit: Emit) -> None:
    """Remove the messages that no request has sent yet, so that the next run does not send what a hook held back.

    In the first turn these are all messages that the run added. In later turns the response and the results of its
    calls stay.
    """
    messages, sent = state.conversation.messages, len(state.base.messages)
    kept = list(messages[:sent])
    if state.turns > 1:
        kept += [
            message
            for place, message in enumerate(messages[sent:])
            if message.tool_results or (place == 0 and message.role == "assistant")
        ]
    if len(kept) < len(messages):
        emit(ConversationReplace(state.conversation.with_messages(kept), hook))


def decide(turn: Turn) -> Observable[Event]:
    """Continue after tools, after a pause of the provider, and if messages were sent to the run.

    Otherwise run the ``on_turn_end`` hooks, and stop the run if they agree.

    Raises:
        LimitExceededError: Hooks have sent the answer back too often.
        HookError: A hook failed.
    """
    return CoroutineObservable(partial(_decide, turn._context, turn._scope), turn._context.tasks)


async def _decide(context: RunContext, scope: TurnScope, emitter: Emitter[Event]) -> None:
    emit, journal = emitter.emit, context.journal
    if scope.finished_by:
        await _end(context, scope, emit)
        return
    if scope.is_cut:
        if not context.mailbox.deliver(emit) and journal.state.response is not None:
            retract(context, scope, WITHDRAWN, emit)  # nothing follows what was cut
        emit(TurnStop())
        return
    # The calls that a stage has left without a result are answered at the end of the turn, and the model reads that.
    state = journal.state
    if scope.called or state.calls or _has_results(state, scope):
        emit(TurnStop())
        if not scope.called:  # else it is checked already
            check_limits(emit, context.worker.limits, max_repeats=journal.state.repeats)
        context.pause_request.take(emit, NO_PAUSE)
        return
    reason = state.stop_reason
    if reason is not None and reason.kind is PAUSE_TURN:
        # The provider continues from its own response.
        emit(TurnStop())
        return
    # A hook that has waited goes on first: it may have waited for the message.
    if context.mailbox.waiting and scope.pause.held is None and context.mailbox.deliver(emit):
        emit(TurnStop())
        return
    if state.background:
        if await ends_turn(context, scope, emit):
            return
        if scope.finished_by:  # by a hook for a result that has joined
            await _end(context, scope, emit)
            return
    complaint = None if context.output is None else _complaint(context, context.output, reason)
    if complaint is not None:
        emit(HookVerdict("output", "on_turn_end", "ContinueWithMessages", complaint))
        _send_back(context, ContinueWithMessages.user(complaint), "output", emit)
        emit(TurnStop())
        return
    has_hooks = context.worker.hooks.orders[TURN_END]
    verdict, hook, reached = await _ask(context, scope, emit) if has_hooks else (None, "", ())
    match verdict:
        case ContinueWithMessages():
            _send_back(context, verdict, hook, emit)
            emit(TurnStop())
        case Pause(reason=reason, begun=begun) if begun is not None:  # the hook itself runs again
            emit(TurnStop())
            emit(RunPause(PauseState(UNTIL, (), (), reason, spared=reached[:-1], held=begun)))
        case Pause(reason=reason):
            emit(TurnStop())
            emit(RunPause(PauseState(hook, (), (), reason, spared=reached)))
        case _:
            await _end(context, scope, emit, reached)


async def _ask(
    context: RunContext, scope: TurnScope, emit: Emit
) -> tuple[HookContext | Verdict, str, tuple[tuple[str, int], ...]]:
    """The verdict of the ``on_turn_end`` hooks, the name of the hook that gave it, and the hooks that have run."""
    hook_context = TurnEndContext(
        since=context.since,
        called=tuple(context.called),
        spared=frozenset(scope.pause.spared),
        held=scope.pause.held,
        **context.hook_input(scope.variables),
    )
    verdict = await pass_through(context.worker.hooks.operator(TURN_END, emit), hook_context)
    if context.journal.gate is not None:
        await context.journal.gate.idle()  # what they have emitted comes before the end
    return verdict, hook_context.hook, tuple(numbered(hook_context.reached))


async def _end(context: RunContext, scope: TurnScope, emit: Emit, reached: tuple[tuple[str, int], ...] = ()) -> None:
    """Stop the run, or pause it where that is requested, unless something came that the model has not read."""
    # The hooks may have taken a while, and messages may have been sent meanwhile.
    is_over = not await _delivers(context, scope, emit)
    pauses = context.pause_request
    if is_over and context.journal.state.background and (scope.finished_by or pauses.reason is None):
        await cancel_calls(context, emit)
        is_over = not await _delivers(context, scope, emit)
    emit(TurnStop())
    if not is_over:
        return
    if scope.finished_by or pauses.reason is None:
        emit(RunStop())
    else:
        pauses.take(emit, replace(NO_PAUSE, spared=reached))


async def _delivers(context: RunContext, scope: TurnScope, emit: Emit) -> bool:
    """Deliver the messages and the results that have come until now; whether there were any."""
    if context.journal.gate is not None:
        await context.journal.gate.idle()
    if context.commands is not None:
        await context.commands.read_now()
    is_joined = bool(context.background.arrived) and await join(context, scope, emit)
    mailbox = context.mailbox
    return (bool(mailbox.waiting) and mailbox.deliver(emit, at_end=not is_joined)) or is_joined


def _has_results(state: RunState, scope: TurnScope) -> bool:
    """Whether a stage of the application has added results of the calls of this turn.

    A truncated response has results too, but nothing has run.
    """
    last, stop = state.conversation.last, state.stop_reason
    if last is None or not last.tool_results or not (state.is_closed or scope.is_resumed):
        return False
    if not scope.is_resumed:
        # An empty answer adds no message: the last one has results of the turn before.
        answer = None if state.response is None else message_of(state.response, "")
        if answer is None or not answer.tool_calls:
            return False
    return stop is None or stop.runs_tools


def _complaint(context: RunContext, output: Output[object], reason: StopReason | None) -> str | None:
    """The error in the answer, if it must be a value. A refusal is accepted as an answer."""
    if reason is not None and reason.kind in REFUSALS:
        return None
    last = context.journal.state.conversation.last
    return output.complaint(last.text if last is not None else "")


def _send_back(context: RunContext, verdict: ContinueWithMessages, hook: str, emit: Emit) -> None:
    if not verdict.messages:
        text = f"hook {hook!r} answered ContinueWithMessages without messages"
        raise HookError(text, hook=hook, point=TURN_END.value)
    continuations = context.journal.state.continuations  # with this one, whose verdict is recorded
    check_limits(emit, context.worker.limits, max_continuations=continuations - 1)
    emit(MessageAdd(tuple(verdict.messages), hook))


STAGES: Mapping[StageName, TurnStage] = {
    "prepare": prepare,
    "respond": respond,
    "call_tools": call_tools,
    "decide": decide,
}
"""The usual stages of a turn, in order."""
