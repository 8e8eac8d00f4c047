"""The hooks of a worker: the order in which those of a point run, their time-outs and their failures.

A hook fails when it raises, when it takes longer than its time-out, and when something that it waits for was cancelled.
What that means is in its ``on_failure``. `SystemExit` and the like are failures too; `KeyboardInterrupt` goes through.
A verdict that its point does not have is not a failure of the moment: it is a mistake in the program, and ends the run
regardless of ``on_failure``. The run itself being cancelled is none of these: it goes through, also where a hook has
caught it.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias, Unpack, cast

from reactivex.internal import noop

from rxworker.errors import ConfigurationError, HookError, RunAbortedError, describe, message_of, nearest
from rxworker.events import HookVerdict, LoopHold
from rxworker.hooks.base import AnyHook, Hook, HookSettings
from rxworker.hooks.context import CallContext, HookContext, ToolCallContext, ToolResultContext, odd_message
from rxworker.hooks.decorate import HookLike, hooks_of
from rxworker.hooks.operator import ContextOperator
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
    point_of,
    wrong_verdict,
)
from rxworker.messages import Message, ToolResult
from rxworker.messages.json import is_list
from rxworker.tools.base import QuestionError
from rxworker.tools.cancellation import TooLateError, is_destroyed, within
from rxworker.tools.coroutines import one_by_one
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

NO_HOOKS: Mapping[HookPoint, tuple[AnyHook, ...]] = dict.fromkeys(HookPoint, ())

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
        if is_call and isinstance(verdict, Pause) and verdict.begun is None and await context.allows(name):
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
    except QuestionError as error:
        verdict = Pause(f"{name} waits for {error}", error.begun)
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
            return _odd("reason", verdict.reason, str, "string")
        case Answer(content=content) if isinstance(cast("object", content), ToolResult):
            return "a ToolResult as its content; write Answer(result.content, is_error=result.is_error)"
        case Finish(final=flag) | Answer(is_error=flag):
            return _odd("flag", flag, bool, "bool")
        case ContinueWithMessages():
            return _odd_messages(verdict.messages)
        case _:
            return None


def _odd(name: str, given: object, kind: type, word: str) -> str | None:
    return None if isinstance(given, kind) else f"the {name} {given!r:.60}, which is not a {word}"


def _odd_messages(given: object) -> str | None:
    if not is_list(given):
        return f"{given!r:.60}, which is not a list of messages; write ContinueWithMessages.user(text)"
    for message in given:
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


def _raised(hook: AnyHook, name: str, error: BaseException) -> HookError:
    text = describe(error)
    if isinstance(error, AttributeError) and text.endswith(tuple(INSTEAD)):
        text += f"; {INSTEAD[text.rsplit(' ', 1)[1]]}"
    if isinstance(error, AttributeError) and error.name in ("pipe", "subscribe"):
        text += "; give a reactivex operator whose parameter has no annotation as from_operator(...)"
    return _error(hook, name, text)


def _error(hook: AnyHook, name: str, what: str) -> HookError:
    return HookError(f"hook {name!r} failed at {hook.point.value}: {what}", hook=name, point=hook.point.value)


logger = logging.getLogger("rxworker.hooks")
ON_ABORT = HookPoint.ON_ABORT
REMEDY = (
    'Give a regular expression for the whole name, a collection of names, or unmatched="warn" for tools that come later'
)


def in_order(hooks: Sequence[AnyHook]) -> tuple[AnyHook, ...]:
    """The hooks of one point in the order in which they run.

    Of those that may come next, since all that have to come before them have come, it is the one with the highest
    priority, and of these the one that was registered first. A name that no hook has is ignored.

    Args:
        hooks: In the order of registration.

    Raises:
        ConfigurationError: The constraints go round in a circle.

    >>> from rxworker.hooks.base import Hook
    >>> def hook(name, **settings):
    ...     return Hook(print, "on_turn_end", name=name, **settings)
    >>> [h.name for h in in_order([hook("a"), hook("b", before="a"), hook("c", priority=1), hook("d", after="x")])]
    ['c', 'b', 'a', 'd']
    """
    places: dict[str, list[int]] = {}
    for place, hook in enumerate(hooks):
        places.setdefault(hook.name, []).append(place)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for place, hook in enumerate(hooks):
        sorter.add(place, *(other for name in hook.after for other in places.get(name, ())))
        for name in hook.before:
            for other in places.get(name, ()):
                sorter.add(other, place)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[int] = error.args[1][1:]
        begin = circle.index(min(circle))
        names = " -> ".join(hooks[p].name for p in [*circle[begin:], *circle[: begin + 1]])
        where = hooks[0].point.value
        raise ConfigurationError(f"the hooks at {where} cannot be put in order: {names}") from error
    ready: list[tuple[float, int]] = []
    ordered: list[AnyHook] = []
    while sorter:
        for place in sorter.get_ready():
            heapq.heappush(ready, (-hooks[place].priority, place))
        _, place = heapq.heappop(ready)
        ordered.append(hooks[place])
        sorter.done(place)
    return tuple(ordered)


def chain(*hooks: HookLike, **settings: Unpack[HookSettings]) -> Hook[Any]:
    """A hook that calls several hooks, until one returns a verdict other than `Continue`.

    Each keeps its own settings. Those given here are the chain's: its condition and matcher decide about all of them,
    its time-out is for all together, and its ``on_failure`` applies when one has failed whose own is
    ``abort``. Verdicts, messages and errors carry the way to the hook: ``chain/hook``.

    Args:
        hooks: Hooks of one point, or objects with one method named like a point; chains may be among them.
        settings: As of any hook; the name is made of theirs where none is given.

    Raises:
        ConfigurationError: There is none, or they are of several points.

    >>> from rxworker import before_tool_call
    >>> @before_tool_call
    ... def permit(context: HookContext) -> None: ...
    >>> @before_tool_call
    ... def count(context: HookContext) -> None: ...
    >>> chain(permit, count)
    Hook('permit+count', before_tool_call)
    """
    links = [link for hook in hooks for link in hooks_of(hook)]
    points = {link.point for link in links}
    if len(points) != 1:
        found = ", ".join(sorted(point.value for point in points)) or "none"
        raise ConfigurationError(f"a chain is of hooks of one point; these are of: {found}")
    ordered = in_order(links)
    name = settings.get("name") or "+".join(link.name for link in ordered)
    settings["name"] = name

    async def call_all(context: HookContext) -> Verdict | None:  # if the chain is called by hand
        return await run_hooks(ordered, context, noop, f"{name}/")

    made: Hook[Any] = Hook(call_all, points.pop(), **settings)
    made.chained = ordered
    return made


async def _decide(hooks: Hooks, point: HookPoint, report: Report, context: HookContext) -> HookContext | Verdict:
    """The context, if the hooks of the point agree, or else their verdict."""
    if point is ON_ABORT:
        return await _notify(hooks, report, context)
    try:
        verdict = await run_hooks(hooks.orders[point], context, report)
    except EndRun as ended:
        raise RunAbortedError(ended.reason, hook=ended.hook) from None
    if verdict is not None and not isinstance(verdict, Continue):
        return verdict
    if isinstance(context, ToolResultContext) and context.finished_by:
        context.enter(context.finished_by)
        return Finish(final=True)
    return context


async def _notify(hooks: Hooks, report: Report, context: HookContext) -> HookContext:
    """Run each hook of a run that is ending, and raise an interrupt or a cancellation of one at the end."""
    raised: BaseException | None = None
    for number, hook in enumerate(hooks.orders[ON_ABORT]):
        try:
            # Each has a context of its own: one that is abandoned after its time-out may still use it.
            await run_hooks((hook,), copy(context) if number else context, report)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raised = error
    if raised is not None:
        raise raised
    return context


class Hooks:
    """The hooks of a worker.

    Hooks may be added and removed during a run: a chain that is being called continues unchanged.

    Two hooks may have one name: constraints and ``remove`` then mean both.

    Args:
        hooks: Hooks made by the point decorators, or objects with methods named like points.

    Raises:
        ConfigurationError: Something is neither, or their order goes round in a circle.

    Attributes:
        orders: The hooks of each point, in the order in which they run.

    >>> class Audit:
    ...     def on_abort(self, context: HookContext) -> None: ...
    >>> Hooks([Audit()]).list()
    [('Audit', 'on_abort')]
    """

    def __init__(self, hooks: Iterable[HookLike] = ()) -> None:
        self._hooks: tuple[AnyHook, ...] = ()
        self.orders = NO_HOOKS
        self.has_matchers = False
        self._checked: tuple[str, ...] | None = None  # the tools that all matchers match
        self._warned: set[str] = set()  # names of hooks
        if hooks:
            self.add(*hooks)

    def __iter__(self) -> Iterator[AnyHook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    def add(self, *hooks: HookLike) -> None:
        """Register hooks, after the others: all of them, or with an error none.

        Args:
            hooks: `Hook` s, or objects with methods named like points; what they do not implement does nothing.

        Raises:
            ConfigurationError: Something is neither, or their order goes round in a circle.
        """
        self._take((*self._hooks, *(made for hook in hooks for made in hooks_of(hook))))

    def list(self) -> list[tuple[str, str]]:
        """The name and point of each hook, in the order of registration."""
        return [(hook.name, hook.point.value) for hook in self._hooks]

    def remove(self, name: str) -> bool:
        """Take out the hooks of that name; whether there was one."""
        before = len(self._hooks)
        self._take(tuple(hook for hook in self._hooks if hook.name != name))
        return len(self._hooks) < before

    def remove_at(self, point: HookPoint | str) -> int:
        """Take out the hooks of a point; how many there were.

        Raises:
            ConfigurationError: There is no such point.
        """
        at, before = point_of(point), len(self._hooks)
        self._take(tuple(hook for hook in self._hooks if hook.point is not at))
        return before - len(self._hooks)

    def clear(self, point: HookPoint | str | None = None) -> None:
        """Take out all hooks, or those of a point.

        Raises:
            ConfigurationError: There is no such point.
        """
        if point is not None:
            self.remove_at(point)
        else:
            self._take(())

    def at(self, point: HookPoint | str) -> Sequence[AnyHook]:
        """The hooks of a point, in the order in which they run."""
        return self.orders[point_of(point)]

    def check_matchers(self, tools: Iterable[str]) -> None:
        """Check that each matcher matches a tool: a hook with a misspelt one never runs.

        An alternative that matches none, and a matcher of a hook with ``unmatched="warn"``, is logged once, in
        ``rxworker.hooks``.

        Args:
            tools: The names of the tools that may be called.

        Raises:
            ConfigurationError: A matcher matches none of the tools.

        >>> from rxworker import before_tool_call
        >>> @before_tool_call(matcher="delete")
        ... def never(context: HookContext) -> None: ...
        >>> try:
        ...     Hooks([never]).check_matchers(["delete_file"])
        ... except ConfigurationError as error:
        ...     print(str(error).split(";")[0])
        hook 'never' would never run: its matcher 'delete' matches none of the tools (delete_file)
        """
        names = tuple(tools)
        if names != self._checked:
            for hook in self._hooks:
                self._check(hook, names, names)
            self._checked = names

    def _check(self, hook: AnyHook, reached: Sequence[str], tools: Sequence[str]) -> None:
        """Check the matchers of a hook, and of the hooks of a chain, for the tools for which it is called."""
        left = [tool for tool in reached if hook.matches(tool)]
        missing = hook.unmatched_in(reached)
        if missing:
            what, near = " and ".join(map(repr, missing)), nearest(missing[0], tools)
            if not left and hook.unmatched == "error":
                text = f"hook {hook.name!r} would never run: its matcher {what} matches none of the tools"
                raise ConfigurationError(f"{text} ({', '.join(tools) or 'none'}){near or '.'} {REMEDY}")
            if tools and hook.name not in self._warned:
                self._warned.add(hook.name)
                logger.warning(
                    "the matcher %s of hook %r matches none of the tools%s",
                    what,
                    hook.name,
                    near,
                    extra={"hook": hook.name},
                )
        for link in hook.chained:
            self._check(link, left, tools)

    def operator(self, point: HookPoint | str, report: Report = noop) -> ContextOperator[HookContext]:
        """The hooks of a point as one operator over contexts, which are taken one by one, in order.

            --c-----d--|     the contexts
            [ hooks.operator(point) ]
            ----c----V-|     c: all hooks agreed; V: the verdict of the first that did not

        So a run calls its hooks. The name of the hook that gave the verdict is ``context.hook``. At ``on_abort`` every
        hook runs, also when another one fails. The convention is that of `from_operator`, which makes a hook of it
        again.

        Args:
            point: Which point.
            report: Receives every verdict other than `Continue`, and every failure.

        Raises:
            ConfigurationError: There is no such point.

        An error of the stream is a `HookError`, if a hook failed whose failure ends the run, or returned a verdict that
        its point does not accept, or a `RunAbortedError`, if a hook raised `EndRun`.

        Example:
            >>> import asyncio, reactivex
            >>> from rxworker import before_tool_call
            >>> from rxworker.hooks import Skip
            >>> from rxworker.testing import call_context
            >>> @before_tool_call(matcher="delete")
            ... def never(context: HookContext) -> Skip:
            ...     return Skip("never")
            >>> async def ask(tool: str) -> object:
            ...     return await reactivex.just(call_context(tool)).pipe(Hooks([never]).operator("before_tool_call"))
            >>> asyncio.run(ask("delete"))
            Skip(reason='never')
        """
        at = point if isinstance(point, HookPoint) else point_of(point)
        return one_by_one(partial(_decide, self, at, report))

    def _take(self, hooks: tuple[AnyHook, ...]) -> None:
        orders = {point: in_order([hook for hook in hooks if hook.point is point]) for point in HookPoint}
        self._hooks, self.orders = hooks, orders
        self.has_matchers = any(map(_has_matcher, hooks))
        self._checked = None


def _has_matcher(hook: AnyHook) -> bool:
    return hook.matcher is not None or any(map(_has_matcher, hook.chained))
