"""Removes from text what must not be displayed: control characters, and secrets of the environment.

`clean` is for terminals: text of a model or a tool must not move the cursor, change colours, set titles or reorder text. The
function ``readable`` in the page's format.js does the same in the browser, and a test checks that the two agree.

`redact` is for logs and for data that is sent. An exception may contain anything: a service may quote the key it received, a tool may
show its connection string. A person who watches a run or reads a log may not be allowed to know the keys. Therefore the values of
environment variables with names of secrets are replaced: all of them in logs, and in data that is sent only those that cannot be
ordinary words. This is the last line of defence and does not make it safe to put secrets into messages: a part of a secret is not recognised.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable

import msgspec

from rxworker.providers.base import HIDDEN

# Control characters become their pictures, such as ␛; line ends and tabs stay. A carriage return would
# let a line be overwritten, so it is dropped. A lone surrogate cannot be encoded. Characters that change the direction of
# writing would show something other than the text: those that enclose a part of it become U+FFFD, and single marks, which
# texts in Arabic or Hebrew may contain, are dropped.
_PICTURES: dict[int, int | None] = {
    **{code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)},
    0x0D: None,
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x2070)), 0xFFFD),
    **dict.fromkeys((0x061C, 0x200E, 0x200F), None),
    # Line and paragraph separators, which only some programs treat as line ends.
    0x2028: 0x0A,
    0x2029: 0x0A,
}


def clean(text: str) -> str:
    r"""Return the text without control characters and without characters that change the direction of writing.

    >>> clean("red: \x1b[31m, line\r\nend")
    'red: ␛[31m, line\nend'
    >>> clean("report\u202excod.sh")
    'report�xcod.sh'
    """
    return text.translate(_PICTURES)


def one_line(text: str, most: int | None = None) -> str:
    r"""Return the text as one clean line.

    Args:
        text: A text of any number of lines.
        most: The maximum number of characters; a longer text is cut and ends with three dots.

    >>> one_line("a\n  b c", 4)
    'a...'
    """
    # Cut first: to show eighty characters, a tool result of a megabyte need not be read.
    line = clean(" ".join((text if most is None else text[: 4 * most + 64]).split()))
    return line if most is None or len(line) <= most else line[: max(0, most - 3)] + "..."


SHORTEST_LOGGED = 6
"""A shorter value occurs in too many texts to be replaced in logs."""

SHORTEST_SENT = 16
"""A shorter value is not replaced in data that is sent, and neither is one without letters and digits: it could be an ordinary word."""

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE|DSN", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def format_error(error: BaseException) -> str:
    """Return the error with its traceback, redacted, for a log.

    >>> os.environ["DOORS_API_KEY"] = "open sesame"
    >>> format_error(RuntimeError("the key is open sesame"))
    'RuntimeError: the key is ***'
    >>> del os.environ["DOORS_API_KEY"]
    """
    return redact("".join(traceback.format_exception(error)).rstrip())


def redact(text: str) -> str:
    """Return the text without secrets of the environment and without the passwords of URLs.

    >>> redact("postgres://me:secret@db/x")
    'postgres://***@db/x'
    """
    for value in _secrets(SHORTEST_LOGGED):
        text = text.replace(value, HIDDEN)
    return _ADDRESS.sub(HIDDEN, text)


def json_redactor() -> Callable[[bytes], bytes]:
    """Return a function that removes secrets from JSON. It uses the environment at the time of this call.

    >>> os.environ["DOORS_API_KEY"] = "sk-0123456789abcdef"
    >>> json_redactor()(b'{"reason":"not sk-0123456789abcdef"}')
    b'{"reason":"not ***"}'
    >>> del os.environ["DOORS_API_KEY"]
    """
    found = [value for value in _secrets(SHORTEST_SENT) if _is_mixed(value)]
    if not found:
        return bytes  # unchanged
    pattern = re.compile(b"|".join(re.escape(msgspec.json.encode(v)[1:-1]) for v in found))
    hidden = HIDDEN.encode()

    def redact_json(data: bytes) -> bytes:
        return pattern.sub(hidden, data)

    return redact_json


def _secrets(shortest: int) -> list[str]:
    """The values of secrets, longest first: one may be a prefix of another."""
    values = {v for name, v in os.environ.items() if len(v) >= shortest and _SECRET.search(name)}
    return sorted((v for v in values if v.isprintable()), key=len, reverse=True)


def _is_mixed(value: str) -> bool:
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return letters and digits
