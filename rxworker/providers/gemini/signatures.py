"""The signatures of parts of a text: kept where they were, so that the next request has them in the same place.

Gemini streams a text as many parts, and any of them may carry a ``thoughtSignature``. Parts without one may be joined on
the way back, but never with one that has one. Users are shown one block, so the block's echo records
from where to where each signed part went, and the encoder cuts the text there again.
"""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import Json, JsonObject

LENGTH = "length"
SEALS = "seals"  # the name in stored conversations
SIGNATURE = "thoughtSignature"


class Signatures:
    """The signatures of a block while its parts arrive.

    Attributes:
        length: That of the text so far.

    >>> signatures = Signatures()
    >>> signatures.add("Hel", None)
    >>> signatures.add("lo", "AAAA")
    >>> signatures.echo()
    {'length': 5, 'seals': [[3, 5, 'AAAA']]}
    """

    __slots__ = ("_signatures", "length")

    def __init__(self) -> None:
        self.length = 0
        self._signatures: list[Json] = []

    def add(self, text: str, signature: str | None) -> None:
        """Another part, which may be signed and may be empty."""
        end = self.length + len(text)
        if signature is not None:
            self._signatures.append([self.length, end, signature])
        self.length = end

    def echo(self) -> JsonObject | None:
        """The echo for the next request; ``None`` if there is no signature."""
        return {LENGTH: self.length, SEALS: self._signatures} if self._signatures else None


def split(text: str, echo: JsonObject | None) -> Iterator[JsonObject]:
    """The parts of a text, each signed one by itself. A text that has been changed since has lost its signatures.

    >>> list(split("Hello", {"length": 5, "seals": [[3, 5, "AAAA"]]}))
    [{'text': 'Hel'}, {'text': 'lo', 'thoughtSignature': 'AAAA'}]
    """
    signatures = echo.get(SEALS) if echo and echo.get(LENGTH) == len(text) else None
    at = 0
    for signed in signatures if isinstance(signatures, list) else ():
        match signed:
            case [int(start), int(end), str(signature)] if at <= start <= end:
                if start > at:
                    yield {"text": text[at:start]}
                yield {"text": text[start:end], SIGNATURE: signature}
                at = end
            case _:
                pass
    if at < len(text):
        yield {"text": text[at:]}
