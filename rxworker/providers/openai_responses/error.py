"""What went wrong in the middle of a Responses stream."""

from __future__ import annotations

from msgspec.structs import replace

from rxworker.messages import Json
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.openai_responses.stop import CANCELLED
from rxworker.providers.openai_responses.wire import WireResponse

# The codes of this protocol alone; whatever begins with one of them.
CODES = {
    "invalid_": "invalid_request",
    "image_": "invalid_request",
    "unsupported_image": "invalid_request",
    "empty_image": "invalid_request",
    "failed_to_download_image": "invalid_request",
    "bio_policy": "permission",
    "cyber_policy": "permission",
    "vector_store_timeout": "timeout",
    "previous_response_not_found": "not_found",
}
SILENT = "the provider gave no reason"


def error_failure(raw: Json) -> Failure:
    """The failure of an ``error`` event, whether its fields lie flat or in an ``error`` of their own.

    >>> error_failure({"type": "error", "code": "server_error", "message": "oh"}).kind
    'server'
    """
    return _refined(read_failure(raw) or Failure(SILENT, "error"))


def response_failure(response: WireResponse, status: str) -> Failure:
    """The failure of a response that failed or was cancelled."""
    if status == CANCELLED:
        return Failure("the response was cancelled", CANCELLED, CANCELLED)
    told = read_failure({"error": response.error}) if response.error else None
    return _refined(told or Failure(SILENT, status))


def _refined(failure: Failure) -> Failure:
    if failure.kind != "unknown" or failure.code is None:
        return failure
    kind = next((k for start, k in CODES.items() if failure.code.startswith(start)), failure.kind)
    return replace(failure, kind=kind)


__all__ = ["error_failure", "response_failure"]
