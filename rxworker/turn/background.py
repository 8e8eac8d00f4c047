"""The calls of a run that go on in the background in this process, and the results that have come.

Theory of operation. A call that goes into the background has ended for its turn, with a placeholder as its result. Its
task goes on. When it ends, its result waits here until it joins the conversation at the next safe point; see
`rxworker.turn.rejoin`. With a log, the result is a command to the run, as one that is delivered from outside: it is
stored before it joins, the log takes the first for a call, and one that comes while the run is paused is carried over
to the run that resumes it. The tasks of a paused run go on, and the run that resumes it in this process adopts them.

The states of a call, and the events that move it::

    waiting ─ToolStart─▶ running ─ToolStop─▶ ended ─ToolOutput, MessageAdd─▶ in the conversation
                            │                                                      ▲
                     BackgroundStart, with the placeholder for its turn            │
                            ▼                                                      │
                   in the background ─a result comes─▶ arrived ─BackgroundStop, MessageAdd
                            │  ▲
             BackgroundStart│  │a decision comes: BackgroundStart, and the tool is called again
                            ▼  │
                  waits for a decision

What a call waits for, and the decision about it, come as its result does: each is a `DeliveredResult` with a step of
the call instead of a result, of which the log takes the first. A `BackgroundStart` of a call in the background states
what it waits for, or how it goes on; or that no process runs it, and its result is delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import RxWorkerError
from rxworker.events import (
    BackgroundProgress,
    CommandTaken,
    Event,
    Record,
    SharedStateChange,
    ToolProgress,
    ToolStart,
    ToolStop,
)
from rxworker.events.pause import BackgroundCall
from rxworker.hooks import HookPoint, Hooks
from rxworker.hooks.registry import names_in
from rxworker.log import EventLog
from rxworker.log.values import DECIDE, DISMISS, DeliveredResult
from rxworker.messages import Json, ToolResult
from rxworker.tools.base import policy_of
from rxworker.tools.calls import FinishedCall, PendingCall
from rxworker.tools.cancellation import stop_all
from rxworker.tools.run import CallScope, Forwarder, RunningCall, ToolEvent, key_of
from rxworker.turn.commands import CommandReader
from rxworker.turn.journal import Journal


class Arrived(Struct, frozen=True):
    """A result that waits to join the conversation.

    Attributes:
        delivery: The result.
        taken: The record that its command is taken; ``None`` without a log.
    """

    delivery: DeliveredResult
    taken: CommandTaken | None = None


class Background(Struct, eq=False, weakref=True):
    """The calls of a run that go on in the background in this process, and the results that have come.

    Attributes:
        journal: The journal of the run.
        commands: Reads the commands to a logged run.
        calls: The calls that this process runs, by their ids, until their results have joined.
        arrived: The results that wait, in the order in which they came.
        changed: Set when something comes, while the run waits for it.
        take_steps: While the run is running: records what calls wait for, and goes on with those decided about.
        is_stopping: Whether the run is to end after its turn.
        is_carried: Whether the run begins with calls in the background.
        is_foreign: Whether these were begun in another run, so that no hook and no person has agreed to them.
        kept: With what the tools of these go on, by their ids.
        heir: That of the run which has adopted the calls.
        nested: The runs that calls have waited with, by their ids; ``None`` for one that only the log has. Those of all
            runs that resume each other, since a call may wait after its run has paused.
        shared: Changes of the shared state that the calls have made while the run is paused.
    """

    journal: Journal | None = None
    commands: CommandReader | None = None
    calls: dict[str, RunningCall] = {}
    arrived: list[Arrived] = []
    changed: asyncio.Event | None = None
    take_steps: Callable[[], None] | None = None
    is_stopping: bool = False
    is_carried: bool = False
    is_foreign: bool = False
    kept: dict[int | str, Json] = {}
    heir: Background | None = None
    nested: dict[str, Any] = {}
    shared: list[SharedStateChange] = []

    def begin(self, hooks: Hooks, running: RunningCall, is_delivered: bool) -> BackgroundCall:
        """Take a call that goes into the background, and from then on its events."""
        journal, each, policy = self.journal, running.each, policy_of(running.tool)
        assert journal is not None  # of a run that has begun
        call, state = each.call, journal.state
        key = key_of(call, each.place, running.scope.key)
        used = {*state.delivered, *self.calls, *[other.id for other in state.background]}
        id = call.id if call.id and call.id not in used else key  # noqa: A001 - what it is
        agreed = tuple(names_in(hooks.orders[HookPoint.BEFORE_TOOL_CALL]))
        began = journal.clock()
        background = BackgroundCall(id, call, key, each.place, began, policy.at_end, is_delivered, "", agreed)
        self.follow(background, running)
        return background

    def follow(self, background: BackgroundCall, running: RunningCall) -> None:
        """Take the events of a call in the background."""
        self.calls[background.id] = running
        running.scope = self._scope(running.scope, running.scope.key)
        running.emit = partial(self._report, background.id)
        running.task.add_done_callback(partial(self._done, running))

    def _scope(self, scope: CallScope, key: str) -> CallScope:
        return replace(scope, key=key, relay=partial(self._relay, scope.relay))

    def _relay(self, relay: Forwarder, call_id: str, record: Record) -> None:
        if self._is_running:  # nothing follows a pause
            relay(call_id, record)

    @property
    def _is_running(self) -> bool:
        return self.journal is not None and self.journal.state.status == "running"

    def _report(self, id: str, event: ToolEvent | BackgroundProgress) -> None:  # noqa: A002 - what it is
        journal = self.journal
        if isinstance(event, ToolProgress):
            event = BackgroundProgress(id, event.progress)
        if journal is None or journal.gate is None:
            self._pass_on(id, event)
        else:  # a result passes the gate before it is stored
            journal.gate(event, partial(self._pass_on, id))

    def _pass_on(self, id: str, event: Event) -> None:  # noqa: A002 - what it is
        journal = self.journal
        if isinstance(event, ToolStop):
            result = event.result
            assert result is not None  # no hook has seen it
            self.deliver(DeliveredResult(id, result.content, event.is_error, event.seconds))
        elif journal is not None and self._is_running and not isinstance(event, ToolStart):
            journal.emit(event)

    def _done(self, running: RunningCall, task: asyncio.Task[FinishedCall | PendingCall]) -> None:
        """Report the end of a call that has not reported it: it waits, its tool has cancelled itself, or is cancelled.

        A task that the end of its loop or of its run cancels has no result: the effect of its tool decides.
        """
        owner = self if self.heir is None else self.heir
        if not task.cancelled() and task.exception() is None:
            done, each = task.result(), running.background
            if isinstance(done, PendingCall) and each is not None and running.is_wanted:
                owner.deliver(DeliveredResult(each.id, "", begun=done.paused.begun, step=each.step + 1))
            return
        if owner._is_running:
            call = running.each.call
            result = ToolResult(call.id, "The tool cancelled itself.", is_error=True, name=call.name)
            asyncio.get_running_loop().call_soon(running.report, ToolStop(result))  # unless the run ends now

    def deliver(self, delivery: DeliveredResult) -> None:
        """The result of a call in the background has come, in this process. With a log, the first one counts."""
        if self.commands is None:
            self.arrive(delivery)
        else:
            self.commands.deliver(delivery)

    def arrive(self, delivery: DeliveredResult, taken: CommandTaken | None = None) -> None:
        """A result waits from now on, until the next safe point."""
        if self.heir is not None:  # whose commands have other numbers; the same result is one of them
            self.heir.arrive(delivery)
            return
        self.arrived.append(Arrived(delivery, taken))
        if delivery.begun is not None and self.take_steps is not None and self._is_running:
            self.take_steps()
        self.ring()

    def ring(self) -> None:
        """Wake the run, if it waits."""
        if self.changed is not None:
            self.changed.set()

    def adopt(self, other: Background, scope: CallScope) -> None:
        """Take over the calls of a paused run, which this one resumes.

        Args:
            other: What the paused run has left.
            scope: What the calls of this run share.
        """
        # Their commands are those of the paused run, and are among those of this one under other numbers.
        self.arrived[:0] = [Arrived(one.delivery) for one in other.arrived]
        other.nested.update(self.nested)
        self.nested = other.nested  # the runs inside may pause later
        for id, running in other.calls.items():  # noqa: A001 - what it is
            self.calls[id] = running
            running.scope = self._scope(scope, running.scope.key)
            running.emit = partial(self._report, id)
            if running.line is not None and scope.shared is not None:
                running.line._shared, running.line.variables = scope.shared, scope.variables or {}
        if scope.shared is not None:
            for change in other.shared:
                scope.shared.apply(change)
        other.calls, other.arrived, other.heir = {}, [], self

    def share(self, emit: Callable[[SharedStateChange], None], change: SharedStateChange) -> None:
        """Emit a change of the shared state. While the run is paused, it waits for the run that adopts the calls."""
        if self.calls and not self._is_running:
            self.shared.append(change)
        else:
            emit(change)

    async def outlive(self, log: EventLog, paused: str) -> None:
        """Cancel the calls if the paused run is dismissed, in whichever process; until then, keep what they share.

        Args:
            log: The log of the run.
            paused: The id of the run.
        """
        reading = asyncio.ensure_future(_is_dismissed(log, paused))
        left: set[asyncio.Future[Any]] = {reading, *[each.task for each in self.calls.values()]}
        while not reading.done() and (len(left) > 1 or self.shared):
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and reading.result():
            await self.stop()
        reading.cancel()

    async def stop(self) -> None:
        """Cancel the calls that this process runs, and wait for their ends."""
        running, self.calls = [*self.calls.values()], {}
        for each in running:
            each.is_wanted = False
        await stop_all([each.task for each in running])


async def _is_dismissed(log: EventLog, paused: str) -> bool:
    """Wait until a paused run is decided about; whether it is dismissed."""
    with suppress(RxWorkerError):  # another process, or the end of this one, decides
        async for command in log.commands(paused):
            if command.kind == DECIDE:
                return DISMISS in command.data
    return False
