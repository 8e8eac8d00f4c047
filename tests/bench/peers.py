"""Other clients and frameworks on the same server: those of the shared harness that are installed.

Each has a virtual environment, which the harness's `setup.sh` makes. Where one is missing, the interpreter that runs
this does, if it has the packages; otherwise the peer is left out, and that is said.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cells import APIS
from harness import Bench, Result, environment
from msgspec import Struct, structs
from targets import Figure, figure

TEMP = os.environ.get("TMPDIR", "/var/tmp")
VENVS = os.environ.get("BENCH_VENVS", f"{TEMP}/rxworker-perf-")
SCENARIOS = {"stream": ["--scenario", "stream", "--n", "2000"], "tools": ["--scenario", "tools", "--n", "100"]}


class Peer(Struct, frozen=True):
    """What a client of the harness says about itself.

    Attributes:
        client: Its file is named by it.
        peer: Its name.
        variants: Of each, the protocols and what it can do with them.
        explain: Variants that only explain a cost.
        versions: Of its packages.
        repeat: How many calls a process should make.
        python: The interpreter that has its packages.
    """

    peer: str
    variants: dict[str, dict[str, list[str]]]
    versions: dict[str, str]
    client: str = ""
    explain: list[str] = []
    repeat: int = 5
    python: str = sys.executable


def peers_of(perf: Path) -> tuple[list[Peer], list[str]]:
    """Those that can be measured, and what is to be said of the others."""
    found: list[Peer] = []
    left_out: list[str] = []
    for file in sorted((perf / "clients").glob("*_client.py")):
        name = file.name.removesuffix("_client.py")
        if name in ("floor", "rxworker"):
            continue
        peer = described(perf, name, file)
        if isinstance(peer, Peer):
            found.append(peer)
        else:
            left_out.append(peer)
    return found, left_out


def described(perf: Path, name: str, file: Path) -> Peer | str:
    """What a client says about itself, or why it cannot."""
    named = re.search(r'^\s+venv = "(\w+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
    own = Path(f"{VENVS}{named[1] if named else 'peers'}/bin/python")
    python = str(own) if own.exists() else sys.executable
    done = subprocess.run(
        [python, str(file), "--list"], capture_output=True, text=True, timeout=120, env=environment(perf)
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        where = "" if own.exists() else f"there is no {own.parents[1].name}, and here: "
        return f"{name} is left out: {where}{why}"
    peer = msgspec.json.decode(done.stdout.splitlines()[-1], type=Peer)
    return structs.replace(peer, client=name, python=python)


def measure_peers(
    bench: Bench, peers: Sequence[Peer], apis: Sequence[str], rounds: int, only: Sequence[str] | None = None
) -> tuple[list[Figure], list[str]]:
    """Each peer in floors, in each round; and what is to be said of those that failed."""
    ratios: dict[tuple[str, str], list[float]] = {}
    failed: list[str] = []
    places = [
        (scenario, peer, variant, api)
        for scenario in SCENARIOS
        if not only or scenario in only
        for peer in peers
        for variant, by_api in peer.variants.items()
        for api in APIS
        if variant not in peer.explain and api in apis and scenario in by_api.get(api, ())
    ]
    for done in range(rounds):
        print(f"peers, round {done + 1}: {len(places)} cells", file=sys.stderr, flush=True)
        for scenario, peer, variant, api in places:
            name = peer.peer if variant == "default" else f"{peer.peer}:{variant}"
            try:
                result = _measure(bench, peer, variant, api, scenario)
            except RuntimeError as error:
                failed.append(f"{name} is left out of {scenario}, {api}: {error}")
                continue
            floor = bench.floor("default", api, SCENARIOS[scenario])
            ratios.setdefault((f"{scenario}: {name}", api), []).append(result.cpu_s / floor.cpu_s)
    figures = [figure(what, api, None, "", values) for (what, api), values in ratios.items()]
    return figures, failed


def _measure(bench: Bench, peer: Peer, variant: str, api: str, scenario: str) -> Result:
    extra = [*SCENARIOS[scenario], "--repeat", str(peer.repeat)]
    return structs.replace(bench, python=peer.python).measure(peer.client, variant, api, extra)


__all__ = ["Peer", "measure_peers", "peers_of"]
