from __future__ import annotations

import asyncio

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
