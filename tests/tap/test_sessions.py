"""The session files of Claude Code and Codex: their runs, and how they are followed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import reactivex

from rxworker.errors import ConfigurationError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Custom,
    Record,
    RunRecover,
    RunStart,
    RunStop,
    TextDelta,
    Usage,
)
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog, Replica, SQLiteLog
from rxworker.tap import Tapped, tap_each
from rxworker.tap.builder import OWN
from rxworker.tap.sources import ClaudeCode, Codex, session_files
from rxworker.tap.sources.session_files import time_of
from rxworker.testing.conformance import lint
from tests.tap import sessions
from tests.tap.test_sources import paths, put
from tests.whole import IS_WHOLE

VALUES: tuple[Any, ...] = (None, "?", 7, [3])
ROOT = Path(__file__).parents[2]


class Figures(NamedTuple):
    status: str
    cause: str
    turns: int
    tools: tuple[int, int, float]
    tokens: tuple[int, int, int]


CLAUDE = {
    "s-5e55-0001.000": Figures("finished", "", 2, (2, 1, 5.0), (246, 12, 200)),
    "s-5e55-0011.000": Figures("aborted", "cancel", 2, (2, 0, 6.0), (492, 28, 400)),
    "s-5e55-0021.000": Figures("aborted", "error", 1, (0, 0, 0.0), (0, 0, 0)),
    "s-5e55-0024.000": Figures("finished", "", 1, (0, 0, 0.0), (123, 2, 100)),
    "s-5e55-0025.000": Figures("running", "", 1, (0, 0, 0.0), (123, 2, 100)),
}
"""As counted by hand: each response has read 3 + 100 + 20 tokens."""
NEW = {"s-c0de-1": Figures("finished", "", 3, (2, 1, 2.0), (90, 18, 45))}
OLD = {
    "s-c0de-1": Figures("finished", "", 3, (2, 1, 3.0), (90, 18, 45)),
    "s-c0de-2": Figures("aborted", "cancel", 1, (0, 0, 0.0), (0, 0, 0)),
    "s-c0de-3": Figures("aborted", "error", 1, (0, 0, 0.0), (0, 0, 0)),
}
CASES = [
    pytest.param(ClaudeCode, sessions.CLAUDE, CLAUDE, id="claude"),
    pytest.param(Codex, sessions.CODEX_NEW, NEW, id="codex"),
    pytest.param(Codex, sessions.CODEX_OLD, OLD, id="codex-old"),
]
each_case = pytest.mark.parametrize(("mapper", "items", "expected"), CASES)


def feed(mapper: ClaudeCode | Codex, items: Sequence[dict[str, Any]]) -> list[Tapped]:
    return [each for line in sessions.lines([*items]) for each in mapper.feed(("a.jsonl", line))]


async def figures_of(log: EventLog) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    for info in await log.list():
        row = info.row
        tools = row.tool_calls, row.tool_errors, round(row.tool_seconds, 6)
        tokens = row.input_tokens, row.output_tokens, row.cache_read_tokens
        found[info.run_id] = Figures(row.status, row.cause, row.turns, tools, tokens)
    return found


async def records_of(log: EventLog) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for info in await log.list():
        replica = Replica(log, info.run_id)
        await replica.ended()
        found[info.run_id] = [*replica.hub.history.records(0)]
    return found


def over(expected: dict[str, Figures]) -> dict[str, Figures]:
    """The figures where the source has ended, and with it the runs that have no end of their own."""
    return {
        run: each._replace(status="aborted", cause="error") if each.status == "running" else each
        for run, each in expected.items()
    }


@each_case
async def test_each_prompt_is_a_run_with_the_figures_of_the_file(
    mapper: type[ClaudeCode | Codex], items: list[dict[str, Any]], expected: dict[str, Figures], log: MemoryLog
) -> None:
    each = tap_each(reactivex.from_iterable(feed(mapper(), items)), prefix="s-", log=log)
    await each.ended()
    found = await figures_of(log)
    assert found == over(expected)
    records = await records_of(log)
    assert {name: lint(each) for name, each in records.items()} == {key: [] for key in found}
    infos = {info.run_id: info for info in await log.list()}
    assert {(i.row.labels["conversation"], i.row.labels["project"]) for i in infos.values()} in (
        {("5e55", "shop")},
        {("c0de", "shop")},
    )
    assert all(
        (info.row.cost is None) == (info.row.input_tokens == 0) for info in infos.values() if info.row.input_tokens
    )


@each_case
def test_a_session_that_is_cut_keeps_the_rules_and_goes_on(
    mapper: type[ClaudeCode | Codex], items: list[dict[str, Any]], expected: dict[str, Figures]
) -> None:
    whole = feed(mapper(), items)
    for cut in range(len(items)):
        part = feed(mapper(), items[:cut])
        assert part == whole[: len(part)]


def test_a_run_has_the_conversation_before_it() -> None:
    starts = {
        each.run: each.event
        for each in feed(ClaudeCode(), sessions.CLAUDE)
        if isinstance(each.event, RunStart) and not each.path
    }
    texts = {name: [message.text for message in start.conversation.messages] for name, start in starts.items()}  # type: ignore[union-attr]
    assert texts["5e55-0011.000"] == ["Look at it", "I look. ", "One file.", "And ask another"]
    assert texts["5e55-0021.000"] == ["A summary of it.", "Try again"]
    assert texts["5e55-0024.000"] == ["A summary of it.", "Try again", "Once more"]
    long = [
        each
        for n in range(40)
        for each in (sessions.user(n, "?" * 9000), sessions.said(n, f"m{n}", sessions.text("!" * 9000), "end_turn"))
    ]
    sizes = [len(str(each.event)) for each in feed(ClaudeCode(), long) if isinstance(each.event, RunStart)]
    assert max(sizes) < 75_000


@pytest.mark.parametrize("cut", range(6, len(sessions.CLAUDE), 3))
async def test_the_times_of_a_run_that_goes_on_do_not_go_back(cut: int, log: MemoryLog) -> None:
    for lines in (sessions.CLAUDE[:cut], sessions.CLAUDE):
        feed = reactivex.Subject[tuple[str, str]]()
        async with tap_each(feed, ClaudeCode(), log=log):
            for line in lines:
                feed.on_next(("s.jsonl", json.dumps(line)))
            for _ in range(200):
                await asyncio.sleep(0)
    for info in await log.list():
        times = [entry.time async for entry in log.read(info.run_id)]
        assert times == sorted(times), info.row.title


def test_a_request_was_sent_when_what_it_answers_was_written() -> None:
    """A line has the time at which its part was written, and not that of the request before."""
    mapper, sent = ClaudeCode(), list[tuple[float | None, float | None]]()
    for each in sessions.CLAUDE[:11]:
        made = mapper.feed(("s.jsonl", json.dumps(each)))
        sent += [(one.time, made[-1].time) for one in made if isinstance(one.event, AttemptStart)]
    first = time_of(sessions.at(1))
    assert first is not None
    assert [(one - first, other - first) for one, other in sent if one and other] == [(1, 1), (1, 2), (6.5, 7)]


def test_a_sub_agent_in_the_file_is_inside_its_call_and_a_retry_is_an_attempt() -> None:
    events = feed(ClaudeCode(), sessions.CLAUDE)
    assert {each.path for each in events} == {(), ("t3",)}
    assert [each.event.reason for each in events if isinstance(each.event, AttemptRetract)] == ["529 Overloaded"]
    assert [each.event.data["preTokens"] for each in events if isinstance(each.event, Custom)] == [900]


def test_a_sub_agent_with_a_file_is_a_run_of_the_conversation() -> None:
    mapper, inside = ClaudeCode(), {"isSidechain": True}
    feed(mapper, sessions.CLAUDE[:2])
    given = [sessions.user(5, "Count", **inside), sessions.said(6, "i1", sessions.text("Three."), "end_turn", **inside)]
    events = [each for line in sessions.lines(given) for each in mapper.feed(("5e55/subagents/agent-a1.jsonl", line))]
    assert {each.run for each in events} == {"5e55-agent-a1-0005.000"}
    assert events[0].event.labels["conversation"] == "5e55"  # type: ignore[union-attr]


def test_an_interrupt_ends_the_sub_agents_and_what_one_does_after_it_is_a_run_of_its_own() -> None:
    given = [item for item in in_order() if "Over." not in item[1]][:24]
    stopped = sessions.user(16, [sessions.text("[Request interrupted by user]")])
    more = [sessions.user(15.5, "Wait"), sessions.delegate(15.6, "m7", "t9", "Loop"), stopped]
    inside = [sessions.user(15.7, "Loop", **sessions.INSIDE), sessions.said(17, "i9", sessions.text("On."), "end_turn")]
    path = f"{sessions.FOLDER}a9.jsonl"
    order = [*((f"{sessions.S}.jsonl", each) for each in more[:2]), (path, inside[0])]
    order += [(f"{sessions.S}.jsonl", more[2]), (path, inside[1] | sessions.INSIDE)]
    events = fed([*given, *((file, json.dumps(each)) for file, each in order)])
    found = {(each.run[5:], *each.path): type(each.event).__name__ for each in events}
    assert [found["0015.500", "t9"], found["0015.500",], found["agent-a9-0017.000",]] == ["RunAbort"] * 2 + ["RunStop"]


def test_a_result_between_two_parts_of_a_response_counts_its_tokens_once() -> None:
    use = [sessions.said(n, "m1", sessions.use(f"t{n}", "Bash"), "tool_use", output=n) for n in (2, 4)]
    items = [sessions.user(1, "Go"), use[0], sessions.result(3, "t2", "x"), use[1]]
    usages = [each.event for each in feed(ClaudeCode(), items) if isinstance(each.event, Usage)]
    assert [(usage.input_tokens, usage.output_tokens) for usage in usages] == [(123, 2), (0, 2)]
    items[2] = sessions.user(3, "x", isSidechain=True)  # or a sub-agent has begun
    usages = [each.event for each in feed(ClaudeCode(), items) if isinstance(each.event, Usage)]
    assert [(usage.input_tokens, usage.output_tokens) for usage in usages] == [(123, 2), (123, 4)]


def in_order(chance: random.Random | None = None) -> list[tuple[str, str]]:
    """The lines of a session with sub-agents by their times, or in another order, in which files are seconds late."""
    left = {
        path: [(time_of(each.get("timestamp")) or 0.0, json.dumps(each)) for each in given]
        for path, given in sessions.AGENTS.items()
    }
    found: list[tuple[str, str]] = []
    while left:
        first = min(given[0][0] for given in left.values())
        ready = [path for path, given in left.items() if given[0][0] <= first + (6 if first and chance else 0)]
        path = chance.choice(ready) if chance else ready[0]
        found.append((path, left[path].pop(0)[1]))
        if not left[path]:
            del left[path]
    return found


def by_path(events: Sequence[Tapped]) -> dict[tuple[str, ...], list[Any]]:
    """The events of each path of each run. The end of a run has the time of what has ended it."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for each in events:
        time = None if isinstance(each.event, RunStop) else each.time
        found.setdefault((each.run, *each.path), []).append((each.event, time))
    return found


