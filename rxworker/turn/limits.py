"""Limits of a run, which are on by default so that an endless loop ends, and a budget that several runs share."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import ConfigurationError
from rxworker.messages import Prices
from rxworker.messages.settings import Settings, check_number, check_type, checks_arguments
from rxworker.messages.usage import NOTHING, SIZES, Usage, parts_of
from rxworker.operators.kernel import Source
from rxworker.providers.models import UNKNOWN, model_info
from rxworker.transport import Model


class UsualCost(float):
    """The usual ``max_cost``, which no program has named: without prices it limits nothing."""


USUAL_COST = UsualCost(50.0)


class Limits(Settings, frozen=True):
    """The limits of one run; ``None`` removes a limit.

    Attributes:
        max_turns: Requests to the model.
        max_continuations: Times that hooks may send an answer back with ``ContinueWithMessages``.
        max_tool_calls: Tool calls.
        max_tokens: Tokens read and written, all requests together; checked before each request.
        max_cost: Their cost, checked before each request. Where the prices of the model are not known, the usual limit
            does not hold, and a given one is refused by the worker.
        prices: The prices of the model's tokens; without them, those that the model has, which for most are in the
            table of `rxworker.providers.model_info`.
        max_repeats: How often in a row the same calls may have the same results, since such a run makes no progress:
            those of one turn, or of up to 8 that take turns. Of calls that fail, the same errors count, whatever the
            arguments.
        max_depth: The depth of nested runs.
        max_seconds: Wall clock.

    >>> Limits(max_turns=3).max_turns
    3
    """

    max_turns: int | None = 50
    max_continuations: int | None = 10
    max_tool_calls: int | None = 500
    max_tokens: int | None = 5_000_000
    max_cost: float | None = USUAL_COST
    prices: Prices | None = None
    max_repeats: int | None = 5
    max_depth: int | None = 8
    max_seconds: float | None = 3600.0

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            ConfigurationError: A limit is not a number, or is below 0.
        """
        for name, usual in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            if (value := getattr(self, name)) is usual:
                continue
            if name == "prices":
                check_type("Limits(prices)", value, Prices, "prices=Prices(input=3.0, output=15.0)", optional=True)
            else:
                whole = name not in ("max_cost", "max_seconds")
                check_number(f"Limits({name})", value, whole=whole, optional=True)

    @property
    def names_cost(self) -> bool:
        """Whether a program has named the limit on the cost."""
        return self.max_cost is not None and self.max_cost.__class__ is not UsualCost


def check_priced(limits: Limits, prices: Prices | None, model: str) -> None:
    """Check that a limit on the cost limits something.

    Args:
        limits: The limits.
        prices: The prices that are known.
        model: The name of the model.

    Raises:
        ConfigurationError: A program has named the limit, and no prices are known.
    """
    if limits.names_cost and prices is None:
        cost = limits.max_cost
        raise ConfigurationError(
            f"max_cost={cost!r} needs prices, and those of the model {model} are not known: Limits(max_cost={cost!r}, "
            "prices=Prices(...))"
        )


def model_prices(model: Model) -> Prices | None:
    """The prices of a model's tokens: those that it has as ``prices``, or without that those of the table of models."""
    known = getattr(model, "prices", UNKNOWN)
    if known is UNKNOWN:
        return model_info(model.model).prices
    return known if isinstance(known, Prices) else None


KEPT_PAUSES = 10_000
"""Of how many paused runs a budget knows what it has counted, for the runs that resume them."""

logger = logging.getLogger("rxworker.worker")


