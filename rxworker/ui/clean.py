"""Removes from text what must not be displayed: control characters.

Text of a model or a tool must not move the cursor, change colours, set titles or reorder
text. The function ``readable`` in the page's format.js does the same in the browser, and a test checks that the two
agree.
"""

from __future__ import annotations

# Control characters become their pictures, such as ␛; line ends and tabs stay. A carriage return would
# let a line be overwritten, so it is dropped. A lone surrogate cannot be encoded. Characters that change the direction
# of writing would show something other than the text: those that enclose a part of it become U+FFFD, and single marks,
# which texts in Arabic or Hebrew may contain, are dropped.
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