def fed(items: Iterable[tuple[str, str]]) -> list[Tapped]:
    mapper = ClaudeCode()
    return [each for item in items for each in mapper.feed(item)]


WHOLE = fed(in_order())
ORDERS = [pytest.param(n, id=f"order-{n}") for n in range(200 if IS_WHOLE else 20)]


def test_a_sub_agent_with_a_file_is_inside_its_call() -> None:
    paths = {(each.run[5:9], *each.path) for each in WHOLE}
    runs = [("0001",), ("0010",), ("0014",), ("0022",)]
    assert paths == {*runs, ("0001", "t1"), ("0001", "t2"), ("0001", "t1", "t4"), ("0010", "t3")}
    ends = [(each.run[5:9], *each.path) for each in WHOLE if isinstance(each.event, RunStop)]
    assert ends[-4:] == [("0014",), ("0010", "t3"), ("0010",), ("0022",)]
    texts = {each.path: each.event.text for each in WHOLE if isinstance(each.event, TextDelta) and each.path}
    assert texts == {("t1",): "One.", ("t2",): "Two.", ("t1", "t4"): "So.", ("t3",): "Over."}


@pytest.mark.parametrize("seed", ORDERS)
async def test_sub_agents_are_inside_their_calls_in_whatever_order_their_files_are_read(seed: int) -> None:
    events = fed(in_order(random.Random(seed)))
    assert by_path(events) == by_path(WHOLE)
    log = MemoryLog()
    await tap_each(reactivex.from_iterable(events), log=log).ended()
    records = await records_of(log)
    assert {run: lint(each) for run, each in records.items()} == {each.run: [] for each in WHOLE}


