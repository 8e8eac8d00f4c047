"""What a candidate's text rests on: repeated works, searches, pages that were read."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import CitationDelta, Opaque, ResponseEvent
from rxworker.messages import Json, JsonObject
from rxworker.providers.gemini.wire import WireCandidate

# The developer API and Vertex AI call the list of works by different names.
WORKS = ("citationSources", "citations")


class Sources:
    """The sources of a candidate, each told once although servers may repeat them."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: JsonObject = {}

    def take(self, wire: WireCandidate, text: int | None) -> Iterator[ResponseEvent]:
        """The sources in a piece, as citations of the text that is open, else by themselves.

        Args:
            wire: The piece.
            text: The index of the open text block.
        """
        if wire.citation_metadata:
            yield from self._works(wire.citation_metadata, text)
        if wire.grounding_metadata:
            yield from self._found("groundingMetadata", wire.grounding_metadata, text)
        if wire.url_context_metadata:
            yield from self._found("urlContextMetadata", wire.url_context_metadata, text)

    def _works(self, metadata: Json, text: int | None) -> Iterator[ResponseEvent]:
        holder = metadata if isinstance(metadata, dict) else {}
        works = next((holder[name] for name in WORKS if holder.get(name)), None)
        if text is None or not isinstance(works, list):
            yield Opaque("citationMetadata", metadata)
            return
        for work in works:
            if isinstance(work, dict):
                yield CitationDelta(text, work)

    def _found(self, name: str, metadata: Json, text: int | None) -> Iterator[ResponseEvent]:
        if self._told.get(name) == metadata:
            return
        self._told[name] = metadata
        if text is None:
            yield Opaque(name, metadata)
        else:
            yield CitationDelta(text, {name: metadata})


__all__ = ["Sources"]
