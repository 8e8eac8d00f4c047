"""The members of a response's head that its decoder does not read.

New ones are emitted, so that they are in the log before a decoder knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import filterfalse

import msgspec
from msgspec import Raw, field

from rxworker.events import Opaque
from rxworker.messages import Json

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_EMPTY = (b"null", b"[]", b"{}", b'""', b"false")


class Heads:
    r"""The heads of one response: what surrounds its content. A member is emitted once, and again if its value changes.

    >>> heads = Heads()
    >>> heads.new_in(b'{"id": "1", "diagnostics": {"cache": "cold"}}', "chunk", frozenset({"id"}))
    [Opaque(kind='chunk', raw={'diagnostics': {'cache': 'cold'}})]
    >>> heads.new_in(b'{"id": "1", "diagnostics": {"cache": "cold"}, "tier": null}', "chunk", frozenset({"id"}))
    []
    """

    def __init__(self) -> None:
        self._emitted: dict[str, bytes] = {}

    def new_in(self, data: bytes, kind: str, known: frozenset[str], inside: str = "") -> list[Opaque]:
        """What is new in a head, as one event.

        Args:
            data: The JSON of the head. One that cannot be read has nothing new.
            kind: The kind of the event.
            known: The members that are read, or of no use.
            inside: The member that is the head, if it is not all of the JSON.
        """
        try:
            _only(known, inside)(data)
            return []  # as for nearly all
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            members = _members(data)
            members = _members(members.get(inside, b"{}")) if inside else members
            new: dict[str, Json] = {}
            for name in filterfalse(known.__contains__, members):
                raw = bytes(members[name])
                if raw not in _EMPTY and self._emitted.get(name) != raw:
                    self._emitted[name] = raw
                    new[name] = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
        return [Opaque(kind, new)] if new else []


@lru_cache(maxsize=64)  # a provider has a few
def _only(known: frozenset[str], inside: str) -> Callable[[bytes], object]:
    """Reads a head without other members, in a third of the time that a dict of them takes; raises for any other."""
    fields = [(f"member_{at}", Raw, field(name=name, default=Raw())) for at, name in enumerate(known)]
    head = msgspec.defstruct("Head", fields, forbid_unknown_fields=True, gc=False)
    if inside:
        head = msgspec.defstruct("Around", [("head", head | None, field(name=inside, default=None))], gc=False)
    return msgspec.json.Decoder(head).decode
