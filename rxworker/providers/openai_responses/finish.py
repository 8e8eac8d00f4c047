"""How a response ends: its status, its usage and its error. Cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.finish_reasons import CUT, TOOL_USE, known_kind
from rxworker.providers.openai_responses.wire import WireResponse
from rxworker.providers.usage import numbers_in

COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"
CANCELLED = "cancelled"
STATUSES = (COMPLETED, INCOMPLETE, FAILED, CANCELLED)

END_TURN = StopKind.END_TURN


class Outcome(Struct, frozen=True):
    """The properties of a response's items that decide why it ended.

    Attributes:
        called: Whether a call of a client's tool was completed.
        malformed: Whether there is a call that names no tool.
        refused: Whether there is a refusal.
        waiting: The types of items that wait for a client, but are not calls of its tools.
    """

    called: bool = False
    malformed: bool = False
    refused: bool = False
    waiting: tuple[str, ...] = ()


def status_of(response: WireResponse, event: str) -> str:
    """How it ended: by the response, else by the last word of the event.

    >>> status_of(WireResponse(), "response.incomplete")
    'incomplete'
    """
    return response.status if response.status in STATUSES else event.rpartition(".")[2]


def read_stop(response: WireResponse, status: str, outcome: Outcome) -> StopReason:
    """The normal form.

    Args:
        response: The response as received.
        status: Its final status.
        outcome: The outcome of its items.

    >>> read_stop(WireResponse(), "completed", Outcome(called=True)).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if response.incomplete_details:
        reason = _reason(response.incomplete_details)
        kind = known_kind(reason) if reason else None
        # An unknown reason does not invalidate a complete response.
        if reason and (kind in CUT or status != COMPLETED):
            return StopReason(kind if kind in CUT else StopKind.INCOMPLETE, reason)
    if status != COMPLETED:
        return StopReason(StopKind.INCOMPLETE, status)
    if outcome.called:
        return StopReason(TOOL_USE, status)
    if outcome.malformed:
        return StopReason(StopKind.MALFORMED, status)
    if outcome.refused:
        return StopReason(StopKind.REFUSAL, status)
    detail = f"waits for the client: {', '.join(outcome.waiting)}" if outcome.waiting else None
    return StopReason(END_TURN, status, detail)


def _reason(details: Json) -> str | None:
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if isinstance(reason, str) else None


def read_usage(raw: JsonObject) -> Usage:
    """The normal form, which is how it counts itself.

    >>> read_usage({"input_tokens": 5, "output_tokens": 2}).total_tokens
    7
    """
    return Usage(*numbers(raw), raw=raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The tokens of the input and the output, of the input read from a cache and written to it, and of the reasoning, as they were sent."""
    return numbers_in(
        raw,
        "input_tokens",
        "output_tokens",
        "input_tokens_details.cached_tokens",
        "input_tokens_details.cache_write_tokens",
        "output_tokens_details.reasoning_tokens",
    )


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
    failure = read_failure({"error": response.error}) if response.error else None
    return _refined(failure or Failure(SILENT, status))


def _refined(failure: Failure) -> Failure:
    if failure.kind != "unknown" or failure.code is None:
        return failure
    kind = next((k for start, k in CODES.items() if failure.code.startswith(start)), failure.kind)
    return replace(failure, kind=kind)
