"""The tests of control run over every kind of log, and others of workers and hooks without one and with one in memory.

For a conftest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, cast

import pytest

from rxworker import Worker
from rxworker.log import EventLog
from tests.stores import make_log

CONTROL = {
    "test_control",
    "test_limits",
    "test_nested",
    "test_output",
    "test_pause",
    "test_steering",
    "test_unobserved",
}
"""The modules whose tests cancel, pause, limit or steer runs, or nest them."""
LOGS_OF_CONTROL = ["none", "memory", *[pytest.param(kind, marks=pytest.mark.product(3)) for kind in ("slow", "sqlite")]]
LOGS_OF_OTHERS = ["none", pytest.param("memory", marks=pytest.mark.product(3))]
PROCESSES = {"test_stream"}
"""The modules whose tests start processes, which have no such log."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test over the kinds of logs of its module.

    One that is ``unlogged`` counts tasks or steps, or is of what runs without a log do: with one, what is sent to a run
    passes through it first, and a decision is stored once.
    """
    module = cast("Any", metafunc).module
    name: str = module.__name__.rpartition(".")[2]
    if (
        metafunc.definition.get_closest_marker("unlogged") is not None
        or not hasattr(module, "Worker")
        or name in PROCESSES
    ):
        return
    metafunc.fixturenames.append("log_of_runs")
    metafunc.parametrize("log_of_runs", LOGS_OF_CONTROL if name in CONTROL else LOGS_OF_OTHERS, indirect=True)


@pytest.fixture(scope="session")
def sqlite_log(tmp_path_factory: pytest.TempPathFactory) -> Generator[EventLog]:
    """A log in a file, one for all tests: their runs have ids of their own."""
    log = make_log("sqlite", tmp_path_factory.mktemp("runs"))
    assert log is not None
    yield log
    asyncio.run(log.close())


@pytest.fixture(autouse=True)
def log_of_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> EventLog | None:
    """The log of the workers that have no other; ``None``: they have none."""
    kind: str = getattr(request, "param", "none")
    if kind == "none":
        return None
    log = request.getfixturevalue("sqlite_log") if kind == "sqlite" else make_log(kind, request.path)
    init = Worker.__init__

    def init_with_log(self: Worker, *args: Any, **options: Any) -> None:
        if options.get("log") is None:
            options["log"] = log
        init(self, *args, **options)

    monkeypatch.setattr(Worker, "__init__", init_with_log)
    return log
