from __future__ import annotations

import asyncio
import gc

import pytest

from rxworker.cli import process


async def loop_type() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_commands_run_on_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert process.run_async(loop_type()) == "uvloop"


def test_without_it_they_run_on_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        assert name == "uvloop"

    monkeypatch.setattr(process, "find_spec", nothing)
    assert process.run_async(loop_type()).startswith("asyncio")


def test_a_command_that_serves_looks_for_garbage_seldom_and_leaves_the_collector_as_it_was() -> None:
    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    within: list[object] = []

    async def main() -> None:
        within.extend((gc.get_threshold(), gc.get_freeze_count() > frozen))

    assert process.run_until_stopped(main) == 0
    assert within == [process.COLLECTOR, True]
    assert gc.get_threshold() == usual
