"""Text of others, made fit for a terminal. A model or a tool must not move the cursor, change colours or set titles."""

from __future__ import annotations

# Control characters become their pictures, such as ␛; line ends and tabs stay. A carriage return would
# let a line be written over, so it goes. Half a character cannot be written at all, and characters that turn the
# direction of writing around would show something other than what is there.
_PICTURES: dict[int, int | None] = {
    **{code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)},
    0x0D: None,
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}


def clean(text: str) -> str:
    r"""The text without control characters.

    >>> clean("red: \x1b[31m, line\r\nend")
    'red: ␛[31m, line\nend'
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


__all__ = ["clean", "one_line"]
