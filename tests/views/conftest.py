"""The recorded responses, as a parameter of the tests that ask for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rxworker.providers import PROVIDERS

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
SUFFIXES = (".sse", ".ndjson")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recording" in metafunc.fixturenames:
        files = [p for name in PROVIDERS for p in sorted((RECORDINGS / name).glob("*"))]
        streams = [path for path in files if path.suffix in SUFFIXES]
        absent = pytest.mark.skip(reason=f"no recordings: {RECORDINGS} is absent")
        rows = streams or [pytest.param(RECORDINGS, marks=absent)]
        metafunc.parametrize("recording", rows, ids=lambda p: f"{p.parent.name}-{p.stem}")
