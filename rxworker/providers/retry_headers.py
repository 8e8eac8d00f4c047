"""What an answer's headers say about trying again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRYABLE = frozenset({408, 409, 429})


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait before the next try, where the answer says so.

    A value of zero says nothing: one server was seen to send ``retry-after-ms: 0`` beside ``retry-after: 1``.

    Args:
        headers: Of the answer, names in lower case.
        now: The time that a date is compared with.

    >>> retry_after({"retry-after-ms": "0", "retry-after": "1"})
    1.0
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds:
        return seconds
    if value is None or seconds == 0:
        return None
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    wait = (date - (now or datetime.now(UTC))).total_seconds()
    return wait if wait > 0 else None


def may_retry(status: int, headers: Mapping[str, str]) -> bool:
    """Whether the same request may succeed: as the answer says, else by its status.

    >>> may_retry(529, {}), may_retry(500, {"x-should-retry": "false"})
    (True, False)
    """
    said = headers.get("x-should-retry", "").strip().lower()
    if said in ("true", "false"):
        return said == "true"
    return status in RETRYABLE or status >= 500


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


__all__ = ["may_retry", "retry_after"]
