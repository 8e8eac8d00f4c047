"""Commands to a logged run: what the application and other processes send to it through the log."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import (
    CommandConflictError,
    InputRefusedError,
    LocalProtocolError,
    LogError,
    RunStatusError,
    as_exception,
    describe,
    reason_of,
)
from rxworker.events import CommandTaken
from rxworker.events.pause import BACKGROUND, BackgroundCall, PauseState, woken_by
from rxworker.hub.watcher import raise_from_loop
from rxworker.log.base import EventLog
from rxworker.log.recover import TAKES, deliveries_of, own_events, taken_in, until_woken
from rxworker.log.values import (
    CARRIED,
    DELIVER,
    Command,
    DeliveredResult,
    SentMessages,
    When,
    carried_over,
    deliver_command,
    send_command,
)
from rxworker.log.writer import RunWriter
from rxworker.messages import Message
from rxworker.tools.cancellation import is_destroyed, keep
from rxworker.turn.journal import NOT_WAITING, Mailbox, PauseRequest, not_delivered

logger = logging.getLogger("rxworker.worker")

ArriveFn = Callable[[DeliveredResult, CommandTaken | None], None]
"""Takes the result of a call in the background, and the record that its command is taken."""
CancelFn = Callable[[str, int, bool], None]
"""Takes the reason for a cancellation, the number of its command, and whether the turn may end first."""


def reason_in(command: Command) -> str:
    """The reason that a command gives.

    >>> reason_in(Command("cancel"))
    'requested by a cancel command'
    """
    reason = command.data.get("reason")
    return reason if isinstance(reason, str) else f"requested by a {command.kind} command"


@contextmanager
def _reported(failed: Callable[[Exception], None]) -> Generator[None]:
    """Report an error that a codec or a store has raised.

    An interrupt goes on to the program; raised in a task, anything else that is not an `Exception` would end the event
    loop.
    """
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if is_destroyed(error, asyncio.current_task()):
            raise
        if isinstance(error, KeyboardInterrupt):
            raise_from_loop(asyncio.get_running_loop(), error)
            failed(LogError(describe(error)))
        else:
            failed(as_exception(error))


class CommandReader(Struct, eq=False):
    """Reads the commands to a run while it runs, and applies each once.

    Attributes:
        writer: Writes the run to the log, which has the commands. The log has no run before its first record.
        run_id: The run's id.
        mailbox: Takes messages.
        pause_request: Takes the request to pause.
        cancel: Cancels the run.
        mapped: Changes the messages of other senders before they are recorded.
        arrive: Takes the results of calls in the background.
        around: The ids of the runs around it, from the inside out.
        applied: The numbers of the commands that were applied.
        sending: The futures of what this process has sent and not read yet, by its ids.
        queued: Those of messages that wait in the mailbox.
        storing: The tasks that store messages, by their ids.
        tasks: The tasks that end with the run.
        others: Those that store what counts after it: withdrawals and results.
    """

    writer: RunWriter
    run_id: str
    mailbox: Mailbox
    pause_request: PauseRequest
    cancel: CancelFn
    mapped: Callable[[Sequence[Message]], tuple[Message, ...]]
    arrive: ArriveFn
    around: tuple[str, ...] = ()
    applied: set[int] = set()
    sending: dict[str, asyncio.Future[None]] = {}
    queued: dict[str, asyncio.Future[None]] = {}
    storing: dict[str, asyncio.Task[None]] = {}
    tasks: set[asyncio.Task[None]] = set()
    others: set[asyncio.Task[None]] = set()

    @property
    def _log(self) -> EventLog:
        return self.writer.log

    async def carry_over(self, paused: str) -> None:
        """Send the messages and the cancellation again that a paused run did not take, to the run that resumes it.

        Doing so twice changes nothing.

        Args:
            paused: The id of the paused run.

        Raises:
            LogError: The log cannot be read or written.
        """
        info = await self._log.listed(paused)
        if info is None or info.status == "deleted" or info.error:
            return  # its commands are lost with it, and the run goes on without them
        sent = await self._log.sent(paused)
        if not sent:
            return
        taken = taken_in(await own_events(self._log, paused, *TAKES))
        for command in sent:
            if command.kind in CARRIED and command.number not in taken:
                with suppress(CommandConflictError):
                    await self._log.send(self.run_id, carried_over(command, paused, command.number))

    def skip(self, taken: frozenset[int]) -> None:
        """Do not apply these commands: another process has taken them."""
        self.applied.update(taken)

    def start(self) -> None:
        """Read until ``stop``."""
        keep(self._read(), self.tasks)

    async def read_now(self) -> None:
        """Apply the commands that are stored or being stored by now, so that a run does not finish past a message.

        Raises:
            LogError: The log cannot be read.
        """
        if self.storing:
            await asyncio.wait(self.storing.values())
        for command in await self._log.sent(self.run_id):
            self._apply(command)

    def stop(self) -> None:
        """Stop reading. Messages that were not delivered stay in the log."""
        for task in self.tasks:
            task.cancel()
        for delivered in self.sending.values():
            not_delivered(delivered)

    def send(self, messages: tuple[Message, ...], when: When = "turn") -> asyncio.Future[None]:
        """Send messages through the log, so that they survive this process.

        Returns:
            A future that is done when they are in the conversation.
        """
        token = uuid.uuid4().hex
        delivered, storing = self._begin_storing(messages, token, None if when == "turn" else when)
        delivered.add_done_callback(partial(self._settled, token, storing))
        return delivered

    def edit(
        self, sent: asyncio.Future[None], messages: tuple[Message, ...], when: When | None
    ) -> asyncio.Future[None]:
        """Replace messages that wait, through the log.

        Args:
            sent: The future of their delivery.
            messages: The messages in place of them.
            when: When they are delivered, if that changes.

        Returns:
            A future that is done when they are replaced; it fails if they are in the conversation.

        Raises:
            LocalProtocolError: They do not wait.
        """
        for token, each in (*self.sending.items(), *self.queued.items()):
            if each is sent:
                return self._begin_storing(messages, uuid.uuid4().hex, when, token)[0]
        raise LocalProtocolError(NOT_WAITING)

    def _begin_storing(
        self, messages: tuple[Message, ...], token: str, when: When | None, withdraws: str = ""
    ) -> tuple[asyncio.Future[None], asyncio.Task[None]]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sending[token] = done
        storing = keep(self._store(send_command(messages, token, when, withdraws), token, done), self.tasks)
        self.storing[token] = storing
        storing.add_done_callback(lambda _: self.storing.pop(token))
        return done, storing

    def _settled(self, token: str, storing: asyncio.Task[None], delivered: asyncio.Future[None]) -> None:
        if delivered.cancelled():
            keep(self._store_withdrawal(token, storing), self.others)

    async def _store_withdrawal(self, token: str, storing: asyncio.Task[None]) -> None:
        """Let no process that goes on with the run deliver messages whose sender has cancelled their future."""

        def failed(error: Exception) -> None:
            logger.warning(
                "a message to %s is withdrawn in this process alone: %s",
                self.run_id,
                reason_of(error),
                extra={"run": self.run_id},
            )

        with _reported(failed), suppress(RunStatusError):  # it has ended
            await asyncio.wait([storing])
            if token in self.sending or token in self.queued:
                await self._log.send(self.run_id, send_command((), withdraws=token))

    async def deliveries(self, seconds: float) -> None:
        """Wait up to so many seconds until the results are stored that have come in this process."""
        if self.others:
            await asyncio.wait(self.others, timeout=seconds)

    def deliver(self, delivery: DeliveredResult) -> None:
        """Deliver the result of a call in the background through the log, also after the run has paused."""
        keep(self._store_delivery(delivery), self.others)

    def wake(self, each: BackgroundCall) -> None:
        """While the run is running, let a call in its background go on when what it waits for has come."""
        pause = PauseState(BACKGROUND, (), (), background=(each,))
        if any(woken_by(pause.tree)):
            keep(self._wake(pause), self.tasks)

    async def _wake(self, pause: PauseState) -> None:
        with _reported(self._cannot_read):
            await self.writer.barrier()
            for delivery in deliveries_of(pause, await until_woken(self._log, (self.run_id, *self.around), pause)):
                self.deliver(delivery)

    async def _store_delivery(self, delivery: DeliveredResult) -> None:
        def failed(error: Exception) -> None:
            logger.warning(
                "the result of %s, a call in the background of %s, is not stored: %s",
                delivery.id,
                self.run_id,
                reason_of(error),
                extra={"run": self.run_id},
            )
            self.arrive(delivery, None)

        # Another result of the call may have been faster, and the run may have ended.
        with _reported(failed), suppress(RunStatusError, CommandConflictError):
            await self.writer.barrier()
            await self._log.send(self.run_id, deliver_command(delivery))

    async def _store(self, command: Command, token: str, delivered: asyncio.Future[None]) -> None:
        replaced = self.storing.get(str(command.data.get("withdraws")))  # is stored before this

        def failed(error: Exception) -> None:
            self.sending.pop(token, None)
            not_delivered(delivered, error)

        with _reported(failed):  # `stop` fails what is not delivered when this is cancelled
            await self.writer.barrier()
            if replaced is not None:
                await asyncio.wait([replaced])
            if delivered.cancelled():
                self.sending.pop(token, None)
                return
            await self._log.send(self.run_id, command)

    async def _read(self) -> None:
        with _reported(self._cannot_read):
            async for command in self._log.commands(self.run_id):
                self._apply(command)

    def _cannot_read(self, error: Exception) -> None:
        logger.warning(
            "the commands to %s cannot be read: %s", self.run_id, reason_of(error), extra={"run": self.run_id}
        )

    def _apply(self, command: Command) -> None:
        if command.number in self.applied:
            return
        self.applied.add(command.number)
        text = reason_in(command)
        match command.kind:
            case "send":
                sent = msgspec.convert(command.data, SentMessages)
                if sent.withdraws and not sent.messages:
                    self._withdraw(command.number, sent.withdraws)
                    return
                delivered = self.sending.pop(sent.id, None)
                try:
                    messages = sent.messages if delivered is not None else self.mapped(sent.messages)
                except InputRefusedError as error:
                    self._ignore(command, "send", error.message)
                    return
                taken = CommandTaken(command.number, "send")
                if sent.withdraws:
                    self._edit(replace(sent, messages=messages), taken, delivered)
                    return
                queued = self.queued[sent.id] = self.mailbox.put(messages, taken, delivered, sent.when or "turn")
                queued.add_done_callback(partial(self._leave_queue, sent.id))
            case "deliver":
                delivery = msgspec.convert(command.data, DeliveredResult)
                self.arrive(delivery, CommandTaken(command.number, DELIVER))
            case "pause" if self.pause_request.refusal:
                self._ignore(command, "pause", self.pause_request.refusal)
            case "pause":
                self.pause_request.request(text, command.number)
            case "cancel":
                self.cancel(text, command.number, command.data.get("when") == "after_turn")
            case "ignored":
                self._ignore(command, str(command.data["kind"]), str(command.data["reason"]))
            case "decide" | "signal" | "returned":
                pass  # for a process that resumes the run when it has paused, or recovers it

    def _leave_queue(self, sent: str, delivered: asyncio.Future[None]) -> None:
        if not delivered.cancelled():  # otherwise until its withdrawal is stored and read
            self.queued.pop(sent, None)

    def _withdraw(self, number: int, sent: str) -> None:
        queued, why = self.queued.pop(sent, None), ""
        if queued is None or not (queued.cancelled() or queued.cancel()):
            why = NOT_WAITING
        self.mailbox.put((), CommandTaken(number, "send", why))

    def _edit(self, sent: SentMessages, taken: CommandTaken, done: asyncio.Future[None] | None) -> None:
        """Replace messages that wait; ``done`` is of the caller in this process."""
        is_edited = self.mailbox.edit(self.queued.get(sent.withdraws), sent.messages, sent.when, taken)
        if not is_edited:
            self.mailbox.put((), replace(taken, ignored=NOT_WAITING))
        if done is not None and is_edited and not done.done():
            done.set_result(None)
        elif done is not None:
            not_delivered(done, LocalProtocolError(NOT_WAITING))

    def _ignore(self, command: Command, kind: str, why: str) -> None:
        logger.warning(
            "command %d to %s, %r, is ignored: %s",
            command.number,
            self.run_id,
            kind,
            why,
            extra={"run": self.run_id, "command": command.number},
        )
        self.mailbox.put((), CommandTaken(command.number, "ignored", why))
