"""A conversation with a worker as a person carries it on: one run after the other, and what becomes of each.

It knows nothing of widgets. What happens comes out as lanes; what the person does comes in as calls of its methods.

What a person says while a run is on, until the conversation has it.

What went wrong, and what to do about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from rxworker.errors import (
    ConfigurationError,
    HookError,
    LimitExceededError,
    LocalProtocolError,
    ProviderError,
    RunAbortedError,
    RunCancelledError,
    RxWorkerError,
    TransportError,
)
from rxworker.hub import Coalesce
from rxworker.messages import Message, ToolCall, Usage
from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.lanes import Lane, Lanes
from rxworker.worker import Decision, Paused, Run, Worker


class Sent:
    """Follows messages from the person to the conversation, or back.

    Attributes:
        queued: Those that are not in the conversation yet.
    """

    def __init__(self) -> None:
        self.queued: dict[asyncio.Future[None], str] = {}
        self._returned: list[str] = []

    def send(self, run: Run[Any], text: str, *, is_ending: bool) -> None:
        """Say something to a run.

        Args:
            run: The run.
            text: What is said.
            is_ending: Whether it was cancelled.

        Raises:
            RxWorkerError: It cannot be said.
        """
        try:
            future = run.send(text)
        except LocalProtocolError:
            # It has just ended, and its last records are on their way to the screen.
            if not run.done() and not is_ending:
                raise
            self._returned.append(text)
            return
        self.queued[future] = text
        future.add_done_callback(self._delivered)

    def take_back(self) -> str:
        """What was said to a run that ended before it could take it."""
        returned, self._returned = self._returned, []
        return "\n".join(returned)

    def _delivered(self, future: asyncio.Future[None]) -> None:
        text = self.queued.pop(future, "")
        if future.cancelled() or future.exception() is not None:
            self._returned.append(text)


KINDS = {
    "authentication": ("The key was refused", "Check the key, then say it again."),
    "permission": ("This is not allowed", "Ask whoever owns the key, or use another model."),
    "not_found": ("There is no such model or address", "Check the model's name and the address."),
    "invalid_request": ("The request was refused", "Say it in another way."),
    "context_length": (
        "The conversation is too long for this model",
        "Begin a new conversation, or use a model that reads more.",
    ),
    "rate_limit": ("Too many requests", "Wait a moment, then say it again."),
    "quota": ("The account is used up", "See to the account, then say it again."),
    "overloaded": ("The model is overloaded", "Wait a moment, then say it again."),
    "timeout": ("The model took too long", "Say it again."),
    "server": ("The model's server failed", "Say it again."),
}
KEPT = "The conversation is kept."


def advise(error: BaseException, line: str) -> tuple[str, str]:
    r"""A title, and the words below it.

    Args:
        error: What ended the run.
        line: What it says, in one line.

    >>> advise(ProviderError("no", kind="rate_limit", retry_after=20.0), "slow down")[1]
    'slow down\nWait 20 s, then say it again. The conversation is kept.'
    """
    title, todo = _advice(error)
    if isinstance(error, RxWorkerError) and error.retry_after:
        todo = todo.replace("Wait a moment", f"Wait {error.retry_after:.0f} s")
    request = getattr(error, "request_id", None)
    told = f"{line} (request {request})" if request and str(request) not in line else line
    return title, f"{told}\n{todo} {KEPT}".replace("\n ", "\n")


def _advice(error: BaseException) -> tuple[str, str]:
    match error:
        case ProviderError(kind=kind) if kind in KINDS:
            return KINDS[kind]
        case ConfigurationError():
            return "Something is missing", "Leave, set it, and come again."
        case TransportError():
            return "No connection", "Check the address and the network, then say it again."
        case LimitExceededError(limit=limit):
            return (
                "A limit was reached",
                f"Go on by saying so, or give the worker a higher {limit}.",
            )
        case HookError(hook=hook):
            return f"The hook {hook} failed", "Mend it, or take it out."
        case RunAbortedError():
            return "A hook ended the run", "Say it in another way."
        case _ if getattr(error, "retryable", False):
            return "It did not work", "Say it again."
        case _:
            return "It did not work", ""


Standing: TypeAlias = Literal["ready", "answering", "pausing", "cancelling", "paused"]
Wording: TypeAlias = Callable[[BaseException], str]


class Totals(Struct, frozen=True):
    """What runs have taken.

    Attributes:
        usage: Tokens.
        turns: Turns.
        calls: Tool calls.
    """

    usage: Usage = Usage()
    turns: int = 0
    calls: int = 0

    def __add__(self, other: Totals) -> Totals:
        """Both together."""
        usage, turns = self.usage + other.usage, self.turns + other.turns
        return Totals(usage, turns, self.calls + other.calls)


def totals_of(run: Run[Any]) -> Totals:
    """What a run has taken so far."""
    state = run.state
    return Totals(state.usage, state.turns, state.all_tool_calls)


class Session:
    """Carries on a conversation.

    Args:
        worker: Who answers.
        wording: Makes the line that says what went wrong; by default the error's own.

    Attributes:
        worker: Who answers.
        active: The run that is on.
        paused: What waits to be resumed.
        sent: What is sent into the run.
        finished: Whether the last run came to its proper end.
        asked_to_pause: Whether it was the person who asked for the pause.
    """

    def __init__(self, worker: Worker, wording: Wording | None = None) -> None:
        self.worker = worker
        self.active: Run[Any] | None = None
        self.paused: Paused[Any] | None = None
        self.sent = Sent()
        self.finished = True
        self.asked_to_pause = False
        self._lanes = Lanes()
        self._wording = wording or _plain
        self._cancelling = False
        self._before = Totals()
        self._held = Totals()

    @property
    def standing(self) -> Standing:
        """Where the conversation stands."""
        if self.active is not None:
            if self._cancelling:
                return "cancelling"
            return "pausing" if self.asked_to_pause else "answering"
        return "ready" if self.paused is None else "paused"

    @property
    def waiting_call(self) -> ToolCall | None:
        """The call that somebody has to decide about."""
        paused = self.paused
        if paused is None or paused.paused_at is None:
            return None
        return paused.pending[paused.let_through]

    @property
    def asks(self) -> bool:
        """Whether somebody is to be asked about a call, since a hook has paused the run at it."""
        return self.waiting_call is not None and not self.asked_to_pause

    @property
    def totals(self) -> Totals:
        """What all its runs have taken."""
        return self._before + (self._held if self.active is None else totals_of(self.active))

    def begin(self, text: str) -> None:
        """Say something: a new run begins.

        Raises:
            RxWorkerError: It cannot.
        """
        self._started(self.worker.run(text))
        self._before, self._held = self._before + self._held, Totals()

    def resume(
        self, decision: Decision | None = None, text: str = "", *, is_call: bool = False
    ) -> None:
        """Go on with the run that was paused.

        Args:
            decision: About the call that waits.
            text: What to say besides.
            is_call: Whether the decision is about the call that waits.

        Raises:
            RxWorkerError: It cannot.
        """
        paused, decisions = self.paused, list[Decision | None]()
        if is_call and decision is not None and paused is not None and self.waiting_call:
            # By its place: two calls may have one id.
            at = paused.let_through
            decisions = [decision if n == at else None for n in range(len(paused.pending))]
        add = [Message.user(text)] if text else []
        # A resumed run counts on from what was before.
        self._started(self.worker.resume(decisions=decisions or None, add=add))
        self._held = Totals()

    def send(self, text: str) -> None:
        """Say something while the run is on.

        Raises:
            RxWorkerError: It cannot be said.
        """
        if self.active is None:
            self.begin(text)
            return
        self.sent.send(self.active, text, is_ending=self._cancelling)

    def pause(self) -> None:
        """Ask the run to pause at the next safe moment."""
        if self.active is not None and self.standing == "answering":
            self.asked_to_pause = True
            self.active.pause(reason="you asked for it")

    def cancel(self) -> asyncio.Future[None] | None:
        """End the run. Done when it has ended."""
        if self.active is None:
            return None
        self._cancelling = True
        return self.active.cancel(reason="by you")

    async def follow(self) -> AsyncIterator[list[Lane]]:
        """The lanes that are new or have changed, until the run has ended."""
        followed = self.active
        if followed is None:
            return
        try:
            async for batch in followed.watch(Coalesce(), name="terminal").batches():
                yield self._lanes.feed(batch)
        except Exception:
            # Iterating raises what ended the run; that is asked for below.
            if not followed.done():
                raise
        lane = await self._end(followed)
        if lane is not None:
            yield [lane]

    def complain(self, error: BaseException) -> Lane:
        """What went wrong, as a lane."""
        title, text = advise(error, clean(one_line(self._wording(error))))
        return Lane("error", clean(title), stage="done", pieces=[clean(text)])

    async def _end(self, ended: Run[Any]) -> Lane | None:
        self._held, lane = totals_of(ended), None
        self.active, self.paused, self.finished = None, None, False
        try:
            result = await ended
        except RunCancelledError:
            pass
        except Exception as error:
            lane = self.complain(error)
        else:
            self.paused = result if isinstance(result, Paused) else None
            self.finished = self.paused is None
        if self.paused is None:
            self.asked_to_pause = False
        self._cancelling = False
        return lane

    def _started(self, begun: Run[Any]) -> None:
        self.active, self.paused = begun, None
        self.asked_to_pause = self._cancelling = False


def _plain(error: BaseException) -> str:
    if isinstance(error, RxWorkerError):
        return str(error)
    return f"{type(error).__qualname__}: {error}" if str(error) else type(error).__qualname__
