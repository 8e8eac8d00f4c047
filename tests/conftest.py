"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from zlib import crc32

import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol
from aiohttp import web_app
from hypothesis import settings

from rxworker.hub import Hub
from rxworker.log import MemoryLog
from rxworker.testing import Marbles, checked_records
from rxworker.watchdog import watchdog
from tests.whole import IS_WHOLE

# A test that is slow on a busy machine has not failed; what measures time is a step of .ci/run.
# The examples of property tests are the same in each run, so that a random one does not fail an unrelated change.
# `--hypothesis-profile=search` looks for others.
settings.register_profile("suite", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=5_000)
settings.load_profile("suite")

# Where this forbids it, each of the many processes that tests start would compile the package again, and each worker
# all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Amazon's service has an address for each region; no test reads the settings of this machine.
os.environ |= {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}

# No test needs a network. Each process and each client that reads the certificates of all authorities takes 20 to 40 ms
# for it.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("certificate.pem"))
for name in ("NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
    os.environ.pop(name, None)

# On a busy machine each function may hold the event loop for long, which would be a record of its run.
watchdog.limit = 60.0

# Nothing is remembered there: no test reads or writes the state of this machine.
os.environ["XDG_STATE_HOME"] = os.devnull

REQUIRE_ALL = "RXWORKER_REQUIRE_ALL"


@pytest.fixture
async def log() -> AsyncGenerator[MemoryLog]:
    """A log in memory."""
    async with MemoryLog() as log:
        yield log


@pytest.fixture
def hub() -> Hub:
    """A hub without a record."""
    return Hub()


@pytest.fixture(name="test")
def marbles() -> Marbles:
    """Streams that are drawn, in virtual time."""
    return Marbles()


def pytest_configure() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt`.

    A shell that starts the tests in the background ignores it, and processes inherit that.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings only where there is one: to do so collects a file of tests twice."""
    found = yield
    if file_path.suffix != ".py" or ">>>" in file_path.read_text(encoding="utf-8"):
        return found
    return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, None, None]:
    """Collect no garbage while tests are collected, which makes none: it takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a product of cases the suite has a part, the same each time, and nothing slow; a test that is named is run."""
    if IS_WHOLE or any("::" in argument for argument in config.args):
        return
    left_out = [item for item in items if not is_sampled(item)]
    items[:] = [item for item in items if is_sampled(item)]
    config.hook.pytest_deselected(items=left_out)


def is_sampled(item: pytest.Item) -> bool:
    """Whether a test is not slow, and belongs to the part of its product: one of as many as its mark says."""
    mark = item.get_closest_marker("product")
    is_slow = item.get_closest_marker("slow") is not None
    return not is_slow and (mark is None or crc32(item.nodeid.encode()) % mark.args[0] == 0)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all collected tests again and again: each look takes half a second.

    Nor does it look every 700 objects, which took a third of the time of what makes many, as the terminal app does.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of each test that passes: that a test begins, is set up, torn down and ends are four more.

    A process of pytest-xdist took as long for them as for an empty test.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_teardown() -> None:
    """Let go of the servers of the test.

    Aiohttp keeps the handlers of a process, and with them hundreds of servers that the garbage collector looks at again
    and again.
    """
    web_app._cached_build_middleware.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``RXWORKER_REQUIRE_ALL=1`` nothing may be skipped: what a test needs has to be there."""
    report = yield
    if os.environ.get(REQUIRE_ALL) == "1" and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and {REQUIRE_ALL}=1: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Each test of a run is also one of the grammar of its records."""
    if any(item.get_closest_marker(name) is not None for name in ("bench", "ungrammatical")):
        yield
        return
    with checked_records():
        yield
