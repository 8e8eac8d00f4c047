"""Documents that are kept with a log: every store has them, and no change of two at a time is lost."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct

from rxworker.errors import LogError
from rxworker.log import EventLog
from rxworker.log.kept import change_kept, load_kept
from tests.log.conftest import OpenLog


class Names(Struct, frozen=True):
    """A document."""

    names: tuple[str, ...] = ()


async def test_changes_of_several_processes_are_all_kept(open_store: OpenLog) -> None:
    async with open_store(owner="a") as first, open_store(owner="b") as other:
        second = first if first.id != other.id else other  # a log in memory has one process
        assert await load_kept(first, "names", Names) == Names()

        async def add(number: int) -> None:
            log = (first, second)[number % 2]
            await change_kept(log, "names", Names, lambda known: Names((*known.names, f"name {number}")))

        await asyncio.gather(*[add(number) for number in range(6)])
        every = {f"name {number}" for number in range(6)}
        for log in (first, second):
            assert set((await load_kept(log, "names", Names)).names) == every
        assert await load_kept(first, "others", Names) == Names()


async def test_a_change_that_raises_keeps_what_was(store: EventLog) -> None:
    def fail(_: Names) -> Names:
        raise ValueError("no")

    await change_kept(store, "names", Names, lambda _: Names(("a",)))
    with pytest.raises(ValueError, match="no"):
        await change_kept(store, "names", Names, fail)
    assert await load_kept(store, "names", Names) == Names(("a",))


class Backwards:
    """A codec."""

    def encode(self, data: bytes, run_id: str, /) -> bytes:
        del run_id
        return data[::-1]

    def decode(self, data: bytes, run_id: str, /) -> bytes:
        del run_id
        return data[::-1]


async def test_a_document_passes_the_codec_of_the_log(open_store: OpenLog) -> None:
    async with open_store(codec=Backwards()) as log:
        await change_kept(log, "names", Names, lambda _: Names(("a",)))
        stored = await log._load_fold("names")
        assert stored is not None
        assert stored[1] == b'{"names":["a"]}'[::-1]
        assert await load_kept(log, "names", Names) == Names(("a",))


async def test_a_document_that_is_another_one_is_refused(store: EventLog) -> None:
    class Numbers(Struct, frozen=True):
        names: dict[str, int] = {}

    await change_kept(store, "names", Names, lambda _: Names(("a",)))
    with pytest.raises(LogError, match="damaged"):
        await load_kept(store, "names", Numbers)
