"""The official clients decode the same bytes more slowly, within wide bounds: figures are for `sdk_decode.py`."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

PROGRAM = Path(__file__).resolve().parent / "sdk_decode.py"

LEAST = {"ollama": 1.2}
"""Far below what is usual; Ollama's client does little with a line, so that there is less to win."""

MISSING = [n for n in ("anthropic", "openai", "google", "ollama") if find_spec(n) is None]


class Row(msgspec.Struct):
    name: str
    ratio: float


TRIES = 3
"""At most: other tests run at the same time, and noise makes a ratio smaller as often as larger."""


@pytest.mark.bench
@pytest.mark.skipif(bool(MISSING), reason=f"no official clients: {MISSING} are not installed")
def test_we_decode_at_least_twice_as_fast_as_the_official_clients() -> None:
    best: dict[str, float] = {}
    slow: dict[str, float] = {}
    for _ in range(TRIES):
        for row in _measured():
            best[row.name] = max(row.ratio, best.get(row.name, 0.0))
        slow = {name: ratio for name, ratio in best.items() if ratio < LEAST.get(name, 2.0)}
        if not slow:
            break
    assert set(best) == {"anthropic", "openai_chat", "openai_responses", "gemini", "ollama"}
    assert not slow


def _measured() -> list[Row]:
    command = [sys.executable, str(PROGRAM), "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=list[Row])
