from __future__ import annotations

import asyncio

import pytest

from rxworker.cli import event_loop


async def loop_type() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_commands_run_on_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert event_loop.run(loop_type()) == "uvloop"


def test_without_it_they_run_on_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        assert name == "uvloop"

    monkeypatch.setattr(event_loop, "find_spec", nothing)
    assert event_loop.run(loop_type()).startswith("asyncio")
