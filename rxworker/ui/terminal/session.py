"""A conversation between the user and a worker, and the stored ones: runs, messages that are sent, errors and usage.

It does not depend on widgets: it returns lanes, and the actions of the user call its methods. A session of a log is a
conversation, whose runs have the same label; without a log it is kept until the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from rxworker import errors
from rxworker.decisions import Approve, ApproveAlways
from rxworker.desk.conversation import OpenConversation, StoredConversation, conversations_in, new_conversation
from rxworker.desk.meanwhile import Meanwhile
from rxworker.events.pause import TreeCall
from rxworker.hooks.points import REQUIRES_APPROVAL
from rxworker.hub import Coalesce
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog
from rxworker.log.base import claimed
from rxworker.log.permissions import Pair
from rxworker.log.values import CONVERSATION, LISTED, When
from rxworker.messages import Conversation, Message, Text
from rxworker.messages.usage import Usage
from rxworker.operators.gate import InputGate
from rxworker.run.run import Run
from rxworker.state import RunState
from rxworker.transport import Client, Model
from rxworker.turn.result import Paused
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import plural
from rxworker.ui.terminal.lanes import Lane, Lanes
from rxworker.views.changes import Scope
from rxworker.views.run_view import ViewItem
from rxworker.worker import Decision
from rxworker.worker.definition import Definition
from rxworker.worker.session import Session, Worker

if TYPE_CHECKING:
    from rxworker.boards import Dashboard

MAX_RUNS = 500
"""How many stored runs are searched for sessions, the newest."""
TITLE = 60


def title_of_session(session: StoredConversation) -> str:
    """The title of a stored conversation: that of its first run."""
    return one_line(session.runs[0].row.title, TITLE) or "(no title)"


def describe_session(session: StoredConversation) -> str:
    """Return the number of its runs and its age in one line."""
    last = session.last
    state = "" if last.status == "finished" else f" · {last.status}"
    return f"{plural(len(session.runs), 'run')} · {describe_age(time.time() - last.ended)}{state}"


def describe_age(seconds: float) -> str:
    """Return how long ago something was.

    >>> describe_age(3), describe_age(7200), describe_age(3 * 86400)
    ('just now', '2 h ago', '3 d ago')
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


async def list_sessions(log: EventLog) -> list[StoredConversation]:
    """Return the stored conversations, the one that was used last first. Runs inside tool calls are left out.

    Raises:
        LogError: The log cannot be read.
    """
    return conversations_in(await log.list(limit=MAX_RUNS))


async def rename_session(log: EventLog, session: StoredConversation, title: str) -> None:
    """Store a new title of a conversation, that of its first run.

    Raises:
        LeaseHeldError: Another process runs that run.
        LogError: The log cannot be written.
    """
    # The row may have changed since it was listed.
    async with claimed(log, session.runs[0].run_id, LISTED) as (claim, info):
        await log.append(claim, (), after=claim.last_seq, row=replace(info.row, title=title))


logger = logging.getLogger("rxworker.ui.terminal")

STORING_SECONDS = 1.0
"""Seconds that closing waits until what is always allowed is stored."""


class Sent:
    """Tracks messages from the user until they are in the conversation or are returned.

    Attributes:
        queued: The messages that are not in the conversation yet.
    """

    def __init__(self) -> None:
        self.queued: dict[asyncio.Future[None], str] = {}
        self._returned: list[str] = []

    def send(self, run: Run[object], message: Message, text: str, *, is_ending: bool, when: When = "turn") -> None:
        """Send a message into a run.

        Args:
            run: The run.
            message: The message.
            text: What was typed for it, which is returned if it is not read.
            is_ending: Whether the run was cancelled.
            when: As for ``Run.send``.

        Raises:
            RxWorkerError: The message cannot be sent.
        """
        try:
            future = run.send(message, when)
        except errors.LocalProtocolError:
            # The run has just ended, and the screen has not received its last records yet.
            if not run.done() and not is_ending:
                raise
            self._returned.append(text)
            return
        self.queued[future] = text
        future.add_done_callback(self._delivered)

    def withdraw(self) -> str:
        """Withdraw the message that was sent last and waits, and return its text; empty if none does."""
        for future in reversed(self.queued):
            text = self.queued[future]
            if future.cancel():
                del self.queued[future]
                return text
        return ""

    def take_unread(self) -> str:
        """Remove and return the messages that the run ended without reading."""
        returned, self._returned = self._returned, []
        return "\n".join(returned)

    def _delivered(self, future: asyncio.Future[None]) -> None:
        text = self.queued.pop(future, "")
        if not text:
            return  # it was withdrawn
        if future.cancelled() or future.exception() is not None:
            self._returned.append(text)


