"""What went wrong, told by Ollama in a sentence without a code."""

from __future__ import annotations

import re

from msgspec.structs import replace

from rxworker.messages import Json
from rxworker.providers.failure import Failure
from rxworker.providers.failure import read_failure as read_any

# The first that is found in the sentence tells the kind.
SENTENCES = (
    (re.compile(r"unauthori[sz]ed|sign in|signed in", re.IGNORECASE), "authentication"),
    (re.compile(r"model .*not found|try pulling it", re.IGNORECASE), "not_found"),
    (re.compile(r"does not support|^invalid ", re.IGNORECASE), "invalid_request"),
    (re.compile(r"exceed\w* .*context|context .*exceed", re.IGNORECASE), "context_length"),
    (re.compile(r"server busy|overloaded|maximum pending", re.IGNORECASE), "overloaded"),
    (re.compile(r"usage limit|subscription|upgrade", re.IGNORECASE), "quota"),
    (re.compile(r"too many requests|rate limit", re.IGNORECASE), "rate_limit"),
    (re.compile(r"timed? ?out|deadline", re.IGNORECASE), "timeout"),
)


def read_failure(raw: Json) -> Failure:
    """The failure of a line. What nothing is known of is the server's, since the request had been accepted.

    >>> read_failure({"error": "an error was encountered while running the model"}).kind
    'server'
    """
    failure = read_any(raw) or Failure("the server gave no reason")
    if failure.kind != "unknown":
        return failure
    found = (kind for pattern, kind in SENTENCES if pattern.search(failure.message))
    return replace(failure, kind=next(found, "server"))


__all__ = ["SENTENCES", "read_failure"]
