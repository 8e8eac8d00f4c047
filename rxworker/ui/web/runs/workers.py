"""The workers that a server creates for conversations, by name, and their descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from msgspec import Struct

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import JsonObject, Prices
from rxworker.messages.settings import check_plain
from rxworker.providers.models import prices_of
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.responses import ApiError
from rxworker.worker.definition import Definition
from rxworker.worker.session import Worker

MakeServedWorker: TypeAlias = Callable[[], Worker] | Callable[[WebRequest], Worker]
"""Returns a worker.

A function with one required parameter receives the request of the client that starts the conversation.
"""

ServedWorker: TypeAlias = Worker | MakeServedWorker

Workers: TypeAlias = ServedWorker | Mapping[str, ServedWorker]
"""A worker, or a function that returns one for each conversation, or several by name.

Each conversation is a session of its worker.
"""

DEFAULT_NAME = "worker"


class ToolInfo(Struct, frozen=True):
    """A tool, as the page shows it: also the schema of its arguments, of which the page makes a form."""

    name: str
    description: str
    input_schema: JsonObject


class WorkerInfo(Struct, frozen=True):
    """A worker, as the page shows it.

    Attributes:
        name: Its name.
        provider: The provider of the model.
        model: The model.
        tools: The tools that the model may call.
        prices: The prices of the model's tokens, if known: the page draws the cost of a run from them.
    """

    name: str
    provider: str
    model: str
    tools: tuple[ToolInfo, ...]
    prices: Prices | None = None


class MakeWorkerError(Exception):
    """A function that creates a worker has failed. The cause is only for the server's log."""


class WorkerSource:
    """Creates workers by name.

    Args:
        workers: A worker, or a function that returns one, or several by name; the first is the default. None by an
            empty mapping.
        prices: The prices of tokens, by the model's name.

    Raises:
        ConfigurationError: A value is neither a worker nor a function.
    """

    def __init__(self, workers: Workers, prices: Mapping[str, Prices] | None = None) -> None:
        self._prices = prices or {}
        makers: dict[str, ServedWorker] = {}
        makers |= workers if isinstance(workers, Mapping) else {DEFAULT_NAME: workers}
        for name, make in makers.items():
            if not callable(make) and not isinstance(make, Worker):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
                raise ConfigurationError(
                    f"{name!r} is {make!r:.60}: give a worker, or a function that returns one: make_app(Worker(...))"
                )
            check_plain(f"workers[{name!r}]", make)
        self._makers = makers
        self._of_request = frozenset(
            n for n, make in makers.items() if not isinstance(make, Worker) and _takes_request(make)
        )
        # The worker that was created for `infos` serves the first conversation: creating one may be expensive.
        self._spare: dict[str, Worker] = {}
        self._infos: dict[str, WorkerInfo] = {}

    def make(self, name: str | None, request: WebRequest | None = None) -> tuple[str, Worker]:
        """Return the name of the worker of a new conversation, and that worker.

        Args:
            name: Its name; by default the first.
            request: The request of the client that begins the conversation.

        Raises:
            ApiError: There is no worker of that name.
            MakeWorkerError: The function failed.
        """
        if not self._makers:
            raise ApiError(404, "no_worker", "this server has no worker: it only shows runs that others perform")
        name = next(iter(self._makers)) if name is None else name
        if name not in self._makers:
            known = ", ".join(self._makers)
            raise ApiError(404, "no_worker", f"there is no worker of that name; there are: {known}")
        spare = self._spare.pop(name, None)
        return name, self._made(name, request) if spare is None else spare

    def can_make(self, name: str) -> bool:
        """Whether there is a worker of that name that is created without a request."""
        return name in self._makers and name not in self._of_request

    def infos(self, request: WebRequest | None = None) -> tuple[WorkerInfo, ...]:
        """Return descriptions of the workers.

        Args:
            request: The request of the client: a worker that is created from a request is created anew each time.

        Raises:
            MakeWorkerError: A function failed.
        """
        return tuple([self._info(name, request) for name in self._makers])

    def describe(self, name: str, worker: Definition) -> WorkerInfo:
        """Return the description of a worker that has this name in the list of runs."""
        tools = tuple(ToolInfo(meta.name, meta.description, meta.input_schema) for meta in worker.tools.metas)
        model = worker.model
        prices = prices_of(model.model, {model.model: worker.prices}, self._prices)
        return WorkerInfo(name, model.name, model.model, tools, prices)

    def _made(self, name: str, request: WebRequest | None) -> Worker:
        make = self._makers[name]
        if isinstance(make, Worker):
            return make
        try:
            if name not in self._of_request:
                return _checked(name, cast("Callable[[], object]", make)())
            if request is None:
                raise LocalProtocolError(f"{name!r} is made for a request: only a client can begin its conversations")
            return _checked(name, cast("Callable[[WebRequest], object]", make)(request))
        except (Exception, SystemExit) as error:
            raise MakeWorkerError(f"the function that makes {name!r} has failed") from error

    def _info(self, name: str, request: WebRequest | None) -> WorkerInfo:
        if (known := self._infos.get(name)) is not None:
            return known
        worker = self._made(name, request)
        info = self.describe(name, worker)
        if name not in self._of_request:
            self._infos[name], self._spare[name] = info, worker
        return info


def _checked(name: str, made: object) -> Worker:
    if isinstance(made, Worker):
        return made
    if inspect.iscoroutine(made):
        made.close()  # otherwise Python warns that it was never awaited
    raise ConfigurationError(
        f"{name!r} returned {made!r:.80}, which is not a Worker: give a plain function, not an async one, that returns "
        "a Worker"
    )


def _takes_request(make: Callable[..., object]) -> bool:
    """Whether the function has exactly one required positional parameter."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a built-in without a signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.default is p.empty and p.kind in positional for p in parameters) == 1
