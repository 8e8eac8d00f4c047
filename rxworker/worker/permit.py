"""What the verdict of a hook makes of a call, and `permit`, the ``before_tool_call`` hooks as an operator on calls."""

from __future__ import annotations

import asyncio

import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import (
    ExecutionFailedError,
    HookError,
    InvalidArgumentError,
    LocalProtocolError,
    RunAbortedError,
)
from rxworker.events.arguments import decode_arguments
from rxworker.hooks import Abort, Continue, Finish, HookPoint, Hooks, Pause, Skip, ToolCallContext
from rxworker.hooks.points import REQUIRES_APPROVAL, Answer, Verdict
from rxworker.messages import Conversation, ToolCall, ToolResult
from rxworker.messages.settings import check_type
from rxworker.operators.kernel import Operator
from rxworker.tools import Tool, Toolbox
from rxworker.tools.base import policy_of
from rxworker.tools.results import clean, to_content, truncate
from rxworker.tools.run import run_call
from rxworker.worker.context import ignore

BEFORE = HookPoint.BEFORE_TOOL_CALL


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


def missing(toolbox: Toolbox, call: ToolCall) -> ToolResult:
    """The result of a call of an unknown tool."""
    return ToolResult(call.id, toolbox.missing(call.name), is_error=True, name=call.name)


def not_run(call: ToolCall, hook: str) -> ToolResult:
    """The result of a call that is not run, since a hook has finished the run."""
    text = f"This call was not run: {hook} has finished the run."
    return ToolResult(call.id, text, is_error=True, name=call.name)


def decoded(call: ToolCall, tool: Tool) -> ToolCall | None:
    """The call with the arguments that hooks and the tool receive.

    ``None`` if they cannot be decoded, so that it will not run.
    """
    try:
        given = decode_arguments(call.input, tool.meta)
    except InvalidArgumentError:
        return None
    # Those of a model are an object already, unless they cannot be decoded.
    return call if given is call.input else replace(call, input=given)


def permit(
    hooks: Hooks, toolbox: Toolbox, conversation: Conversation | None = None
) -> Operator[ToolCall, ToolCall | ToolResult]:
    """Run the ``before_tool_call`` hooks for each call, one by one.

    Emit the calls that may run, and for the others their results.

        --a--b--c--|
        [ permit(hooks, toolbox) ]
        -----------(a,r,c)|     r: the result of b, which a hook skipped or answered

    It emits when the hooks have run for all calls, so that none runs before a later one is refused. In front of
    `run_tools` it is what `call_tools` does: ``response.pipe(tool_calls(), permit(hooks, toolbox),
    run_tools(toolbox))``.

    Args:
        hooks: The hooks.
        toolbox: The tools. A call whose arguments cannot be decoded gets the error as its result, and no hook runs for
            it.
        conversation: The conversation that the hooks see. What they add to it, and their messages, are dropped.

    Raises:
        RunAbortedError: A hook aborts.
        LocalProtocolError: A hook pauses, or the tool requires approval: only a run of a `Worker` can wait for a
            decision.
        HookError: A hook failed.
        ConfigurationError: The matcher of a hook matches no tool, or an argument is of the wrong type.

    Example:
        >>> from rxworker import tool
        >>> from rxworker import before_tool_call
        >>> from rxworker.tools import run_tools
        >>> @tool
        ... async def delete(path: str) -> str:
        ...     return f"{path} is gone"
        >>> @before_tool_call
        ... def keep(context: ToolCallContext) -> Skip | None:
        ...     return Skip("It is needed.") if context.tool_args["path"] == "b" else None
        >>> async def main() -> None:
        ...     calls = reactivex.of(*(ToolCall(path, "delete", {"path": path}) for path in "abc"))
        ...     box = Toolbox([delete])
        ...     results = calls.pipe(permit(Hooks([keep]), box), run_tools(box))
        ...     await results.pipe(ops.do_action(lambda result: print(result.text)))
        >>> asyncio.run(main())
        a is gone
        It is needed.
        c is gone
    """
    check_type("hooks", hooks, Hooks, "permit(Hooks([my_hook]), toolbox)")
    check_type("toolbox", toolbox, Toolbox, "permit(hooks, Toolbox([get_weather]))")
    known = conversation or Conversation()

    async def ask(calls: list[ToolCall]) -> list[ToolCall | ToolResult]:
        hooks.check_matchers(toolbox.names)
        answers: list[ToolCall | ToolResult] = []
        invalid: list[int] = []
        for call in calls:
            tool = toolbox.get(call.name)
            ready = None if tool is None else decoded(call, tool)
            if tool is None:
                answers.append(missing(toolbox, call))
                continue
            if ready is None:
                invalid.append(len(answers))
                answers.append(call)
                continue
            context = ToolCallContext(call=ready, tool=tool, conversation=known, emit=ignore, toolbox=toolbox)
            verdict, hook = await hooks.run(BEFORE, context, ignore)
            if isinstance(verdict, Finish):
                left = [*answers, *calls[len(answers) :]]
                return [a if isinstance(a, ToolResult) else not_run(a, hook) for a in left]
            result = result_by(verdict, hook, ready, tool)
            if result is None and isinstance(verdict, Pause):
                raise LocalProtocolError(_WAITS.format(f"the hook {hook!r} pauses", call.name))
            requires = policy_of(tool).requires_approval
            if result is None and requires and not await context.allows(REQUIRES_APPROVAL):
                raise LocalProtocolError(_WAITS.format("its tool requires approval of", call.name))
            answers.append(result or context.call)
        for place in invalid:  # no hook has checked them, so that they do not leave as calls
            answers[place] = await run_call(toolbox, calls[place])
        return answers

    def begin(calls: list[ToolCall]) -> Observable[ToolCall | ToolResult]:
        asked = reactivex.from_future(asyncio.ensure_future(ask(calls)))
        return asked.pipe(ops.flat_map(reactivex.from_iterable))

    def apply(source: Observable[ToolCall]) -> Observable[ToolCall | ToolResult]:
        return source.pipe(ops.to_list(), ops.flat_map(begin))

    return apply


_WAITS = "{} the call of {}: only the run of a worker can wait for a decision"
