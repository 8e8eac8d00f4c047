"""Ten tasks of users, each a program that was written from the wheel's documentation alone, and checks its results."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Coroutine
from pathlib import Path

import pytest

from rxworker.testing import checked_records

TASKS = sorted(path for path in Path(__file__).parent.glob("*.py") if path != Path(__file__))


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_program_written_from_the_documentation_does_its_task(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with checked_records():
        main = runpy.run_path(str(path))["main"]
        running: Coroutine[object, object, None] | None = main()
        if running is not None:
            asyncio.run(running)
    assert capsys.readouterr().out, "it prints its results"
