"""Text of others, made fit to be shown. A model or a tool must not move the cursor, change colours, set titles or reorder what is read.

`clean` is for terminals; ``readable`` of the page's format.js does the same in the browser, and a test holds the two equal.

What must not be read by others is taken out of what is sent, and of what is logged.

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

# Control characters become their pictures, such as ␛; line ends and tabs stay. A carriage return would
# let a line be written over, so it goes. Half a character cannot be written at all. Characters that change the direction of
# writing would show something other than the text: those that enclose a part of it become U+FFFD, and single marks, which
# texts in Arabic or Hebrew may hold, are dropped.
_PICTURES: dict[int, int | None] = {
    **{code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)},
    0x0D: None,
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x2070)), 0xFFFD),
    **dict.fromkeys((0x061C, 0x200E, 0x200F), None),
    # Separators of lines and paragraphs, which only some programs take for line ends.
    0x2028: 0x0A,
    0x2029: 0x0A,
}


def clean(text: str) -> str:
    r"""The text without control characters, and without characters that change the direction of writing.

    >>> clean("red: \x1b[31m, line\r\nend")
    'red: ␛[31m, line\nend'
    >>> clean("report\u202excod.sh")
    'report�xcod.sh'
    """
    return text.translate(_PICTURES)


def one_line(text: str, most: int | None = None) -> str:
    r"""The text in one clean line.

    Args:
        text: What may have several.
        most: The most characters; more are cut, and three dots say so.

    >>> one_line("a\n  b c", 4)
    'a...'
    """
    # Cut first: a megabyte of a tool's result need not be looked at to show eighty characters of it.
    line = clean(" ".join((text if most is None else text[: 4 * most + 64]).split()))
    return line if most is None or len(line) <= most else line[: max(0, most - 3)] + "..."


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
