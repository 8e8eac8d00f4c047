"""A worker as a tool of another worker.

Theory of operation. A call starts a run of the inner worker and waits for it. The inner run's records go through the
call's context into the records of the outer run, under the id of the call, so watchers of the outer run receive both.
The end of the call ends the inner run, for example when the outer run is cancelled or reaches a time limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rxworker.errors import (
    ConfigurationError,
    ExecutionFailedError,
    InvalidArgumentError,
    LeaseHeldError,
    LocalProtocolError,
    RunStatusError,
)
from rxworker.events import Record
from rxworker.log.base import EventLog
from rxworker.log.values import first_id
from rxworker.messages import JsonObject, ToolMeta
from rxworker.messages.message import to_messages
from rxworker.messages.settings import check_plain
from rxworker.resume.stored import read_run
from rxworker.run.run import Run
from rxworker.tools import ToolContext, ToolPolicy
from rxworker.tools.base import Effect, check_name, check_policy
from rxworker.tools.custom_types import explain
from rxworker.transport.base import ACCOUNT
from rxworker.turn.account import RunAccount
from rxworker.turn.context import RunContext, ignore
from rxworker.turn.result import Paused, RunResult
from rxworker.worker.continuing import recovered
from rxworker.worker.session import Session
from rxworker.worker.worker import Worker

MakeWorker: TypeAlias = Callable[[], Worker]
"""Makes the worker of each call."""

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

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        """Run the worker with a task, and wait for its answer.

        Raises:
            InvalidArgumentError: There is no task.
            ExecutionFailedError: The run failed, or paused.
        """
        task = _task_of(input_json, self.meta.name)
        given = self._worker
        made = given if isinstance(given, Worker) else given()
        if not isinstance(made, Worker):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"{given!r} made {made!r}, which is not a worker")
        # A session of its own for each call, so that calls run in parallel.
        return await _run(made.new_session(), task, context, self.meta.name)


def worker_tool(
    worker: Worker | MakeWorker,
    *,
    name: str,
    description: str,
    timeout: float | None = None,
    effect: Effect = "write",
    requires_approval: bool = False,
) -> WorkerTool:
    """Make a tool of a worker: a call gives it a task, and its answer is the result.

    Its records appear among those of the outer run, with the id of the call in their ``path``. Its tokens count among
    the outer run's. Cancelling the outer run cancels it and waits for it. The outer run's limits on tokens, cost, tool
    calls and seconds, and its budget, apply to both together; the inner run also has its own limits, and ``max_depth``
    bounds the depth. An error in it is an error result, and so is a pause, since it could not be resumed.

    Args:
        worker: A worker, or a function that makes one. Each call has a session of its own, so that calls run in
            parallel.
        name: The name for the model.
        description: When and how to use it.
        timeout: Seconds until a call is given up.
        effect: Its effect; see ``@tool``.
        requires_approval: Whether a person must approve each call.

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
    policy = ToolPolicy(timeout, effect, requires_approval=requires_approval)
    return WorkerTool(worker, meta, check_policy(policy))


def nested_id(outer: str, key: str) -> str:
    """The id of the run that a call begins.

    The same call of an outer run that was recovered, or that resumes another one, has the same key, so that it finds
    the run that it began.

    Args:
        outer: The id of the outer run.
        key: The idempotency key of the call.

    >>> nested_id("run-1", "run-1/1/0/ab"), nested_id("run-1~2", "run-1/1/0/ab"), nested_id("run-7", "run-1/1/0/ab")
    ('run-1.dd2612a015f1', 'run-1.dd2612a015f1', 'run-7.dd2612a015f1')
    """
    began = key.rsplit("/", 3)[0]
    # A copy of a run has runs of its own.
    is_same = first_id(began) == first_id(outer)
    return f"{began if is_same else outer}.{sha256(key.encode()).hexdigest()[:12]}"


async def _run(session: Session, task: str, context: ToolContext, name: str) -> str:
    account = ACCOUNT.get()
    outer = account.context if isinstance(account, RunAccount) else None
    token = ACCOUNT.set(None if outer is None else RunAccount(outer, "call"))
    try:
        writer = None if outer is None else outer.journal.writer
        if outer is None or writer is None:
            run: Run[object] | RunResult[object] = session.run(task)
        else:
            name = nested_id(outer.journal.run_id, context.idempotency_key)
            run = await _run_inside(session, task, session.log or writer.log, name, outer)
    finally:
        ACCOUNT.reset(token)
    if isinstance(run, RunResult):
        return _text_of(run, name)
    relayed = 0 if outer is None else outer.journal.relayed(context.call_id)

    def relay(record: Record) -> None:
        if record.seq > relayed:
            context.relay(record)

    watching = run.subscribe(relay, ignore)  # the task that awaits the run receives the error
    try:
        result: RunResult[object] = await run
    except asyncio.CancelledError:
        await _end_inside(run, outer)
        raise
    finally:
        watching.dispose()
    return _text_of(result, name)


def _text_of(result: RunResult[object], name: str) -> str:
    if isinstance(result, Paused):
        why = result.reason or result.hook
        text = f"it paused, and a nested run cannot wait for a decision: {why}"
        raise ExecutionFailedError(text, tool=name)
    return result.text


def _task_of(input_json: str | bytes, name: str) -> str:
    try:
        return msgspec.json.decode(input_json, type=_Task).task
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        path, reason = explain(str(error))
        raise InvalidArgumentError(f"invalid arguments at {path}: {reason}", tool=name, path=path) from error


async def _run_inside(
    session: Session, task: str, log: EventLog, run_id: str, outer: RunContext
) -> Run[object] | RunResult[object]:
    """Begin a run inside a logged one, or continue it, if the process of the outer run has ended since it began.

    Args:
        session: The session of the inner worker.
        task: The input.
        log: The log of the session, or of the outer run.
        run_id: The id, the same for the same call of the outer run.
        outer: The outer run.

    Returns:
        The run; its result, if it has ended.

    Raises:
        RxWorkerError: It was aborted, or as for ``recover``.
    """
    while (info := await log.info(run_id)) is not None:
        if info.status == "aborted":
            raise LocalProtocolError(info.row.reason or "it was aborted")
        if info.status != "running":
            return (await read_run(log, run_id, info.row)).result(run_id)
        if info.owner and info.lease_until > time.time():
            # The process that held both has ended, and its lease has not; or it is about to release it.
            await asyncio.sleep(min(info.lease_until - time.time(), log.lease / 20) + 0.01)
        elif info.last_seq:
            begun = session._begin(partial(recovered, session, log, run_id, "its outer run was recovered"), run_id)
            try:
                await begun._driver.started()
                return begun
            except asyncio.CancelledError:
                await _end_inside(begun, outer)
                raise
            except LeaseHeldError:
                pass  # its process goes on after all
            except LocalProtocolError as error:
                if not isinstance(error.__cause__, RunStatusError):
                    raise
                # It has ended since.
        else:
            break  # that process ended before it was accepted
    return session._start(to_messages(task), None, log, run_id)


async def _end_inside(run: Run[object], outer: RunContext | None) -> None:
    """End a run because the tool call that it belongs to is cancelled."""
    if run.done():
        return
    if outer is not None and outer.journal.is_left:
        # The process that continues the outer run makes this call again, which continues the run.
        await run.hand_over(reason="its outer run was handed over", seconds=0.0)
    else:
        await run.cancel(reason="the outer run was cancelled")
