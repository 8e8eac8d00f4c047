"""The interface of tools: what a model may call, the context of a running call, and the shared state of a run.

A tool may run in a thread. So the value of the shared state is changed under a lock, and the changes wait in a queue,
in that order, until the thread of the run takes them: the fold of the records is the state that the tools have seen.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import time
import typing
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, ExecutionFailedError, LocalProtocolError, describe
from rxworker.events import Custom, CustomEvent, Record, SharedStateChange
from rxworker.events.arguments import text_parameter
from rxworker.events.custom import custom_of
from rxworker.events.form import check_form
from rxworker.events.pause import AtEnd, Begun, Question, Wait
from rxworker.messages import Json, JsonObject, ToolCall, ToolMeta, ToolResult
from rxworker.messages.content import NAME, ResultContent
from rxworker.messages.custom_types import to_json_value
from rxworker.messages.json import is_object
from rxworker.messages.settings import awaited, check_number, moment_of
from rxworker.state.shared_state import change_to, checked_json


class SharedState:
    """The shared state of a running run. Made by the run.

    Args:
        value: The state at the beginning.
        emit: Receives each change.
        call_soon: Calls a function in the thread that this was made in; called from other threads.

    Example:
        >>> changes: list[SharedStateChange] = []
        >>> shared = SharedState({"steps": []}, changes.append)
        >>> shared.set("plan", "/steps/-")
        >>> shared.value, changes[0].op
        ({'steps': ['plan']}, 'add')
    """

    def __init__(
        self,
        value: Json = None,
        emit: Callable[[SharedStateChange], None] | None = None,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._value = value
        self._emit = emit
        self._call_soon = call_soon
        self._home = threading.get_ident()
        self._lock = threading.Lock()
        self._changes: deque[SharedStateChange] = deque()

    @property
    def value(self) -> Json:
        """A copy of the state; ``None`` if there is none yet."""
        return copy.deepcopy(self._value)

    def set(self, value: object, path: str = "") -> None:
        """Set the state, or a place in it.

        Raises:
            LocalProtocolError: The value has no JSON form or is too long, or there is no such place.
        """
        self._change(path, checked_json(value))

    def remove(self, path: str) -> None:
        """Remove a member of an object, or an item of an array.

        Raises:
            LocalProtocolError: There is no such place.
        """
        self._change(path, None, removes=True)

    def apply(self, change: SharedStateChange) -> None:
        """Make a change again, unless its place is gone."""
        with suppress(LocalProtocolError):
            self._change(change.path, change.value, removes=change.op == "remove")

    def _change(self, path: str, value: Json, *, removes: bool = False) -> None:
        with self._lock:
            self._value, change = change_to(self._value, path, value, removes=removes)
            self._changes.append(change)
        if threading.get_ident() == self._home or self._call_soon is None:
            self._flush()
        else:
            self._call_soon(self._flush)

    def _flush(self) -> None:
        while self._changes:
            change = self._changes.popleft()
            if self._emit is not None:
                self._emit(change)


A = TypeVar("A")


class Progress(Struct, Generic[A], frozen=True):
    """Wraps a value that a tool yields, to mark it as progress and not the result.

    Attributes:
        value: Anything that has a JSON form.
    """

    value: A


class QuestionError(
    BaseException
):  # as `asyncio.CancelledError`: no ``except Exception`` of a tool takes it for a failure
    """Leaves a tool whose call waits: for an answer, with a run that it has begun, or for something else.

    Args:
        begun: What it waits for, and how the tool goes on.
    """

    def __init__(self, begun: Begun) -> None:
        inside, what = begun.paused, begun.question or begun.wait
        super().__init__(str(what) if inside is None else inside.reason or inside.hook)
        self.begun = begun


class LaterError(BaseException):  # as `QuestionError`
    """Leaves a tool whose result is delivered from outside."""


class ToolContext:
    """One call, as the tool that serves it sees it. Made by the loop of a run.

    A tool declares a parameter of this type to receive it. The model does not see that parameter.

    Attributes:
        call_id: The call's id.
        tool: The name it was called by.
        variables: Values shared by the hooks and tools of a run.
        cancelled: Whether the call was cancelled. A tool in a thread may check it from time to time, and stop.
        begun: How the call goes on, if the tool has begun it before, with the answer to its question; ``None``: it
            starts.
        can_ask: Whether a person can answer a question of the tool: the call is one of a run that can pause.
        can_wait: Whether `until` pauses the run: it has a log, and can pause.

    >>> received: list[object] = []
    >>> context = ToolContext("call_1", "copy", report=received.append)
    >>> context.progress({"files": 3})
    >>> received
    [{'files': 3}]
    """

    __slots__ = (
        "_key",
        "_passed",
        "_relay",
        "_report",
        "_shared",
        "begun",
        "call_id",
        "can_ask",
        "can_wait",
        "cancelled",
        "tool",
        "variables",
    )

    def __init__(
        self,
        call_id: str = "",
        tool: str = "",
        *,
        idempotency_key: str | None = None,
        variables: dict[str, Any] | None = None,
        report: Callable[[Json | Custom], None] | None = None,
        relay: Callable[[Record], None] | None = None,
        shared: SharedState | None = None,
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        self._key = idempotency_key
        self.variables: dict[str, Any] = {} if variables is None else variables
        self.cancelled = False
        self.begun: Begun | None = None
        self.can_ask = self.can_wait = False
        self._passed: list[tuple[Wait, Json]] | None = None
        self._report = report
        self._relay = relay
        self._shared = SharedState() if shared is None else shared

    @property
    def idempotency_key(self) -> str:
        """The same whenever this very call is made again, for example after a crash.

        For services that take such a key.
        """
        return self.call_id if self._key is None else self._key

    def ask(self, question: Question, state: Json = None) -> NoReturn:
        """Leave the tool with a question.

        The run pauses until a person has answered it, and calls the tool again with the answer in ``begun.reply``.

        Check ``can_ask`` before. The answer may come in another process.

        Args:
            question: The question.
            state: What the tool needs to go on, in ``begun.state``.

        Raises:
            QuestionError: Otherwise. Let it pass.
            ConfigurationError: The schema describes no form that can be shown.
        """
        if question.schema is not None and (problem := check_form(question.schema)):
            raise ConfigurationError(
                f"the schema of the question is not a form: {problem}. Give an object of texts, numbers, booleans and "
                "choices"
            )
        raise QuestionError(Begun(state, question))

    def detach(self) -> None:
        """Let the call go on in the background: the turn goes on, and the result comes as a message when there is one.

        It may be called from any thread. It does nothing if the call is in the background already, has ended, or was
        made by a hook, an executor of ``call_tools``, or the program.
        """

    def later(self) -> NoReturn:
        """Leave the tool: the result is delivered from outside, by `EventLog.deliver` or `Run.deliver`.

        It is delivered by ``call_id``, or by ``idempotency_key`` where a provider repeats ids of calls.
        Until then the call is in the background, and no process runs it.

        Raises:
            LaterError: Always. Let it pass.
        """
        raise LaterError

    async def until(
        self,
        at: datetime | float | None = None,
        *,
        signal: str = "",
        run: str = "",
        event: str = "",
        message: bool = False,
        state: Json = None,
    ) -> Json:
        """Wait for what comes first: a moment, a signal, an event or the end of another run, or a message.

        With a log nothing stays in memory: the tool is left, and the run pauses. When it is woken, in whichever process
        works with the log, the tool is called again from its start, and each `until` that is over returns at once. So
        what comes before one happens again: do it once by ``idempotency_key``, or note it in ``state``. A call in the
        background waits alone, and the run goes on: it pauses with it when it has nothing else to do.

        Less than a second, and a moment without a log, is waited for in the process.

        Args:
            at: A time with a zone, or seconds from now.
            signal: The name of a signal; see `EventLog.signal`.
            run: The id of a run of the log, whose end counts; it may begin later.
            event: The name of an event of the application, such as ``order.shipped``; the first one in that run counts,
                and in those that resume it.
            message: Whether a message that is sent into the run counts, each for one wait of a call. The model receives
                it in any case.
            state: What the tool needs to go on, in ``begun.state``.

        Returns:
            The value of the signal, the text of the message, ``{"run": ..., "status": ...}``, or
            ``{"run": ..., "event": ..., "data": ...}``; ``None`` at the moment, or when a person wakes it without a
            value.

        Raises:
            QuestionError: It waits. Let it pass.
            ConfigurationError: There is nothing to wait for, or something other than a moment without a log; or
                something cannot be stored.

        Example:
            >>> from rxworker import Worker, tool
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel, call
            >>> from rxworker.worker import recover_all
            >>> @tool(effect="idempotent")
            ... async def ship(context: ToolContext) -> str:
            ...     paid = await context.until(30 * 86400, signal="paid")
            ...     return "It is not paid." if paid is None else "It is on its way."
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         run = Worker(ScriptedModel([call("ship")]), tools=[ship], log=log).run("Ship it.")
            ...         print((await run).hook)
            ...         await log.signal(run.id, "paid")
            ...         worker = Worker(ScriptedModel(["Done."]), tools=[ship], log=log)
            ...         async for woken in recover_all(log, lambda info: worker, once=True):
            ...             print((await woken).conversation.messages[2].tool_results[0].text)
            >>> asyncio.run(main())
            until
            It is on its way.
        """
        if self._passed is None:
            self._passed = []
        begun = Begun() if self.begun is None else self.begun
        wait = Wait(0.0, signal, run, message, event)
        return await until(begun, self._passed, at, wait, state, can_pause=self.can_wait)

    @property
    def is_left(self) -> bool:
        """Whether a call that is cancelled goes on in another process, which has what was kept.

        What the tool has begun elsewhere is left as it is.
        """
        return False

    async def keep(self, state: Json, progress: object = None) -> None:
        """Store what the tool needs to go on with this call.

        A process that recovers the run calls it with ``begun.state``, instead of from the start.

        Args:
            state: What it needs. No watcher receives it, unless the run pauses at the call.
            progress: Progress, which is reported with it.
        """
        del state
        self.progress(progress)

    def progress(self, value: object) -> None:
        """Report progress to the watchers. The model does not see it.

        It may be called from any thread. After the call has ended it does nothing.

        Args:
            value: Anything that has a JSON form.

        Raises:
            TypeError: It has none.
        """
        report = self._report
        if self.cancelled or report is None:
            return
        try:
            # A copy, and valid JSON: a later change of the value by the tool must not change an event that was emitted.
            shown: Json = msgspec.json.decode(msgspec.json.encode(to_json_value(value)))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"progress of type {type(value).__qualname__} has no JSON form: {error}") from error
        report(shown)

    def emit(self, event: CustomEvent) -> None:
        """Record an event of the application. The model does not see it.

        It may be called from any thread. After the call has ended it does nothing.

        Raises:
            ConfigurationError: It is not such an event, its class has no ``tag``, or a field has no JSON form.
        """
        custom = custom_of(event)
        if not self.cancelled and self._report is not None:
            self._report(custom)

    @property
    def shared_state(self) -> Json:
        """A copy of the state that the tools and hooks of the run share with user interfaces.

        ``None`` if there is none.
        """
        return self._shared.value

    def set_shared_state(self, value: object, path: str = "") -> None:
        """Set the shared state, or a place in it; watchers see it at once. It may be called from any thread.

        After the call has ended it does nothing.

        Args:
            value: Anything that has a JSON form.
            path: The place, as a JSON Pointer such as ``/steps/0``; ``/steps/-`` adds to an array. All that is around
                it must exist.

        Raises:
            LocalProtocolError: The value has no JSON form or is longer than `MAX_SHARED_STATE`, or there is no such
                place.

        >>> context = ToolContext()
        >>> context.set_shared_state({"steps": []})
        >>> context.set_shared_state("plan", "/steps/-")
        >>> context.shared_state
        {'steps': ['plan']}
        """
        if not self.cancelled:
            self._shared.set(to_json_value(value), path)

    def remove_shared_state(self, path: str) -> None:
        """Remove a member of an object of the shared state, or an item of an array.

        Raises:
            LocalProtocolError: There is no such place.
        """
        if not self.cancelled:
            self._shared.remove(path)

    def relay(self, record: Record) -> None:
        """Show the watchers a record of a run that this call has begun. They see it under the call's id.

        It belongs to the event loop's thread. After the call has ended it does nothing.
        """
        if not self.cancelled and self._relay is not None:
            self._relay(record)

    def close(self) -> None:
        """The call has ended; the runner calls it."""
        self.cancelled = True


SHORT = 1.0
"""Seconds up to which `until` waits in the process."""


async def until(
    begun: Begun,
    passed: list[tuple[Wait, Json]],
    at: datetime | float | None,
    wait: Wait,
    state: Json = None,
    *,
    can_pause: bool,
) -> Json:
    """Wait in a tool or a hook; see `ToolContext.until`.

    Args:
        begun: What it has waited for before it was called this time.
        passed: What it has waited for since, which this adds to.
        at: A time with a zone, or seconds from now.
        wait: What else ends the wait.
        state: What it needs to go on.
        can_pause: Whether the run can pause for it.
    """
    done = len(passed)
    if done < len(begun.woken):
        passed.append((begun.awaits[done], begun.woken[done]))
        return begun.woken[done]
    if done < len(begun.awaits):
        wait = begun.awaits[done]  # it keeps its moment
    elif at is not None:
        wait = replace(wait, due=moment_of("until", at, time.time()))
    if wait.event and not wait.run:
        raise ConfigurationError("until(event=...): give run=, too: the run that has the event")
    is_of_time = wait == Wait(wait.due)
    if wait == Wait() or not (is_of_time or can_pause):
        raise ConfigurationError("until: give a moment; or, in a run with a log, signal=, run= or message=True")
    if can_pause and not (is_of_time and wait.due < time.time() + SHORT):
        waits, ended = [each for each, _ in passed], [value for _, value in passed]
        kept = begun.state if state is None else state
        left = Begun(kept, awaits=(*waits, wait), woken=tuple(ended))
        try:
            msgspec.json.decode(msgspec.json.encode(left), type=Begun)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"until: what it waits for, or its state, cannot be stored: {error}") from error
        raise QuestionError(left)
    seconds = wait.due - time.time()
    while seconds > 0:
        # The clock may be set, which changes no number of seconds.
        await asyncio.sleep(min(seconds, SHORT) if isinstance(at, datetime) else seconds)
        seconds = wait.due - time.time() if isinstance(at, datetime) else 0.0
    passed.append((wait, None))
    return None


# About 25,000 tokens of English text: much for one result, and little beside the context of a model.
MAX_OUTPUT = 100_000
Effect: TypeAlias = Literal["write", "idempotent", "pure"]
"""The effect of a call: ``write`` changes something, ``idempotent`` may be repeated, ``pure`` only reads."""


class ToolPolicy(Struct, frozen=True):
    """How a tool may be run.

    Attributes:
        timeout: Seconds until a call is given up; ``None``: never.
        effect: ``write`` changes something, ``idempotent`` does too but may be repeated, ``pure`` only looks and may
            start while the model still streams.
        retries: How many more times a failed call is made before the model reads its error.
        requires_approval: Whether a person must approve each call; a run pauses before it.
        barrier: Whether a call runs alone: those before it end first, those after it wait.
        max_output: Characters of text of a result that are sent to the model, of an error too; what is beyond is left
            out, with a note. Pictures and documents are kept whole or left out: together they may have a hundred times
            as many characters of base64. ``None`` sends everything.
        background: Whether its calls go on in the background: at once (``True``), never by themselves (``False``), or
            those that take longer than so many seconds.
        at_end: What becomes of a call in the background when the model has ended its answer: the run waits for the
            result (``wait``), pauses until it comes (``wake``), or ends and cancels the call (``cancel``).
    """

    timeout: float | None = None
    effect: Effect = "write"
    retries: int = 0
    requires_approval: bool = False
    barrier: bool = False
    max_output: int | None = MAX_OUTPUT
    background: bool | float = False
    at_end: AtEnd = "wait"

    @property
    def starts_early(self) -> bool:
        """Whether a call may start while the model still streams.

        It has no effects, may run beside others, needs no approval, and does not go into the background at once.
        """
        alone = self.barrier or self.requires_approval or self.background is True
        return self.effect == "pure" and not alone


class Tool(Protocol):
    """Something the model may call. It may also have a ``policy``, a `ToolPolicy`, and ``reconcile``, a `Reconcile`."""

    @property
    def meta(self) -> ToolMeta:
        """The description for the model."""
        ...

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ResultContent | ToolResult:
        """Run it with the JSON text of its arguments; free text comes as the one member of an object.

        Returns:
            The content of the result; or a `ToolResult`, which may be an error. Its id and its name are filled in.

        Raises:
            InvalidArgumentError: The arguments do not fit.
            ExecutionFailedError: It failed. Any other exception is taken for that, too.
        """
        ...


class Done(Struct, frozen=True):
    """The return value of `Reconcile` for a call that had its effect.

    Attributes:
        content: The result for the model.
        is_error: Whether the result is an error.
    """

    content: ResultContent
    is_error: bool = False


class NotDone(Struct, frozen=True):
    """The return value of `Reconcile` for a call that had no effect; the call is made again."""


class Unknown(Struct, frozen=True):
    """The return value of `Reconcile` if it cannot find out.

    Attributes:
        reason: Shown to users.
    """

    reason: str = ""


Reconciled: TypeAlias = Done | NotDone | Unknown
Reconcile: TypeAlias = Callable[[str, JsonObject], Reconciled | Awaitable[Reconciled]]
"""Finds out whether a call had its effect whose process ended before its result was stored.

