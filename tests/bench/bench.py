"""What a delta and a tool loop cost in rxworker, against the floor: aiohttp, a split and msgspec, written by hand.

    python tests/bench/bench.py            a minute, or two where others use the machine too
    python tests/bench/bench.py --quick    seconds, and rough

The floor and rxworker run in turn, each in a fresh process, against the replay server of the shared harness. A ratio is the
median over the rounds, so that the machine drops out; where others use it too, look at the ratios only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import msgspec
from cells import APIS, CELLS, UVLOOP, Cell, Row, summed_up
from harness import PERF, Result, measure, serving

ROUNDS = 3
BUDGET = 110.0
"""Seconds, within which so many rounds are made where nobody asks for a number of them."""

PACKAGES = ("rxworker", "reactivex", "aiohttp", "msgspec", "uvloop")


def main() -> int:
    """Measure and print; 2 without the harness, 1 when something failed."""
    args = _arguments()
    perf: Path = args.perf
    if not (perf / "server.py").exists():
        print(
            f"nothing was measured: the performance harness is not at {perf}; say where with --perf",
            file=sys.stderr,
        )
        return 2
    begin = time.monotonic()
    try:
        rounds, rows = _measure(perf, _chosen(args), args.apis, args.rounds)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    if args.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    print("\n".join([*_table(rows), "", *_growth(rows), _versions()]))
    print(f"rounds: {rounds}; {time.monotonic() - begin:.0f} s")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    names = sorted({cell.name for cell in (*CELLS, *UVLOOP)})
    parser.add_argument(
        "--quick", action="store_true", help="one protocol, one round, short streams"
    )
    parser.add_argument(
        "--rounds", type=int, help="how often each cell is run (3, or as time allows)"
    )
    parser.add_argument(
        "--uvloop", action="store_true", help="also on uvloop, where it is installed"
    )
    parser.add_argument("--apis", nargs="+", choices=APIS, help="which protocols (all)")
    parser.add_argument("--only", nargs="+", choices=names, help="which cells (all)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--perf", type=Path, default=PERF, help="the folder of the harness")
    args = parser.parse_args()
    args.apis = args.apis or (APIS[:1] if args.quick else APIS)
    if args.quick and args.rounds is None:
        args.rounds = 1
    return args


def _chosen(args: argparse.Namespace) -> list[Cell]:
    cells = [cell for cell in CELLS if cell.n <= 2_000 or not args.quick]
    if args.uvloop and find_spec("uvloop"):
        cells += UVLOOP
    return [cell for cell in cells if not args.only or cell.name in args.only]


def _measure(
    perf: Path, cells: Sequence[Cell], apis: Sequence[str], rounds: int | None
) -> tuple[int, list[Row]]:
    """Every cell once in each round; the number of rounds, and what came out.

    Raises:
        RuntimeError: A client failed, or received something else than what was sent.
    """
    pairs: dict[tuple[Cell, str], list[tuple[Result, Result]]] = {}
    begin, done = time.monotonic(), 0
    with serving(perf) as address:
        while done < (rounds or ROUNDS):
            print(f"round {done + 1}", file=sys.stderr, flush=True)
            for api in apis:
                for cell in cells:
                    floor = measure(perf, address, "floor", cell.floor, api, cell.extra)
                    ours = measure(perf, address, "rxworker", cell.variant, api, cell.extra)
                    for client, result in (("floor", floor), ("rxworker", ours)):
                        if not result.ok:
                            what = f"{client}, {cell.name}, {api}, {cell.n} deltas"
                            raise RuntimeError(f"{what}: {'; '.join(result.errors)}")
                    pairs.setdefault((cell, api), []).append((floor, ours))
            done += 1
            so_far = time.monotonic() - begin
            if rounds is None and so_far + so_far / done > BUDGET:
                break  # the next round would take too long
    return done, [summed_up(cell, api, results) for (cell, api), results in pairs.items()]


def _table(rows: Sequence[Row]) -> list[str]:
    head = (
        "| cell | api | deltas | per | floor µs | rxworker µs | x floor | from - to | memory MB |"
    )
    lines = [head, "|---|---|---:|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        lines.append(
            f"| {row.name} | {row.api} | {row.n} | {row.per} | {row.floor_us:.2f} | {row.us:.2f} "
            f"| {row.ratio:.2f} | {row.least:.2f} - {row.most:.2f} | {row.memory_mb:.1f} |"
        )
    return lines


def _growth(rows: Sequence[Row]) -> list[str]:
    """A delta of a stream ten times as long, in deltas of the shorter one: 1 where the cost is linear."""
    by_name = {(row.name, row.api, row.n): row for row in rows}
    lines = [
        f"{name}, {api}: a delta of {n} costs {row.us / short.us:.2f} of a delta of {n // 10}"
        for (name, api, n), row in by_name.items()
        if (short := by_name.get((name, api, n // 10))) is not None
    ]
    return [*lines, ""] if lines else []


def _versions() -> str:
    found = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
