"""The members of a response's head that its decoder does not read.

New ones are emitted, so that they are in the log before a decoder knows them.
"""

from __future__ import annotations

from itertools import filterfalse

import msgspec
from msgspec import Raw

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
