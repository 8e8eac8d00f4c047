"""The hooks of tool calls as operators: `permit` before the calls, and `revise` after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from rxworker.errors import ExecutionFailedError, HookError, InvalidArgumentError, RunAbortedError
from rxworker.events import PausedCall, ToolOutput, ToolStart, ToolStop
from rxworker.events.arguments import copy_arguments, decode_arguments
from rxworker.events.pause import CLIENT_TOOL
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hooks import (
    Abort,
    Continue,
    Finish,
    HookPoint,
    Hooks,
    Pause,
    Skip,
    ToolCallContext,
    ToolResultContext,
)
from rxworker.hooks.points import REQUIRES_APPROVAL, Answer, Verdict
from rxworker.hooks.runner import names_in, numbered
from rxworker.messages import Conversation, JsonObject, ToolCall, ToolResult
from rxworker.messages.settings import check_type
from rxworker.operators.kernel import Operator
from rxworker.tools import ClientTool, SharedState, Tool, Toolbox
from rxworker.tools.base import policy_of
from rxworker.tools.calls import CallItem, FinishedCall, FinishedCalls, PendingCall, not_run
from rxworker.tools.coroutines import Following, Rest, following
from rxworker.tools.invocation import CallScope, RunningCall
from rxworker.tools.results import clean, to_content, truncate
from rxworker.tools.run import Limiter, RunningCalls, run_at, run_call
from rxworker.turn.context import HookInput, ignore
from rxworker.turn.result import signature_of

# Constants, since a member of an enumeration is slow to look up.
BEFORE, AFTER = HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL

Emit: TypeAlias = Callable[[CallItem], None]
Fail: TypeAlias = Callable[[Exception], None]


class HookScope(CallScope, frozen=True):
    """What the calls of a response share with each other, and with the hooks that run for them.

    Attributes:
        conversation: The conversation that the hooks see where there is no run. What they add to it is dropped.
        hook_input: What each hook of a run receives.
        allows: Whether calls of a tool are always allowed for which a hook pauses; both by their names.
        early: The calls that have begun before the hooks of the others run.
        hold: Stores the result of the call of a place, which hooks may change before anything shows it.
        held: The places of the calls that have ended without their results being shown.
    """

    conversation: Conversation = Conversation()
    hook_input: Callable[[], HookInput] | None = None
    allows: Callable[[str, str], Awaitable[bool]] | None = None
    early: RunningCalls | None = None
    hold: Callable[[int, ToolResult], None] | None = None
    held: Callable[[], Collection[int]] = frozenset

    def input_of(self, toolbox: Toolbox) -> HookInput:
        """What a hook receives now."""
        if self.hook_input is not None:
            return self.hook_input()

        async def call_tool(name: str, args: JsonObject) -> ToolResult:
            return await run_call(toolbox, ToolCall("hook", name, args), self)

        return HookInput(
            conversation=self.conversation,
            emit=ignore,
            variables={} if self.variables is None else self.variables,
            run_id="",
            turn=0,
            workspace=Path(),
            toolbox=toolbox,
            call_tool=call_tool,
            shared=SharedState() if self.shared is None else self.shared,
        )


ALONE = HookScope()


def call_scope(
    variables: dict[str, object] | None = None,
    *,
    conversation: Conversation | None = None,
    shared: SharedState | None = None,
    key: str = "",
) -> HookScope:
    """What the calls of a stream share outside of a run, for `permit`, `run_tools` and `revise`.

    Args:
        variables: Values that the hooks and the tools share; by default a new dict.
        conversation: The conversation that the hooks see. What they add to it is dropped.
        shared: The state that they share with user interfaces.
        key: The prefix of idempotency keys.

    >>> call_scope({"user": "Ada"}).variables
    {'user': 'Ada'}
    """
    given = {} if variables is None else variables
    return HookScope(key, given, shared or SharedState(), conversation=conversation or Conversation())


def permit(hooks: Hooks, toolbox: Toolbox, scope: HookScope = ALONE) -> Operator[ToolCall | CallItem, CallItem]:
    """Run the ``before_tool_call`` hooks for each call, one by one.

    Emit for each call that it may run, that its result is known, or that it waits.

        --a--b--c--|
        [ permit(hooks, toolbox) ]
        -----r-----(a,c)|     r: the result of b, which a hook skipped or answered

    A call that may run is a `PausedCall` with its place. Those are emitted when the hooks have run for all calls, so
    that none runs before a later one is refused. A call with a result is a `FinishedCall`. If a hook pauses, or a tool
    requires approval, none of the calls may run: each that has no result is a `PendingCall`. The ``after_tool_call``
    hooks run for an `Answer` before the hooks of the next call. A call of a client's tool waits for the client.

    Args:
        hooks: The hooks.
        toolbox: The tools. A call that cannot be made, since its arguments cannot be decoded or its tool is not known,
            gets the error as its result, and no hook runs for it before.
        scope: What the calls share. Give `run_tools` and `revise` the same.

    Raises:
        RunAbortedError: A hook aborts.
        HookError: A hook failed.
        ConfigurationError: The matcher of a hook matches no tool, or an argument is of the wrong type.

    Example:
        >>> import asyncio, reactivex
        >>> from reactivex import operators as ops
        >>> from rxworker import before_tool_call, tool
        >>> from rxworker.operators import only
        >>> from rxworker.tools import run_tools
        >>> @tool
        ... async def delete(path: str) -> str:
        ...     return f"{path} is gone"
        >>> @before_tool_call
        ... def keep(context: ToolCallContext) -> Skip | None:
        ...     return Skip("It is needed.") if context.tool_args["path"] == "b" else None
        >>> async def main() -> None:
        ...     calls = reactivex.of(*(ToolCall(path, "delete", {"path": path}) for path in "abc"))
        ...     hooks, box = Hooks([keep]), Toolbox([delete])
        ...     results = calls.pipe(permit(hooks, box), run_tools(box), revise(hooks, box), only(FinishedCall))
        ...     await results.pipe(ops.do_action(lambda done: print(done.result.text)))
        >>> asyncio.run(main())
        It is needed.
        a is gone
        c is gone
    """
    check_type("hooks", hooks, Hooks, "permit(Hooks([my_hook]), toolbox)")
    check_type("toolbox", toolbox, Toolbox, "permit(hooks, Toolbox([get_weather]))")

    return following(partial(_Permit, hooks, toolbox, scope))


class _Permit(Following[ToolCall | CallItem, CallItem]):
    """The ``before_tool_call`` hooks for the calls of one subscription."""

    def __init__(self, hooks: Hooks, toolbox: Toolbox, scope: HookScope, emit: Emit, fail: Fail) -> None:
        super().__init__(emit, fail)
        self._hooks = hooks
        self._toolbox = toolbox
        self._scope = scope
        self._calls: list[PausedCall] = []
        self._invalid: set[int] = set()

    def take(self, item: ToolCall | CallItem) -> None:
        """Collect a call, with its arguments decoded; pass everything else on."""
        if isinstance(item, ToolCall):
            item = PausedCall(len(self._calls), item)
        if not isinstance(item, PausedCall):
            self._emit(item)
            return
        ready = decoded(item, self._toolbox)
        if ready is None:
            self._invalid.add(item.place)
        self._calls.append(ready or item)

    def finish(self) -> Rest | None:
        """Run the hooks, if there are any for these calls."""
        hooks, toolbox, calls = self._hooks, self._toolbox, self._calls
        if self._scope.hook_input is None:
            hooks.check_matchers(toolbox.names)  # a run has checked them
        if hooks.at(BEFORE) or self._invalid or toolbox.wants_approval([each.call for each in calls]):
            return self._ask()
        self._end(calls)
        return None

    def _end(self, items: Iterable[CallItem]) -> None:
        for item in items:
            if isinstance(item, PausedCall) and isinstance(self._toolbox.get(item.call.name), ClientTool):
                item = _spared(self._hooks, PendingCall(item, CLIENT_TOOL))
            self._emit(item)

    async def _ask(self) -> None:
        """Emit at once the results that are known, and at the end what is found for the other calls."""
        hooks, toolbox, scope, calls = self._hooks, self._toolbox, self._scope, self._calls
        allowed: list[PausedCall] = []
        for number, each in enumerate(calls):
            tool = toolbox.get(each.call.name)
            if tool is None and scope.early is not None and scope.early.has_begun(each):
                allowed.append(each)  # its tool was removed while it ran
                continue
            if tool is None or each.place in self._invalid:
                # Its start has a context of its own, as that of any call: an observer may set the current span.
                emit = partial(copy_context().run, self._emit)
                if tool is None:
                    _miss(toolbox, each, emit)
                else:
                    emit(await run_at(Limiter(1), toolbox, RunningCall(each, scope, emit), own_task=False))
                continue
            item, finished = await _find(hooks, toolbox, scope, each, tool, self._emit)
            rest = calls[number + 1 :]
            if isinstance(item, PendingCall):
                wait = partial(PendingCall, hook=item.hook, reason=item.reason)
                agreed = [_spared(hooks, wait(one)) for one in allowed]
                # No hook has seen the others.
                self._end([*agreed, item, *[wait(PausedCall(one.place, one.call, begun=one.begun)) for one in rest]])
                return
            if isinstance(item, PausedCall):
                allowed.append(item)
            if finished is not None:
                self._end([finished, *refused([*allowed, *rest], finished.hook, scope.early)])
                return
        self._end(allowed)


def decoded(each: PausedCall, toolbox: Toolbox) -> PausedCall | None:
    """The call with the arguments that hooks and the tool receive.

    ``None`` if it cannot be made: its arguments cannot be decoded, or there is no such tool.
    """
    call, tool = each.call, toolbox.get(each.call.name)
    if tool is None:
        return None
    try:
        given = decode_arguments(call.input, tool.meta)
    except InvalidArgumentError:
        return None
    # Those of a model are an object already.
    return each if given is call.input else replace(each, call=replace(call, input=given))


def refused(calls: Sequence[PausedCall], hook: str, early: RunningCalls | None) -> list[CallItem]:
    """The calls after a hook has finished the run: those that have not begun are not run."""
    items: list[CallItem] = []
    for each in calls:
        if early is not None and early.has_begun(each):
            items.append(each)
        else:
            none = not_run(each, hook)
            items += [none, ToolStop(none.result, place=each.place)]
    return items


def _spared(hooks: Hooks, each: PendingCall) -> PendingCall:
    """A call that the hooks have agreed to, and which waits: none of them runs for it again."""
    spared = tuple(numbered(names_in(hooks.at(BEFORE))))
    return replace(each, paused=replace(each.paused, spared=spared, is_approved=True))


def _miss(toolbox: Toolbox, each: PausedCall, emit: Emit) -> None:
    """A call of an unknown tool. It is not run, even if the tool is added later: no hook has run for it."""
    call, place = each.call, each.place
    result = ToolResult(call.id, toolbox.missing(call.name), is_error=True, name=call.name)
    emit(FinishedCall(each, result, is_final=True))
    emit(ToolStart(call, place))
    emit(ToolStop(result, place=place, is_error=True))


async def _find(
    hooks: Hooks,
    toolbox: Toolbox,
    scope: HookScope,
    each: PausedCall,
    tool: Tool,
    emit: Emit,
) -> tuple[PausedCall | FinishedCall | PendingCall, FinishedCalls | None]:
    """What the hooks find for one call, and whether one has finished the run."""
    call, place = each.call, each.place
    context = ToolCallContext(
        call=call,
        tool=tool,
        spared=frozenset(each.spared),
        granted=None if scope.allows is None else partial(scope.allows, call.name),
        **scope.input_of(toolbox),
    )
    verdict, hook = await hooks.run(BEFORE, context, emit)
    allowed = replace(each, call=context.call)
    result = result_by(verdict, hook, call, tool)
    if isinstance(verdict, Skip) and result is not None:
        skipped = FinishedCall(each, result, is_final=True)
        emit(skipped)
        emit(ToolStop(result, place=place))
        return skipped, None
    if result is not None:
        emit(shown(hooks, ToolStop(result, place=place), scope.hold))
        revised, finished = await _revised(hooks, toolbox, scope, FinishedCall(allowed, result, tool), emit)
        emit(revised)
        return revised, finished
    if isinstance(verdict, Finish):
        return each, FinishedCalls(hook, BEFORE.value)
    if isinstance(verdict, Pause):
        reason = verdict.reason
    elif (
        policy_of(tool).requires_approval
        # A person has approved exactly these arguments.
        and not (each.is_approved and (allowed.call is call or signature_of(allowed.call) == signature_of(call)))
        and not await context.allows(REQUIRES_APPROVAL)
    ):
        hook, reason = REQUIRES_APPROVAL, f"{call.name} requires approval"
    else:
        return allowed, None
    reached = tuple(numbered(names_in(hooks.at(BEFORE))))[: len(context.reached)]
    waiting = PausedCall(place, context.call, reached, begun=each.begun)
    return PendingCall(waiting, hook, reason, is_required=True), None


def result_by(verdict: Verdict, hook: str, call: ToolCall, tool: Tool) -> ToolResult | None:
    """The result that a verdict gives a call in place of its tool, if any.

    Raises:
        RunAbortedError: It is `Abort`.
        HookError: It is an `Answer` that has no JSON form, or it is not a verdict about a call: what is not understood
            lets no call run.
    """
    match verdict:
        case Skip(reason=reason):
            return ToolResult(call.id, clean(reason), is_error=True, name=call.name)
        case Answer():
            return _answered(call, tool, verdict, hook)
        case Abort(reason=reason):
            raise RunAbortedError(reason, hook=hook)
        case Continue() | Pause() | Finish():
            return None
        case _:
            text = f"hook {hook!r} answered {verdict!r:.80}, which is not a verdict about a call"
            raise HookError(text, hook=hook, point=BEFORE.value, kind="verdict")


def _answered(call: ToolCall, tool: Tool, answer: Answer, hook: str) -> ToolResult:
    """The result that a hook has given a call, as if the tool had returned it."""
    try:
        content = to_content(answer.content, call.name)
    except ExecutionFailedError as error:
        text = f"hook {hook!r} answered a {type(answer.content).__name__}, which has no JSON form"
        raise HookError(text, hook=hook, point=BEFORE.value, kind="verdict") from error
    content = clean(truncate(content, policy_of(tool).max_output))
    return ToolResult(call.id, content, answer.is_error, call.name)


def revise(hooks: Hooks, toolbox: Toolbox, scope: HookScope = ALONE) -> Operator[CallItem, CallItem]:
    """Run the ``after_tool_call`` hooks for each result, one by one, when all calls have ended.

        --e---e-(a,b)-|           e ToolStop; a and b the calls with their results
        [ revise(hooks, toolbox) ]
        --e---e-------(o,a,b)|    o ToolOutput: the result of a, which a hook has changed

    A result that hooks may change is shown only after they have run: the `ToolStop` of its call has no result, and a
    `ToolOutput` follows. Calls that wait, and results that no hook may change any more, pass at once.

    Args:
        hooks: The hooks.
        toolbox: The tools.
        scope: What the calls share; the same as that of `permit`.

    Raises:
        RunAbortedError: A hook aborts.
        HookError: A hook failed.
        ConfigurationError: An argument is of the wrong type.

    Example:
        >>> import asyncio, reactivex
        >>> from rxworker import after_tool_call, tool
        >>> from rxworker.operators import only
        >>> from rxworker.tools import run_tools
        >>> @tool
        ... async def key() -> str:
        ...     return "secret"
        >>> @after_tool_call
        ... def mask(context: ToolResultContext) -> None:
        ...     context.set_content("***")
        >>> async def main() -> str:
        ...     hooks, box = Hooks([mask]), Toolbox([key])
        ...     calls = reactivex.just(ToolCall("1", "key", {}))
        ...     done = await calls.pipe(permit(hooks, box), run_tools(box), revise(hooks, box), only(FinishedCall))
        ...     return done.result.text
        >>> asyncio.run(main())
        '***'
    """
    check_type("hooks", hooks, Hooks, "revise(Hooks([my_hook]), toolbox)")
    check_type("toolbox", toolbox, Toolbox, "revise(hooks, Toolbox([get_weather]))")

    return following(partial(_Revise, hooks, toolbox, scope))


class _Revise(Following[CallItem, CallItem]):
    """The ``after_tool_call`` hooks for the results of one subscription."""

    def __init__(self, hooks: Hooks, toolbox: Toolbox, scope: HookScope, emit: Emit, fail: Fail) -> None:
        super().__init__(emit, fail)
        self._hooks = hooks
        self._toolbox = toolbox
        self._scope = scope
        self._done: list[FinishedCall] = []
        self._held: set[int] = set()
        self._final: set[int] = set()

    def take(self, item: CallItem) -> None:
        """Collect a result that hooks may change, and take it out of the end of its call; pass everything else on."""
        if isinstance(item, FinishedCall) and not item.is_final:
            self._done.append(item)
            return
        if isinstance(item, FinishedCall):
            self._final.add(item.paused.place)
        elif isinstance(item, ToolStop) and item.place not in self._final:
            event = shown(self._hooks, item, self._scope.hold)
            if event is not item:
                self._held.add(event.place)
            item = event
        elif isinstance(item, PendingCall) and item.has_begun:
            item = _spared(self._hooks, item)  # the hooks have agreed to it before the question
        self._emit(item)

    def finish(self) -> Rest | None:
        """Run the hooks, if there are any for these results."""
        if self._done:
            self._done.sort(key=attrgetter("paused.place"))
            self._held.update(self._scope.held())
            if self._hooks.at(AFTER) or self._held:
                return self._revise()
        for each in self._done:
            self._emit(each)
        return None

    async def _revise(self) -> None:
        for each in self._done:
            item, finished = await _revised(self._hooks, self._toolbox, self._scope, each, self._emit, self._held)
            if finished is not None:
                self._emit(finished)
            self._emit(item)


def shown(hooks: Hooks, event: ToolStop, hold: Callable[[int, ToolResult], None] | None) -> ToolStop:
    """The end of a call, without its result if ``after_tool_call`` hooks may change it: nothing may show it before.

    Args:
        hooks: The hooks.
        event: The end.
        hold: Stores the result until then.
    """
    several, result = hooks.at(AFTER), event.result
    # No hook runs for a call that was discarded.
    if not several or result is None or result.content == DISCARDED_EARLY:
        return event
    if not any(hook.matches(result.name) for hook in several):
        return event
    if hold is not None:
        hold(event.place, result)
    return replace(event, result=None)


async def _revised(
    hooks: Hooks,
    toolbox: Toolbox,
    scope: HookScope,
    done: FinishedCall,
    emit: Emit,
    held: Collection[int] = (),
) -> tuple[FinishedCall, FinishedCalls | None]:
    """The call with its result after the hooks, and whether one has finished the run.

    The result is emitted unless the end of the call already had it.
    """
    result, call, several = done.result, done.paused.call, hooks.at(AFTER)
    left, finished = result, None
    tool = toolbox.get(call.name) or done.tool
    is_held = done.place in held or any(hook.matches(result.name) for hook in several)
    if tool is not None and several:
        context = ToolResultContext(
            # With arguments of its own, which a hook may change in place: the watchers hold the others.
            call=replace(call, input=copy_arguments(call.input)),
            result=result,
            tool=tool,
            **scope.input_of(toolbox),
        )
        verdict, hook = await hooks.run(AFTER, context, emit)
        if isinstance(verdict, Abort):
            raise RunAbortedError(verdict.reason, hook=hook)
        if isinstance(verdict, Finish):
            finished = FinishedCalls(hook, AFTER.value)
        changed = context.result
        left = replace(changed, content=clean(changed.content), name=call.name)
    if left != result or is_held:
        emit(ToolOutput(left, done.place))
    return replace(done, result=left, is_final=True), finished
