"""A worker as a tool of another worker.

Theory of operation. A call starts a run of the inner worker and waits for it. The inner run's records go through the
call's context into the records of the outer run, under the id of the call, so watchers of the outer run receive both.
The end of the call ends the inner run, for example when the outer run is cancelled or reaches a time limit.

When the inner run pauses, the call waits with it, as one that has a question: its `Begun` has the id of the inner run
and what that waits for. With the decisions the call is made again, and resumes the inner run: from the log, or as the
outer run keeps it in `Paused.nested`. In the background the call waits alone, and the outer run goes on. In a log the
decisions are stored twice: with the outer run, where the first ones count, and with the inner run, so that a process
that continues the outer run goes on with it and resumes it once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.decisions import inner_decisions
from rxworker.errors import (
    ConfigurationError,
    DecisionError,
    ExecutionFailedError,
    InvalidArgumentError,
    LeaseHeldError,
    LocalProtocolError,
    RunStatusError,
)
from rxworker.events import Record
from rxworker.events.pause import AtEnd, Begun, outline
from rxworker.hub.history import expand
from rxworker.log.base import EventLog
from rxworker.log.values import OPEN, nested_id, resumed_id
from rxworker.messages import JsonObject, ToolMeta
from rxworker.messages.custom_types import explain
from rxworker.messages.message import to_messages
from rxworker.messages.settings import check_plain
from rxworker.resume.stored import LoadedRun, read_run
from rxworker.run.run import Run
from rxworker.tools import Toolbox, ToolContext, ToolPolicy
from rxworker.tools.base import Effect, QuestionError, check_name, check_policy
from rxworker.transport.base import ACCOUNT
from rxworker.turn.account import RunAccount
from rxworker.turn.context import RunContext, ignore
from rxworker.turn.result import Paused
from rxworker.worker.continuing import continued
from rxworker.worker.session import Session, Worker

MakeWorker: TypeAlias = Callable[[], Worker]
"""Makes the worker of each call."""

WHY = "its outer run was recovered"
TASK = "What to do, with everything that has to be known for it: nothing else of this conversation is seen."


class _Task(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    task: str


class WorkerTool:
    """A worker as a tool, made by `worker_tool`.

    Attributes:
        meta: Its description for the model.
        policy: The execution policy.
        is_recoverable: Whether a call of a recovered run may be made again: it continues the run that it began.
    """

    is_recoverable = True

    def __init__(self, worker: Worker | MakeWorker, meta: ToolMeta, policy: ToolPolicy) -> None:
        self.meta = meta
        self.policy = policy
        self._worker = worker

    def __repr__(self) -> str:
        return f"<worker tool {self.meta.name!r}>"

    @property
    def inner_tools(self) -> Toolbox | None:
        """The tools of the worker; ``None`` where it is made for each call."""
        return self._worker.tools if isinstance(self._worker, Worker) else None

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        """Run the worker with a task, and wait for its answer.

        Raises:
            InvalidArgumentError: There is no task.
            QuestionError: The run has paused.
            ExecutionFailedError: The run failed, or has paused where nothing can resume it.
        """
        task = _task_of(input_json, self.meta.name)
        given = self._worker
        made = given if isinstance(given, Worker) else given()
        if not isinstance(made, Worker):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"{given!r} made {made!r}, which is not a worker")
        return await _run(made, task, context, self.meta.name)


def worker_tool(
    worker: Worker | MakeWorker,
    *,
    name: str,
    description: str,
    timeout: float | None = None,
    effect: Effect = "write",
    requires_approval: bool = False,
    background: bool | float = False,
    at_end: AtEnd = "wait",
) -> WorkerTool:
    """Make a tool of a worker: a call gives it a task, and its answer is the result.

    Its records appear among those of the outer run, with the id of the call in their ``path``. Its tokens count among
    the outer run's. Cancelling the outer run cancels it and waits for it. The outer run's limits on tokens, cost, tool
    calls and seconds, and its budget, apply to both together; the inner run also has its own limits, and ``max_depth``
    bounds the depth. An error in it is an error result. If it pauses, the outer run pauses when its other calls have
    ended: its ``pending`` has the calls of both, and with their decisions the call goes on where it was.

    Args:
        worker: A worker, or a function that makes one. Each call has a session of its own, so that calls run in
            parallel.
        name: The name for the model.
        description: When and how to use it.
        timeout: Seconds until a call is given up.
        effect: Its effect; see ``@tool``.
        requires_approval: Whether a person must approve each call.
        background: Whether its calls go on in the background; see ``@tool``.
        at_end: As for ``@tool``.

    Raises:
        ConfigurationError: The worker or the name is invalid.

    >>> from rxworker.testing import ScriptedModel, call
    >>> poet = Worker(ScriptedModel(["An old pond."]), system="You write verses.")
    >>> write = worker_tool(poet, name="write_verse", description="Have a verse written.")
    >>> model = ScriptedModel([call("write_verse", task="A pond."), "Here: An old pond."])
    >>> Worker(model, tools=[write]).run_sync("A verse, please.").text
    'Here: An old pond.'
    """
    if not isinstance(worker, Worker) and not callable(worker):
        raise ConfigurationError(f"{worker!r} is neither a worker nor a function that makes one")
    check_plain("worker_tool(worker)", worker)
    schema: JsonObject = {
        "type": "object",
        "properties": {"task": {"type": "string", "description": TASK}},
        "required": ["task"],
        "additionalProperties": False,
    }
    meta = ToolMeta(check_name(name), description, schema)
    policy = ToolPolicy(timeout, effect, requires_approval=requires_approval, background=background, at_end=at_end)
    return WorkerTool(worker, meta, check_policy(policy))


async def _run(made: Worker, task: str, context: ToolContext, name: str) -> str:
    account = ACCOUNT.get()
    outer = account.context if isinstance(account, RunAccount) else None
    writer = None if outer is None else outer.journal.writer
    # A session of its own for each call, so that calls run in parallel.
    session = made.new_session(log=None if writer is None else made.log or writer.log)
    token = ACCOUNT.set(None if outer is None else RunAccount(outer, "call"))
    try:
        if outer is None or writer is None or session.log is None:
            run: Run[object] | LoadedRun = _begin_alone(session, task, context, outer)
        else:
            run = await _begin_inside(session, session.log, task, context, outer)
    except DecisionError as error:
        begun = context.begun
        if begun is None or begun.paused is None:
            raise
        # What was decided does not fit, and nothing was done: the calls inside go on waiting.
        raise QuestionError(replace(begun, paused=replace(begun.paused, reason=error.message), decided=None)) from error
    finally:
        ACCOUNT.reset(token)
    relayed = 0 if outer is None else outer.journal.relayed(context.call_id)

    def relay(record: Record) -> None:
        if record.seq > relayed:
            context.relay(record)

    if isinstance(run, LoadedRun):  # it has ended before its records were relayed
        for record in (one for records in run.records for one in expand(records)):
            relay(record)
        result = run.result()
    else:
        watching = run.subscribe(relay, ignore)  # the task that awaits the run receives the error
        inside = {} if outer is None else outer.inside
        inside[context.call_id] = run
        try:
            result = await run
        except asyncio.CancelledError:
            await _end_inside(run, outer)
            raise
        finally:
            watching.dispose()
            inside.pop(context.call_id, None)
    if not isinstance(result, Paused):
        return result.text
    if outer is not None:
        outer.background.nested[result.run_id] = result
    if not context.can_ask:
        text = f"it paused, and nothing here can resume it: {result.reason or result.hook}"
        raise ExecutionFailedError(text, tool=name)
    raise QuestionError(Begun(run=result.run_id, paused=outline(result.pause)))


def _task_of(input_json: str | bytes, name: str) -> str:
    try:
        return msgspec.json.decode(input_json, type=_Task).task
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        path, reason = explain(str(error))
        raise InvalidArgumentError(f"invalid arguments at {path}: {reason}", tool=name, path=path) from error


def _begin_alone(session: Session, task: str, context: ToolContext, outer: RunContext | None) -> Run[object]:
    """Begin a run inside one without a log, or resume it."""
    begun = context.begun
    if begun is None or outer is None:
        return session.run(task)
    paused = outer.background.nested.get(begun.run)
    if paused is None:
        raise ExecutionFailedError(f"the run {begun.run} that it has begun is lost", tool=context.tool)
    if (decided := inner_decisions(begun)) is None:
        raise QuestionError(begun)  # it goes on waiting
    return session.resume(paused, decisions=decided)


async def _begin_inside(
    session: Session, log: EventLog, task: str, context: ToolContext, outer: RunContext
) -> Run[object] | LoadedRun:
    """Begin a run inside a logged one, or continue it, if it has paused or the process of the outer run has ended.

    Args:
        session: The session of the inner worker.
        log: Its log.
        task: The input.
        context: The call of the outer run.
        outer: The outer run.

    Returns:
        The run, or what is stored of one that has ended or waits.

    Raises:
        RxWorkerError: It was aborted, or as for ``recover``.
    """
    run_id, begun = nested_id(outer.journal.run_id, context.idempotency_key), context.begun
    while True:
        paused, info = None, await log.info(run_id)
        while info is not None and info.status == "paused":
            paused, info = info, await log.info(resumed_id(info.run_id))
        if info is not None and info.status not in OPEN:
            if info.status == "aborted":
                raise LocalProtocolError(info.row.reason or "it was aborted")
            return await read_run(log, info.run_id, info.row)
        if info is not None and info.owner and info.lease_until > time.time():
            # The process that held both has ended, and its lease has not; or it is about to release it.
            await asyncio.sleep(min(info.lease_until - time.time(), log.lease / 20) + 0.01)
            continue
        if info is not None and info.last_seq:
            run_id, given = info.run_id, None
        elif paused is not None:
            run_id = paused.run_id
            given = inner_decisions(begun) if begun is not None and begun.run == run_id else None
            if given is None:
                return await read_run(log, run_id, paused.row)
        else:
            return session._start(to_messages(task), None, log, run_id)  # its process ended before it was accepted
        run = session._begin(partial(continued, session, log, run_id, given, WHY), run_id)
        try:
            await run._driver.started()
            return run
        except asyncio.CancelledError:
            await _end_inside(run, outer)
            raise
        except LeaseHeldError:
            pass  # its process goes on after all
        except LocalProtocolError as error:
            if not isinstance(error.__cause__, RunStatusError):
                raise
            # It has ended since.


async def _end_inside(run: Run[object], outer: RunContext | None) -> None:
    """End a run because the tool call that it belongs to is cancelled."""
    if outer is not None and outer.journal.is_left and not run.done():
        # The process that continues the outer run makes this call again, which continues the run.
        await run.hand_over(reason="its outer run was handed over", seconds=0.0)
    elif not run.done():
        await run.cancel(reason="the outer run was cancelled")
    if outer is not None and run.state.status == "paused":  # it was faster, and ends with the outer run
        outer.background.nested[run.id] = None
