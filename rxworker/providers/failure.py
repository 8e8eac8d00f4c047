"""Errors, read from the many formats in which the services report them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from rxworker.errors import ProviderError
from rxworker.events import Error
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import as_array, as_object, objects_in, read_json, read_repaired, word
from rxworker.providers.error_table import MINIMAX, RETRYABLE_KINDS, SEALED, SENTENCES, STATUSES, WORDS, key

NO_REASON = "the provider gave no reason"
CANCELLED = "cancelled"
LONGEST_RAW = 1000  # characters of an answer of a service behind OpenRouter

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_EPOCH = 1e9  # what is more is not seconds to wait
_MILLISECONDS = 1e11
_PART = re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|d|h|m|s)")
_GO = re.compile(rf"(?:{_PART.pattern})+")
_PARAMETER = re.compile(r"\b(r|t|remaining|reset) *= *(\d+)")  # of a limit
_TRY_AGAIN = re.compile(rf"(?:try again in|retry after) ((?:{_PART.pattern})+|\d+ seconds)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT")
_NUMBER = re.compile(r"\((\d{4})\)$")
_APART = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_FOR_ALL = ("unknown", "invalid_request", "server")
LONGEST_PAGE = 20_000
LONGEST_TEXT = 300
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_SPACE = re.compile(r"\s+")


def readable(page: str) -> str:
    """The beginning of a page without its markup.

    >>> readable("<html><style>p {}</style><p>Sign in</p> <p>first</p>")
    'Sign in first'
    """
    text = _SPACE.sub(" ", _TAG.sub(" ", page)).strip()
    return text[:LONGEST_TEXT] + "..." if len(text) > LONGEST_TEXT else text


class Failure(Struct, frozen=True):
    """An error as a service reported it.

    Attributes:
        message: Its text, shown to users.
        code: Its word for it: the code, else the type. Of an HTTP answer it is never the status again.
        kind: The normal form, see `rxworker.errors.ProviderError`.
        request_id: Its name for the request.
        retry_after: Seconds to wait before the request is made again, if the body contains it.
    """

    message: str
    code: str | None = None
    kind: str = "unknown"
    request_id: str | None = None
    retry_after: float | None = None

    def event(self) -> Error:
        """The failure as an event within a stream."""
        return Error(**asdict(self), retryable=self.kind in RETRYABLE_KINDS)


def names_sealed(error: ProviderError) -> bool:
    """Whether a request was refused for what an earlier answer holds sealed.

    >>> names_sealed(ProviderError("messages.1.content.0: Invalid `signature` in `thinking` block", status=400))
    True
    """
    return error.status in (400, 404, 422) and SEALED.search(str(error)) is not None


def read_failure(body: Json, status: int | None = None) -> Failure | None:
    """The failure that a JSON value describes; ``None`` if it describes none.

    Known are ``{"error": {...}}``, ``{"error": "text"}``, ``{"detail": ...}``, and the error object alone.

    Args:
        body: The body as received.
        status: The HTTP status, where there is one.

    >>> read_failure({"error": {"message": "Overloaded", "type": "overloaded_error"}}).kind
    'overloaded'
    """
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return None
    if refused := _refused(body.get("base_resp")):
        return refused
    inner = body.get("error") or next(iter(as_array(body.get("errors"))), None)
    holder: JsonObject = inner if isinstance(inner, dict) else body
    texts = (inner, holder.get("message"), body.get("message"), holder.get("detail"), body.get("detail"))
    message = next((text for one in texts if (text := word(one))), "")
    if not message and inner is None:
        return None
    details, metadata = holder.get("details"), as_object(holder.get("metadata"))
    # Anthropic's name of the cause: https://platform.claude.com/docs/en/api/errors
    cause = _word(as_object(details).get("error_code"))
    code = cause or _word(holder.get("code")) or _word(body.get("code"))
    kinds = [code, *(_word(holder.get(name)) for name in ("type", "status", "http_code", "status_code"))]
    words = [one for one in kinds if one and one != "error"]
    message = message or _word(holder.get("type")) or "the service gave no reason"
    if status is not None:
        if (behind := _failure_behind(metadata)) is not None:
            message = f"{message}: {behind.message}"
            words += [behind.code] if behind.code else []
        # One that is nothing but an HTTP status is not the code.
        code = next((one for one in words if not (one.isdecimal() and len(one) == 3)), None)
    loading = body.get("estimated_time")  # Hugging Face, while a model is loaded
    return Failure(
        message,
        code or (next(iter(words), None) if status is None else None),
        classify([*_reasons(details), *words], status, message),
        word(body.get("request_id")) or None,
        _delay(details)
        # OpenRouter puts the headers into the body.
        or until_reset({name.lower(): str(value) for name, value in as_object(metadata.get("headers")).items()})
        or _wait_in(message)
        or (float(loading) if isinstance(loading, int | float) else None),
    )


def failure_of(status: int, body: bytes) -> Failure:
    """The failure of an answer that is not a stream."""
    if failure := read_failure(read_repaired(body), status):
        return failure
    text = readable(body[:LONGEST_PAGE].decode("utf-8", "replace"))
    return Failure(text or "the answer was empty", None, classify([], status, text))


def error_failure(raw: Json) -> Failure:
    """The failure of an error in a stream, whether its fields lie flat or in an ``error`` of their own.

    One that cannot be read has itself as the message.

    >>> error_failure({"type": "error", "code": "server_error", "message": "oh"}).kind
    'server'
    """
    return read_failure(raw) or Failure(msgspec.json.encode(raw).decode()[:LONGEST_TEXT] if raw else NO_REASON, "error")


def ended_failure(what: str, status: str, error: Json) -> Failure:
    """The failure of a response that failed or was cancelled, by the status that the service gives it."""
    if status == CANCELLED:
        return Failure(f"the {what} was cancelled", CANCELLED, CANCELLED)
    return read_failure(error) or Failure(NO_REASON, status)


def _refused(base: Json) -> Failure | None:
    """The failure in MiniMax's ``base_resp``, whose number is 0 where there is none."""
    answer = as_object(base)
    number = answer.get("status_code")
    if not isinstance(number, int) or number == 0:
        return None
    message = word(answer.get("status_msg")) or "the service gave no reason"
    return Failure(message, str(number), MINIMAX.get(str(number)) or classify([], None, message))


