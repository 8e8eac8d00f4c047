"""A test with the argument ``recording`` runs once for each recording.

They lie beside the repository and are not part of it.

Where the folder is absent, such a test says so and is skipped. The ``conftest.py`` of a folder imports
`pytest_generate_tests`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rxworker.providers import PROVIDERS

RECORDINGS = Path(__file__).parents[2] / "shared" / "recordings"
SUFFIXES = (".sse", ".ndjson", ".eventstream")
FOLDERS = {"bedrock": "bedrock/converse"}


def provider_of(recording: Path) -> str:
    """The name of the provider whose stream was recorded."""
    return recording.relative_to(RECORDINGS).parts[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recording" in metafunc.fixturenames:
        files = [p for name in PROVIDERS for p in sorted((RECORDINGS / FOLDERS.get(name, name)).glob("*"))]
        absent = pytest.mark.skip(reason=f"no recordings: {RECORDINGS} is absent")
        rows = [pytest.param(path, id=f"{provider_of(path)}-{path.stem}") for path in files if path.suffix in SUFFIXES]
        metafunc.parametrize("recording", rows or [pytest.param(RECORDINGS, id="absent", marks=absent)])
