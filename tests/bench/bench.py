"""What a delta and a tool loop cost in rxworker, against the floor: aiohttp, a split and msgspec, written by hand.

    python tests/bench/bench.py                  every target, and whether it is met: some minutes
    python tests/bench/bench.py --quick          one protocol, one round, short streams: seconds, and rough
    python tests/bench/bench.py --peers          other clients and frameworks, too, where they are installed
    python tests/bench/bench.py --compare A B    two commits; without the second, a commit and this checkout
    python tests/bench/bench.py --profile CELL   where a delta spends its time
    python tests/bench/bench.py --guard          half a minute; 1 where a ratio is half again over its limit

The floor and rxworker run in turn, each in a fresh process, against the replay server of the shared harness. A ratio is
the median over the rounds, so that the machine drops out; where others use it too, look at the ratios only.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import msgspec
from cells import ALL, CELLS, UVLOOP, summed_up
from compare import checked_out, compare, difference_table
from guard import hold_all
from harness import PERF, Bench, serving
from imports import import_costs
from peers import measure_peers, peers_of
from profiling import profile, profile_lines
from rounds import ROUNDS, chosen, measure_rounds
from tables import cell_table, growth_lines, peer_table, target_table, versions
from targets import Figure, figures_of

NAMES = tuple(dict.fromkeys(cell.name for cell in (*CELLS, *UVLOOP)))


def main() -> int:
    """Measure and print; 2 without the harness, 1 when something failed or is over its bound."""
    args = _arguments()
    perf: Path = args.perf
    if not (perf / "server.py").exists():
        print(f"nothing was measured: the performance harness is not at {perf}; say where with --perf", file=sys.stderr)
        return 2
    try:
        with serving(perf) as bench:
            if args.guard:
                return _guard(bench, args)
            if args.compare:
                return _compare(bench, args)
            if args.profile:
                return _profile(bench, args)
            return _targets(bench, args)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1


def _targets(bench: Bench, args: argparse.Namespace) -> int:
    """The table of what has to be reached."""
    begin = time.monotonic()
    cells = chosen(args.only, is_quick=args.quick, on_uvloop=args.uvloop)
    done, measured = measure_rounds(bench, cells, args.apis, args.rounds)
    imports = [] if args.quick or args.only else import_costs(bench.tree)
    figures = figures_of(measured, imports)
    rows = [summed_up(cell, api, pairs) for (cell, api), pairs in measured.items()]
    others = _peers(bench, args) if args.peers else []
    if args.json:
        told = {"versions": versions(), "figures": figures, "peers": others, "cells": rows}
        print(msgspec.json.encode(told).decode())
        return 0
    tables = [target_table(figures)] if figures else []
    tables += [peer_table(others)] if others else []
    if not args.markdown:
        tables += [cell_table(rows), growth_lines(rows)]
    for table in filter(None, tables):
        print("\n".join([*table, ""]))
    print(f"{versions()}; {done} round{'s' * (done > 1)}")
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


def _peers(bench: Bench, args: argparse.Namespace) -> list[Figure]:
    """Other clients, in floors; says who is left out."""
    peers, left_out = peers_of(bench.perf)
    figures, failed = measure_peers(bench, peers, args.apis, args.rounds or 1, args.only)
    for sentence in dict.fromkeys([*left_out, *failed]):
        print(sentence, file=sys.stderr)
    return figures


def _guard(bench: Bench, args: argparse.Namespace) -> int:
    """Whether any ratio is half again over its limit."""
    begin = time.monotonic()
    over = [held for held in hold_all(bench, args.apis) if held.is_over]
    print("\n".join(["over the bound:", *map(str, over)]) if over else "every ratio is in bounds")
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 1 if over else 0


def _compare(bench: Bench, args: argparse.Namespace) -> int:
    """Two commits, or one and this checkout."""
    old: str = args.compare[0]
    new: str | None = args.compare[1] if len(args.compare) > 1 else None
    cells = chosen(args.only, is_quick=args.quick, on_uvloop=args.uvloop)
    with checked_out(old) as one, checked_out(new) as other:
        found = compare(bench, one, other, cells, args.apis, args.rounds or ROUNDS)
    if args.json:
        print(msgspec.json.encode(found).decode())
        return 0
    print("\n".join([*difference_table(found, old, new or "this"), "", versions()]))
    return 0


def _profile(bench: Bench, args: argparse.Namespace) -> int:
    """Where a delta spends its time, in each protocol."""
    cell = next(cell for cell in (*CELLS, *UVLOOP) if cell.name == args.profile)
    told = {api: profile(bench, cell, api) for api in args.apis if api in cell.apis}
    if args.json:
        print(msgspec.json.encode(told).decode())
        return 0
    for api, found in told.items():
        print("\n".join([f"{cell.name}, {api}, {cell.n} deltas", "", *profile_lines(found, cell.per), ""]))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    flag = parser.add_argument
    flag("--quick", action="store_true", help="one protocol, one round, short streams")
    flag("--rounds", type=int, help="how often each cell is run (3, or as time allows)")
    flag("--uvloop", action="store_true", help="also on uvloop, where it is installed")
    flag("--apis", nargs="+", choices=ALL, help="which protocols (all)")
    flag("--only", nargs="+", choices=NAMES, help="which cells (all)")
    flag("--peers", action="store_true", help="also the other clients that are installed")
    flag("--compare", nargs="+", metavar="COMMIT", help="two commits, or one and this checkout")
    flag("--profile", choices=NAMES, metavar="CELL", help=f"one of {', '.join(NAMES)}")
    flag("--guard", action="store_true", help="fail where a ratio is half again over its limit")
    flag("--json", action="store_true", help="print JSON instead of tables")
    flag("--markdown", action="store_true", help="print the table of the page, and nothing else")
    flag("--perf", type=Path, default=PERF, help="the folder of the harness")
    args = parser.parse_args()
    if args.compare and len(args.compare) > 2:
        parser.error("--compare takes two commits at most")
    is_one = args.quick or args.profile
    args.apis = args.apis or (ALL[:1] if is_one else ALL)
    args.rounds = args.rounds or (1 if args.quick else None)
    args.uvloop = args.uvloop and find_spec("uvloop") is not None
    return args


if __name__ == "__main__":
    sys.exit(main())