KINDS = {
    "authentication": ("The key was refused", "Check the key, then try again."),
    "permission": ("Access was denied", "Check the rights of the key, or use another model."),
    "not_found": ("Unknown model or address", "Check the model's name and the address."),
    "invalid_request": ("The request was refused", "Rephrase the message."),
    "context_length": (
        "The conversation is too long for this model",
        "Begin a new conversation, or use a model with a larger context window.",
    ),
    "rate_limit": ("Too many requests", "Wait a moment, then try again."),
    "quota": ("The quota is used up", "Check the account, then try again."),
    "overloaded": ("The model is overloaded", "Wait a moment, then try again."),
    "timeout": ("The model took too long", "Try again."),
    "server": ("The model's server failed", "Try again."),
}
ADVICE: tuple[tuple[type[errors.RxWorkerError], str, str], ...] = (
    (errors.InputRefusedError, "The message was not accepted", "Change it, and send it again."),
    (errors.ConfigurationError, "A setting is missing", "Leave, set it, and start the app again."),
    (errors.TransportError, "No connection", "Check the address and the network, then try again."),
    (
        errors.LimitExceededError,
        "A limit was reached",
        "Send a message to continue, or give the worker a higher {0.limit}.",
    ),
    (errors.HookError, "The hook {0.hook} failed", "Fix it, or remove it."),
    (errors.RunAbortedError, "A hook ended the run", "Rephrase the message."),
)
KEPT = "The conversation is kept."


def advise(error: BaseException, line: str) -> tuple[str, str]:
    r"""Return a title for an error, and the text below it.

    Args:
        error: The exception that ended the run.
        line: The error in one line.

    >>> advise(errors.ProviderError("no", kind="rate_limit", retry_after=20.0), "slow down")[1]
    'slow down\nWait 20 s, then try again. The conversation is kept.'
    """
    title, todo = _advice(error)
    if isinstance(error, errors.RxWorkerError) and error.retry_after:
        todo = todo.replace("Wait a moment", f"Wait {error.retry_after:.0f} s")
    request = getattr(error, "request_id", None)
    text = f"{line} (request {request})" if request and str(request) not in line else line
    return title, f"{text}\n{todo} {KEPT}".replace("\n ", "\n")


def _advice(error: BaseException) -> tuple[str, str]:
    if isinstance(error, errors.ProviderError) and error.kind in KINDS:
        return KINDS[error.kind]
    for kind, title, todo in ADVICE:
        if isinstance(error, kind):
            return title.format(error), todo.format(error)
    return "The run failed", "Try again." if getattr(error, "retryable", False) else ""


Wording: TypeAlias = Callable[[BaseException], str]
"""Returns the line that describes an error."""
FindModel: TypeAlias = Callable[[str, str], Model]
"""Returns the model of a provider's name and a model's name; raises a `ConfigurationError` for an unknown one."""
SessionStatus: TypeAlias = Literal["ready", "answering", "pausing", "cancelling", "paused"]


class AppOptions(TypedDict, total=False):
    """The options of the app. `run_app` describes them."""

    wording: Wording | None
    models: Iterable[Model]
    find_model: FindModel | None
    goes_on: bool
    dashboard: Dashboard | None
    gate: InputGate | None


class Totals(Struct, frozen=True):
    """The usage of runs.

    Attributes:
        usage: Tokens.
        turns: Turns.
        calls: Tool calls.
    """

    usage: Usage = Usage()
    turns: int = 0
    calls: int = 0

    def __add__(self, other: Totals) -> Totals:
        """Add two totals."""
        usage, turns = self.usage + other.usage, self.turns + other.turns
        return Totals(usage, turns, self.calls + other.calls)


def totals_of(state: RunState) -> Totals:
    """Return the usage of a run so far."""
    return Totals(state.usage, state.turns, state.all_tool_calls)


def check_message(message: Message, worker: Definition) -> None:
    """Refuse a message that the protocol of the worker's model cannot carry.

    In the conversation, it would fail each later request.

    Raises:
        LocalProtocolError: The protocol has no place for a file of the message.
    """
    model = worker.model
    if isinstance(model, Client) and any(not isinstance(each, Text) for each in message.content):
        with suppress(errors.ConfigurationError):  # such as a missing key, which the run reports
            model.provider.request(Conversation((message,)), (), worker.options)


