"""What `import rxworker` costs over importing the libraries it is built on: CPU of fresh processes, in turn."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from harness import TREE, environment, run_pinned

TIMES = 9
BASE = "import aiohttp, msgspec, reactivex"
OURS = f"{BASE}, rxworker"


def import_costs(tree: Path = TREE, times: int = TIMES) -> list[float]:
    """Seconds of CPU that the import of a checkout's rxworker takes over the others, for each pair of processes.

    Raises:
        RuntimeError: An import failed.
    """
    # Nothing of the harness is imported, and byte code may be kept, as it is where a package is installed.
    env = environment(Path(), tree)
    del env["PYTHONDONTWRITEBYTECODE"]
    env["PYTHONPATH"] = str(tree)
    for code in (BASE, OURS):
        _cpu_of(code, env)  # compiles what nobody imported yet
    pairs = [(_cpu_of(BASE, env), _cpu_of(OURS, env)) for _ in range(times)]
    return [ours - base for base, ours in pairs]


def _cpu_of(code: str, env: Mapping[str, str]) -> float:
    """The CPU of a whole process up to the end of an import; what starting Python costs drops out."""
    program = f"import time; {code}; print(time.process_time())"
    done = run_pinned([sys.executable, "-P", "-c", program], dict(env))
    if done.returncode:
        raise RuntimeError(f"{code}: {done.stderr.strip()[-400:]}")
    return float(done.stdout)


__all__ = ["import_costs"]