@pytest.mark.parametrize("seed", ORDERS)
async def test_a_session_with_sub_agents_is_read_again_without_a_double(seed: int, log: MemoryLog) -> None:
    """The tap is ended at a place of the one order, and begun again in another one."""
    chance = random.Random(seed)
    first, second = in_order(chance), in_order(chance)
    feed = reactivex.Subject[tuple[str, str]]()
    async with tap_each(feed, ClaudeCode(), log=log):
        for item in first[: chance.randrange(4, len(first))]:
            feed.on_next(item)
        for _ in range(200):
            await asyncio.sleep(0)
    each = tap_each(reactivex.from_iterable(second), ClaudeCode(), log=log)
    await each.ended()
    tapped = [
        Tapped(part.event, part.path, None, run)
        for run, records in (await records_of(log)).items()
        for record in records
        for part in expand(record)
        if not isinstance(part.event, OWN)
    ]
    assert kinds_of(tapped) == kinds_of(WHOLE)


def kinds_of(events: Sequence[Tapped]) -> dict[tuple[str, ...], list[str]]:
    return {name: [type(event).__name__ for event, _ in some] for name, some in by_path(events).items()}


def test_a_sub_agent_without_an_end_does_not_keep_its_run_open() -> None:
    more = [sessions.user(24, "More"), sessions.said(25, "m7", sessions.text("Yes."), "end_turn")]
    given = [item for item in in_order() if "Over." not in item[1]]  # it was killed
    events = fed([*given, *((f"{sessions.S}.jsonl", line) for line in sessions.lines(more))])
    ends = [(each.run[5:9], *each.path) for each in events if isinstance(each.event, RunStop)]
    assert ends[-4:] == [("0022",), ("0010", "t3"), ("0010",), ("0024",)]


