"""Where bytes come from: HTTP, a recording; and the client that joins a provider with one.

aiohttp takes as long to import as the rest of the package: it is imported when a client needs it, or when `HttpTransport` or `close_session` is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rxworker.transport.answer import Retry, Timeouts
from rxworker.transport.base import Model, RecordingTransport, Transport, from_recording
from rxworker.transport.client import Client
from rxworker.transport.combine import CombinedModel, fallback, race

if TYPE_CHECKING:
    from rxworker.transport.http import HttpTransport
    from rxworker.transport.session import close_session

_MODULES = {"HttpTransport": "http", "close_session": "session"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    # the seams
    "Model",
    "Transport",
    # the client
    "Client",
    "Retry",
    "Timeouts",
    # several models as one
    "CombinedModel",
    "fallback",
    "race",
    # transports
    "HttpTransport",
    "RecordingTransport",
    "from_recording",
    "close_session",
]
