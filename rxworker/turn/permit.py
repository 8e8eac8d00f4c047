"""The hooks of tool calls as operators: `permit` before the calls, and `revise` after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from operator import attrgetter
from typing import Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from rxworker.errors import ExecutionFailedError, HookError, InvalidArgumentError, RunAbortedError
from rxworker.events import BackgroundStart, PausedCall, ToolOutput, ToolStart, ToolStop
from rxworker.events.arguments import copy_arguments, decode_arguments
from rxworker.events.pause import CLIENT_TOOL, UNTIL
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hooks import Abort, Finish, HookContext, HookPoint, Hooks, Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.hooks.operator import ContextOperator
from rxworker.hooks.points import REQUIRES_APPROVAL, Answer
from rxworker.hooks.registry import names_in, numbered
from rxworker.messages import Conversation, JsonObject, ToolCall, ToolResult
from rxworker.messages.settings import check_type
from rxworker.operators.kernel import Operator
from rxworker.tools import ClientTool, SharedState, Tool, Toolbox
from rxworker.tools.base import USUAL, policy_of
from rxworker.tools.calls import CallItem, FinishedCall, FinishedCalls, PendingCall, not_run
from rxworker.tools.coroutines import Following, Rest, following, pass_through
from rxworker.tools.results import clean, to_content, truncate
from rxworker.tools.run import CallScope, Limiter, RunningCall, RunningCalls, run_at, run_call
from rxworker.turn.context import HookInput, ignore
from rxworker.turn.result import signature_of

A = TypeVar("A")
C = TypeVar("C", PausedCall, FinishedCall)

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


class _WithHooks(Following[A, CallItem], Generic[A, C]):
    """The hooks for the calls of one subscription."""

    _finished_by = ""  # the name of the hook that has finished the run

    def __init__(self, hooks: Hooks, toolbox: Toolbox, scope: HookScope, emit: Emit, fail: Fail) -> None:
        super().__init__(emit, fail)
        self._hooks = hooks
        self._toolbox = toolbox
        self._scope = scope
        self._taken: list[C] = []
        self._apart: set[int] = set()  # the places of calls for which no hook runs
        self._held: set[int] = set()  # those of calls whose ends have no result

    def _finish(self, hook: str, point: HookPoint) -> None:
        self._finished_by = hook
        self._emit(FinishedCalls(hook, point.value))

    async def _revise(self, done: FinishedCall, ask: ContextOperator[HookContext]) -> None:
        """Emit the call with its result after the hooks, and the result, unless the end of the call already had it."""
        result, call, several = done.result, done.paused.call, self._hooks.orders[AFTER]
        left, hook, is_finished = result, "", False
        tool = self._toolbox.get(call.name) or done.tool
        is_held = done.place in self._held or any(hook.matches(result.name) for hook in several)
        if tool is not None and several:
            context = ToolResultContext(
                # With arguments of its own, which a hook may change in place: the watchers hold the others.
                call=replace(call, input=copy_arguments(call.input)),
                result=result,
                tool=tool,
                **self._scope.input_of(self._toolbox),
            )
            answer = await pass_through(ask, context)
            if isinstance(answer, Abort):
                raise RunAbortedError(answer.reason, hook=context.hook)
            is_finished = isinstance(answer, Finish)
            hook, changed = context.hook, context.result
            left = replace(changed, content=clean(changed.content), name=call.name)
        if left != result or is_held:
            self._emit(ToolOutput(left, done.place))
        if is_finished:
            self._finish(hook, AFTER)
        self._emit(replace(done, result=left, is_final=True))


class _Permit(_WithHooks[ToolCall | CallItem, PausedCall]):
    """The ``before_tool_call`` hooks for the calls of one subscription."""

    _next = 0  # the place of a bare call

    def take(self, item: ToolCall | CallItem) -> None:
        """Collect a call; pass everything else on."""
        if type(item) is ToolCall:
            item = PausedCall(self._next, item)
        if type(item) is not PausedCall:
            if type(item) is FinishedCall or type(item) is PendingCall:
                self._next = max(self._next, item.paused.place + 1)
            self._emit(item)
            return
        self._next = max(self._next, item.place + 1)
        self._taken.append(item)

    def finish(self) -> Rest | None:
        """Run the hooks, if there are any for these calls."""
        hooks, toolbox = self._hooks, self._toolbox
        if self._scope.hook_input is None:
            hooks.check_matchers(toolbox.names)  # a run has checked them
        if hooks.orders[BEFORE]:
            return self._ask()
        for each in self._taken:
            tool = toolbox.get(each.call.name)
            if tool is None or isinstance(each.call.input, str):
                return self._ask()
            if getattr(tool, "policy", USUAL) is not USUAL and policy_of(tool).requires_approval:
                return self._ask()
        self._end(self._taken)
        return None

    def _decoded(self, each: PausedCall) -> PausedCall:
        """A call with its arguments decoded; one that cannot be made is noted."""
        call, tool = each.call, self._toolbox.get(each.call.name)
        try:
            given = None if tool is None else decode_arguments(call.input, tool.meta)
        except InvalidArgumentError:
            given = None
        if given is None:
            self._apart.add(each.place)
        elif given is not call.input:  # those of a model are an object already
            return replace(each, call=replace(call, input=given))
        return each

    def _end(self, items: Iterable[CallItem]) -> None:
        for item in items:
            if isinstance(item, PausedCall) and isinstance(self._toolbox.get(item.call.name), ClientTool):
                item = _spared(self._hooks, PendingCall(item, CLIENT_TOOL))
            self._emit(item)

    async def _ask(self) -> None:
        """Emit at once the results that are known, and at the end what is found for the other calls."""
        toolbox, scope, calls = self._toolbox, self._scope, [*map(self._decoded, self._taken)]
        allowed: list[PausedCall] = []
        ask = self._hooks.operator(BEFORE, self._emit) if self._hooks.orders[BEFORE] else None
        for number, each in enumerate(calls):
            tool = toolbox.get(each.call.name)
            if tool is None and scope.early is not None and scope.early.has_begun(each):
                allowed.append(each)  # its tool was removed while it ran
                continue
            if tool is None or each.place in self._apart:
                # Its start has a context of its own, as that of any call: an observer may set the current span.
                emit = partial(copy_context().run, self._emit)
                if tool is None:
                    _miss(toolbox, each, emit)
                else:
                    emit(await run_at(Limiter(1), toolbox, RunningCall(each, scope, emit), own_task=False))
                continue
            item = await self._find(each, tool, ask)
            rest = calls[number + 1 :]
            if isinstance(item, PendingCall):
                wait = partial(PendingCall, hook=item.hook, reason=item.reason)
                agreed = [_spared(self._hooks, wait(one)) for one in allowed]
                # No hook has seen the others.
                self._end(
                    [
                        *agreed,
                        item,
                        *[wait(PausedCall(one.place, one.call, begun=one.begun, held=one.held)) for one in rest],
                    ]
                )
                return
            if item is not None:
                allowed.append(item)
            if self._finished_by:
                self._end(refused([*allowed, *rest], self._finished_by, scope.early))
                return
        self._end(allowed)

    async def _find(
        self, each: PausedCall, tool: Tool, ask: ContextOperator[HookContext] | None
    ) -> PausedCall | PendingCall | None:
        """What is found for one call by the hooks, if there are any; ``None`` if its result is known, and emitted."""
        call, place, hooks, scope = each.call, each.place, self._hooks, self._scope
        needs_approval, why = policy_of(tool).requires_approval, f"{call.name} requires approval"
        granted = None if scope.allows is None else partial(scope.allows, call.name)
        if ask is None:
            if not needs_approval or each.is_approved or (granted is not None and await granted(REQUIRES_APPROVAL)):
                return each
            return PendingCall(PausedCall(place, call, begun=each.begun), REQUIRES_APPROVAL, why, is_required=True)
        spared = frozenset(each.spared)
        given = scope.input_of(self._toolbox)
        context = ToolCallContext(call=call, tool=tool, spared=spared, granted=granted, held=each.held, **given)
        answer = await pass_through(ask, context)
        hook, allowed = context.hook, replace(each, call=context.call)
        match answer:
            case Skip(reason=reason):
                result = ToolResult(call.id, clean(reason), is_error=True, name=call.name)
                self._emit(FinishedCall(each, result, is_final=True))
                self._emit(ToolStop(result, place=place))
                return None
            case Answer():
                result = _answered(call, tool, answer, hook)
                self._emit(shown(hooks, ToolStop(result, place=place), scope.hold))
                await self._revise(FinishedCall(allowed, result, tool), hooks.operator(AFTER, self._emit))
                return None
            case Abort(reason=reason):
                raise RunAbortedError(reason, hook=hook)
            case Finish():
                self._finish(hook, BEFORE)
                return each
            case Pause(reason=reason, begun=begun) if begun is not None:  # the hook itself runs again
                agreed = tuple(numbered(context.reached))[:-1]
                paused = PausedCall(place, context.call, agreed, each.is_approved, each.begun, begun)
                return PendingCall(paused, UNTIL, reason)
            case Pause(reason=reason):
                pass
            case HookContext():
                if (
                    not needs_approval
                    # A person has approved exactly these arguments.
                    or (each.is_approved and signature_of(allowed.call) == signature_of(call))
                    or await context.allows(REQUIRES_APPROVAL)
                ):
                    return allowed
                hook, reason = REQUIRES_APPROVAL, why
            case _:  # what is not understood lets no call run
                text = f"hook {hook!r} answered {answer!r:.80}, which is not a verdict about a call"
                raise HookError(text, hook=hook, point=BEFORE.value, kind="verdict")
        reached = tuple(numbered(context.reached))
        return PendingCall(PausedCall(place, context.call, reached, begun=each.begun), hook, reason, is_required=True)


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
    spared = tuple(numbered(names_in(hooks.orders[BEFORE])))
    return replace(each, paused=replace(each.paused, spared=spared, is_approved=True))


def _miss(toolbox: Toolbox, each: PausedCall, emit: Emit) -> None:
    """A call of an unknown tool. It is not run, even if the tool is added later: no hook has run for it."""
    call, place = each.call, each.place
    result = ToolResult(call.id, toolbox.missing(call.name), is_error=True, name=call.name)
    emit(FinishedCall(each, result, is_final=True))
    emit(ToolStart(call, place))
    emit(ToolStop(result, place=place, is_error=True))


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


class _Revise(_WithHooks[CallItem, FinishedCall]):
    """The ``after_tool_call`` hooks for the results of one subscription."""

    def take(self, item: CallItem) -> None:
        """Collect a result that hooks may change, and take it out of the end of its call; pass everything else on."""
        if type(item) is FinishedCall:
            if not item.is_final:
                self._taken.append(item)
                return
            self._apart.add(item.paused.place)
        elif type(item) is ToolStop:
            if self._hooks.orders[AFTER] and item.place not in self._apart:
                event = shown(self._hooks, item, self._scope.hold)
                if event is not item:
                    self._held.add(event.place)
                item = event
        elif type(item) is BackgroundStart:
            self._apart.add(item.background.place)  # the hooks run for the result, which comes later
        elif type(item) is PendingCall and item.has_begun:
            item = _spared(self._hooks, item)  # the hooks have agreed to it before it began
        self._emit(item)

    def finish(self) -> Rest | None:
        """Run the hooks, if there are any for these results."""
        if self._taken:
            self._taken.sort(key=attrgetter("paused.place"))
            self._held.update(self._scope.held())
            if self._hooks.orders[AFTER] or self._held:
                return self._revise_all()
        for each in self._taken:
            self._emit(each)
        return None

    async def _revise_all(self) -> None:
        ask = self._hooks.operator(AFTER, self._emit)
        for each in self._taken:
            await self._revise(each, ask)


def shown(hooks: Hooks, event: ToolStop, hold: Callable[[int, ToolResult], None] | None) -> ToolStop:
    """The end of a call, without its result if ``after_tool_call`` hooks may change it: nothing may show it before.

    Args:
        hooks: The hooks.
        event: The end.
        hold: Stores the result until then.
    """
    several, result = hooks.orders[AFTER], event.result
    # No hook runs for a call that was discarded.
    if not several or result is None or result.content == DISCARDED_EARLY:
        return event
    if not any(hook.matches(result.name) for hook in several):
        return event
    if hold is not None:
        hold(event.place, result)
    return replace(event, result=None)
