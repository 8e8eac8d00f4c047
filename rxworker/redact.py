"""The secrets of the environment, hidden where the text of an error enters a record, and where any text enters a log.

An exception may contain anything: a service may quote the key it received, a tool may show its connection string. A
person who watches a run, exports it or reads a log may not be allowed to know the keys. Therefore the values of
environment variables with names of secrets are replaced: all of them in logs, and in records and in data that is sent
only those that cannot be ordinary words. This is the last line of defence and does not make it safe to put secrets into
messages: a part of a secret is not recognised.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable
from functools import partial
from logging import LogRecord, getLogger

import msgspec

HIDDEN = "***"
"""Stands in every text for what is not shown."""

SHORTEST_LOGGED = 6
"""A shorter value occurs in too many texts to be replaced in logs."""

SHORTEST_SENT = 16
"""A shorter value is not replaced in records and data that is sent, and neither is one without letters and digits.

It could be an ordinary word.
"""

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE|DSN", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")

LOGGERS = (
    *("adapters.acp", "adapters.mcp", "boards", "cli", "desk", "hooks", "hub", "log", "operators"),
    *("tap", "tools", "transport", "ui.terminal", "ui.web", "worker"),
)
"""The loggers of rxworker."""


def redact(text: str) -> str:
    """Return the text of a log without secrets of the environment and without the passwords of URLs.

    >>> redact("postgres://me:secret@db/x")
    'postgres://***@db/x'
    """
    for value in _secrets(SHORTEST_LOGGED):
        text = text.replace(value, HIDDEN)
    return _ADDRESS.sub(HIDDEN, text)


def without_secrets(text: str) -> str:
    """Return the text of a record without secrets of the environment.

    >>> os.environ["DOORS_API_KEY"] = "sk-0123456789abcdef"
    >>> without_secrets("not sk-0123456789abcdef")
    'not ***'
    >>> del os.environ["DOORS_API_KEY"]
    """
    for value in _sent_secrets():
        text = text.replace(value, HIDDEN)
    return text


def format_error(error: BaseException) -> str:
    """Return the error with its traceback, redacted, for a log.

    >>> os.environ["DOORS_API_KEY"] = "open sesame"
    >>> format_error(RuntimeError("the key is open sesame"))
    'RuntimeError: the key is ***'
    >>> del os.environ["DOORS_API_KEY"]
    """
    return redact("".join(traceback.format_exception(error)).rstrip())


def json_redactor() -> Callable[[bytes], bytes]:
    """Return a function that removes secrets from JSON. It uses the environment at the time of this call.

    >>> os.environ["DOORS_API_KEY"] = "sk-0123456789abcdef"
    >>> json_redactor()(b'{"reason":"not sk-0123456789abcdef"}')
    b'{"reason":"not ***"}'
    >>> del os.environ["DOORS_API_KEY"]
    """
    found = _sent_secrets()
    if not found:
        return bytes  # unchanged
    pattern = re.compile(b"|".join(re.escape(msgspec.json.encode(v)[1:-1]) for v in found))
    return partial(pattern.sub, HIDDEN.encode())


def _sent_secrets() -> list[str]:
    """The secrets that are hidden in records and in data that is sent, longest first."""
    return [value for value in _secrets(SHORTEST_SENT) if _is_mixed(value)]


def _secrets(shortest: int) -> list[str]:
    """The values of secrets, longest first: one may be a prefix of another."""
    values = {v for name, v in os.environ.items() if len(v) >= shortest and _SECRET.search(name)}
    return sorted((v for v in values if v.isprintable()), key=len, reverse=True)


def _is_mixed(value: str) -> bool:
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return letters and digits


def _redact_record(record: LogRecord) -> bool:
    """Hide the secrets in a line of a log, its traceback and its further attributes."""
    try:
        text = record.getMessage()
    except Exception:  # logging reports it itself
        return True
    if (hidden := redact(text)) != text:
        record.msg, record.args = hidden, None
    if record.exc_info:
        trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if (hidden := redact(trace)) != trace:
            record.exc_info, record.exc_text = None, hidden
    for name, value in vars(record).items():
        if isinstance(value, str) and name not in ("msg", "exc_text"):
            setattr(record, name, redact(value))
    return True


for _name in LOGGERS:
    getLogger(f"rxworker.{_name}").addFilter(_redact_record)
