"""Starts the mock server of the npm package ``@copilotkit/aimock``, where it is installed."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.integration.npm import node_with
from tests.ports import free_port

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures.json"
CLI = "@copilotkit/aimock/dist/cli.js"
PATIENCE = 60.0
NO_PROXY = build_opener(ProxyHandler({}))


def wait_until_it_listens(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            out = process.stdout.read() if process.stdout else ""
            pytest.fail(f"aimock ended with {process.returncode}: {out}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(0.02)  # between two looks
        else:
            return
    pytest.fail(f"aimock did not listen within {PATIENCE:g} seconds")


@pytest.fixture(scope="session")
def aimock_server() -> Iterator[str]:
    """The address of the server."""
    port = free_port()
    options = ("--port", str(port), "--fixtures", str(FIXTURES), "--chunk-size", "8")
    process = subprocess.Popen(
        [*node_with(HERE, CLI, "RXWORKER_AIMOCK"), *options, "--strict", "--log-level", "warn"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_until_it_listens(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture
def aimock(aimock_server: str) -> str:
    """The address of a server that has not yet counted a request."""
    for path, body in (("reset", b""), ("fixtures", FIXTURES.read_bytes())):
        url = f"{aimock_server}/__aimock/{path}"
        with NO_PROXY.open(Request(url, data=body, method="POST"), timeout=PATIENCE) as answer:
            assert answer.status == 200
    return aimock_server
