"""What follows a log, while a thread of the log looks at it."""

from __future__ import annotations

from pathlib import Path

from rxworker.log import SQLiteLog
from rxworker.log.sqlite import PLACES
from rxworker.log.store import CALLS, Followers, Waker


def nothing(_: str) -> None: ...


class Joins(Waker):
    """Others begin to follow, and stop, whenever a thread looks at this one."""

    @property
    def reads_entries(self) -> bool:
        for run in ("run-1", "run-2", CALLS):
            with Waker(self._followers, run, False):
                self._followers.add(Waker(self._followers, run, False))
        return False

    @reads_entries.setter
    def reads_entries(self, _: bool) -> None: ...


async def test_a_thread_looks_at_the_followers_while_others_come_and_go() -> None:
    followers = Followers(nothing, nothing)
    for run in ("run-1", "run-3"):
        followers.add(Joins(followers, run, False))
        followers.add(Waker(followers, run, True))
    assert [*followers.read_runs] == ["run-1", "run-3"]
    assert followers.has_reader("run-1")


async def test_the_file_of_calls_has_a_place_for_each_process_from_the_beginning(tmp_path: Path) -> None:
    """Otherwise a call of a later place would make it longer, and wake all before that."""
    async with SQLiteLog(tmp_path / "runs.db"), SQLiteLog(tmp_path / "runs.db"):
        assert (tmp_path / "runs.db-calls").stat().st_size == 8 * PLACES
