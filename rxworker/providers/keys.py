"""Keys and headers: read late, checked before they travel, never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from rxworker.errors import ConfigurationError

MASK = "***"
SHORTEST = 6  # what is shorter keeps no secret, and masking it would garble the text

_KEY = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
# What the keys of the known services look like, where an answer repeats one that is not ours.
_LIKE_A_KEY = re.compile(
    r"\b(?:(?:sk|gsk|xai|pplx|csk|fw|nvapi)[-_][A-Za-z0-9*_-]{4,}|AIza[A-Za-z0-9_-]{16,})"
)


def read_model(name: object) -> str:
    """The model's name, if it is one.

    Raises:
        ConfigurationError: It is none.
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"{name!r} is no model: give its name, as the provider writes it")
    return name


def read_key(argument: str | None, variable: str, *, needed: bool) -> str | None:
    """The key: the argument, else the environment variable, read now.

    Args:
        argument: What the provider was made with.
        variable: The environment variable.
        needed: Whether there must be one.

    Raises:
        ConfigurationError: There is none, or it cannot be sent. The message does not show it.
    """
    key = argument or os.environ.get(variable) or None
    if key is None:
        if needed:
            raise ConfigurationError(
                f"no API key: set the environment variable {variable}, or pass api_key=..."
            )
        return None
    if not _KEY.fullmatch(key):
        raise ConfigurationError(
            "the API key holds a line end, a space or a character that is not ASCII, and cannot be "
            f"sent; copy it again, without what stands around it ({variable} or api_key=...)"
        )
    return key


def current_secrets(argument: str | None, variable: str) -> tuple[str | None, ...]:
    """The keys that may be in use, to be masked."""
    return argument, os.environ.get(variable)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with their names in lower case.

    Raises:
        ConfigurationError: A name or a value cannot be sent. The message does not show the value.

    >>> checked_headers({"X-Title": "demo"})
    {'x-title': 'demo'}
    """
    if not headers:
        return {}
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} cannot be the name of a header")
        if not _VALUE.fullmatch(value):
            raise ConfigurationError(
                f"the header {name!r} holds a line end or a character that is not ASCII"
            )
    return {name.lower(): value for name, value in headers.items()}


def masked(text: str, secrets: Iterable[str | None]) -> str:
    """The text without the secrets, and without whatever looks like a key.

    >>> masked("Incorrect API key provided: sk-fake-key.", ())
    'Incorrect API key provided: ***.'
    """
    for secret in secrets:
        if secret and len(secret) >= SHORTEST:
            text = text.replace(secret, MASK)
    return _LIKE_A_KEY.sub(MASK, text)


__all__ = ["MASK", "checked_headers", "current_secrets", "masked", "read_key"]
