"""Where bytes come from: HTTP, a recording; and the client that joins a provider with one."""

from typing import TYPE_CHECKING

from rxworker.lazy import getter, modules_of
from rxworker.transport.answer import Retry, Timeouts
from rxworker.transport.base import Model, RecordingTransport, Transport, from_recording
from rxworker.transport.client import Client
from rxworker.transport.combine import CacheMeter, fallback, race

if TYPE_CHECKING:
    from rxworker.transport.gemini_cache import GeminiCacheTransport
    from rxworker.transport.http import HttpTransport
    from rxworker.transport.session import close_session
    from rxworker.transport.websocket import WebSocketTransport

# What imports aiohttp.
__getattr__ = getter(
    __name__,
    modules_of(
        {
            "rxworker.transport.gemini_cache": "GeminiCacheTransport",
            "rxworker.transport.http": "HttpTransport",
            "rxworker.transport.session": "close_session",
            "rxworker.transport.websocket": "WebSocketTransport",
        }
    ),
)

__all__ = [
    # seams
    "Model",
    "Transport",
    # the client
    "Client",
    "CacheMeter",
    "Retry",
    "Timeouts",
    # several models as one
    "fallback",
    "race",
    # transports
    "HttpTransport",
    "GeminiCacheTransport",
    "WebSocketTransport",
    "RecordingTransport",
    "from_recording",
    "close_session",
]
