"""Errors, read from the many formats in which the services report them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from rxworker.events import Error
from rxworker.events.meta import TRUNCATED
from rxworker.messages import Json, JsonObject

# The providers' words, whether they call them type, code or status.
KINDS = {
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "unauthorized": "authentication",
    "permission_error": "permission",
    "permission_denied": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "model_decommissioned": "not_found",
    "model_not_available": "not_found",
    "invalid_model": "not_found",
    "unknown_model": "not_found",
    "deploymentnotfound": "not_found",
    "not_found": "not_found",
    "context_length_exceeded": "context_length",
    "too_many_prompt_tokens": "context_length",
    "request_too_large": "context_length",
    "exceed_context_size_error": "context_length",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "ratelimitreached": "rate_limit",
    "too_many_requests": "rate_limit",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "contract_spend_limit_reached": "quota",
    "enforced_spend_limit_reached": "quota",
    "linked_organization_billing_unavailable": "quota",
    "linked_organization_spend_limit_reached": "quota",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "engine_overloaded_error": "overloaded",
    "timeout_error": "timeout",
    "timeout": "timeout",
    "api_error": "server",
    "server_error": "server",
    "internal_error": "server",
    "internal_server_error": "server",
    "service_unavailable": "server",
    "tool_use_failed": "invalid_request",
    "invalid_request_error": "invalid_request",
    "cancelled": "cancelled",
    "unauthenticated": "authentication",
    "resource_exhausted": "rate_limit",
    "unavailable": "overloaded",
    "deadline_exceeded": "timeout",
    "gateway_timeout": "timeout",
    "internal": "server",
    "invalid_argument": "invalid_request",
    "failed_precondition": "invalid_request",
    # of the services that are compatible with OpenAI's
    "arrearage": "quota",
    "auth_error": "authentication",
    "budget_exceeded": "quota",
    "exceeded_current_quota_error": "quota",
    "invalid_authentication_error": "authentication",
    "limit_requests": "rate_limit",
    "queue_exceeded": "overloaded",
    "rate_limit_reached_error": "rate_limit",
    "request_quota_exceeded": "rate_limit",
    "resource_not_found_error": "not_found",
    "service_tier_capacity_exceeded": "rate_limit",
    "throttling_error": "rate_limit",
    "token_quota_exceeded": "rate_limit",
    "too_many_requests_error": "rate_limit",
    "unavailable_error": "overloaded",
    "wrong_api_key": "authentication",
    # of AWS
    "access_denied": "permission",
    "permission_denied_error": "permission",
    "accessdeniedexception": "permission",
    "expiredtokenexception": "authentication",
    "internalserverexception": "server",
    "invalidsignatureexception": "authentication",
    "modelerrorexception": "server",
    "modelnotreadyexception": "overloaded",
    "modelstreamerrorexception": "server",
    "modeltimeoutexception": "timeout",
    "resourcenotfoundexception": "not_found",
    "servicequotaexceededexception": "quota",
    "serviceunavailableexception": "overloaded",
    "throttlingexception": "rate_limit",
    "unrecognizedclientexception": "authentication",
    "validationexception": "invalid_request",
    TRUNCATED: TRUNCATED,
}
# The numbers in ``base_resp``, with which MiniMax reports failures under status 200:
# https://platform.minimax.io/docs/api-reference/errorcode
MINIMAX = {
    1000: "server",
    1001: "timeout",
    1002: "rate_limit",
    1004: "authentication",
    1008: "quota",
    1013: "server",
    1039: "rate_limit",
    1041: "rate_limit",
    2013: "invalid_request",
    2049: "authentication",
}
STATUSES = {
    400: "invalid_request",
    401: "authentication",
    402: "quota",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "context_length",
    422: "invalid_request",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
RETRYABLE_KINDS = frozenset({"rate_limit", "overloaded", "server", "timeout", TRUNCATED})

LONGEST_RAW = 1000  # characters of an answer of a service behind OpenRouter

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_EPOCH = 1e9  # what is more is not seconds to wait
_MILLISECONDS = 1e11
_PART = re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|d|h|m|s)")
_GO = re.compile(rf"(?:{_PART.pattern})+")
_TRY_AGAIN = re.compile(rf"(?:try again in|retry after) ((?:{_PART.pattern})+|\d+ seconds)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT")
_TOO_LONG = re.compile(
    r"context.?(length|window|size)|maximum context|(prompt|input) (is )?too long|too many tokens"
    r"|messages is too long|token count .*exceeds the maximum|exceeded model token limit|range of input length",
    re.IGNORECASE,
)
_WRONG_KEY = re.compile(r"(incorrect|invalid|missing) (api key|x-api-key)|api key not valid", re.IGNORECASE)
# How an empty account is reported, with status 400, 403 or 429.
_NO_CREDIT = re.compile(
    r"insufficient (balance|credits)|balance is insufficient|used all available credits|spending limit",
    re.IGNORECASE,
)
# How an unknown model is reported with status 400, by Mistral, OpenRouter, xAI, DeepSeek and others.
_NO_MODEL = re.compile(
    r"\b(invalid|unknown|no such) model\b(?! (param|option|config|setting|input|output|arg))"
    r"|\bnot a valid model\b|\bno models loaded\b|\bmodel identifier is invalid"
    r"|\bmodel:? (\S+ )?(is |was |does |do )?(not (found|exist)|unknown|invalid)\b",
    re.IGNORECASE,
)


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
    inner = body.get("error")
    holder: JsonObject = inner if isinstance(inner, dict) else body
    message = _text(inner) or _text(holder.get("message")) or _text(body.get("message"))
    message = message or _text(holder.get("detail")) or _text(body.get("detail"))
    if message is None and inner is None:
        return None
    details = holder.get("details")
    # Anthropic's name of the cause: https://platform.claude.com/docs/en/api/errors
    cause = _word(details.get("error_code")) if isinstance(details, dict) else None
    code = cause or _word(holder.get("code")) or _word(body.get("code"))
    kinds = [code, _word(holder.get("type")), _word(holder.get("status"))]
    words = [word for word in kinds if word and word != "error"]
    message = message or _word(holder.get("type")) or "the service gave no reason"
    if status is not None:
        behind = _failure_behind(holder.get("metadata"))
        if behind is not None:
            message = f"{message}: {behind.message}"
            words += [behind.code] if behind.code else []
        # One that is nothing but an HTTP status is not the code.
        code = next((word for word in words if not (word.isdecimal() and len(word) == 3)), None)
    return Failure(
        message,
        code or (next(iter(words), None) if status is None else None),
        classify(words, status, message),
        _text(body.get("request_id")),
        _delay(details) or _delay_behind(holder.get("metadata")) or _wait_in(message),
    )


def _refused(base: Json) -> Failure | None:
    """The failure in MiniMax's ``base_resp``, whose number is 0 where there is none."""
    number = base.get("status_code") if isinstance(base, dict) else None
    if not isinstance(base, dict) or not isinstance(number, int) or number == 0:
        return None
    message = _text(base.get("status_msg")) or "the service gave no reason"
    return Failure(message, str(number), MINIMAX.get(number, "unknown"))


