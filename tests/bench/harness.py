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
TREE = HERE.parents[1]
"""The checkout that this file is in, and that is measured where nothing else is said."""

PERF = TREE.parent / "shared" / "perf"
"""Beside the repository, of which it is not a part."""

PATIENCE = 120.0
OWN_FLOOR = ("gemini", "ollama")


class Result(Struct, frozen=True):
    """What a client's process says at its end.

    Attributes:
        ok: Whether it received exactly what the server sent.
        errors: What went wrong.
        cpu_s: Seconds of CPU for one call, the median of some.
        cpu_us_per_delta: The same by the delta, in microseconds.
        rss_ready_kb: Memory before the calls that are measured.
        rss_peak_kb: The most memory at any time.
        ttfd_ms: Milliseconds from the call to the first delta, where that is measured.
    """

    ok: bool
    errors: list[str]
    cpu_s: float = 0.0
    cpu_us_per_delta: float = 0.0
    rss_ready_kb: int = 0
    rss_peak_kb: int = 0
    ttfd_ms: float = 0.0


class Bench(Struct, frozen=True):
    """A server that runs, and what is measured with it.

    Attributes:
        perf: The folder of the harness.
        address: The server's.
        tree: The checkout whose rxworker is measured.
        python: The interpreter that clients run in.
    """

    perf: Path
    address: str
    tree: Path = TREE
    python: str = sys.executable

    def floor(self, variant: str, api: str, extra: Sequence[str]) -> Result:
        """Measure the floor of a protocol.

        Raises:
            RuntimeError: It failed, or received something else than what was sent.
        """
        return self.measure("own_floor" if api in OWN_FLOOR else "floor", variant, api, extra)

    def ours(self, variant: str, api: str, extra: Sequence[str]) -> Result:
        """Measure rxworker.

        Raises:
            RuntimeError: It failed, or received something else than what was sent.
        """
        return self.measure("rxworker", variant, api, extra)

    def measure(self, client: str, variant: str, api: str, extra: Sequence[str]) -> Result:
        """Run one client in a fresh process, on the last CPU.

        Raises:
            RuntimeError: It failed, or received something else than what was sent.
        """
        command = [self.python, str(client_file(self.perf, client)), "--base-url", self.address]
        command += ["--variant", variant, "--api", api, *extra]
        result = _result(command, environment(self.perf, self.tree))
        if not result.ok:
            what = " ".join([client, variant, api, *extra])
            raise RuntimeError(f"{what}: {'; '.join(result.errors)}")
        return result


def client_file(perf: Path, client: str) -> Path:
    """Where a client is: ours here, the others with the harness."""
    ours = HERE / f"{client}_client.py"
    return ours if ours.exists() else perf / "clients" / ours.name


@contextmanager
def serving(perf: Path, tree: Path = TREE) -> Generator[Bench, None, None]:
    """The replay server, on the first CPU.

    Raises:
        RuntimeError: It did not start.
    """
    command = [sys.executable, str(HERE / "replay.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment(perf, tree), preexec_fn=_pin(0)
    ) as server:
        try:
            assert server.stdout is not None
            word, _, port = str(server.stdout.readline()).strip().partition(" ")
            if word != "PORT":
                raise RuntimeError(f"the server did not say its port: {' '.join(command)}")
            yield Bench(perf, f"http://127.0.0.1:{port}", tree)
        finally:
            server.terminate()


def run_pinned(command: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program on the last CPU, to its end.

    Raises:
        RuntimeError: It took too long.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env, preexec_fn=_pin(-1))
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{' '.join(command)}: took more than {PATIENCE:g} s") from error


def environment(perf: Path, tree: Path = TREE) -> dict[str, str]:
    """Ours, with a checkout and the harness to be found, and without leaving traces in the harness's folder."""
    paths = [str(tree), str(perf), str(perf / "clients"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}


def _result(command: Sequence[str], env: dict[str, str]) -> Result:
    done = run_pinned(command, env)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return msgspec.json.decode(line, type=Result)
    return Result(ok=False, errors=[done.stderr.strip()[-400:] or f"exit {done.returncode}"])


def _pin(place: int) -> Callable[[], None] | None:
    """Keeps a process on one CPU, so that runs resemble each other; does nothing where there is no choice."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cpus = sorted(os.sched_getaffinity(0))

    def pin() -> None:
        os.sched_setaffinity(0, {cpus[place]})

    return pin


__all__ = ["HERE", "PERF", "TREE", "Bench", "Result", "client_file", "environment", "run_pinned", "serving"]
