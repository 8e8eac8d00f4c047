"""Meta events: single ones, about the response as a whole."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from rxworker.messages.json import Json, JsonObject
from rxworker.messages.stop import StopReason
from rxworker.messages.usage import Usage


class Ping(Struct, frozen=True, tag="ping"):
    """The connection is open.

    Attributes:
        timestamp: Seconds since the epoch, where the provider sent it.
    """

    timestamp: float | None = None


class ResponseStatus(Enum):
    """Where a response stands."""

    STARTED = "Started"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


class Status(Struct, frozen=True, tag="status", omit_defaults=True, repr_omit_defaults=True, gc=False):
    """A response started or ended. A second ``STARTED`` retracts the events of the response before it.

    Attributes:
        status: The status of the response.
        response_id: The provider's name for it; with ``STARTED``.
        model: The model that answers; with ``STARTED``.
        provider: The name of the provider whose answer is used, if several received the request; with ``STARTED``.
        echo: Content that the provider requires back with the message, see `rxworker.messages.Message`.
        stop_reason: Why it ended; with ``COMPLETED``. ``None``: the provider did not report it.
        service: The host of that provider; with ``provider``.
    """

    status: ResponseStatus
    response_id: str | None = None
    model: str | None = None
    stop_reason: StopReason | None = None
    provider: str | None = None
    echo: JsonObject | None = None
    service: str | None = None


class Error(Struct, frozen=True, tag="error", omit_defaults=True, repr_omit_defaults=True):
    """The response failed. Nothing but a ``Status`` comes after it.

    Attributes:
        code: The provider's word for it; ``truncated`` is ours, for a stream that just stopped.
        message: The provider's message to users.
        retryable: Whether the same request may succeed.
        kind: The normal form, see `ProviderError.kind`.
        request_id: The provider's name for the request.
        retry_after: Seconds to wait before the request is made again, if the provider sent it.
    """

    code: str | None
    message: str
    retryable: bool = False
    kind: str = "unknown"
    request_id: str | None = None
    retry_after: float | None = None


class Opaque(Struct, frozen=True, tag="opaque"):
    """Something of the provider's that we do not know. It travels on, so that nothing is lost.

    Attributes:
        kind: The provider's name for it.
        raw: The content as received.
    """

    kind: str
    raw: Json = None


Meta: TypeAlias = Ping | Usage | Status | Error | Opaque
"""Any meta event."""

TRUNCATED = "truncated"
"""The ``code`` of the `Error` for a stream that stopped without its terminal event."""
NO_RESPONSE = "no_response"
"""The ``code`` of the `Error` for text in place of a stream."""
