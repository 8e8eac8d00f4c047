"""Where bytes come from: HTTP, a recording; and the client that joins a provider with one."""

from rxworker.transport.answer import Retry, Timeouts
from rxworker.transport.client import Client
from rxworker.transport.combine import CombinedModel, fallback, race
from rxworker.transport.http import HttpTransport
from rxworker.transport.recording import RecordingTransport, from_recording
from rxworker.transport.seams import Model, Transport
from rxworker.transport.session import close_session

__all__ = [
    # seams
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