def classify(words: list[str], status: int | None, message: str) -> str:
    """The normal form of a failure.

    Args:
        words: The provider's words for it, the most exact first; a number is read as an HTTP status.
        status: The HTTP status, where there is one.
        message: The provider's sentence, for errors without a known word.
    """
    found = [KINDS[word.lower()] for word in words if word.lower() in KINDS]
    number = status or next((int(w) for w in words if w.isdecimal() and len(w) == 3), None)
    kind = found[0] if found else "unknown"
    if number is not None and number >= 400:
        by_status = STATUSES.get(number, "server" if number >= 500 else "invalid_request")
        # The status is more exact than the words that stand for everything.
        if kind in ("unknown", "invalid_request", "server") and by_status != "invalid_request":
            kind = next((k for k in found if k not in ("invalid_request", "server")), by_status)
        elif kind == "unknown":
            kind = by_status
    if kind in ("unknown", "invalid_request", "permission", "rate_limit"):
        kind = "quota" if _NO_CREDIT.search(message) else kind
    if kind in ("unknown", "invalid_request"):
        if _TOO_LONG.search(message):
            return "context_length"
        if _WRONG_KEY.search(message):
            return "authentication"
        if _NO_MODEL.search(message):
            return "not_found"
    return kind


def _failure_behind(metadata: Json) -> Failure | None:
    """The failure of the service that OpenRouter passed the request on to, in its own words."""
    raw = _text(metadata.get("raw")) if isinstance(metadata, dict) else None
    if raw is None or not isinstance(metadata, dict):
        return None
    try:
        decoded: Json = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        decoded = None
    failure = read_failure(decoded) or Failure(raw[:LONGEST_RAW])
    name = _text(metadata.get("provider_name"))
    return replace(failure, message=f"{failure.message} ({name})") if name else failure


def _delay(details: Json) -> float | None:
    """The seconds of a ``RetryInfo``: Google sends the delay in the body, as in ``"retryDelay": "34.4s"``."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return float(found[1])
    return None


def _delay_behind(metadata: Json) -> float | None:
    """The wait in the headers that OpenRouter puts into the body."""
    found = metadata.get("headers") if isinstance(metadata, dict) else None
    if not isinstance(found, dict):
        return None
    return until_reset({name.lower(): str(value) for name, value in found.items()})


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


def _wait(reset: str, now: datetime) -> float | None:
    """The seconds until a time: a duration, seconds, seconds or milliseconds since the epoch, or a date."""
    try:
        number = float(reset)
    except ValueError:
        wait = _duration(reset)
        if wait is None and _DATE.match(reset):
            try:
                date = datetime.fromisoformat(reset)
            except ValueError:
                return None
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


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _word(value: Json) -> str | None:
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, int | float) else _text(value)
