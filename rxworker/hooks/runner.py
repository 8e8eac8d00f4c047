"""Runs hooks one after the other with their time-outs, and handles their failures.

A hook fails when it raises, when it takes longer than its time-out, and when something that it waits for was cancelled.
What that means is in its ``on_failure``. `SystemExit` and the like are failures too; `KeyboardInterrupt` goes through.
A verdict that its point does not have is not a failure of the moment: it is a mistake in the program, and ends the run
regardless of ``on_failure``.

The run itself being cancelled is none of these: it goes through, also where a hook has caught it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from copy import copy
from typing import TypeAlias, cast

from rxworker.errors import HookError, describe, message_of
from rxworker.events import HookVerdict, LoopHold
from rxworker.hooks.base import AnyHook
from rxworker.hooks.context import HookContext
from rxworker.hooks.contexts import CallContext, ToolCallContext, ToolResultContext, odd_message
from rxworker.hooks.points import (
    VERDICTS,
    Abort,
    Answer,
    Cancel,
    Continue,
    ContinueWithMessages,
    EndRun,
    Finish,
    HookPoint,
    Pause,
    Skip,
    Verdict,
    wrong_verdict,
)
from rxworker.messages import Message, ToolResult
from rxworker.tools.cancellation import TooLateError, is_destroyed, within
from rxworker.watchdog import watched

Report: TypeAlias = Callable[[HookVerdict], None]

ALLOWED = "this tool is always allowed here"
"""The reason of the verdict of a hook whose `Pause` is not wanted."""

INSTEAD = {
    "'ToolResult'": "use context.set_content(text), or assign context.result",
    "'ToolCall'": "change or assign context.input",
    "'Message'": "put another message in its place: msgspec.structs.replace(message, ...)",
    "'Conversation'": "use context.add_message(message) or context.rewrite_conversation(change)",
}
"""What a hook does in place of changing a value that is immutable, by the end of the error."""

GRACE = 2.0
"""Seconds in which a hook may clean up after its time-out, before it is abandoned."""


async def run_hooks(hooks: Sequence[AnyHook], context: HookContext, report: Report, within: str = "") -> Verdict | None:
    """Call hooks one after the other, until one returns a verdict other than `Continue`.

    Args:
        hooks: In the order in which they run.
        context: The context that each hook receives, with the changes of the hooks before it.
        report: Receives every verdict other than `Continue`, and every failure.
        within: The names of the chains around them, each with a slash.

    Returns:
        The verdict, given by the hook whose name is ``context.hook``; ``None`` if all returned `Continue`.

    Raises:
        HookError: A hook failed whose failure ends the run, or returned a verdict that its point does not accept.
        EndRun: A hook ends the run.
    """
    for hook in hooks:
        name, before = f"{within}{hook.name}", len(context.reached)
        is_spared = False
        if not hook.chained:
            is_spared = (name, context.reached.count(name)) in context.spared
            context.reached.append(name)
        if not is_spared and hook.concerns(context):
            answer = await _run(hook, context, report, name)
            if answer is not None:
                return answer
        # All hooks of a chain, including those that it did not reach.
        context.reached[before:] = names_in((hook,), within)
    return None


def names_in(hooks: Iterable[AnyHook], within: str = "") -> list[str]:
    """The names of hooks in the order in which they run, those in chains as ``chain/hook``."""
    names: list[str] = []
    for hook in hooks:
        name = f"{within}{hook.name}"
        names += names_in(hook.chained, f"{name}/") if hook.chained else [name]
    return names


def numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """Each name with the number of equal names before it, which distinguishes hooks of one name.

    >>> numbered(["permit", "log", "permit"])
    [('permit', 0), ('log', 0), ('permit', 1)]
    """
    counts: Counter[str] = Counter()
    pairs: list[tuple[str, int]] = []
    for name in names:
        pairs.append((name, counts[name]))
        counts[name] += 1
    return pairs


async def _run(hook: AnyHook, context: HookContext, report: Report, name: str) -> Verdict | None:
    """Run one hook, and handle its failure as its ``on_failure`` requires."""
    context.enter(name)
    context.prepare()
    undo = None if hook.on_failure == "abort" else context.checkpoint()
    give_back = None if hook.chained else context.lend()
    try:
        try:
            verdict = await _in_time(hook, context, report, name)
        finally:
            if give_back is not None:
                give_back()
        context.check()
        context.note(name)
    except EndRun as error:
        if hook.point is HookPoint.ON_ABORT:
            return _failed(hook, context, report, name, _raised(hook, name, error))
        if not error.hook:
            error.hook = name
            report(_event(hook, name, context, "Abort", error.reason))
        raise
    except HookError as error:
        if error.kind == "verdict" and hook.point is not HookPoint.ON_ABORT:
            raise
        if undo is not None:
            undo()
            context.prepare()
        return _failed(hook, context, report, name, error)
    if verdict is not None and not hook.chained:
        is_call = isinstance(context, ToolCallContext)
        if is_call and isinstance(verdict, Pause) and await context.allows(name):
            report(_event(hook, name, context, "Continue", ALLOWED))
            return None
        reason: str = getattr(verdict, "reason", "")
        report(_event(hook, name, context, type(verdict).__name__, reason))
        if isinstance(context, ToolResultContext) and isinstance(verdict, Finish):
            context.finish(name)
            return None
    return verdict


async def _in_time(hook: AnyHook, context: HookContext, report: Report, name: str) -> Verdict | None:
    """The hook's answer, if it comes in time. What it raises becomes a `HookError`."""
    task = asyncio.current_task()
    cancels = task.cancelling() if task is not None else 0

    def is_cancelled() -> bool:
        return task is not None and task.cancelling() > cancels

    # A hook that is abandoned, and still runs, writes into a context of its own.
    own = context if hook.timeout is None else copy(context)
    call = _answer(hook, own, report, name)
    try:
        if hook.timeout is not None:
            call = within(_kept(call), hook.timeout, grace=GRACE)
        answer = await call
        if isinstance(answer, BaseException):
            raise answer
    except asyncio.CancelledError as error:
        # The run's own cancellation goes through. Something else that was cancelled is a failure.
        if is_cancelled():
            raise
        raise _error(hook, name, "something that it waited for was cancelled") from error
    except (HookError, EndRun):
        raise
    except TooLateError as error:
        raise _error(hook, name, f"it took longer than {hook.timeout:g} s") from error
    except Exception as error:
        raise _raised(hook, name, error) from error
    finally:
        if own is not context:
            context.__dict__.update(own.__dict__, reached=[*own.reached])
    # A hook that catches its cancellation does not keep the run.
    if is_cancelled():
        raise asyncio.CancelledError
    return answer


