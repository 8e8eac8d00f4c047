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
    """The most that one run may take; ``None`` takes a limit off.

    Attributes:
        max_turns: Requests to the model.
        max_continuations: Times that hooks may send an answer back with ``ContinueWithMessages``.
        max_tool_calls: Tool calls.
        max_tokens: Tokens read and written, all requests together; looked at before each request.
        max_cost: What these may cost; needs ``prices``, and is looked at before each request.
        prices: What the model's tokens cost.
        max_repeats: Turns in a row in which the same calls came to the same results: the run makes no progress.
        max_depth: How deep inside other runs a run may be.
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
        """Refuse what is no limit.

        Raises:
            ConfigurationError: One is no number, or below 0.
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
    """What several runs may take together, and a gate that holds them all.

    A run asks before each of its requests: it waits while the gate is closed, and ends with `LimitExceededError` when the budget is used
    up. What the runs took is an observable, so that a pipeline can close the gate and open it again.

    Args:
        max_tokens: Tokens of all runs together.
        max_cost: What they may cost; needs ``prices``.
        prices: What the tokens cost.

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
        """What all runs have taken."""
        return self._spent

    @property
    def cost(self) -> float:
        """What it has cost; 0 without prices."""
        return self.prices.cost(self.spent) if self.prices is not None else 0.0

    @property
    def changes(self) -> Observable[Usage]:
        """What all runs have taken, whenever it has changed; what it is now comes first."""

        def begin(_: abc.SchedulerBase) -> Observable[Usage]:
            from reactivex import operators as ops  # by few: importing all of them takes its time

            return self._changes.pipe(ops.start_with(self._spent), ops.distinct_until_changed())

        return reactivex.defer(begin)

    def hold(self) -> None:
        """Close the gate: no run sends another request until `release`. What is under way goes on."""
        self._open = False

    def release(self) -> None:
        """Open the gate."""
        self._open = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.get_loop().call_soon_threadsafe(_open, future)

    def follow(self, gate: Observable[bool]) -> abc.DisposableBase:
        """Let an observable move the gate: ``True`` opens it, ``False`` closes it."""

        def move(is_open: bool) -> None:
            if is_open:
                self.release()
            else:
                self.hold()

        return gate.subscribe(move)

    def report(self, run: str, usage: Usage) -> None:
        """Take down what a run has taken so far, all its requests together."""
        before = self._by_run.get(run)
        if usage != (before or Usage()):
            self._by_run[run] = usage
            self._spent = sum(self._by_run.values(), Usage())
            try:
                self._changes.on_next(self._spent)
            except Exception:  # a watcher's own affair; the others have heard of it
                logger.warning("a watcher of a budget raised", exc_info=True)

    def carry_over(self, before: str, run: str) -> None:
        """Let a run stand for the paused one that it goes on with: what it reports holds what that one took."""
        taken = self._by_run.pop(before, None)
        if taken is not None:
            self._by_run[run] = taken

    async def admit(self) -> tuple[str, float] | None:
        """Wait for the gate; the limit that is used up and its value, if one is."""
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
