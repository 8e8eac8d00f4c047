"""The guard: no ratio may be half again over its limit, however noisy the machine is.

Noise makes things slower, never faster. So the lowest of some processes is compared with the floor's lowest, and where
that is still too much, all is measured once more after a pause. Who is within at the first measurement is not measured
again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from cells import ALL, APIS, Cell, Pair
from harness import Bench
from msgspec import Struct, structs
from rounds import measure_pair
from targets import TARGETS, Target, ratio

MARGIN = 1.5
ROUNDS = 3
PAUSE = 2.0
"""Seconds before the second try: whatever was in the way may be gone."""

BUDGET = 30.0
"""Seconds, after which nothing is tried again: a loss of this size is not noise."""

GUARDED = (
    ("stream", 2_000, ALL),
    ("worker", 2_000, ALL),
    ("worker", 20_000, ("anthropic",)),
    ("bigargs", 20_000, ("anthropic",)),
    ("tools", 100, APIS),
    ("tools10", 100, ("anthropic",)),
)
"""What is seen in a second. The others share their code with these."""

STILL: dict[tuple[str, str], float] = {
    ("tools", "anthropic"): 2.2,
    ("tools", "chat"): 2.2,
    ("tools", "responses"): 2.5,
    ("tools10", "anthropic"): 2.1,
    ("tools10", "chat"): 2.5,
    ("tools10", "responses"): 2.5,
}
"""What is over its limit as yet, by cell and protocol: it is held to where it stands.

Remove a row when its limit is met.
"""


class Held(Struct, frozen=True):
    """A ratio that is held to its limit.

    Attributes:
        target: Which of them.
        api: In which protocol.
        ratio: The lowest of ours in lowest of the floor's.
        tries: How many processes it took.
    """

    target: Target
    api: str
    ratio: float
    tries: int

    @property
    def bound(self) -> float:
        """From which on it fails."""
        return bound_of(self.target, self.api)

    @property
    def is_over(self) -> bool:
        """Whether it fails."""
        return self.ratio > self.bound

    def __str__(self) -> str:
        word = "OVER" if self.is_over else "ok"
        what = f"{self.target.what}, {self.api}"
        return f"{word:5} {what}: {self.ratio:.2f}, at most {self.bound:.2f} ({self.tries})"


def bound_of(target: Target, api: str) -> float:
    """The limit, and half of it."""
    return MARGIN * STILL.get((target.cell.name, api), target.limit_for(api) or 0.0)


def guarded(apis: Sequence[str] = ALL) -> list[tuple[Target, str]]:
    """What is measured, in which protocols."""
    return [
        (target, api)
        for name, n, of in GUARDED
        for target in TARGETS
        if (target.cell.name, target.cell.n) == (name, n) and target.value is ratio
        for api in of
        if api in apis
    ]


def hold(
    target: Target,
    api: str,
    measure: Callable[[], Pair],
    is_late: Callable[[], bool] = bool,
    pause: Callable[[float], None] = time.sleep,
) -> Held:
    """Measure until the ratio is within its bound, or it is certain that it is not."""
    pairs = [measure()]
    while (held := Held(target, api, lowest(pairs), len(pairs))).is_over:
        if len(pairs) == 2 * ROUNDS or is_late():
            break
        if len(pairs) == ROUNDS:
            pause(PAUSE)
        pairs.append(measure())
    return held


def lowest(pairs: Sequence[Pair]) -> float:
    """The lowest of ours in the lowest of the floor's."""
    return min(pair.ours.cpu_s for pair in pairs) / min(pair.floor.cpu_s for pair in pairs)


def hold_all(bench: Bench, apis: Sequence[str] = ALL) -> list[Held]:
    """Everything that is guarded.

    Raises:
        RuntimeError: A client failed, or received something else than what was sent.
    """
    held: list[Held] = []
    end = time.monotonic() + BUDGET

    def is_late() -> bool:
        return time.monotonic() > end

    for target, api in guarded(apis):
        cell = briefly(target.cell)

        def measure(cell: Cell = cell, api: str = api) -> Pair:
            return measure_pair(bench, cell, api)

        held.append(hold(target, api, measure, is_late))
        print(held[-1], file=sys.stderr, flush=True)
    return held


def briefly(cell: Cell) -> Cell:
    """With as few calls as still give a median."""
    return structs.replace(cell, repeat=min(cell.repeat, 7 if cell.n <= 2_000 else 3))


__all__ = ["BUDGET", "MARGIN", "ROUNDS", "Held", "bound_of", "guarded", "hold", "hold_all", "lowest"]
