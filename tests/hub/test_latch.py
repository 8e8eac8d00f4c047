"""`Latch`: whoever waits is let through when it opens, and whoever comes later at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rxworker.hub.latch import Latch

PATIENCE = 30.0


def test_all_who_wait_in_whatever_thread_are_let_through() -> None:
    latch = Latch()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(latch.wait, PATIENCE) for _ in range(4)]
        latch.open()
        assert all(done.result(PATIENCE) for done in waiting)


def test_it_opens_once_and_stays_open() -> None:
    latch = Latch()
    latch.open()
    latch.open()
    assert latch.is_open
    assert [latch.wait(0.0), latch.wait(0.0)] == [True, True]


def test_who_has_waited_long_enough_hears_that_it_is_closed() -> None:
    assert not Latch().wait(0.0)
