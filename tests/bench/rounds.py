"""Every cell once in each round, the floor right before rxworker, so that the machine drops out of a ratio."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from cells import CELLS, UVLOOP, Cell, Pair
from harness import Bench

ROUNDS = 3
BUDGET = 400.0
"""Seconds, within which so many rounds are made where nobody asks for a number of them."""

Rounds = dict[tuple[Cell, str], list[Pair]]


def measure_rounds(
    bench: Bench, cells: Sequence[Cell], apis: Sequence[str], rounds: int | None = None
) -> tuple[int, Rounds]:
    """Some rounds; how many, and what came out.

    Raises:
        RuntimeError: A client failed, or received something else than what was sent.
    """
    measured: Rounds = {}
    begin, done = time.monotonic(), 0
    while done < (rounds or ROUNDS):
        print(f"round {done + 1}", file=sys.stderr, flush=True)
        for cell, api in places(cells, apis):
            for time_of_round in range(cell.times):
                # Who goes first changes, in case the machine favours one of them.
                is_floor_first = (done + time_of_round) % 2 == 0
                pair = measure_pair(bench, cell, api, is_floor_first=is_floor_first)
                measured.setdefault((cell, api), []).append(pair)
        done += 1
        so_far = time.monotonic() - begin
        if rounds is None and so_far + so_far / done > BUDGET:
            break  # the next round would take too long
    return done, measured


def measure_pair(bench: Bench, cell: Cell, api: str, *, is_floor_first: bool = True) -> Pair:
    """The floor and rxworker, each in a process.

    Raises:
        RuntimeError: A client failed, or received something else than what was sent.
    """
    if is_floor_first:
        floor = bench.floor(cell.floor, api, cell.extra)
        return Pair(floor, bench.ours(cell.variant, api, cell.extra))
    ours = bench.ours(cell.variant, api, cell.extra)
    return Pair(bench.floor(cell.floor, api, cell.extra), ours)


def places(cells: Sequence[Cell], apis: Sequence[str]) -> Iterator[tuple[Cell, str]]:
    """Each cell with each of the protocols that it is measured with."""
    for api in apis:
        for cell in cells:
            if api in cell.apis:
                yield cell, api


def chosen(names: Sequence[str] | None, *, is_quick: bool, on_uvloop: bool) -> list[Cell]:
    """The cells of these names, or all of them; short ones if quick."""
    cells = [
        cell for cell in CELLS if not is_quick or (cell.n <= 2_000 and not cell.pace)
    ]  # what is paced takes its time
    if on_uvloop:
        cells += UVLOOP
    return [cell for cell in cells if not names or cell.name in names]


__all__ = ["ROUNDS", "chosen", "measure_pair", "measure_rounds", "places"]
