"""What the tests of tools share: the small MCP server as a process that listens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("mcp_server.py")
PATIENCE = 60.0


@pytest.fixture(scope="session")
def mcp_server() -> Iterator[str]:
    """The address of the server, which one process serves for all tests."""
    with subprocess.Popen(
        [sys.executable, str(SERVER), "http"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.fixture
def mcp_address(mcp_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address, which a proxy of the environment does not hide."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return mcp_server
