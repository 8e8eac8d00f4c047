"""What a text rests on, in a line each, whatever form the provider gives it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import Json, JsonObject
from rxworker.ui.clean import one_line

TITLES = ("title", "document_title", "filename")
PLACES = ("url", "uri", "file_id")
QUOTES = ("cited_text", "text")
DEEPEST = 5
MOST = 120


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
        return [one_line(f'"{quote}"', MOST)]
    kind = citation.get("type") or next(iter(citation), "a source")
    return [one_line(str(kind), MOST)]


def _named(value: Json, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, dict):
        told = ", ".join(each for each in (_first(value, TITLES), _first(value, PLACES)) if each)
        if told:
            yield one_line(told, MOST)
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _named(each, depth - 1)


def _first(value: JsonObject, names: tuple[str, ...]) -> str:
    texts = (value.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")


__all__ = ["describe_sources"]
