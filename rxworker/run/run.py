"""A run: awaitable, iterable, and a source of records and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.decisions import Decisions, PendingCalls, decide
from rxworker.errors import LocalProtocolError, nearest
from rxworker.events import Event, Record, RunResume, SharedStateChange
from rxworker.hub import Delivery, Watch, Watchers
from rxworker.hub.hub import when_idle
from rxworker.log.base import release_shielded
from rxworker.log.recover import deliveries_of
from rxworker.log.values import Command, DeliveredResult, When, checked_command, checked_when, deliver_command, to_sent
from rxworker.messages import Conversation, Json, Message
from rxworker.messages.message import Input
from rxworker.operators import partial_values
from rxworker.providers import Request
from rxworker.resume.stored import LoggedRun
from rxworker.run.driver import Opened, RunDriver
from rxworker.run.shutdown import GRACE
from rxworker.state import RunState
from rxworker.state.shared_state import checked_json
from rxworker.tools import SharedState
from rxworker.tools.results import to_content
from rxworker.turn.background import Arrived
from rxworker.turn.commands import CommandReader
from rxworker.turn.context import KEPT_TURNS, RunContext, TurnScope, checked, next_request
from rxworker.turn.gate import EventGate, gates_of
from rxworker.turn.journal import NOT_WAITING
from rxworker.turn.result import Output, Paused, RunResult, T_co
from rxworker.watchdog import running_loop

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
_SCRIPT = "or worker.{}(...) in a script without an event loop"
Step: TypeAlias = Callable[[A], B]
AnyStep: TypeAlias = Callable[[Any], Any]
"""A step of more than the type checker follows."""


class Beginning(Struct, frozen=True):
    """What a run begins with, or continues from.

    Attributes:
        first: Its first events.
        scope: The scope of the first turn.
        called: The names of the tools that the model has called before.
        allowed: The tools that a person always allows.
        output: The type of the answer, if one is requested.
        shared_state: The state that is shared at the beginning.
        stored: Where it is stored.
        run_id: Its id, if it is not the one by which it was loaded.
        nested: The paused runs of its calls by their ids; ``None`` for one that only the log has.
        deliveries: What is decided about its calls in the background, where no log has it.
    """

    first: Sequence[Event]
    scope: TurnScope
    called: Sequence[str] = ()
    allowed: Sequence[tuple[str, str]] = ()
    output: Output[object] | None = None
    shared_state: Json = None
    stored: LoggedRun | None = None
    run_id: str = ""
    nested: Mapping[str, Paused[Any] | None] = {}
    deliveries: Sequence[DeliveredResult] = ()


class Run(Generic[T_co]):
    """One run of a worker. It starts by itself, and continues whether it is watched or not.

    - ``await run`` returns the `RunResult`, or raises the error that ended the run. ``run.done()``, ``run.result()``
      and ``run.exception()`` do what those of an asyncio future do.
    - ``run.records`` is the observable of its records, ``run.events`` that of the bare events. ``run.subscribe(...)``
      and ``run.pipe(...)`` are those of ``run.records``.
    - ``async for record in run`` reads the records at the reader's own pace.
    - ``run.watch(...)`` does either with a chosen delivery, from any record on, and from any thread.

    A late subscriber receives all records from the first. Disposing a subscription does not end the run; only
    ``cancel`` does. Made by ``Worker.run``.

    A run is not an observable: operators that take several observables take ``run.records``, for example
    ``rx.merge(a.records, b.records)``.

    Attributes:
        session: The session that it belongs to; `session_of` returns it with its type.
        first_seq: The number of the first record of this process: more than 1 for a run that was recovered, once it has
            ``started``.
    """

    session: object
    first_seq: int

    def __init__(
        self,
        session: object,
        context: RunContext,
        begin: Beginning | Callable[[], Awaitable[Beginning]],
        began: Callable[[Run[object]], None],
        ended: Callable[[RunContext, RunResult[T_co] | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.session = session
        self.first_seq = 1
        self._context = context
        self._journal = context.journal
        self._loop = loop
        self._began = began
        if isinstance(begin, Beginning):
            self._driver = RunDriver(context, self._begin(begin), ended, loop)
            began(self)
        else:
            self._driver = RunDriver(context, partial(self._load, begin), ended, loop)

    async def _load(self, load: Callable[[], Awaitable[Beginning]]) -> Opened:
        begin = await load()
        if not self._driver.is_loading:
            # It was given up, and something in it has ignored the cancellation.
            if begin.stored is not None and begin.stored.claim is not None:
                await release_shielded(begin.stored.log, begin.stored.claim)
            raise asyncio.CancelledError
        opened = self._begin(begin)
        self._began(self)
        return opened

    def _begin(self, begin: Beginning) -> Opened:
        """Emit the first events after the records that are stored."""
        context, journal, scope, stored = self._context, self._journal, begin.scope, begin.stored
        journal.run_id = begin.run_id or journal.run_id
        context.allowed[:0] = begin.allowed
        commands = None
        if stored is not None:
            stored.attach(context, scope)
        self.first_seq = journal.hub.history.last_seq + 1
        state, background = journal.state, context.background
        first, shared = begin.first, state.shared_state
        background.journal = journal
        background.nested.update(begin.nested)
        background.arrived += map(Arrived, begin.deliveries)
        background.is_carried = bool(state.background or (isinstance(first[0], RunResume) and first[0].background))
        if self.first_seq == 1 and begin.shared_state is not None:
            shared = checked_json(begin.shared_state)
            first = (first[0], SharedStateChange("replace", "", shared), *first[1:])
        writer = journal.writer
        if writer is not None:
            if scope.answered and self.first_seq == 1:
                writer.keep_answers(scope.answered)
            commands = background.commands = CommandReader(
                *(writer, journal.run_id, context.mailbox, context.pause_request, self._cancel),
                *(context.worker.mapped, background.arrive),
                tuple([outer.journal.run_id for outer in context.parents]),
            )
            if stored is not None and stored.run is not None:
                commands.skip(stored.run.taken)
                background.kept, background.is_foreign = stored.run.kept, stored.run.foreign >= stored.run.state.seq
        output = begin.output
        options = context.options
        if output is not None:
            options = replace(options, output=output.format)
        self._context = context = replace(
            context,
            options=options,
            output=output,
            variables=scope.variables,
            called=dict.fromkeys(begin.called),
            shared=SharedState(shared, partial(background.share, checked(journal)), partial(_call_soon, self._loop)),
            commands=commands,
        )
        if isinstance(resume := first[0], RunResume):
            for budget in context.budgets:  # those of the runs around it, too
                budget.carry_over(resume.resumes, journal.run_id, resume.usage)
        for event in first:
            journal.emit(event)
        if (context.worker.operators or context.parents) and (gates := gates_of(context)):
            journal.gate = EventGate(context, gates)
        return context, scope

    def _cancel(self, reason: str, number: int, after_turn: bool) -> None:
        self._driver.cancel(reason, after_turn=after_turn, number=number)

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.state.status})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - as IPython calls it
        """The run as it is now, for a notebook; `rxworker.ui.jupyter.display_run` draws it while it goes on."""
        from rxworker.views import RunView, view_html  # few programs are notebooks

        view = RunView()

        def step(record: Record) -> None:
            view.step(record)

        self.subscribe(step, lambda _: None).dispose()
        return {"text/plain": repr(self), "text/html": view_html(view)}

    @property
    def id(self) -> str:
        """The id of the run in the records.

        Before ``started``, a run that is loaded has the id by which it is loaded.
        """
        return self._journal.run_id

    async def started(self) -> Run[T_co]:
        """Wait until what is stored of the run is loaded, and this process may continue it; the run.

        A run that was not stored has started.

        If this is cancelled, the run is handed over: the caller does not have it, so that it goes on in another
        process, or not at all.

        Raises:
            RxWorkerError: It cannot be continued, or it was cancelled before that.
        """
        driver = self._driver
        try:
            await driver.started()
        except asyncio.CancelledError:
            driver.hand_over("the wait for its start was cancelled", 0.0)
            await asyncio.wait([driver.outcome], timeout=GRACE)
            raise
        return self

    @property
    def records(self) -> Observable[Record]:
        """The observable of the records. Each subscriber receives all of them, from the first.

        It fails with the error that ended the run.
        """
        return self._journal.hub.records

    def entries(self, after: int = 0, *, name: str = "") -> Observable[Record]:
        """The observable of the records for instruments, which need not see each delta.

        Deltas from one network read are one record with a `Deltas`.

        The observer is called at once, in the context in which the event is emitted: at the start of a request or a
        tool, that of the request or of the tool's task alone. It does not count as a watcher: a run that has no other
        is unobserved.

        Args:
            after: The number of the last record to skip.
            name: A label that users see.
        """
        return self._journal.hub.entries(after, name)

    @property
    def events(self) -> Observable[Event]:
        """The observable of the bare events: the same as ``run.pipe(events())``, and cheaper."""
        return self._journal.hub.events

    def subscribe(
        self,
        on_next: abc.ObserverBase[Record] | abc.OnNext[Record] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Subscribe an observer, or functions, to the records: ``run.records.subscribe(...)``."""
        hub = self._journal.hub
        return hub.subscribe(on_next, on_error, on_completed, scheduler=scheduler)

    @overload
    def pipe(self, op1: Step[Observable[Record], A], /) -> A: ...
    @overload
    def pipe(self, op1: Step[Observable[Record], A], op2: Step[A, B], /) -> B: ...
    @overload
    def pipe(self, op1: Step[Observable[Record], A], op2: Step[A, B], op3: Step[B, C], /) -> C: ...
    @overload
    def pipe(self, op1: Step[Observable[Record], A], op2: Step[A, B], op3: Step[B, C], op4: Step[C, D], /) -> D: ...
    @overload
    def pipe(
        self, op1: Step[Observable[Record], A], op2: Step[A, B], op3: Step[B, C], op4: Step[C, D], op5: Step[D, E], /
    ) -> E: ...
    @overload
    def pipe(
        self,
        op1: Step[Observable[Record], A],
        op2: Step[A, B],
        op3: Step[B, C],
        op4: Step[C, D],
        op5: Step[D, E],
        op6: Step[E, F],
        /,
    ) -> F: ...
    @overload
    def pipe(
        self,
        op1: Step[Observable[Record], A],
        op2: Step[A, B],
        op3: Step[B, C],
        op4: Step[C, D],
        op5: Step[D, E],
        op6: Step[E, F],
        op7: Step[F, G],
        /,
    ) -> G: ...
    @overload
    def pipe(
        self,
        op1: AnyStep,
        op2: AnyStep,
        op3: AnyStep,
        op4: AnyStep,
        op5: AnyStep,
        op6: AnyStep,
        op7: AnyStep,
        op8: AnyStep,
        /,
        *operators: AnyStep,
    ) -> Any: ...
    def pipe(self, *operators: AnyStep) -> Any:
        """Apply operators to the records, from left to right: ``run.records.pipe(...)``."""
        return self.records.pipe(*operators)

    @property
    def partial_output(self) -> Observable[Json]:
        """The partial value of the answer, each time that it changes; see `partial_values`."""
        return self.events.pipe(partial_values())

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of the runs that contain this one, the innermost first.

        Their records contain the records of this one.
        """
        return tuple([outer.journal.run_id for outer in self._context.parents])

    @property
    def allowed(self) -> list[tuple[str, str]]:
        """The tools that a person always allows in this run, as in ``allowed`` of `Session`, which it began with.

        It may be changed while the run runs, which concerns no other run; a log stores it with the next records.

        >>> from rxworker import Worker, tool
        >>> from rxworker.testing import ScriptedModel, call
        >>> @tool(requires_approval=True)
        ... def delete(path: str) -> str:
        ...     return f"{path} is gone"
        >>> async def main() -> None:
        ...     worker = Worker(ScriptedModel([call("delete", path="a"), "Done."]), tools=[delete])
        ...     run = worker.run("Clean up")
        ...     run.allowed.append(("delete", "requires_approval"))
        ...     print((await run).text, worker.session.allowed)
        >>> asyncio.run(main())
        Done. []
        """
        return self._context.allowed

    @property
    def state(self) -> RunState:
        """The state after the records so far."""
        return self._journal.state

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        return self._journal.hub.last_seq

    @property
    def watchers(self) -> Watchers:
        """The watchers and how far behind they are: ``run.watchers.now``, or as an observable."""
        return Watchers(self._journal.hub, lambda: self._context.scheduler)

    def watch(self, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> Watch:
        """Watch the run: records are pushed, or read at the reader's pace, on this event loop or in another thread.

        Args:
            delivery: How the watcher receives records: `Coalesce` by default, or `Reliable`, `Latest`, `DropOldest`.
            after: The number of the last record to skip.
            name: A label that users see; by default it is numbered.
        """
        return self._journal.hub.watch(delivery, after=after, name=name)

    def snapshot(self, delivery: Delivery | None = None, *, name: str = "") -> tuple[RunState, Watch]:
        """The current state, and a watch of everything after it, for a watcher that skips the history.

        Args:
            delivery: As for ``watch``.
            name: As for ``watch``.
        """
        state = self.state
        return state, self.watch(delivery, after=state.seq, name=name)

    def cancel_when_unobserved(self, grace: float = 30.0) -> abc.DisposableBase:
        """Cancel the run when it had no watcher for a while. By default a run continues without watchers.

        Awaiting it is not watching. Must be called in the run's event loop.

        Args:
            grace: Seconds without a watcher, from now or from the end of the last watch.

        Returns:
            Disposing it lets the run continue without watchers.

        Raises:
            ConfigurationError: The grace is not a number of seconds.
        """

        def leave() -> None:
            self.cancel(reason=f"it had no watcher for {grace:g} seconds")

        return when_idle(self._journal.hub, grace, self._context.scheduler, leave)

    def pause(self, *, reason: str = "paused by the caller") -> None:
        """Pause at the next safe moment: before tools run, after they have run, or when the run would finish.

        The result is `Paused`, and ``worker.resume`` continues the run. A run that finishes or fails before that is not
        paused.

        Args:
            reason: Shown to users; not interpreted.

        Raises:
            LocalProtocolError: The run has ended, or this was called outside its event loop.
            ConfigurationError: The reason is not a text.
        """
        self._check_loop("pause")
        checked_command(Command("pause", {"reason": reason}))
        if not self._driver.is_open:
            raise LocalProtocolError("this run has ended: there is nothing to pause")
        self._context.pause_request.request(reason)

    def done(self) -> bool:
        """Whether the run has ended."""
        return self._driver.outcome.done()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it runs on."""
        return self._loop

    @property
    def scheduler(self) -> abc.SchedulerBase:
        """The time of the run's event loop, for operators that take a scheduler.

        ``run.events.pipe(coalesce(1 / 60, run.scheduler))``.

        Operators of reactivex in a pipeline on the run have it already; only the run's event loop may use it.
        """
        return self._context.scheduler

    def send(self, message: Input, when: When = "turn") -> asyncio.Future[None]:
        """Add a message to the conversation at the next safe moment.

        A `MessageAdd` with the source ``send`` records the delivery.

        Args:
            message: As for ``Worker.run``.
            when: ``turn``: before the next request, and before the run would finish. ``now``: a response that is being
                written is cut off, its content so far is kept, and another request follows; running tools are waited
                for. ``end``: when the run would finish, and no other message waits.

        Returns:
            A future that is done when the message is in the conversation; it need not be awaited. It fails if the run
            ends before that. Cancelling it withdraws the message, and `edit` changes it.

        Raises:
            LocalProtocolError: The run has ended, or it was called outside the run's event loop, for example in another
                thread.
            ConfigurationError: The message is invalid, or ``when`` is none of the three.
        """
        messages = self._sendable("send", message, when)
        if self._context.commands is not None:
            return self._context.commands.send(messages, when)
        return self._context.mailbox.put(messages, when=when)

    def edit(self, sent: asyncio.Future[None], message: Input, when: When | None = None) -> asyncio.Future[None]:
        """Replace a message that was sent and is not in the conversation yet. It keeps its place in the queue.

        Args:
            sent: What `send` has returned.
            message: The message in place of it.
            when: When it is delivered, if that changes.

        Returns:
            A future that is done when the message is replaced; it need not be awaited. It fails with a
            `LocalProtocolError` if it turns out to be too late.

        Raises:
            LocalProtocolError: The message is in the conversation already, or was withdrawn; otherwise as for `send`.
            ConfigurationError: As for `send`.
        """
        messages = self._sendable("edit", message, when)
        if sent.done():
            raise LocalProtocolError(NOT_WAITING)
        if self._context.commands is not None:
            return self._context.commands.edit(sent, messages, when)
        if not self._context.mailbox.edit(sent, messages, when):
            raise LocalProtocolError(NOT_WAITING)
        done: asyncio.Future[None] = self._loop.create_future()
        done.set_result(None)
        return done

    def _sendable(self, call: str, message: Input, when: When | None) -> tuple[Message, ...]:
        self._check_loop(call)
        if call == "send" or when is not None:
            checked_when(when)
        messages = to_sent(self._context.worker.mapped(to_sent(message)))
        if not self._driver.is_open:
            raise LocalProtocolError("this run has ended: begin another with worker.run(...)")
        return messages

    def deliver(self, call_id: str, result: object, *, is_error: bool = False) -> None:
        """Give the result of a call in the background, in place of its tool, which is cancelled if it runs here.

        The first result of a call counts. A paused run keeps it for the run that resumes it. See `EventLog.deliver` for
        other processes.

        Args:
            call_id: The id of the call, or its idempotency key.
            result: What a tool may return.
            is_error: Whether the call has failed.

        Raises:
            LocalProtocolError: The run has ended, or this was called outside its event loop.
            ConfigurationError: The id is not one of a call.
            ExecutionFailedError: The result has no JSON form.
        """
        self._check_loop("deliver")
        if self.state.is_over:
            raise LocalProtocolError("this run has ended: it takes no results")
        delivery = DeliveredResult(call_id, to_content(result, call_id), is_error)
        checked_command(deliver_command(delivery))
        self._context.background.deliver(delivery)

    def cancel_call(self, call_id: str, *, reason: str = "cancelled by the caller") -> None:
        """Cancel a call in the background. The model reads that it was cancelled, with the reason.

        Args:
            call_id: As for ``deliver``.
            reason: The reason.

        Raises:
            LocalProtocolError: As for ``deliver``; or no call in the background has this id.
        """
        known = [name for each in self.state.background for name in (each.id, each.key)]
        if call_id not in known:
            raise LocalProtocolError(f"no call in the background has the id {call_id!r}{nearest(str(call_id), known)}")
        self.deliver(call_id, f"This call was cancelled: {reason}", is_error=True)

    def decide(self, decisions: Decisions) -> None:
        """Decide about calls that wait in the background while the run goes on. The first decision about each counts.

        A run that has paused takes its decisions by ``Worker.resume``; one of another process by `decide_running`.

        Args:
            decisions: As for ``Worker.resume``, about the calls of ``run.state.waiting``.

        Raises:
            LocalProtocolError: Nothing waits, the decisions do not fit, or this was called outside its event loop.
        """
        self._check_loop("decide")
        pause = self.state.waiting
        if pause is None or self.state.status != "running":
            raise LocalProtocolError(f"nothing waits in the background of this run, which is {self.state.status}")
        for each in deliveries_of(pause, decide(PendingCalls.of(pause), decisions)):
            self._context.background.deliver(each)

    def inner(self, call_id: str) -> Run[Any]:
        """The run that a call of this run has begun, while it runs: to send to it, to pause it, or to cancel it alone.

        One that is cancelled gives its call an error result. For one that is deeper: ``run.inner(a).inner(b)``, with
        the ids of the ``path`` of its records.

        Args:
            call_id: The id of the call.

        Raises:
            LocalProtocolError: No such call has a run that runs.

        Example:
            >>> from rxworker import Worker, worker_tool
            >>> from rxworker.testing import ScriptedModel, call, stall
            >>> slow = worker_tool(Worker(ScriptedModel([stall()])), name="ask", description="Ask.")
            >>> worker = Worker(ScriptedModel([call("ask", task="Why?"), "So."]), tools=[slow])
            >>> async def main() -> None:
            ...     run = worker.run("go")
            ...     async for record in run:
            ...         if record.path:
            ...             break
            ...     run.inner(record.path[0]).cancel(reason="not needed")
            ...     print((await run).text)
            >>> asyncio.run(main())
            So.
        """
        inside: dict[str, Run[Any]] = self._context.inside
        if call_id not in inside:
            raise LocalProtocolError(f"no run of a call {call_id!r} runs; calls with such runs: {[*inside]}")
        return inside[call_id]

    def cancel(
        self, when: Literal["now", "after_turn"] = "now", *, reason: str = "cancelled by the caller"
    ) -> asyncio.Future[None]:
        """End the run: close the connection, cancel the tools, and call the ``on_abort`` hooks.

        The conversation stays usable.

        Args:
            when: ``now``, or ``after_turn``: when the tools of this turn have run. A run that finishes by itself before
                that has finished.
            reason: Shown to users; not interpreted.

        Returns:
            A future that is done when the run has ended; it need not be awaited, and raises nothing.

        Raises:
            LocalProtocolError: It was called outside the run's event loop, for example in another thread.
            ConfigurationError: ``when`` is neither, or the reason is not a text.
        """
        self._check_loop("cancel")
        checked_command(Command("cancel", {"reason": reason, "when": when}))
        self._driver.cancel(reason, after_turn=when == "after_turn")
        return asyncio.ensure_future(self._wait())

    async def barrier(self) -> None:
        """Wait until all records so far are stored, for a run with a log; otherwise return at once.

        Raises:
            FencedError: Another process has taken the run over.
            LogError: They could not be stored.
        """
        await self._journal.barrier()

    def hand_over(
        self, *, reason: str = "its process is being shut down", seconds: float = 20.0
    ) -> asyncio.Future[None]:
        """Stop a logged run in this process, so that another one continues it at once.

        No turn is begun, running tools may finish, and a response that is being received is retracted. Awaiting the run
        raises `RunHandedOverError`.

        Args:
            reason: Shown to users; not interpreted.
            seconds: How long running tools may still take.

        Returns:
            A future that is done when the run is released; it need not be awaited, and raises nothing.

        Raises:
            LocalProtocolError: The run has no log, or this was called outside its event loop.
        """
        self._check_loop("hand_over")
        if self._context.commands is None and not self._driver.is_loading:
            raise LocalProtocolError("this run has no log, so that no other process can continue it: cancel() it")
        self._driver.hand_over(reason, seconds)
        return asyncio.ensure_future(self._wait())

    def result(self) -> RunResult[T_co]:
        """The result of a run that has ended, as ``await run`` returns it.

        Raises:
            LocalProtocolError: The run has not ended.
            RxWorkerError: The error that ended the run.
        """
        outcome = self._outcome()
        try:
            return outcome.result()
        finally:
            del self  # a traceback must not keep the run

    def exception(self) -> BaseException | None:
        """The error that ended the run; ``None`` if it has a result.

        Raises:
            LocalProtocolError: The run has not ended.
        """
        return self._outcome().exception()

    def _outcome(self) -> asyncio.Future[RunResult[T_co]]:
        if not self.done():
            raise LocalProtocolError("this run has not ended: await it first")
        return self._driver.outcome

    async def _wait(self) -> None:
        await asyncio.wait([self._driver.outcome])

    def __await__(self) -> Generator[object, None, RunResult[T_co]]:
        """The result.

        Raises:
            RunCancelledError: ``cancel`` was called.
            RunAbortedError: A hook ended the run.
            LimitExceededError: A limit was reached.
            RxWorkerError: Any other error that ended the run.
        """
        if self._loop.is_closed() and not self.done():
            message = "this run's event loop has closed before the run ended: start a new run"
            raise LocalProtocolError(message)
        return self._driver.wait().__await__()

    def __aiter__(self) -> AsyncIterator[Record]:
        """The records from the start, at the reader's own pace; raises the error that ended the run."""
        return aiter(self._journal.hub)

    if not TYPE_CHECKING:  # a type checker reports both by itself

        def __iter__(self) -> NoReturn:
            raise TypeError(f"a run is not iterable: use async for record in run, {_SCRIPT.format('stream_sync')}")

        def __getattr__(self, name: str) -> NoReturn:
            text = f"a run has no attribute {name!r}"
            if hasattr(Paused, name):
                text += f", its result has: (await run).{name}, {_SCRIPT.format('run_sync')}"
            elif name[0] != "_":
                text += nearest(name, dir(type(self)))
            raise AttributeError(text, name=name, obj=self)

    def _check_loop(self, call: str) -> None:
        if running_loop() is not self._loop:
            message = (
                f"{call}() must be called in the run's event loop; elsewhere use "
                f"run.loop.call_soon_threadsafe(run.{call})"
            )
            raise LocalProtocolError(message)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    # The loop may be closed while a thread that was given up still runs, and its run may have ended.
    def call() -> None:
        with suppress(LocalProtocolError):
            function()

    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


class Tracing(Protocol):
    """Observes the runs of workers, and gives each the trace context of its caller.

    For example `rxworker.adapters.opentelemetry.OpenTelemetry`.
    """

    def traceparent(self) -> str:
        """The trace context of the caller, as the header of that name of W3C Trace Context; empty without one.

        It is stored with the run.
        """
        ...

    def __call__(self, run: Run[Any], /) -> object:
        """Observe a run that begins or is recovered. What this raises is logged and does not affect the run."""
        ...


def request_of(run: Run[object], turn: int, conversation: Conversation) -> tuple[Request, bool]:
    """The request of a turn as this process sent it, with the tools as they are now.

    And whether changes of hooks in it are known, which are kept for the last `KEPT_TURNS`.

    Args:
        run: The run.
        turn: The number of the turn, from 1.
        conversation: The conversation in the records before the request.
    """
    context = run._context
    request = next_request(context, context.sent.get(turn, conversation).sent)
    return request, turn > context.journal.turn - KEPT_TURNS


async def end_of(run: Run[object]) -> None:
    """Wait for the end of a run. Its errors are in its records."""
    with suppress(Exception):
        await run
