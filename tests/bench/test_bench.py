"""The benchmark runs, and a delta costs what it should within wide bounds: figures are for `bench.py`, not for a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

HERE = Path(__file__).resolve().parent
PERF = HERE.parents[2] / "shared" / "perf"

MOST_FLOORS = 12.0
"""Far above what is usual, which is two to four."""

Rows = list[dict[str, Any]]

needs_harness = pytest.mark.skipif(
    not (PERF / "server.py").exists(), reason=f"no performance harness: {PERF} is absent"
)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "bench.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=55)


def rows_of(done: subprocess.CompletedProcess[str]) -> Rows:
    assert done.returncode == 0, done.stderr
    return cast(Rows, msgspec.json.decode(done.stdout))


def test_without_the_harness_it_says_so(tmp_path: Path) -> None:
    done = bench("--quick", "--perf", str(tmp_path))
    assert done.returncode == 2
    assert "nothing was measured" in done.stderr
    assert str(tmp_path) in done.stderr


@pytest.mark.bench
@needs_harness
def test_a_delta_costs_a_few_times_what_it_costs_by_hand() -> None:
    rows = rows_of(bench("--quick", "--json"))
    assert {row["name"] for row in rows} == {"stream", "worker", "bigargs", "tools"}
    assert all(row["ratio"] < MOST_FLOORS for row in rows), rows


@pytest.mark.bench
@needs_harness
def test_a_long_argument_costs_no_more_by_the_delta_than_a_short_one() -> None:
    """Ten times the deltas: parsing them again with each would cost ten times as much by the delta."""
    rows = rows_of(bench("--only", "bigargs", "--apis", "anthropic", "--rounds", "1", "--json"))
    short, long = sorted(rows, key=_length)
    assert long["us"] < 4 * short["us"]


def _length(row: dict[str, Any]) -> int:
    return row["n"]
