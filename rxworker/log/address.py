"""Addresses of logs, as errors and logs may show them."""

from __future__ import annotations

import re

_PARTS = (
    (re.compile(r"(://[^:/?#@]*):.*@", re.DOTALL), r"\1:***@"),
    (re.compile(r"([?&\s](?:ssl)?password\s*=)[^&\s]*"), r"\1***"),
)


def masked(address: str) -> str:
    """The address without its passwords.

    >>> masked("postgresql://me:secret@db.example/runs?sslpassword=secret&schema=a")
    'postgresql://me:***@db.example/runs?sslpassword=***&schema=a'
    >>> masked("sqlite:runs.db")
    'sqlite:runs.db'
    """
    for pattern, replacement in _PARTS:
        address = pattern.sub(replacement, address)
    return address