@checks_arguments
class Budget:
    """A limit on the tokens and the cost of several runs together, with a gate for all of them.

    Before each request a run waits while the gate is closed, and ends with `LimitExceededError` if the budget is used
    up. The usage is an observable, so a pipeline can close the gate and open it again.

    Args:
        max_tokens: Tokens of all runs together.
        max_cost: Their cost.
        prices: The prices of the tokens; without them, each run has those of its own model. A run whose model has none
            ends with a `ConfigurationError` if there is a ``max_cost``.

    Raises:
        ConfigurationError: A value is not a number from 0 up.

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
        self, *, max_tokens: int | None = None, max_cost: float | None = None, prices: Prices | None = None
    ) -> None:
        check_number("Budget(max_tokens)", max_tokens, whole=True, optional=True)
        check_number("Budget(max_cost)", max_cost, optional=True)
        example = "prices=Prices(input=3.0, output=15.0)"
        check_type("Budget(prices)", prices, Prices, example, optional=True)
        self.max_tokens = max_tokens
        self.max_cost = max_cost
        self.prices = prices
        self._by_run: dict[str, Usage] = {}  # of runs that have not ended
        self._paused: dict[str, None] = {}
        self._spent = Usage()
        self._cost = 0.0
        self._partial = 0  # how many reports are partial
        self._changes: Source[Usage] = Source()
        self._open = True
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def spent(self) -> Usage:
        """The usage of all runs."""
        return self._spent

    @property
    def runs(self) -> int:
        """How many runs that have reported have not ended; the last `KEPT_PAUSES` paused ones count."""
        return len(self._by_run) + len(self._paused)

    @property
    def cost(self) -> float:
        """The cost of the usage, by the prices of the budget, or else by those of each model."""
        return self._cost

    @property
    def changes(self) -> Observable[Usage]:
        """The usage of all runs: the current one first, then each change."""
        return reactivex.defer(lambda _: self._changes.pipe(ops.start_with(self._spent), ops.distinct_until_changed()))

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
        return gate.subscribe(lambda is_open: self.release() if is_open else self.hold())

    def report(self, run_id: str, usage: Usage, prices: Prices | None = None) -> None:
        """Record the usage of a run so far, all its requests together.

        Args:
            run_id: The run's id.
            usage: Its usage.
            prices: The prices of its model, if the budget has none.
        """
        before = self._by_run.get(run_id, NOTHING)
        if usage == before:
            return
        self._by_run[run_id] = usage
        self._partial += usage.is_partial - before.is_partial
        self._spent = _moved(self._spent, before, usage, is_partial=self._partial > 0)
        known = self.prices or prices
        if known is not None:
            self._cost += known.cost(usage) - known.cost(before)
        try:
            self._changes.on_next(self._spent)
        except Exception:  # the other watchers have received it
            logger.warning("a watcher of a budget raised", exc_info=True)

    def end(self, run_id: str, *, paused: bool = False) -> None:
        """Forget a run, which has reported for the last time. Its usage stays counted.

        Args:
            run_id: The run's id.
            paused: Whether it may be resumed: the run that does so begins with its usage.
        """
        self._by_run.pop(run_id, None)
        if paused:
            self._paused[run_id] = None
            if len(self._paused) > KEPT_PAUSES:
                del self._paused[next(iter(self._paused))]

    def carry_over(self, before: str, run_id: str, usage: Usage) -> None:
        """Begin a run that resumes a paused one, whose usage its reports include.

        Args:
            before: The id of the paused run.
            run_id: The id of the run that resumes it.
            usage: The usage of the paused run, with that of the runs inside it.
        """
        if before in self._paused:
            del self._paused[before]
            self._by_run[run_id] = usage

    async def admit(self, prices: Prices | None = None) -> tuple[str, float] | None:
        """Wait for the gate. Return the name and the value of a limit that is used up, if any.

        Args:
            prices: The prices of the model that is requested, if the budget has none.

        Raises:
            ConfigurationError: The cost is limited, and no prices are known.
        """
        if self.max_cost is not None and self.prices is None and prices is None:
            raise ConfigurationError(
                f"max_cost={self.max_cost!r} needs prices, and those of the model are not known: "
                f"Budget(max_cost={self.max_cost!r}, prices=Prices(...))"
            )
        while not self._open:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self.max_tokens is not None and self.spent.total_tokens >= self.max_tokens:
            return "budget.max_tokens", self.max_tokens
        if self.max_cost is not None and self.cost >= self.max_cost:
            return "budget.max_cost", self.max_cost
        return None


TOKENS = [name for name in Usage.__struct_fields__ if name.endswith("_tokens")]


def _moved(total: Usage, before: Usage, after: Usage, *, is_partial: bool) -> Usage:
    """A sum in which one usage has become another."""
    whole = replace(_with_tokens(total, before, after), is_partial=is_partial)
    if (whole.input_tokens or 0) <= SIZES[0]:
        return whole
    known, old, new = map(parts_of, (total, before, after))
    parts = {size: _with_tokens(known.get(size), old.get(size), new.get(size)) for size in sorted({*known, *new})}
    return replace(whole, by_size=tuple(parts.items()))


def _with_tokens(total: Usage | None, before: Usage | None, after: Usage | None) -> Usage:
    def moved(name: str) -> int | None:
        old, known, new = (getattr(usage, name, None) for usage in (before, total, after))
        return None if known is None and new is None else (known or 0) - (old or 0) + (new or 0)

    counts: dict[str, Any] = {name: moved(name) for name in TOKENS}
    return Usage(**counts)


def _open(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
