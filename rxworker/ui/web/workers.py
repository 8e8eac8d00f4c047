"""Where the workers of conversations come from, and what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from rxworker.errors import ConfigurationError
from rxworker.messages import Prices
from rxworker.ui.web.answers import ApiError
from rxworker.worker import Worker

MakeWorker: TypeAlias = Callable[[], Worker]
Workers: TypeAlias = MakeWorker | Mapping[str, MakeWorker]
"""A function that makes a worker, or several by name. Each conversation gets a worker of its own."""

DEFAULT_NAME = "worker"


class ToolInfo(Struct, frozen=True):
    """A tool, as the page shows it."""

    name: str
    description: str


class WorkerInfo(Struct, frozen=True):
    """A worker, as the page shows it.

    Attributes:
        name: Its name.
        provider: Who is asked.
        model: Which model is asked.
        tools: What the model may call.
        prices: What the model's tokens cost, where that is known: the page draws the cost of a run from them.
    """

    name: str
    provider: str
    model: str
    tools: tuple[ToolInfo, ...]
    prices: Prices | None = None


class MakeWorkerError(Exception):
    """A function that makes a worker has failed. Whatever it failed with is for the server's log alone."""


class WorkerSource:
    """Makes workers by name.

    Args:
        workers: A function that makes a worker, or several by name; the first is the default.
        prices: What tokens cost, by the model's name.

    Raises:
        ConfigurationError: There is none, or one is no function.
    """

    def __init__(self, workers: Workers, prices: Mapping[str, Prices] | None = None) -> None:
        self._prices = prices or {}
        makers = {DEFAULT_NAME: workers} if callable(workers) else dict(workers)
        if not makers:
            raise ConfigurationError("the server needs a worker: make_app(lambda: Worker(...))")
        for name, make in makers.items():
            if not callable(make):
                message = (
                    f"{name!r} is {make!r:.60}, no function that makes a worker: each conversation needs one of its "
                    "own, so write make_app(lambda: Worker(...))"
                )
                raise ConfigurationError(message)
        self._makers = makers
        # The one that was made to tell about it serves the first conversation: making one may not be cheap.
        self._spare: dict[str, Worker] = {}
        self._infos: tuple[WorkerInfo, ...] | None = None

    @property
    def default(self) -> str:
        """The name of the first."""
        return next(iter(self._makers))

    def make(self, name: str | None) -> tuple[str, Worker]:
        """A worker for a conversation, and its name.

        Raises:
            ApiError: None is called so.
            MakeWorkerError: It could not be made.
        """
        name = self.default if name is None else name
        if name not in self._makers:
            known = ", ".join(self._makers)
            raise ApiError(404, "no_worker", f"no worker is called so; there are: {known}")
        spare = self._spare.pop(name, None)
        return name, self._made(name) if spare is None else spare

    def infos(self) -> tuple[WorkerInfo, ...]:
        """What the workers are.

        Raises:
            MakeWorkerError: One could not be made.
        """
        if self._infos is None:
            self._infos = tuple(self._info(name) for name in self._makers)
        return self._infos

    def _made(self, name: str) -> Worker:
        try:
            return self._makers[name]()
        except Exception as error:
            raise MakeWorkerError(f"the function that makes {name!r} has failed") from error

    def _info(self, name: str) -> WorkerInfo:
        worker = self._spare.get(name)
        if worker is None:
            worker = self._spare[name] = self._made(name)
        tools = tuple(ToolInfo(meta.name, meta.description) for meta in worker.tools.metas)
        model = worker.model
        return WorkerInfo(name, model.name, model.model, tools, self._prices.get(model.model))


__all__ = [
    "DEFAULT_NAME",
    "MakeWorker",
    "MakeWorkerError",
    "ToolInfo",
    "WorkerInfo",
    "WorkerSource",
    "Workers",
]
