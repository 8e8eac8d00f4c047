"""The shared performance harness: where it lies, its server, and one client in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

HERE = Path(__file__).resolve().parent
PERF = HERE.parents[2] / "shared" / "perf"
"""Beside the repository; it is no part of it."""

PATIENCE = 120.0


class Result(Struct, frozen=True):
    """What a client's process says at its end.

    Attributes:
        ok: Whether it received exactly what the server sent.
        errors: What went wrong.
        cpu_s: Seconds of CPU for one call, the median of some.
        cpu_us_per_delta: The same by the delta, in microseconds.
        rss_ready_kb: Memory before the calls that are measured.
        rss_peak_kb: The most memory at any time.
    """

    ok: bool
    errors: list[str]
    cpu_s: float = 0.0
    cpu_us_per_delta: float = 0.0
    rss_ready_kb: int = 0
    rss_peak_kb: int = 0


def client_file(perf: Path, client: str) -> Path:
    """Where a client is: ours here, the others with the harness."""
    ours = HERE / f"{client}_client.py"
    return ours if ours.exists() else perf / "clients" / ours.name


@contextmanager
def serving(perf: Path) -> Generator[str, None, None]:
    """The replay server, on the first CPU; gives its address.

    Raises:
        RuntimeError: It did not start.
    """
    command = [sys.executable, str(perf / "server.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=_environment(perf), preexec_fn=_pin(0)
    ) as server:
        try:
            assert server.stdout is not None
            word, _, port = str(server.stdout.readline()).strip().partition(" ")
            if word != "PORT":
                raise RuntimeError(f"the server did not say its port: {' '.join(command)}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def measure(
    perf: Path, address: str, client: str, variant: str, api: str, extra: Sequence[str]
) -> Result:
    """Run one client in a fresh process, on the last CPU."""
    command = [sys.executable, str(client_file(perf, client)), "--base-url", address]
    command += ["--variant", variant, "--api", api, *extra]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=_environment(perf),
            preexec_fn=_pin(-1),
        )
    except subprocess.TimeoutExpired:
        return Result(ok=False, errors=[f"took more than {PATIENCE:g} s"])
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return msgspec.json.decode(line, type=Result)
    return Result(ok=False, errors=[done.stderr.strip()[-400:] or f"exit {done.returncode}"])


def _environment(perf: Path) -> dict[str, str]:
    """Ours, with the harness to be found, and without leaving traces in its folder."""
    paths = [str(perf / "clients"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _pin(place: int) -> Callable[[], None] | None:
    """Keeps a process on one CPU, so that runs resemble each other; does nothing where there is no choice."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cpus = sorted(os.sched_getaffinity(0))

    def pin() -> None:
        os.sched_setaffinity(0, {cpus[place]})

    return pin


__all__ = ["PERF", "Result", "client_file", "measure", "serving"]
