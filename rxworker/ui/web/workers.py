"""Where the workers of conversations come from, and what they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from aiohttp import web
from msgspec import Struct

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import Prices
from rxworker.ui.web.answers import ApiError
from rxworker.worker import Worker

MakeWorker: TypeAlias = Callable[[], Worker] | Callable[[web.Request], Worker]
"""Makes a worker. A function with one required parameter gets the request of the client that begins the conversation."""

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
        if not callable(workers) and not isinstance(workers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(
                f"the workers are {workers!r:.60}; give a function that makes one: make_app(lambda: Worker(...))"
            )
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
        self._of_request = frozenset(n for n, make in makers.items() if _takes_request(make))
        # The one that was made to tell about it serves the first conversation: making one may not be cheap.
        self._spare: dict[str, Worker] = {}
        self._infos: tuple[WorkerInfo, ...] | None = None

    @property
    def default(self) -> str:
        """The name of the first."""
        return next(iter(self._makers))

    def make(self, name: str | None, request: web.Request | None = None) -> tuple[str, Worker]:
        """A worker for a conversation, and its name.

        Args:
            name: Its name; by default the first.
            request: The request of the client that begins the conversation.

        Raises:
            ApiError: None is called so.
            MakeWorkerError: It could not be made.
        """
        name = self.default if name is None else name
        if name not in self._makers:
            known = ", ".join(self._makers)
            raise ApiError(404, "no_worker", f"no worker is called so; there are: {known}")
        spare = self._spare.pop(name, None)
        return name, self._made(name, request) if spare is None else spare

    def infos(self, request: web.Request | None = None) -> tuple[WorkerInfo, ...]:
        """What the workers are.

        Args:
            request: The request of the client that asks: a worker that is made for a request is made anew each time.

        Raises:
            MakeWorkerError: One could not be made.
        """
        if self._infos is not None:
            return self._infos
        infos = tuple(self._info(name, request) for name in self._makers)
        if not self._of_request:
            self._infos = infos
        return infos

    def _made(self, name: str, request: web.Request | None) -> Worker:
        make = self._makers[name]
        try:
            if name not in self._of_request:
                return _checked(name, cast("Callable[[], object]", make)())
            if request is None:
                message = (
                    f"{name!r} is made for a request: only a client can begin its conversations"
                )
                raise LocalProtocolError(message)
            return _checked(name, cast("Callable[[web.Request], object]", make)(request))
        except (Exception, SystemExit) as error:
            raise MakeWorkerError(f"the function that makes {name!r} has failed") from error

    def _info(self, name: str, request: web.Request | None) -> WorkerInfo:
        worker = self._spare.get(name)
        if worker is None:
            worker = self._made(name, request)
        if name not in self._of_request:
            self._spare[name] = worker
        tools = tuple(ToolInfo(meta.name, meta.description) for meta in worker.tools.metas)
        model = worker.model
        return WorkerInfo(name, model.name, model.model, tools, self._prices.get(model.model))


def _checked(name: str, made: object) -> Worker:
    if isinstance(made, Worker):
        return made
    if inspect.iscoroutine(made):
        made.close()  # Python would warn that it was never awaited
    message = f"{name!r} returned {made!r:.80}, which is no Worker: give a plain function, not an async one, that returns a Worker"
    raise ConfigurationError(message)


def _takes_request(make: MakeWorker) -> bool:
    """Whether the function has exactly one required positional parameter."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a built-in without a signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.default is p.empty and p.kind in positional]
    return len(required) == 1


__all__ = [
    "DEFAULT_NAME",
    "MakeWorker",
    "MakeWorkerError",
    "ToolInfo",
    "WorkerInfo",
    "WorkerSource",
    "Workers",
]