class TerminalSession:
    """What the app shows.

    The runs of a session of the worker, which can be replaced by a new or a stored one while no run is running.

    Args:
        begun: The session to continue, or a worker, for its own; it has the conversation again after `close`. Without a
            log, the runs are in memory until then.
        options: As for `run_app`.

    Attributes:
        models: The models that were given or used, by their names.
        gate: What the user types must pass it.
        worker: Answers the messages.
        opened: The conversation.
        log: The log of the runs.
        is_stored: Whether that outlives the app.
        lanes: The lanes of its runs, and the view of the last one.
        active: The running run.
        sent: The messages that were sent into the run.
        meanwhile: Requests decisions about what waits in the background while a run goes on, if the app can.
        finished: Whether the last run finished normally.
        latest: The id of the run that began last, in any conversation; empty before the first.
        pause_requested: Whether the user requested the pause.
    """

    def __init__(self, begun: Worker | Session, **options: Unpack[AppOptions]) -> None:
        self._first = first = begun.session
        self.worker = first.worker
        self.log = first.log or MemoryLog()
        self.is_stored = first.log is not None
        self.active: Run[object] | None = None
        self.sent = Sent()
        self.meanwhile: Meanwhile | None = None
        self.latest = ""
        self.models = {model_name(each): each for each in (self.worker.model, *options.get("models", ()))}
        self._find_model = options.get("find_model")
        self.gate = options.get("gate")
        self._wording = options.get("wording") or _plain
        self._cancelling = False
        self._storing: asyncio.Task[None] | None = None
        name = first.run_labels.get(CONVERSATION) or new_conversation()
        self._use(self._new(name, first.allowed), Lanes(), Totals())
        self.opened.session.conversation = first.conversation

    @property
    def paused(self) -> Paused[object] | None:
        """The paused result that can be resumed, when its last records were shown."""
        return None if self.active is not None else self.opened.paused

    @property
    def allowed(self) -> list[str]:
        """The tools that are always allowed in this conversation."""
        return [*dict.fromkeys(tool for tool, _ in self.opened.allowed)]

    @property
    def status(self) -> SessionStatus:
        """The state of the conversation."""
        if self.active is not None:
            if self._cancelling:
                return "cancelling"
            return "pausing" if self.pause_requested else "answering"
        return "ready" if self.paused is None else "paused"

    @property
    def waiting(self) -> TreeCall | None:
        """The next call that needs a decision."""
        index = None if self.paused is None else self.opened.next
        return None if index is None else self.opened.pending.node(index)

    @property
    def totals(self) -> Totals:
        """The usage of all runs."""
        return self._before + (self._held if self.active is None else totals_of(self.active.state))

    def send(self, message: Message, text: str = "", when: When = "turn") -> bool:
        """Send a message: into the running run, to the paused run, or as the start of a new run.

        Args:
            message: The message.
            text: What was typed for it.
            when: As for ``Run.send``.

        Returns:
            Whether a run has begun.

        Raises:
            RxWorkerError: The message cannot be sent, or no run can begin.
        """
        if self.active is not None:
            self.sent.send(self.active, message, text, is_ending=self._cancelling, when=when)
            return False
        if self.paused is not None:
            return self._started(self.opened.decide([message]))
        begun = self.opened.begin(message)
        self._before += self._held
        return self._started(begun)

    def decide(self, decision: Decision | None = None, *, always: bool = False) -> bool:
        """Decide about the call that waits, and resume the run unless another call needs a decision, too.

        Args:
            decision: The decision; ``None`` if no call waits.
            always: Whether calls of its tool are allowed from now on, if they can be.

        Returns:
            Whether the run was resumed.

        Raises:
            RxWorkerError: The run cannot be resumed.
        """
        opened, pending = self.opened, self.opened.pending
        allowable = pending.allowable if opened.next in pending.required[:1] else None
        if always and allowable is not None and isinstance(decision, Approve):
            decision = ApproveAlways(decision.input)
            opened.allowed = (*opened.allowed, allowable)  # until the run ends, which reads it
        if opened.next is not None and decision is not None:
            opened.decided[opened.next] = decision  # by its index: two calls may have the same id
        return opened.next is None and self._started(opened.decide(()))

    def allow(self, tool: str, *, is_allowed: bool = True) -> asyncio.Task[None]:
        """Always allow calls of a tool in this conversation that its policy pauses for, or end that.

        The task is done when that is stored.
        """
        opened, session, before = self.opened, self.opened.session, self._storing
        pairs = [(tool, REQUIRES_APPROVAL)] if is_allowed else [each for each in opened.allowed if each[0] == tool]

        async def store() -> None:
            if before is not None:
                await asyncio.wait([before])
            for pair in pairs:
                await (session.allow if is_allowed else session.disallow)(*pair)
            await opened.refresh()

        self._storing = asyncio.get_running_loop().create_task(store(), name="store what is allowed")
        return self._storing

    def pause(self) -> None:
        """Request a pause at the next safe moment."""
        if self.active is not None and self.status == "answering":
            self.pause_requested = True
            self.active.pause(reason="requested by the user")

    def cancel(self) -> asyncio.Future[None] | None:
        """Cancel the run. The future is done when it has ended."""
        if self.active is None:
            return None
        self._cancelling = True
        return self.active.cancel(reason="by the user")

    def use_model(self, name: str) -> str:
        """Let another model answer from the next run on. The worker of the program keeps its own.

        Args:
            name: The name of one of `models`, or of a provider and a model, as in ``provider/name``.

        Returns:
            Its name in `models`.

        Raises:
            ConfigurationError: There is no such model.
        """
        model = self.models.get(name)
        if model is None:
            provider, _, its_name = name.partition("/")
            if not (provider and its_name):
                raise errors.ConfigurationError("write it as provider/name, such as anthropic/claude-sonnet-5-5")
            if self._find_model is None:
                raise errors.ConfigurationError(f"{name} is not one of the models of this app")
            model = self._find_model(provider, its_name)
        found = model_name(model)
        self.models[found] = model
        self.worker = self.opened.session.worker = copy(self.worker)
        self.worker.model = model
        return found

    def begin_session(self) -> None:
        """Begin a new conversation, with the system prompt of the worker."""
        self._use(self._new(new_conversation(), self._first.allowed), Lanes(), Totals())

    async def open_session(self, stored: StoredConversation) -> list[Lane]:
        """Go on with a stored conversation.

        One whose last run is paused is paused; one whose process has ended continues its run.

        Returns:
            The lanes of its runs; without those of a run that continues, which `follow` yields.

        Raises:
            LogError: The log cannot be read.
            LeaseHeldError: Another process runs it.
            RxWorkerError: Its run cannot be continued.
        """
        lanes, totals = Lanes(), Totals()
        opened = self._new(stored.id)
        shown: dict[Lane, None] = {}
        run = None
        for info in stored.runs:
            if info is stored.last and info.is_cut_off():
                run = await opened.recover(info.run_id, "resumed in the terminal")
                break
            found = await opened.read(info)
            shown.update(dict.fromkeys(lanes.feed([each for record in found.records for each in expand(record)])))
            if info is stored.last or info.status != "paused":  # a resumed run continues the counts
                totals += totals_of(found.state)
        self._use(opened, lanes, totals)
        await opened.refresh()
        if run is not None:
            self._started(run)
        return list(shown)

    def _new(self, name: str, allowed: Iterable[Pair] = ()) -> OpenConversation:
        first = self._first
        session = Session(
            self.worker,
            first.conversation.with_messages(()),
            shared_state=first.shared_state,
            allowed=allowed,
            log=self.log,
            labels={**first.labels, CONVERSATION: name},
        )
        return OpenConversation(session)

    def _use(self, opened: OpenConversation, lanes: Lanes, totals: Totals) -> None:
        self.opened = opened
        self.finished, self.pause_requested = True, False
        self.lanes, self._before, self._held = lanes, totals, Totals()

    async def close(self) -> None:
        """Give the conversation to the session that the app began with. Runs that were kept in memory are gone."""
        if (storing := self._storing) is not None:
            await asyncio.wait([storing], timeout=STORING_SECONDS)
            storing.cancel()
        first, current = self._first, self.opened.session
        first.conversation, first.shared_state = current.conversation, current.shared_state
        if first.log is None:
            await self.log.close()

    async def follow(self) -> AsyncIterator[list[Lane]]:
        """Yield the lanes that are new or changed, until the run has ended."""
        followed = self.active
        if followed is None:
            return
        try:
            async for batch in followed.watch(Coalesce(), name="terminal").batches():
                for record in batch:
                    if self.meanwhile is not None:
                        self.meanwhile.look(followed, record.event)
                yield self.lanes.feed(batch)
        except Exception:
            # Iterating raises the error that ended the run; it is handled below.
            if not followed.done():
                raise
        self._held = totals_of(followed.state)
        self.active, self.finished = None, False
        try:
            await followed
            self.finished = self.paused is None
        except errors.RunCancelledError:
            pass
        except Exception as error:
            yield [self.error_lane(error)]
        with suppress(errors.RxWorkerError):
            await self.opened.refresh()
        self.pause_requested = self.pause_requested and self.paused is not None
        self._cancelling = False

    def error_lane(self, error: BaseException) -> Lane:
        """Return a lane that shows an error."""
        title, text = advise(error, clean(one_line(self._wording(error))))
        return Lane("error", ViewItem(Scope(), 0, 0.0, 0.0, "done"), clean(title), clean(text))

    def _started(self, begun: Run[object]) -> bool:
        self.active, self.latest = begun, begun.id
        self.pause_requested = self._cancelling = False
        self._held = Totals()  # a resumed run continues the counts of the paused run
        return True


def model_name(model: Model) -> str:
    """Return the name of a model, as ``/model`` takes it."""
    return f"{model.name.replace('_', '-')}/{model.model}"


def _plain(error: BaseException) -> str:
    if isinstance(error, errors.RxWorkerError):
        return str(error)
    return f"{type(error).__qualname__}: {error}" if str(error) else type(error).__qualname__
