"""A request, a run and a tool loop of each provider call no more functions than `counts.json` has, to a hundredth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rxworker.providers import PROVIDERS

PROGRAM = Path(__file__).with_name("counts.py")
Counts = dict[str, dict[str, int]]
HELD = msgspec.json.decode(PROGRAM.with_suffix(".json").read_bytes(), type=Counts)
HUNDREDTH = 1.01


def counts() -> Counts:
    """In a process of its own: what other tests have done before does not count."""
    done = subprocess.run([sys.executable, str(PROGRAM), "--json"], capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=Counts)


def above(now: Counts, held: Counts) -> list[str]:
    """What is a hundredth above what is held, or is not held yet."""
    return [
        f"a {what} of {provider} calls {n} functions, where counts.json has {held.get(provider, {}).get(what)}"
        for provider, row in now.items()
        for what, n in row.items()
        if n > HUNDREDTH * held.get(provider, {}).get(what, 0)
    ]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the counts are those of the default Python, 3.11")
def test_no_provider_calls_more_functions_than_are_held() -> None:
    now = counts()
    assert set(now) == set(PROVIDERS)
    more = above(now, HELD)
    assert not more, "\n".join(
        [
            *more,
            (
                "see where: python tests/bench/counts.py --where WHAT PROVIDER. A commit that raises a count states "
                "why: --write"
            ),
        ]
    )


def test_the_page_has_what_is_held() -> None:
    page = PROGRAM.parents[2] / "docs" / "explanation" / "performance.md"
    rows = [
        f"| {PROVIDERS[provider].__name__} | {' | '.join(f'{n:,}' for n in row.values())} |"
        for provider, row in HELD.items()
    ]
    assert "\n".join(rows) in page.read_text(encoding="utf-8"), "python tests/bench/counts.py --write"


def test_what_is_a_hundredth_above_is_named_and_what_is_not_held_too() -> None:
    held = {"ollama": {"request": 200, "run": 300}}
    assert above({"ollama": {"request": 202, "run": 300}}, held) == []
    assert above({"ollama": {"request": 203, "run": 300}, "new": {"run": 1}}, held) == [
        "a request of ollama calls 203 functions, where counts.json has 200",
        "a run of new calls 1 functions, where counts.json has None",
    ]