def _reasons(details: Json) -> list[str]:
    """The reasons in Google's details, which are more exact than its status. A limit of a day is a quota."""
    listed = objects_in(details)
    found = [reason for one in listed if (reason := word(one.get("reason")))]
    return found if "PerDay" not in str([one.get("violations") for one in listed]) else ["quota_exceeded"]


def kind_of(status: int) -> str:
    """The kind of an answer with this status, about which nothing else is known."""
    return STATUSES.get(status, "server" if status >= 500 else "invalid_request")


def classify(words: list[str], status: int | None, message: str) -> str:
    """The normal form of a failure.

    Args:
        words: The provider's words for it, the most exact first; a number is read as an HTTP status.
        status: The HTTP status, where there is one.
        message: The provider's sentence, for errors without a known word.
    """
    known = [WORDS[key(word)] for word in words if key(word) in WORDS]
    number = status or next((int(w) for w in words if w.isdecimal() and len(w) == 3), None)
    if behind := _NUMBER.search(message):  # MiniMax's, in the other protocols
        known = [MINIMAX[behind[1]], *known] if behind[1] in MINIMAX else known
    # What stands for everything counts only where nothing is more exact.
    kind = next((k for k in known if k not in _FOR_ALL), next(iter(known), "unknown"))
    if number is not None and number >= 400 and kind in _FOR_ALL:
        by_status = kind_of(number)
        kind = by_status if kind == "unknown" or by_status != "invalid_request" else kind
    others = (_APART.sub(" ", word) for word in words if key(word) not in WORDS)
    text = "\n".join((message, *others))
    return next((better for better, over, sentence in SENTENCES if kind in over and sentence.search(text)), kind)


def _failure_behind(metadata: JsonObject) -> Failure | None:
    """The failure of the service that OpenRouter passed the request on to, in its own words."""
    raw = word(metadata.get("raw"))
    if not raw:
        return None
    failure = read_failure(read_json(raw)) or Failure(raw[:LONGEST_RAW])
    name = word(metadata.get("provider_name"))
    return replace(failure, message=f"{failure.message} ({name})") if name else failure


def _delay(details: Json) -> float | None:
    """The seconds of a ``RetryInfo``: Google sends the delay in the body, as in ``"retryDelay": "34.4s"``."""
    found = (_SECONDS.fullmatch(word(detail.get("retryDelay"))) for detail in objects_in(details))
    return next((float(delay[1]) for delay in found if delay), None)


def _wait_in(message: str) -> float | None:
    """The wait in a sentence, of OpenAI, Groq and Azure."""
    found = _TRY_AGAIN.search(message)
    return None if found is None else _duration(found[1].replace(" seconds", "s"))


def until_reset(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds until the limits that are used up are reset, if the headers contain it.

    Known are ``x-ratelimit-reset``, ``x-ratelimit-reset-requests`` and the like, with seconds, a duration (``6m0s``) or
    a time since the epoch, and ``anthropic-ratelimit-requests-reset`` and the like, with a date. A limit of which
    something is left is not why a request was refused.

    Args:
        headers: Of the answer, names in lower case.
        now: The time that a date is compared with.

    >>> until_reset({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2s"})
    62.0
    """
    now = now or datetime.now(UTC)
    waits = [
        _wait(headers[name], now)
        for name in headers
        if "ratelimit" in name
        and "reset" in name
        and headers.get(name.replace("reset", "remaining"), "").strip() == "0"
    ]
    return max(filter(None, waits), default=None)


def until_refilled(limits: str) -> float | None:
    """Seconds until the limits that are used up are refilled, by the header ``RateLimit``.

    As the drafts of the IETF have it:
    https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers

    >>> until_refilled('"minute";r=0;t=30, "day";r=90;t=7200'), until_refilled("limit=5, remaining=0, reset=7")
    (30.0, 7.0)
    """
    each = limits.split(",") if ";" in limits else [limits]
    found = [dict[str, str](_PARAMETER.findall(one)) for one in each]
    waits = [one.get("t") or one.get("reset") for one in found if (one.get("r") or one.get("remaining")) == "0"]
    return max((float(wait) for wait in waits if wait), default=0) or None


def _wait(reset: str, now: datetime) -> float | None:
    """The seconds until a time: a duration, seconds, seconds or milliseconds since the epoch, or a date."""
    try:
        number = float(reset)
    except ValueError:
        wait = _duration(reset)
        if wait is None and _DATE.match(reset):
            with suppress(ValueError):
                date = datetime.fromisoformat(reset)
                wait = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    else:
        wait = number / 1000 if number > _MILLISECONDS else number
        if number > _EPOCH:
            wait -= now.timestamp()
    return round(wait, 3) if wait is not None and 0 < wait < _EPOCH else None


def _duration(text: str) -> float | None:
    """The seconds of a duration as Go writes it, such as ``1h2m3.5s`` or ``120ms``."""
    if not _GO.fullmatch(text):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))


def _word(value: Json) -> str | None:
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, int | float) else word(value) or None
