"""What a terminal cannot show, in words: pictures and documents of a message, and the sources of a text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rxworker.messages import Content, Document, Image, Json, JsonObject, OpaqueBlock, Refusal, Text
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


SOURCE_TITLES = ("title", "document_title", "filename")
PLACES = ("url", "uri", "file_id")
QUOTES = ("cited_text", "text")
DEEPEST = 5
MOST_SOURCE = 120


def describe_sources(citation: JsonObject) -> list[str]:
    """The titles and addresses in a citation; what the provider calls it, where it has none.

    >>> describe_sources({"type": "url_citation", "url": "https://a.org", "title": "A"})
    ['A, https://a.org']
    >>> web = [{"web": {"uri": "https://a.org"}}, {"web": {"uri": "https://b.org", "title": "B"}}]
    >>> describe_sources({"groundingMetadata": {"groundingChunks": web}})
    ['https://a.org', 'B, https://b.org']
    >>> describe_sources({"type": "char_location", "cited_text": "Frogs hop."})
    ['"Frogs hop."']
    """
    found = list(dict.fromkeys(_named(citation, DEEPEST)))
    if found:
        return found
    quote = _first(citation, QUOTES)
    if quote:
        return [one_line(f'"{quote}"', MOST_SOURCE)]
    kind = citation.get("type") or next(iter(citation), "a source")
    return [one_line(str(kind), MOST_SOURCE)]


def _named(value: Json, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, dict):
        told = ", ".join(
            each for each in (_first(value, SOURCE_TITLES), _first(value, PLACES)) if each
        )
        if told:
            yield one_line(told, MOST_SOURCE)
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _named(each, depth - 1)


def _first(value: JsonObject, names: tuple[str, ...]) -> str:
    texts = (value.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")
