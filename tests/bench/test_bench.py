"""The benchmark runs, no ratio is half again over its limit, and what it makes of figures is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PERF = ROOT.parent / "shared" / "perf"

needs_harness = pytest.mark.skipif(
    not (PERF / "server.py").exists(), reason=f"no performance harness: {PERF} is absent"
)


class Cell(msgspec.Struct):
    """What is read of a cell's row."""

    name: str
    api: str
    n: int
    us: float
    ratio: float


class Told(msgspec.Struct):
    """What is read of the whole."""

    cells: list[Cell]
    figures: list[dict[str, Any]]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "bench.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=55)


def told_by(done: subprocess.CompletedProcess[str]) -> Told:
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=Told)


def test_without_the_harness_it_prints_what_is_missing(tmp_path: Path) -> None:
    done = bench("--quick", "--perf", str(tmp_path))
    assert done.returncode == 2
    assert "nothing was measured" in done.stderr
    assert str(tmp_path) in done.stderr


@pytest.mark.bench
@needs_harness
def test_each_protocol_is_measured_with_what_it_speaks() -> None:
    told = told_by(bench("--quick", "--json", "--only", "stream", "--apis", "chat", "gemini"))
    assert [(cell.name, cell.api) for cell in told.cells] == [("stream", "chat"), ("stream", "gemini")]
    assert [figure["what"] for figure in told.figures] == ["client, 2,000 deltas"] * 2


@pytest.mark.bench
@needs_harness
def test_a_profile_names_the_rooms_that_a_delta_goes_through() -> None:
    done = bench("--profile", "stream")
    assert done.returncode == 0, done.stderr
    assert {"providers", "operators", "transport", "aiohttp"} <= set(done.stdout.split())


# What is made of the figures. The modules lie beside the program, and know each other by their names.


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the benchmark, and forgets it again."""
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])
    before = set(sys.modules)

    def module(name: str) -> Any:
        return __import__(name)

    yield module
    for name in set(sys.modules) - before:
        if (HERE / f"{name}.py").exists():
            del sys.modules[name]


def pair(modules: Callable[[str], Any], floor: float, ours: float, kb: int = 0) -> Any:
    result = modules("harness").Result
    return modules("cells").Pair(
        result(ok=True, errors=[], cpu_s=floor), result(ok=True, errors=[], cpu_s=ours, rss_peak_kb=kb)
    )


def test_a_median_over_its_limit_is_named(modules: Callable[[str], Any]) -> None:
    targets, tables = modules("targets"), modules("tables")
    target = targets.TARGETS[0]
    good = [pair(modules, 1.0, ratio) for ratio in (1.0, 1.3, 9.0)]
    bad = [pair(modules, 1.0, ratio) for ratio in (1.5, 1.6, 1.0)]
    measured = {(target.cell, "anthropic"): good, (target.cell, "chat"): bad}
    lines = tables.target_table(targets.figures_of(measured, [0.02, 0.03, 0.04]))
    assert lines == [
        "| what | at most | Anthropic | Chat | met |",
        "|---|---:|---:|---:|---|",
        "| client, 2,000 deltas | 1.4 | 1.3 (1 to 9) | 1.5 (1 to 1.6) | no: Chat |",
        "| CPU of `import rxworker` | +0.05 s | 0.03 (0.02 to 0.04) |  | yes |",
    ]


def test_the_guard_compares_the_lowest_and_tries_again(modules: Callable[[str], Any]) -> None:
    guard, targets = modules("guard"), modules("targets")
    target = targets.TARGETS[0]  # at most 1.4, so that 2.1 is the bound
    paused: list[float] = []

    def held(*ratios: float) -> Any:
        pairs = iter([pair(modules, 1.0, ratio) for ratio in ratios])
        return guard.hold(target, "chat", lambda: next(pairs), pause=paused.append)

    assert not held(2.0).is_over
    assert not held(4.0, 3.0, 2.0).is_over
    assert paused == []
    assert not held(4.0, 3.0, 4.0, 2.0).is_over
    assert len(paused) == 1
    over = held(4.0, 3.0, 4.0, 3.0, 2.2, 3.0)
    assert (over.is_over, over.ratio, over.tries) == (True, 2.2, 6)


def test_the_guard_tries_nothing_again_when_it_is_late(modules: Callable[[str], Any]) -> None:
    guard, targets = modules("guard"), modules("targets")

    def measure() -> Any:
        return pair(modules, 1.0, 3.0)

    assert guard.hold(targets.TARGETS[0], "chat", measure, lambda: True).tries == 1


def test_the_time_of_what_has_no_file_goes_to_its_callers(modules: Callable[[str], Any]) -> None:
    profiling = modules("profiling")
    worker = (str(ROOT / "rxworker" / "worker" / "run.py"), 1, "run")
    session = ("/lib/aiohttp/client.py", 1, "request")
    joined = {worker: (2, 2, 0.2, 0.2), session: (1, 1, 0.1, 0.1)}
    stats: dict[Any, Any] = {
        worker: (1, 1, 0.5, 0.8, {}),
        session: (1, 1, 0.1, 0.2, {}),
        ("~", 0, "<method 'join' of 'bytes' objects>"): (3, 3, 0.3, 0.3, joined),
        ("~", 0, "<built-in method gc.collect>"): (1, 1, 9.0, 9.0, {}),
    }
    told = profiling.profile_of(stats, 1_000_000, ROOT)
    rooms = {share.name: pytest.approx(share.us) for share in told.rooms}
    assert rooms == {"worker": 0.7, "aiohttp": 0.2}
    assert told.functions[0].name == "rxworker/worker/run.py:1 run"


def test_what_gets_slower_from_one_tree_to_the_other_is_above_one(modules: Callable[[str], Any]) -> None:
    compare, cells = modules("compare"), modules("cells")
    rounds = [tuple(pair(modules, 1.0, ratio)) for ratio in (1.2, 1.1, 1.3)]
    found = compare.difference(cells.CELLS[0], "chat", rounds)
    assert (found.ratio, found.least, found.most) == (1.2, 1.1, 1.3)


def test_the_page_has_a_row_for_each_target(modules: Callable[[str], Any]) -> None:
    """What `bench.py --markdown` prints is the table of the page."""
    targets = modules("targets")
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text(encoding="utf-8")
    held = [target for target in targets.TARGETS if target.limit is not None]
    for target in held:
        unit = f"+{target.limit:g} {target.unit}" if target.unit else f"{target.limit:g}"
        if target.other_limit is not None:
            unit += f" ({target.other_limit:g} for Gemini and Ollama)"
        assert f"\n| {target.what} | {unit} |" in page, target.what
    assert f"\n| {targets.IMPORT} | +{targets.IMPORT_LIMIT:g} s |" in page
