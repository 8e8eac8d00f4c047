"""A stored run, watched and steered from any process.

Theory of operation. A task follows the log of the run, and pushes its entries to a hub: first those so far, then those
that any process appends. So watchers have what those of a `Run` have, with the same deliveries and limits, and see only
what is stored: after a crash no number stands for another record. There is one such task for any number of watchers.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Literal

from reactivex import Observable

from rxworker.errors import LocalProtocolError, LogError, RxWorkerError, own
from rxworker.events import Event, Record, RunResume, TurnStart
from rxworker.hub import Delivery, Hub, Watch, Watchers
from rxworker.log.base import EventLog
from rxworker.log.format import record_of
from rxworker.log.values import Command, When, nested_id, resumed_id, send_command, to_sent
from rxworker.messages.message import Input
from rxworker.messages.settings import awaited
from rxworker.state import RunState, fold_run
from rxworker.tools.run import key_of
from rxworker.transport.clock import loop_clock


class Replica:
    """A stored run in any process, with the watchers and the state of a `Run`.

    It follows the log from when it is made until the run has ended, the log is closed, or `close` is called. It belongs
    to the event loop that it is made on.

    Args:
        log: The log of the run.
        run_id: The run's id.
        barrier: Awaited before the log is read: that of the run, if it has just begun in this process.

    Attributes:
        id: The run's id.
        log: The log of the run.
        hub: The records so far, for watchers.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         run = Worker(ScriptedModel(["Hello!"]), log=log).run("Hi")
        ...         await run
        ...         replica = Replica(log, run.id)
        ...         await replica.ended()
        ...         print(replica.state == run.state, replica.state.conversation.last.text)
        >>> asyncio.run(main())
        True Hello!
    """

    def __init__(self, log: EventLog, run_id: str, *, barrier: Callable[[], Awaitable[object]] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.id = run_id
        self.log = log
        self.hub = Hub(loop=loop)
        self._state = RunState()
        self._ready = asyncio.Event()
        self._barrier = barrier
        self._task = loop.create_task(self._follow(), name=f"follow {run_id}")

    def __repr__(self) -> str:
        return f"Replica({self.id!r}, {self.state.status})"

    @property
    def records(self) -> Observable[Record]:
        """The observable of the records. Each subscriber receives all of them, from the first."""
        return self.hub.records

    @property
    def events(self) -> Observable[Event]:
        """The observable of the bare events."""
        return self.hub.events

    @property
    def state(self) -> RunState:
        """The state after the records so far."""
        history, state = self.hub.history, self._state
        if state.seq < history.last_seq:
            self._state = state = fold_run(history.entries(state.seq), state)
            if state.status != "running":
                self.log.bases.note(state.conversation, self.id, state.seq)
        return state

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        return self.hub.last_seq

    @property
    def watchers(self) -> Watchers:
        """The watchers in this process."""
        return Watchers(self.hub, loop_clock)

    def watch(self, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> Watch:
        """Watch the run; the arguments are those of `Run.watch`."""
        return self.hub.watch(delivery, after=after, name=name)

    def done(self) -> bool:
        """Whether the run has ended, and all its records are here."""
        return self.hub.ended

    async def ready(self) -> None:
        """Wait until it has the records that were stored when it was made.

        Raises:
            LogError: There is no such run, or the log cannot be read.
        """
        await self._ready.wait()
        if isinstance(self.hub.error, RxWorkerError):
            raise own(self.hub.error, self.hub.error_trace)

    async def ended(self) -> None:
        """Wait until it has the last record of the run, or has been closed."""
        await asyncio.wait({self._task})

    def close(self) -> None:
        """Stop following. Its watchers end."""
        self._task.cancel()
        self._end(None)  # a task that is cancelled before its first step ends nothing

    async def send(self, *messages: Input, id: str = "", when: When = "turn") -> str:  # noqa: A002 - what it is
        """Send messages to the run. They are stored when this returns.

        Args:
            messages: As for ``Run.send``, or several messages.
            id: An id of your own for them, unique in the run.
            when: As for ``Run.send``.

        Returns:
            Their id, with which ``withdraw`` withdraws them, and ``edit`` changes them.

        Raises:
            ConfigurationError: A message is invalid, or ``when`` is none of the three.
            LogError: The run has ended, or the log cannot be written.
        """
        id = id or uuid.uuid4().hex  # noqa: A001 - what it is
        await self.log.send(self.id, send_command(to_sent(*messages), id, None if when == "turn" else when))
        return id

    async def edit(self, id: str, *messages: Input, when: When | None = None) -> None:  # noqa: A002 - what it is
        """Replace messages that were sent with an id and are not in the conversation yet, at their place in the queue.

        The request is stored when this returns. If it is too late, its `CommandTaken` states so in ``ignored``.

        Args:
            id: The id of the messages.
            messages: The messages in place of them.
            when: When they are delivered, if that changes.

        Raises:
            ConfigurationError: As for ``send``.
            LogError: As for ``send``.
        """
        await self.log.send(self.id, send_command(to_sent(*messages), "", when, id))

    async def withdraw(self, id: str) -> None:  # noqa: A002 - what it is
        """Withdraw messages that were sent with an id and are not in the conversation yet.

        The request is stored when this returns. The `CommandTaken` of the messages states in ``ignored`` that they were
        withdrawn; if it is too late for that, the one of this request does.

        Raises:
            LogError: As for ``send``.
        """
        await self.log.send(self.id, send_command((), withdraws=id))

    async def pause(self, *, reason: str = "paused by the caller") -> None:
        """Request a pause at the next safe moment.

        Raises:
            ConfigurationError: The reason is not a text.
            LogError: As for ``send``.
        """
        await self.log.send(self.id, Command("pause", {"reason": reason}))

    async def cancel(
        self, when: Literal["now", "after_turn"] = "now", *, reason: str = "cancelled by the caller"
    ) -> None:
        """Request the end of the run. A run whose process has ended is cancelled when it is recovered.

        Raises:
            ConfigurationError: ``when`` is neither, or the reason is not a text.
            LogError: As for ``send``.
        """
        await self.log.send(self.id, Command("cancel", {"reason": reason, "when": when}))

    async def inner(self, call_id: str) -> Replica:
        """The run that a call of this run has begun, while it runs: to watch it, to send to it, or to cancel it alone.

        Args:
            call_id: The id of the call.

        Raises:
            LocalProtocolError: No such call runs.
            LogError: The log cannot be read.
        """
        await self.ready()
        state = self.state
        each = next((one for one in state.calls if one.call.id == call_id and one.phase == "running"), None)
        if each is None:
            raise LocalProtocolError(f"no call {call_id!r} of {self.id} runs")
        own = [record.event for record in self.hub.history.records(0) if not record.path]
        begun = [event for event in own if isinstance(event, RunResume | TurnStart)][-1]
        key = begun.pause.key if isinstance(begun, RunResume) else f"{self.id}/{state.turns}"
        run_id = nested_id(self.id, key_of(each.call, each.place, key))
        while await self.log.info(resumed_id(run_id)) is not None:
            run_id = resumed_id(run_id)
        return Replica(self.log, run_id)

    async def _follow(self) -> None:
        error: Exception | None = None
        try:
            if self._barrier is not None:
                with suppress(LogError):  # another process may have taken the run over
                    await awaited(self._barrier())
            info = await self.log.existing(self.id)
            if not info.last_seq:
                self._ready.set()
            async with aclosing(self.log.pages(self.id)) as pages:
                async for entries in pages:
                    for entry in entries:
                        self.hub.push(record_of(entry, self.id))
                    if entries[-1].last >= info.last_seq:
                        self._ready.set()
        except Exception as raised:
            error = raised if isinstance(raised, RxWorkerError) else LogError(str(raised))
        finally:
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.hub.end(error)
        self._ready.set()
