"""Conversations are stored once.

The first entry of a run has what is new, and names the run whose conversation it continues.

Theory of operation. A *base* is a run, the number of one of its records, and how many messages of its conversation at
that record a later run begins with. Which run a conversation comes from is remembered for the object, so that a base is
only ever what this log has given. The base is written with the first entry, as private data, and a store keeps beside
it which run refers to which. Reading an entry with a base reads and folds the run that it names, which may have a base
itself; what reads a log sees whole conversations alone.

What surprises: a run that others refer to is not deleted before they have what they need of it (`Bases.fold`): their
first entries are written anew, with the next run before that stays as their base, or with the whole conversation. With
a codec conversations are stored whole, since the key of a run must be enough to read it.
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Collection

from msgspec.structs import replace

from rxworker.errors import LogError
from rxworker.events import Record, RunResume, RunStart
from rxworker.log.format import Base, Entry, base_of, records_of, with_conversation
from rxworker.log.store import PAGE, Encoding, Store
from rxworker.log.values import Claim
from rxworker.messages import Conversation
from rxworker.state import fold_run

KEPT = 64
"""Conversations of bases that are kept in memory."""
HEAD = {"system": None, "replaced": 0, "instead": ()}
"""The members of a conversation beside its messages."""


class Bases:
    """The bases of a log.

    Args:
        store: The store of the log.
        encoding: Its encoding.
    """

    def __init__(self, store: Store, encoding: Encoding) -> None:
        self._store = store
        self._encoding = encoding
        self._origins: dict[int, tuple[weakref.ref[Conversation], str, int]] = {}
        self._known: OrderedDict[tuple[str, int], Conversation] = OrderedDict()

    def note(self, conversation: Conversation, run_id: str, seq: int) -> None:
        """Remember that a conversation is that of a stored run at a record, as long as the conversation exists."""
        if self._store.keeps_bases and self._encoding.codec is None:
            key = id(conversation)
            gone = weakref.ref(conversation, lambda _: self._origins.pop(key, None))
            self._origins[key] = gone, run_id, seq

    async def cut(self, claim: Claim, record: Record, before: Conversation) -> tuple[Record, Base | None]:
        """Take out of the first record of a run what another run has of its conversation.

        Args:
            claim: The claim of the run.
            record: The first record.
            before: The conversation that it continues.

        Returns:
            The record to store, and its base; ``None`` if it is stored whole.
        """
        origin, event = self._origins.get(id(before)), record.event
        if origin is None or not isinstance(event, RunStart | RunResume) or not before.messages:
            return record, None
        _, run, at = origin
        count = _common(event.conversation, before)
        if not count or run == claim.run_id or not await self._store._refer(claim, run, at):
            return record, None
        head = all(getattr(event.conversation, name) == getattr(before, name) for name in HEAD)
        base = Base(run, at, count, head)
        return replace(record, event=replace(event, conversation=_rest(event, base))), base

    async def whole(self, run_id: str, entry: Entry) -> Entry:
        """The first entry of a run with its whole conversation.

        Raises:
            LogError: A run that it refers to is missing or damaged.
        """
        while (base := base_of(entry, run_id)) is not None:
            try:
                before = await self._conversation(base)
            except LogError:
                # The run that it refers to may have been deleted since: the entry is another one then.
                (again,) = await self._read(run_id, 0, 1)
                if again.body == entry.body:
                    raise
                entry = again
            else:
                (record,) = records_of([entry], run_id)
                return with_conversation(entry, _joined(_begin(record), base, before))
        return entry

    async def _conversation(self, base: Base) -> Conversation:
        """The conversation of a base at its record. A long chain of bases is followed in a loop."""
        chain: list[tuple[Base, list[Entry]]] = []
        at: Base | None = base
        found: Conversation | None = None
        while at is not None and (found := self._known.get((at.run, at.seq))) is None:
            entries: list[Entry] = []
            while not entries or entries[-1].last < at.seq:
                page = await self._read(at.run, entries[-1].last if entries else 0, PAGE)
                if not page:
                    raise LogError(f"the log of {at.run} lacks its record {at.seq}, which a later run continues")
                entries += page
            chain.append((at, entries))
            at = base_of(entries[0], at.run)
        for one, entries in reversed(chain):
            own = base_of(entries[0], one.run)
            records = [each for each in records_of(entries, one.run) if each.seq <= one.seq]
            if own is not None and found is not None:
                event = _begin(records[0])
                whole = replace(event, conversation=_joined(event, own, found))
                records[0] = replace(records[0], event=whole)
            found = self._known[one.run, one.seq] = fold_run(records).conversation
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        assert found is not None  # the chain is empty only if it was known
        return found

    async def fold(self, gone: Collection[str]) -> None:
        """Before runs are deleted, write anew the first entries of those that refer to them and stay.

        Raises:
            LogError: The log cannot be read or written.
        """
        for run in await self._store._referring(gone) if self._store.keeps_bases else ():
            row = await self._store._info(run)
            is_begun = row is not None and bool(row.last_seq)
            if run in gone or (row is not None and not is_begun and row.lease_until > time.time()):
                continue  # its first entry is about to be stored: what it refers to stays for now
            if not is_begun:
                await self._store._refold(run, None, "")
                continue
            (entry,) = (await self._read(run, 0, 1))[:1]
            whole = await self.whole(run, entry)
            base, at = None, base_of(entry, run)
            while at is not None and at.run in gone:
                at = base_of((await self._read(at.run, 0, 1))[0], at.run)
            if at is not None:
                (record,) = records_of([whole], run)
                event = _begin(record)
                count = _common(event.conversation, await self._conversation(at))
                base = Base(at.run, at.seq, count) if count else None
                if base is not None:
                    whole = with_conversation(whole, _rest(event, base), base)
            (stored,) = self._encoding.encode_entries([whole], run)
            await self._store._refold(run, stored, base.run if base is not None else "")
        for key in [key for key in self._known if key[0] in gone]:
            del self._known[key]

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        return self._encoding.decode_entries(await self._store._read(run_id, after, limit), run_id)


def _begin(record: Record) -> RunStart | RunResume:
    """The event of the first record of a run, which has its conversation."""
    assert isinstance(record.event, RunStart | RunResume)
    return record.event


def _common(conversation: Conversation, before: Conversation) -> int:
    """How many messages the two begin with that are the same."""
    ours, theirs = conversation.messages, before.messages
    if ours[: len(theirs)] == theirs:
        return len(theirs)
    return next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(ours))


def _rest(event: RunStart | RunResume, base: Base) -> Conversation:
    """What a first record has beside its base."""
    conversation = event.conversation
    rest = replace(conversation, messages=conversation.messages[base.messages :])
    return replace(rest, **HEAD) if base.head else rest


def _joined(event: RunStart | RunResume, base: Base, before: Conversation) -> Conversation:
    """The inverse of `_rest`."""
    rest = event.conversation
    head = before if base.head else rest
    return replace(head, messages=before.messages[: base.messages] + rest.messages)
