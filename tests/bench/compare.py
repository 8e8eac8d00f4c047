"""Two commits side by side: the same cells, one tree right behind the other, so that what differs is the library.

Each commit is checked out into a temporary folder, as a worktree that is removed again. The clients and the harness are
this checkout's for both of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cells import Cell
from harness import TREE, Bench, Result, environment, run_pinned
from msgspec import Struct, structs
from rounds import places
from targets import figure


class Difference(Struct, frozen=True):
    """What a cell costs in one tree, in costs of the other.

    Attributes:
        name: The cell's.
        api: Which protocol.
        n: How many deltas.
        old_us: CPU by what the cell is counted by, in the first tree; the lowest of the rounds.
        new_us: The same in the second.
        ratio: The second in firsts, the median of the rounds.
        least: The smallest of these.
        most: The largest.
    """

    name: str
    api: str
    n: int
    old_us: float
    new_us: float
    ratio: float
    least: float
    most: float


@contextmanager
def checked_out(commit: str | None) -> Generator[Path, None, None]:
    """A folder with the commit in it; without one, this checkout as it is.

    Raises:
        RuntimeError: There is no such commit.
    """
    if commit is None:
        yield TREE
        return
    with tempfile.TemporaryDirectory(prefix="rxworker-bench-") as folder:
        tree = Path(folder).resolve() / "tree"
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> None:
    command = ["git", "-C", str(TREE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def check_tree(perf: Path, tree: Path) -> None:
    """See that it is this tree's library that will be measured.

    Raises:
        RuntimeError: It cannot be imported, or another one is.
    """
    code = "import rxworker; print(rxworker.__file__)"
    done = run_pinned([sys.executable, "-P", "-c", code], environment(perf, tree))
    if done.returncode or not Path(done.stdout.strip()).is_relative_to(tree):
        raise RuntimeError(f"{tree}: {done.stderr.strip()[-400:] or done.stdout.strip()}")


def compare(
    bench: Bench, old: Path, new: Path, cells: Sequence[Cell], apis: Sequence[str], rounds: int
) -> list[Difference]:
    """Every cell in both trees, in each round.

    Raises:
        RuntimeError: A client failed, or received something else than what was sent.
    """
    trees = [structs.replace(bench, tree=tree) for tree in (old, new)]
    for tree in (old, new):
        check_tree(bench.perf, tree)
    measured: dict[tuple[Cell, str], list[tuple[Result, Result]]] = {}
    for done in range(rounds):
        print(f"round {done + 1}", file=sys.stderr, flush=True)
        for cell, api in places(cells, apis):
            pair = [at.ours(cell.variant, api, cell.extra) for at in (trees if done % 2 == 0 else trees[::-1])]
            first, second = pair if done % 2 == 0 else pair[::-1]
            measured.setdefault((cell, api), []).append((first, second))
    return [difference(cell, api, pairs) for (cell, api), pairs in measured.items()]


def difference(cell: Cell, api: str, pairs: Sequence[tuple[Result, Result]]) -> Difference:
    """What the rounds of a cell came to."""
    told = figure(cell.name, api, None, "", [new.cpu_s / old.cpu_s for old, new in pairs])
    return Difference(
        name=cell.name,
        api=api,
        n=cell.n,
        old_us=round(min(cell.cost(old) for old, _ in pairs), 2),
        new_us=round(min(cell.cost(new) for _, new in pairs), 2),
        ratio=told.median,
        least=told.least,
        most=told.most,
    )


def difference_table(differences: Sequence[Difference], old: str, new: str) -> list[str]:
    """The differences, as text to read."""
    lines = [
        f"| cell | api | deltas | {old} µs | {new} µs | {new} / {old} | from - to |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {d.name} | {d.api} | {d.n} | {d.old_us:.2f} | {d.new_us:.2f} | {d.ratio:.2f} "
        f"| {d.least:.2f} - {d.most:.2f} |"
        for d in differences
    ]
    return lines


__all__ = ["Difference", "checked_out", "compare", "difference", "difference_table"]
