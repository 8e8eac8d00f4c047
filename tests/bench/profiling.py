"""Where a delta spends its time: the profile of a client's process, by room.

What is written in C has no file of its own, so its time goes to the rooms that called it. The profiler itself takes
time, at each call, so that much that is small looks larger than it is: compare rooms, and leave the sum to the
benchmark.
"""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from cells import Cell
from harness import HERE, Bench
from msgspec import Struct

Function = tuple[str, int, str]
"""Its file, its line and its name."""

Calls = tuple[int, int, float, float]
"""As the profiler writes them.

Calls that are not recursive, all calls, seconds within, seconds with what was called.
"""

Stats = Mapping[Function, tuple[int, int, float, float, Mapping[Function, Calls]]]

ROOMS = (
    "framing",
    "providers",
    "operators",
    "timeline",
    "hub",
    "worker",
    "transport",
    "events",
    "messages",
    "tools",
    "hooks",
)
LIBRARIES = ("aiohttp", "reactivex", "asyncio", "msgspec", "uvloop")
NO_WORK = ("<built-in method gc.collect>", "<method 'poll' of 'select.epoll' objects>")
"""What the harness does between two calls, and waiting."""


class Share(Struct, frozen=True):
    """What something took.

    Attributes:
        name: The room, or the function.
        us: Microseconds by the delta, the loop or the stream.
        calls: Calls by the same.
    """

    name: str
    us: float
    calls: float


class Profile(Struct, frozen=True):
    """Where the time went.

    Attributes:
        rooms: By room, the longest first.
        functions: By function, the longest first.
    """

    rooms: list[Share]
    functions: list[Share]


def profile(bench: Bench, cell: Cell, api: str) -> Profile:
    """Run rxworker under the profiler.

    Raises:
        RuntimeError: It failed, or received something else than what was sent.
    """
    with tempfile.TemporaryDirectory(prefix="rxworker-profile-") as folder:
        file = Path(folder) / "stats"
        bench.ours(cell.variant, api, [*cell.extra, "--profile", str(file)])
        stats = cast(Stats, marshal.loads(file.read_bytes()))
    each = {"delta": cell.n, "stream": cell.streams}.get(cell.per, 1)
    return profile_of(stats, each * cell.repeat, bench.tree)


def profile_of(stats: Stats, units: int, tree: Path) -> Profile:
    """What the profiler wrote, by room and by function, divided by what the cell counts in."""
    stats = {of: told for of, told in stats.items() if of[2] not in NO_WORK}
    seconds: dict[str, float] = {}
    calls: dict[str, int] = {}
    for function, (_, count, own, _, callers) in stats.items():
        if function[0] == "~" and callers:
            for caller, (_, times, within, _) in callers.items():
                name = room_of(caller, tree)
                seconds[name] = seconds.get(name, 0.0) + within
                calls[name] = calls.get(name, 0) + times
        else:
            name = room_of(function, tree)
            seconds[name] = seconds.get(name, 0.0) + own
            calls[name] = calls.get(name, 0) + count
    functions = [_share(_name(function, tree), own, count, units) for function, (_, count, own, _, _) in stats.items()]
    rooms = [_share(name, seconds[name], calls[name], units) for name in seconds]
    return Profile(sorted(rooms, key=_us, reverse=True), sorted(functions, key=_us, reverse=True))


def room_of(function: Function, tree: Path) -> str:
    """The room of the library, the library, or ``other``."""
    path = Path(function[0])
    if path.is_relative_to(tree / "rxworker"):
        room = path.relative_to(tree / "rxworker").parts[0]
        return room if room in ROOMS else "other"
    if path.is_relative_to(HERE) or path.name in ("_common.py", "fixtures.py"):
        return "the bench"
    return next((name for name in LIBRARIES if name in path.parts), "other")


def _name(function: Function, tree: Path) -> str:
    file, line, name = function
    if file == "~":
        return name
    path = Path(file)
    within = path.relative_to(tree) if path.is_relative_to(tree) else Path(*path.parts[-2:])
    return f"{within}:{line} {name}"


def _share(name: str, seconds: float, calls: int, units: int) -> Share:
    return Share(name, round(seconds * 1e6 / units, 4), round(calls / units, 3))


def _us(share: Share) -> float:
    return share.us


def profile_lines(told: Profile, per: str = "delta", functions: int = 20) -> list[str]:
    """A profile to read: the packages, and the functions that take longest."""
    whole = sum(share.us for share in told.rooms) or 1.0
    lines = [f"| room | µs by the {per} | share | calls |", "|---|---:|---:|---:|"]
    lines += [f"| {share.name} | {share.us:.3f} | {share.us / whole:.0%} | {share.calls:.2f} |" for share in told.rooms]
    lines += ["", f"| function | µs by the {per} | calls |", "|---|---:|---:|"]
    return [*lines, *_functions(told.functions[:functions])]


def _functions(shares: Sequence[Share]) -> list[str]:
    return [f"| `{share.name}` | {share.us:.3f} | {share.calls:.2f} |" for share in shares]


__all__ = ["Function", "Profile", "Share", "Stats", "profile", "profile_lines", "profile_of"]
