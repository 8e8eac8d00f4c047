"""What must not be read by others is taken out of what is sent, and of what is logged.

An exception may say anything: a service that quotes the key it was given, a tool that shows what it could not connect with. Whoever
watches a run, or reads a log, need not be somebody who may know the keys. So the values of environment variables that are named
like secrets are left out: of logs all, and of what is sent those that can be nothing else than a secret. It is the last line of
defence, and no leave to put secrets into messages: half of a secret is not known as one.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable

import msgspec

SHORTEST_LOGGED = 6
"""A value with fewer characters is no secret worth the name, and stands in too many texts."""

SHORTEST_SENT = 16
"""Of what is sent no harmless word may be taken out, so that only long values of letters and digits are looked for."""

HIDDEN = "(hidden)"

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE|DSN", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def told(error: BaseException) -> str:
    """The error with its traceback, for a log.

    >>> os.environ["DOORS_API_KEY"] = "open sesame"
    >>> told(RuntimeError("the key is open sesame"))
    'RuntimeError: the key is (hidden)'
    >>> del os.environ["DOORS_API_KEY"]
    """
    return hide("".join(traceback.format_exception(error)).rstrip())


def hide(text: str) -> str:
    """The text without secrets of the environment, and without the passwords of addresses.

    >>> hide("postgres://me:secret@db/x")
    'postgres://(hidden)@db/x'
    """
    for value in _secrets(SHORTEST_LOGGED):
        text = text.replace(value, HIDDEN)
    return _ADDRESS.sub(HIDDEN, text)


def json_hider() -> Callable[[bytes], bytes]:
    """What takes the secrets out of JSON. It knows those that the environment has now.

    >>> os.environ["DOORS_API_KEY"] = "sk-0123456789abcdef"
    >>> json_hider()(b'{"reason":"not sk-0123456789abcdef"}')
    b'{"reason":"not (hidden)"}'
    >>> del os.environ["DOORS_API_KEY"]
    """
    found = [value for value in _secrets(SHORTEST_SENT) if _is_mixed(value)]
    if not found:
        return _same
    pattern = re.compile(b"|".join(re.escape(msgspec.json.encode(v)[1:-1]) for v in found))
    hidden = HIDDEN.encode()

    def hide_json(data: bytes) -> bytes:
        return pattern.sub(hidden, data)

    return hide_json


def _secrets(shortest: int) -> list[str]:
    """The longest first: one may begin with another."""
    values = {v for name, v in os.environ.items() if len(v) >= shortest and _SECRET.search(name)}
    return sorted((v for v in values if v.isprintable()), key=len, reverse=True)


def _is_mixed(value: str) -> bool:
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return letters and digits


def _same(data: bytes) -> bytes:
    return data


__all__ = ["HIDDEN", "SHORTEST_LOGGED", "SHORTEST_SENT", "hide", "json_hider", "told"]