async def test_the_files_of_a_session_come_by_their_times(tmp_path: Path) -> None:
    for path, given in sessions.AGENTS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        end = "" if path.endswith("meta.json") else "\n"
        (tmp_path / path).write_text("\n".join(sessions.lines(given)) + end)
    source = session_files(tmp_path)
    async with asyncio.timeout(10):
        found = [await anext(source) for _ in in_order()]
    times = [json.loads(line).get("timestamp", "") for _, line in found]
    assert times == sorted(times)
    about = tmp_path / f"{sessions.FOLDER}a1.meta.json"
    (tmp_path / "new").write_text('{"finished":true}')
    (tmp_path / "new").rename(about)
    assert await take(source, 1) == ['{"finished":true}']
    await source.aclose()


@each_case
def test_what_a_line_leaves_out_is_unknown(
    mapper: type[ClaudeCode | Codex],
    items: list[dict[str, Any]],
    expected: dict[str, Figures],
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = mapper()
    for number, item in enumerate(items):
        for path in paths(item):
            for value in VALUES if IS_WHOLE else VALUES[number % len(VALUES) :][:1]:
                changed: Any = deepcopy(item)
                put(changed, path, value)
                feed(deepcopy(before), [changed, *items[number + 1 : number + 3]])
        feed(before, [item])
    with caplog.at_level(logging.WARNING, "rxworker.tap"):
        assert [*mapper().feed(("a.jsonl", '{"sec": "ret'))] == []
    assert "a.jsonl" in caplog.text
    assert "ret" not in caplog.text


async def take(source: AsyncIterator[tuple[str, str]], count: int) -> list[str]:
    async with asyncio.timeout(10):
        return [(await anext(source))[1] for _ in range(count)]


async def test_files_are_followed_as_they_grow(tmp_path: Path) -> None:
    old, file = tmp_path / "old.jsonl", tmp_path / "a" / "s.jsonl"
    file.parent.mkdir()
    old.write_text("0\n")
    file.write_text("1\n\n2\n3")
    source = session_files(tmp_path)
    assert await take(source, 3) == ["0", "1", "2"]
    with file.open("a") as open_file:
        open_file.write("3\n")
    assert await take(source, 1) == ["33"]
    late = tmp_path / "2026" / "12" / "s.jsonl"  # folders and file at once
    late.parent.mkdir(parents=True)
    late.write_text("9\n")
    assert await take(source, 1) == ["9"]
    other = tmp_path / "other"
    other.write_text("1\n33\n4\n")
    other.rename(file)  # replaced
    assert await take(source, 1) == ["4"]
    file.write_text("5\n")  # truncated
    assert await take(source, 1) == ["5"]
    late.unlink()
    with file.open("ab") as open_file:
        open_file.write("ü\n".encode()[:1])
        open_file.flush()
        open_file.write("ü\n".encode()[1:])
    assert await take(source, 1) == ["ü"]
    await source.aclose()


async def test_a_relative_folder_has_each_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    file = tmp_path / "real" / "s.jsonl"
    file.write_text('{"n": 1}\n')
    found: list[str] = []

    def grow() -> None:
        with file.open("a") as out:
            out.write('{"n": 2}\n')

    async with asyncio.timeout(20):
        async for _, line in session_files("link"):
            if not found:
                asyncio.get_running_loop().call_soon(grow)  # when it waits
            found.append(line)
            if '"n": 2' in line:
                break
    assert found == ['{"n": 1}', '{"n": 2}']


async def test_old_files_wait_until_they_grow(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_text("1\n")
    os.utime(old, (1000, 1000))
    new.write_text("0\n")
    assert [line async for _, line in session_files(tmp_path, since=2000, follow=False)] == ["0"]
    source = session_files(tmp_path, since=2000)
    assert await take(source, 1) == ["0"]
    with old.open("a") as file:
        file.write("2\n")
    assert await take(source, 2) == ["1", "2"]
    await source.aclose()


async def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no folder"):
        await anext(session_files(tmp_path / "none"))


async def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(ConfigurationError, match=r"checkout\[tap\]"):
        await anext(session_files(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "items", "expected"),
    [("claude", ClaudeCode, sessions.CLAUDE, CLAUDE), ("codex", Codex, sessions.CODEX_NEW, NEW)],
)
async def test_a_tap_that_is_killed_goes_on_and_stores_each_record_once(
    name: str, kind: type[ClaudeCode | Codex], items: list[dict[str, Any]], expected: dict[str, Figures], tmp_path: Path
) -> None:
    """It is killed several times while the session grows, after any of its events."""
    folder, database = tmp_path / f"{name}-files", tmp_path / "runs.db"
    folder.mkdir()
    lines, chance = sessions.lines(items), random.Random(name)
    cuts = sorted(chance.sample(range(8, len(lines)), 3 if IS_WHOLE else 2))
    for start, stop in pairwise([0, *cuts]):
        command = [sys.executable, "-m", "tests.tap.sessions", str(folder), str(database)]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            with (folder / "s.jsonl").open("a") as file:
                file.write("\n".join([*lines[start:stop], ""]))
            async with asyncio.timeout(20):
                for _ in range(chance.randrange(1, 8)):
                    assert await process.stdout.readline()
        finally:
            process.kill()
            await process.wait()
    with (folder / "s.jsonl").open("a") as file:
        file.write("\n".join([*lines[cuts[-1] :], ""]))
    async with SQLiteLog(database, lease=sessions.LEASE) as log:
        each = tap_each(session_files(folder, follow=False), kind(), prefix="s-", log=log)
        await each.ended()
        assert await figures_of(log) == over(expected)
        records = await records_of(log)
        assert {run: lint(each) for run, each in records.items()} == {key: [] for key in expected}
        own = [type(each.event).__name__ for some in records.values() for each in some]
        assert own.count("RunRecover") >= 1
        made = Counter("s-" + each.run for each in feed(kind(), items))
        ends = {run: sum(not isinstance(each.event, RunRecover) for each in some) for run, some in records.items()}
        assert {run: ends[run] - made[run] for run in made if expected[run].status != "running"} == dict.fromkeys(
            [run for run in made if expected[run].status != "running"], 0
        )


async def test_a_run_of_a_session_has_the_times_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("\n".join([*sessions.lines(sessions.CLAUDE), ""]))
    async with SQLiteLog(tmp_path / "runs.db") as log:
        await tap_each(session_files(tmp_path, follow=False), ClaudeCode(), log=log).ended()
        first = next(info for info in await log.list() if info.run_id.endswith("0001.000"))
        begun = time_of(sessions.at(1))
        assert begun is not None
        assert (first.began, first.ended) == (begun, begun + 8)