From its idempotency key and its arguments.
"""


USUAL = ToolPolicy()
"""The policy of most tools. It is one object, so that a check of identity is enough."""


def policy_of(tool: Tool | None) -> ToolPolicy:
    """How a tool may be run; the default if it has none, or is missing."""
    policy = getattr(tool, "policy", None)
    return policy if isinstance(policy, ToolPolicy) else USUAL


def reconcile_of(tool: Tool | None) -> Reconcile | None:
    """The function that finds out whether a call had its effect, if the tool has one."""
    return getattr(tool, "reconcile", None)


async def in_doubt(tool: Tool | None, call: ToolCall, key: str) -> Reconciled:
    """Whether a call had its effect whose process ended before its result was stored.

    Args:
        tool: The tool, if there is one.
        call: The call.
        key: Its idempotency key.
    """
    if tool is not None and (policy_of(tool).effect != "write" or getattr(tool, "is_recoverable", False)):
        return NotDone()  # it may run again, with the same key
    reconcile = reconcile_of(tool)
    if reconcile is None or isinstance(call.input, str):
        return Unknown()
    try:
        found = await awaited(reconcile(key, call.input))
    except Exception as error:
        return Unknown(f"its reconcile function raised {describe(error)}")
    if not isinstance(found, Done | NotDone | Unknown):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        return Unknown(f"its reconcile function returned {found!r:.60}: return Done(...), NotDone() or Unknown()")
    return found


def check_name(name: str) -> str:
    """The name of a tool, if every provider accepts it.

    Raises:
        ConfigurationError: One does not.
    """
    if NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{name!r} cannot be the name of a tool: providers take 1 to 64 letters, digits, underscores and hyphens; "
            "give it such a name"
        )
    return name


def check_meta(meta: ToolMeta) -> ToolMeta:
    """The description of a tool for the model, if it is valid.

    Raises:
        ConfigurationError: The tool takes free text, and its schema has not just one string; or its native form has no
            type.
    """
    native: object = meta.native
    if native is not None and not (is_object(native) and native.get("type")):
        raise ConfigurationError(
            f"tool {meta.name!r} has native={native!r:.60}; give the type by which its provider knows it, for example "
            'native={"type": "memory_20250818"}',
            page="tools",
        )
    if meta.format is not None and text_parameter(meta) is None:
        raise ConfigurationError(
            f"tool {meta.name!r} takes free text (format=...), so it needs exactly one parameter of type str for it"
        )
    return meta


def check_policy(policy: ToolPolicy) -> ToolPolicy:
    """The policy, if it makes sense; for what is usual the one that is `USUAL`.

    Raises:
        ConfigurationError: It does not.
    """
    timeout, effect, retries = policy.timeout, policy.effect, policy.retries
    for name in ("requires_approval", "barrier"):
        flag: object = getattr(policy, name)
        if not isinstance(flag, bool):
            raise ConfigurationError(f"{name}={flag!r}: give True or False")
    check_number("timeout", timeout, above=0, optional=True)
    if timeout == float("inf"):
        raise ConfigurationError("timeout=inf: leave it out for no time-out")
    if effect not in typing.get_args(Effect):
        raise ConfigurationError(f"effect={effect!r}: give one of {typing.get_args(Effect)}")
    check_number("retries", retries, whole=True)
    if retries and effect == "write":
        raise ConfigurationError(
            f"retries={retries!r}: only a tool that may be repeated can be retried; declare it with "
            "effect='idempotent' or effect='pure'"
        )
    check_number("max_output", policy.max_output, least=1, whole=True, optional=True)
    after: object = policy.background
    if not isinstance(after, bool):
        check_number("background", after, least=0, optional=False)
        if not after:
            raise ConfigurationError("background=0: give True for at once, False for never, or seconds above 0")
    if policy.at_end not in typing.get_args(AtEnd):
        raise ConfigurationError(f"at_end={policy.at_end!r}: give one of {typing.get_args(AtEnd)}")
    return USUAL if policy == USUAL else policy


def check_members(tool: Tool) -> None:
    """Check what a tool object may have besides its description: a policy that is ignored would allow what it forbids.

    Raises:
        ConfigurationError: The policy is not a `ToolPolicy` or makes no sense, or ``reconcile`` cannot be called.
    """
    name = tool.meta.name
    policy, reconcile = getattr(tool, "policy", None), reconcile_of(tool)
    if policy is not None and not isinstance(policy, ToolPolicy):
        raise ConfigurationError(f"the policy of tool {name!r} is {policy!r:.60}; give ToolPolicy(...)")
    if policy is not None:
        check_policy(policy)
    if reconcile is not None and not callable(reconcile):
        raise ConfigurationError(
            f"the reconcile of tool {name!r} is {reconcile!r:.60}; give a function of the key and the arguments"
        )


class ClientTool:
    """A tool that a client runs, for example a page in a browser.

    The other calls of the response run first; then the run pauses, with ``client_tool`` as the hook. The result of the
    client is an `Answer` to the call: ``worker.resume(decisions={call.id: Answer(...)})``.

    Args:
        meta: The description for the model.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel, call
        >>> from rxworker import Answer
        >>> schema = {"type": "object", "properties": {"url": {"type": "string"}}}
        >>> open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", schema))
        >>> worker = Worker(ScriptedModel([call("open_tab", url="/help"), "It is open."]), tools=[open_tab])
        >>> paused = worker.run_sync("Help!")
        >>> paused.hook, paused.pending[0].input
        ('client_tool', {'url': '/help'})
        >>> worker.in_script(worker.resume, decisions={paused.pending[0].id: Answer("done")}).text
        'It is open.'
    """

    def __init__(self, meta: ToolMeta) -> None:
        self.meta = meta

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        """Fail: only the client can run it.

        Raises:
            ExecutionFailedError: Always; a hook has called it, or another tool.
        """
        del input_json
        raise ExecutionFailedError("only the client can run this tool", tool=context.tool)
