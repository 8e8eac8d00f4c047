"""What a message has besides text, in words: a terminal shows no pictures, but it says that they are there. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.messages import Content, Document, Image, OpaqueBlock, Refusal, Text
from rxworker.ui.clean import clean, one_line

MOST = 80


def describe_parts(parts: Iterable[Content]) -> str:
    """The text, and a line for each part that is none.

    >>> print(describe_parts([Text("Look:"), Image("image/png", data="AAAA" * 500)]))
    Look:
    [picture, image/png, 1.5 kB]
    """
    lines: list[str] = []
    for part in parts:
        told = part.text if isinstance(part, Text | Refusal) else describe_part(part)
        if told:
            lines.append(told)
    return clean("\n".join(lines))


def describe_part(part: Content) -> str:
    """A part that is no text, in a line; empty where it says nothing to anybody.

    >>> describe_part(Document(title="Report", url="https://example.org/r.pdf"))
    '[document Report, application/pdf, https://example.org/r.pdf]'
    """
    match part:
        case Image(media_type=kind, data=data, url=url):
            return _bracketed("picture", kind, _size(data), url or "")
        case Document(media_type=kind, data=data, url=url, title=title):
            return _bracketed(f"document {title or ''}".strip(), kind, _size(data), url or "")
        case OpaqueBlock(kind=kind):
            return _bracketed("something that is not known here", kind)
        case _:
            return ""


def _bracketed(*told: str) -> str:
    return f"[{one_line(', '.join(each for each in told if each), MOST)}]"


def _size(data: str | None) -> str:
    """How much base64 stands for."""
    if not data:
        return ""
    size = len(data) * 3 // 4
    return f"{size} B" if size < 1000 else f"{size / 1000:,.1f} kB"


__all__ = ["describe_part", "describe_parts"]