async def _kept(
    call: Coroutine[object, None, Verdict | None],
) -> Verdict | SystemExit | KeyboardInterrupt | GeneratorExit | None:
    """The answer, or what must not be the exception of a task.

    It would end the event loop, or close the coroutine that awaits it.
    """
    try:
        return await call
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        return error


async def _answer(hook: AnyHook, context: HookContext, report: Report, name: str) -> Verdict | None:
    task = asyncio.current_task()

    def held(seconds: float) -> None:
        context.emit(LoopHold("hook", name, seconds))

    try:
        if hook.when is not None and not await watched(hook.applies(context), "hook", name, held):
            return None
        if hook.chained:
            answer = await run_hooks(hook.chained, context, report, f"{name}/")
            if answer is None:
                context.enter(name)
            return answer
        verdict: object = await watched(hook(context), "hook", name, held)
    except (Exception, asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # Here, and not in the awaiting task: a SystemExit that leaves a task ends the event loop, and all runs with it.
        if is_destroyed(error, task):
            raise  # no caller waits any more: this coroutine is being closed
        raise _raised(hook, name, error) from error
    if verdict is None:
        return None
    if not isinstance(verdict, VERDICTS[hook.point]):
        if inspect.iscoroutine(verdict):
            verdict.close()  # it was not awaited: without this, Python warns of that as well
        raise wrong_verdict(f"answered {verdict!r}", name, hook.point)
    if (odd := _odd_field(verdict)) is not None:
        raise wrong_verdict(f"answered a {type(verdict).__name__} with {odd}", name, hook.point)
    if isinstance(verdict, Finish) and not verdict.final and isinstance(context, CallContext):
        what = "answered Finish(), which is Finish(final=True) there,"
        raise wrong_verdict(what, name, hook.point)
    return None if is_going_on(verdict) else verdict


def _odd_field(verdict: Verdict) -> str | None:
    """What a verdict has in a field where something else belongs, since a Struct takes anything."""
    match verdict:
        case Cancel() | Skip() | Abort() | Pause():
            reason = cast("object", verdict.reason)
            return None if isinstance(reason, str) else f"the reason {reason!r:.60}, which is not a string"
        case Answer(content=content) if isinstance(cast("object", content), ToolResult):
            return "a ToolResult as its content; write Answer(result.content, is_error=result.is_error)"
        case Finish(final=flag) | Answer(is_error=flag):
            given = cast("object", flag)
            return None if isinstance(given, bool) else f"the flag {given!r:.60}, which is not a bool"
        case ContinueWithMessages():
            return _odd_messages(cast("object", verdict.messages))
        case _:
            return None


def _odd_messages(given: object) -> str | None:
    if not isinstance(given, list | tuple):
        return f"{given!r:.60}, which is not a list of messages; write ContinueWithMessages.user(text)"
    for message in cast("list[object]", given):
        if not isinstance(message, Message):
            return f"{message!r:.60}, which is not a Message; write Message.user('...')"
        if (odd := odd_message(message)) is not None:
            return odd
        if message.tool_calls or message.tool_results:
            return "tool calls or results, which only the loop adds: a hook adds no tool calls"
    return None


def is_going_on(verdict: Verdict) -> bool:
    """Whether the next hook runs after this verdict.

    >>> is_going_on(Finish()), is_going_on(Finish(final=True))
    (True, False)
    """
    return isinstance(verdict, Continue) or (isinstance(verdict, Finish) and not verdict.final)


def _failed(hook: AnyHook, context: HookContext, report: Report, name: str, error: HookError) -> Verdict | None:
    if not hook.chained or error.hook == name:  # else one of its hooks has failed, and that was reported
        report(_event(hook, name, context, "Failed", message_of(error)))
    if hook.on_failure == "abort":
        raise error
    if hook.on_failure == "continue":
        return None
    context.enter(name)
    if isinstance(context, ToolResultContext):
        context.withhold(f"The result is withheld: the hook {name!r}, which checks it, failed.")
        return Continue()
    refused = Skip(f"This call was not run: the hook {name!r}, which checks it, failed.")
    report(_event(hook, name, context, "Skip", refused.reason))
    return refused


def _event(hook: AnyHook, name: str, context: HookContext, verdict: str, reason: str) -> HookVerdict:
    return HookVerdict(name, hook.point.value, verdict, reason, context.call_id)


def ignore(event: HookVerdict) -> None:
    """Drop the event."""


def _raised(hook: AnyHook, name: str, error: BaseException) -> HookError:
    text = describe(error)
    if isinstance(error, AttributeError) and text.endswith(tuple(INSTEAD)):
        text += f"; {INSTEAD[text.rsplit(' ', 1)[1]]}"
    if isinstance(error, AttributeError) and error.name in ("pipe", "subscribe"):
        text += "; give a reactivex operator whose parameter has no annotation as from_operator(...)"
    return _error(hook, name, text)


def _error(hook: AnyHook, name: str, what: str) -> HookError:
    text = f"hook {name!r} failed at {hook.point.value}: {what}"
    return HookError(text, hook=name, point=hook.point.value)
