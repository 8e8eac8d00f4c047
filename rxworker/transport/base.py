"""The interfaces of a response: the source of its bytes, the model as a worker uses it, and backpressure.

A `Transport` turns a request into an observable of bytes. A `Model` turns a conversation into an observable of events;
a `Client` is one, and so is a scripted model in a test. The simplest transport is a recorded response.

reactivex has no way back from the observer to the source. A consumer that may need the source to wait sets a `Pressure`
in a context variable before it subscribes. The task that reads the connection runs in the same context: it checks the
`Pressure` between two reads, so that TCP in turn makes the server wait, and the clock checks it to find out whether
silence is expected.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

import reactivex
from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.events import ResponseEvent
from rxworker.providers.base import HttpRequest, Request


class Transport(Protocol):
    """Something that sends a request and brings the body of the answer."""

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The body, as it arrives. Cold: each subscription sends the request, disposing it closes the connection.

        It fails with `HttpStatusError` when the answer is not a stream, with `TransportTimeoutError` when no connection
        comes about in time, and with `TransportError` when it breaks.
        """
        ...


class Model(Protocol):
    """Something that answers requests with events: a `Client`, or a scripted one in tests."""

    @property
    def name(self) -> str:
        """The provider's name, as messages carry it."""
        ...

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The answer, cold: each subscription makes its own request, disposing it ends that.

        After an `Error` event and ``Status(FAILED)`` the observable ends with ``on_error`` and the matching exception.
        """
        ...


def service_of(model: object) -> str:
    """The host of a model or a provider, as messages carry it: its attribute ``service``; empty without one.

    >>> from rxworker.providers import Ollama
    >>> from rxworker.transport import Client
    >>> service_of(Client(Ollama("qwen3", base_url="http://127.0.0.1:8080")))
    '127.0.0.1:8080'
    """
    service = getattr(model, "service", "")
    return service if isinstance(service, str) else ""


class Pressure(Protocol):
    """A consumer that may be unable to accept more."""

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read now."""
        ...

    def hold(self) -> Awaitable[object] | None:
        """The awaitable to wait for before the next read; ``None`` to continue reading."""
        ...


PRESSURE: ContextVar[Pressure | None] = ContextVar("rxworker_pressure", default=None)
"""The subscriber that a connection opened in this context waits for."""


class Account(Protocol):
    """Counts the tokens of the requests that begin in its context."""

    def count(self, model: Model, answer: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
        """The answer of a model to a request, which is counted while it passes."""
        ...


ACCOUNT: ContextVar[Account | None] = ContextVar("rxworker_account", default=None)
"""Counts the requests that begin in this context: a run counts those of its hooks and stages."""


class RecordingTransport:
    """Answers every request with the same bytes.

    Args:
        body: The body of an answer, as it came over the wire.
        chunk: How many bytes come at once; ``None``: all of them.
    """

    def __init__(self, body: bytes, *, chunk: int | None = None) -> None:
        self.body = body
        self.chunk = chunk or max(len(body), 1)

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The recorded body, at once.

        >>> from rxworker.providers.base import HttpRequest
        >>> got = []
        >>> _ = RecordingTransport(b"abc", chunk=2).send(HttpRequest("", {}, b"")).subscribe(got.append)
        >>> got
        [b'ab', b'c']
        """
        del request
        return reactivex.from_iterable([self.body[at : at + self.chunk] for at in range(0, len(self.body), self.chunk)])


def from_recording(path: str | Path, *, chunk: int | None = None) -> RecordingTransport:
    """A transport that answers with what the file holds.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    try:
        return RecordingTransport(Path(path).read_bytes(), chunk=chunk)
    except OSError as error:
        raise ConfigurationError(f"cannot read the recording {path}: {error.strerror}") from error
