"""kill -9 at every place of a run with three tools, a nested worker, an approval and a steering message."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from rxworker.events import Record
from rxworker.log import open_log
from rxworker.state import fold_run
from tests.log.conftest import NewAddress
from tests.log.processes import stored
from tests.whole import IS_WHOLE, SLOW_STORES

VICTIM = Path(__file__).with_name("victim.py")
STEP = 1 if IS_WHOLE else 40
"""The distance of the places where it is killed."""

Kill = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module", params=SLOW_STORES)
def store(request: pytest.FixtureRequest) -> str:
    """The store that the killed processes write to."""
    return request.param


@pytest.fixture(scope="module")
def kill(store: str, new_address: NewAddress, tmp_path_factory: pytest.TempPathFactory) -> Generator[Kill]:
    """Begins a run in a process that kills itself at these places, one for each life, and recovers it to the end."""
    folder = tmp_path_factory.mktemp("killed")
    numbers = iter(range(100_000))
    with subprocess.Popen(
        [sys.executable, str(VICTIM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(*kills: int) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            here = folder / str(next(numbers))
            address = f"sqlite:{here}/runs.db" if store == "sqlite" else new_address(store)
            asked = {"kills": kills, "folder": str(here), "address": address}
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            return {"folder": here, "address": address, **json.loads(process.stdout.readline())}

        yield run
        process.stdin.close()


async def read(address: str) -> dict[str, list[Record]]:
    async with open_log(address) as log:
        return {info.run_id: await stored(log, info.run_id) for info in await log.list()}


async def commands(address: str) -> set[str]:
    async with open_log(address) as log:
        runs = [info.run_id for info in await log.list()]
        return {command.kind for run in runs for command in await log.sent(run)}


def check(done: dict[str, Any]) -> None:
    """No finished call was made again, none is lost, and nobody was asked about more than was in flight."""
    assert done["error"] == ""
    assert done["codes"][-1] == 0
    folder: Path = done["folder"]
    effects = [line.split() for line in (folder / "effects").read_text().splitlines()]
    if not effects:  # it was killed before it was accepted
        return
    ended = Counter((name, key) for what, name, key in effects if what == "done")
    started = Counter((name, key) for what, name, key in effects if what == "start")
    # A call that was stored as ended is never made again; one whose end was not stored is asked about, unless it may be
    # repeated.
    for (name, key), times in ended.items():
        if name in ("pay", "order", "pay_inner"):
            assert times == 1, (name, key)
    # A call whose effect is not known is asked about, also in a nested run: none is lost.
    assert {name for name, _ in ended} == {"pay", "book", "look", "order", "pay_inner"}
    assert len({key for _, key in started}) == len(started)
    runs = asyncio.run(read(done["address"]))
    for records in runs.values():
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert fold_run(records).status in ("finished", "paused")
    last = next(records for run, records in runs.items() if "." not in run)  # the newest comes first
    conversation = fold_run(last).conversation
    texts = [message.text for message in conversation.messages if message.role == "user"]
    assert texts.count("Begin.") == 1
    assert texts.count("Be quick.") == ("send" in asyncio.run(commands(done["address"])))
    results = [result for message in conversation.messages for result in message.tool_results]
    calls = [call for message in conversation.messages for call in message.tool_calls]
    assert [result.tool_use_id for result in results] == [call.id for call in calls]
    assert not any(result.is_error for result in results), results
    assert [call.name for call in calls] == ["pay", "book", "look", "delegate", "order"]
    assert conversation.messages[-1].text == "All done."


def test_without_a_kill_it_runs_to_its_end(kill: Kill) -> None:
    done = kill()
    check(done)
    assert done["codes"] == [0]
    assert done["asked"] == {}
    assert done["places"] > 100


@pytest.mark.timeout(900 if IS_WHOLE else 120)
def test_it_is_killed_anywhere(kill: Kill) -> None:
    for place in range(1 + random.randrange(STEP), kill()["places"], STEP):
        done = kill(place)
        check(done)
        if done["codes"][0] == 0:  # it made fewer appends than the first, and has ended before
            assert done["places"] < place
            continue
        assert done["codes"][0] == -9
        assert sum(done["asked"].values()) <= 1, (place, done["asked"])


@pytest.mark.timeout(900 if IS_WHOLE else 120)
def test_it_is_killed_again_and_again(kill: Kill) -> None:
    for _ in range(40 if IS_WHOLE else 1):
        kills = [random.randrange(1, 120) for _ in range(2)]
        check(kill(*kills))
