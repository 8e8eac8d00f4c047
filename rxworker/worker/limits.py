"""Limits of a run, which are on by default so that an endless loop ends, and a budget that several runs share."""

from __future__ import annotations

import asyncio
import logging

import reactivex
from msgspec import Struct
from reactivex import Observable, abc

from rxworker.errors import ConfigurationError
from rxworker.messages import Prices, Usage
from rxworker.operators import Source


class Limits(Struct, frozen=True):
    """The limits of one run; ``None`` removes a limit.

    Attributes:
        max_turns: Requests to the model.
        max_continuations: Times that hooks may send an answer back with ``ContinueWithMessages``.
        max_tool_calls: Tool calls.
        max_tokens: Tokens read and written, all requests together; checked before each request.
        max_cost: Their cost; needs ``prices``, and is checked before each request.
        prices: The prices of the model's tokens.
        max_repeats: Turns in a row with the same calls and the same results, since such a run makes no progress.
        max_depth: The depth of nested runs.
        max_seconds: Wall clock.

    >>> Limits(max_turns=3).max_turns
    3
    """

    max_turns: int | None = 50
    max_continuations: int | None = 10
    max_tool_calls: int | None = 500
    max_tokens: int | None = 5_000_000
    max_cost: float | None = 50.0
    prices: Prices | None = None
    max_repeats: int | None = 5
    max_depth: int | None = 8
    max_seconds: float | None = 3600.0

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            ConfigurationError: A limit is not a number, or is below 0.
        """
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            kind = value.__class__
            if (kind is int or kind is float) and value >= 0:  # pyright: ignore[reportOperatorIssue] - as most are
                continue
            if value is None or isinstance(value, Prices):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                message = f"{name}={value!r} is no limit: give a number from 0 up, or None for none"
                raise ConfigurationError(message)


logger = logging.getLogger("rxworker.worker")


class Budget:
    """A limit on the tokens and the cost of several runs together, with a gate for all of them.

    Before each request a run waits while the gate is closed, and ends with `LimitExceededError` if the budget is used
    up. The usage is an observable, so a pipeline can close the gate and open it again.

    Args:
        max_tokens: Tokens of all runs together.
        max_cost: Their cost; needs ``prices``.
        prices: The prices of the tokens.

    Raises:
        ConfigurationError: A cost without prices.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> budget = Budget(max_tokens=20)
        >>> workers = [Worker(ScriptedModel(["Hello."]), budget=budget) for _ in range(2)]
        >>> [worker.run_sync("hi").text for worker in workers]
        ['Hello.', 'Hello.']
        >>> budget.spent.total_tokens
        30
    """

    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        prices: Prices | None = None,
    ) -> None:
        if max_cost is not None and prices is None:
            raise ConfigurationError(
                "max_cost needs prices: Budget(max_cost=..., prices=Prices(...))"
            )
        self.max_tokens = max_tokens
        self.max_cost = max_cost
        self.prices = prices
        self._by_run: dict[str, Usage] = {}
        self._spent = Usage()
        self._changes: Source[Usage] = Source()
        self._open = True
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def spent(self) -> Usage:
        """The usage of all runs."""
        return self._spent

    @property
    def cost(self) -> float:
        """The cost of the usage; 0 without prices."""
        return self.prices.cost(self.spent) if self.prices is not None else 0.0

    @property
    def changes(self) -> Observable[Usage]:
        """The usage of all runs: the current one first, then each change."""

        def begin(_: abc.SchedulerBase) -> Observable[Usage]:
            from reactivex import (
                operators as ops,  # imported here, since few need it and the import is slow
            )

            return self._changes.pipe(ops.start_with(self._spent), ops.distinct_until_changed())

        return reactivex.defer(begin)

    def hold(self) -> None:
        """Close the gate: no run sends another request until `release`. Requests that were sent continue."""
        self._open = False

    def release(self) -> None:
        """Open the gate."""
        self._open = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.get_loop().call_soon_threadsafe(_open, future)

    def follow(self, gate: Observable[bool]) -> abc.DisposableBase:
        """Let an observable control the gate: ``True`` opens it, ``False`` closes it."""

        def move(is_open: bool) -> None:
            if is_open:
                self.release()
            else:
                self.hold()

        return gate.subscribe(move)

    def report(self, run: str, usage: Usage) -> None:
        """Record the usage of a run so far, all its requests together."""
        before = self._by_run.get(run)
        if usage != (before or Usage()):
            self._by_run[run] = usage
            self._spent = sum(self._by_run.values(), Usage())
            try:
                self._changes.on_next(self._spent)
            except Exception:  # the other watchers have received it
                logger.warning("a watcher of a budget raised", exc_info=True)

    def carry_over(self, before: str, run: str) -> None:
        """Replace a paused run by the run that resumes it, whose reports include the usage of the paused one."""
        taken = self._by_run.pop(before, None)
        if taken is not None:
            self._by_run[run] = taken

    async def admit(self) -> tuple[str, float] | None:
        """Wait for the gate. Return the name and the value of a limit that is used up, if any."""
        while not self._open:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self.max_tokens is not None and self.spent.total_tokens >= self.max_tokens:
            return "budget.max_tokens", self.max_tokens
        if self.max_cost is not None and self.cost >= self.max_cost:
            return "budget.max_cost", self.max_cost
        return None


def _open(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
