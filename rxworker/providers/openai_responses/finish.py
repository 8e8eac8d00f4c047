"""How a response ends: its status, its usage and its error.

Cached input is part of the input, reasoning part of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.finish_reasons import CUT, TOOL_USE, known_kind
from rxworker.providers.openai_responses.item import Item
from rxworker.providers.openai_responses.kinds import waits_for_client
from rxworker.providers.openai_responses.wire import WireResponse
from rxworker.providers.usage import numbers_in

COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"
CANCELLED = "cancelled"
STATUSES = (COMPLETED, INCOMPLETE, FAILED, CANCELLED)
# Why a complete response ended, by what one of its items is.
ENDINGS = {"called": TOOL_USE, "malformed": StopKind.MALFORMED, "refused": StopKind.REFUSAL}


def status_of(response: WireResponse, event: str) -> str:
    """How it ended: by the response, else by the last word of the event.

    >>> status_of(WireResponse(), "response.incomplete")
    'incomplete'
    """
    return response.status if response.status in STATUSES else event.rpartition(".")[2]


def read_stop(response: WireResponse, status: str, items: Sequence[Item]) -> StopReason:
    """The normal form.

    Args:
        response: The response as received.
        status: Its final status.
        items: Its items.

    >>> read_stop(WireResponse(), "completed", []).kind
    <StopKind.END_TURN: 'EndTurn'>
    """
    if response.incomplete_details:
        reason = _reason(response.incomplete_details)
        kind = known_kind(reason) if reason else None
        # An unknown reason does not invalidate a complete response.
        if reason and (kind in CUT or status != COMPLETED):
            return StopReason(kind if kind in CUT else StopKind.INCOMPLETE, reason)
    if status != COMPLETED:
        return StopReason(StopKind.INCOMPLETE, status)
    for name, kind in ENDINGS.items():
        if any(map(attrgetter(name), items)):
            return StopReason(kind, status)
    waiting = [item.kind for item in items if waits_for_client(item.wire)]
    detail = f"waits for the client: {', '.join(waiting)}" if waiting else None
    return StopReason(StopKind.END_TURN, status, detail)


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
    """The tokens as they were sent: input and output, those read from a cache and written to it, and reasoning."""
    return numbers_in(
        raw,
        "input_tokens",
        "output_tokens",
        "input_tokens_details.cached_tokens",
        "input_tokens_details.cache_write_tokens",
        "output_tokens_details.reasoning_tokens",
    )


SILENT = "the provider gave no reason"


def error_failure(raw: Json) -> Failure:
    """The failure of an ``error`` event, whether its fields lie flat or in an ``error`` of their own.

    >>> error_failure({"type": "error", "code": "server_error", "message": "oh"}).kind
    'server'
    """
    return read_failure(raw) or Failure(SILENT, "error")


def response_failure(response: WireResponse, status: str) -> Failure:
    """The failure of a response that failed or was cancelled."""
    if status == CANCELLED:
        return Failure("the response was cancelled", CANCELLED, CANCELLED)
    failure = read_failure({"error": response.error}) if response.error else None
    return failure or Failure(SILENT, status)
