"""Changes to JSON and to bytes, by chance with a fixed seed.

What programs of others, damaged disks and attackers make of it.
"""

from __future__ import annotations

import json
import random
from typing import Any, cast

from rxworker.messages import Json

NEW: list[Json] = [None, 1, "x", {"a": 1}, ["x"]]
ODD: list[Json] = [None, 0, -1, 2.5, True, "", "x", "null", [], {}, [None], {"type": "x"}, 10**20]
# What a tool is given is the model's own, so that what is new there is no addition of the protocol.
GIVEN = ("args", "input", "arguments")

EXTREME: list[Json] = [
    *ODD, 1, 2, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1e300, 5e-324, float("inf"), float("nan"),
    "\0", "half \ud83d", "é" * 300,
    "deleted", "running", "paused", [[[[]]]], {"": {}}, "~2", "run-1", [0, 0], [-1], [10**12],
]  # fmt: skip
"""Also values at the ends of what machines hold, and texts that mean something."""


def mixed(chance: random.Random, value: Any) -> Any:
    """The same with the members of objects in another order, after an unknown one."""
    if isinstance(value, list):
        return [mixed(chance, one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members: list[tuple[str, Any]] = [
        (name, one if name in GIVEN and isinstance(one, dict) else mixed(chance, one))
        for name, one in cast("dict[str, Any]", value).items()
    ]
    chance.shuffle(members)
    return dict([("brand_new", chance.choice(NEW)), *members])


def odd(chance: random.Random, value: Any, values: list[Json] = ODD, share: float = 0.02) -> Any:
    """The same with something odd in one place of fifty."""
    if chance.random() < share:
        return chance.choice(values)
    if isinstance(value, list):
        return [odd(chance, one, values, share) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: odd(chance, one, values, share) for name, one in members if chance.random() > share / 2}
    return value


def mutant_of_json(chance: random.Random, data: bytes) -> bytes:
    """JSON with something odd in some places."""
    return json.dumps(odd(chance, json.loads(data), EXTREME, chance.choice([0.01, 0.05]))).encode()


def mutant_of_bytes(chance: random.Random, data: bytes) -> bytes:
    """Bytes with up to three of them changed, cut out, doubled, moved or added.

    Or with everything behind a place cut off.
    """
    for _ in range(chance.randint(1, 3)):
        at, size = chance.randrange(len(data) + 1), chance.choice([1, 2, 9, 99])
        some = data[at : at + size]
        kind = chance.randrange(6)
        if kind == 0:
            some = bytes(byte ^ (1 << chance.randrange(8)) for byte in some)
        elif kind == 1:
            some = b""
        elif kind == 2:
            some += some
        elif kind == 3:
            some = chance.randbytes(len(some))
        elif kind == 4:
            some = chance.choice(
                [b"\xff", b"\0", b"\n", b"[" * 2000, b'{"a":' * 2000, b'"', b"\\ud83d", b"-", b"9" * 30]
            )
        else:
            return data[:at]
        data = data[:at] + some + data[at + size :]
    return data


def mutant_of_lines(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    """Lines of JSON of which some are changed, missing, doubled or exchanged."""
    lines = [*lines]
    for _ in range(chance.randint(1, 2)):
        if not lines:
            break
        at = chance.randrange(len(lines)) if chance.random() < 0.7 else chance.choice([0, -1])
        kind = chance.randrange(8)
        if kind < 4:
            try:
                lines[at] = mutant_of_json(chance, lines[at])
            except (ValueError, RecursionError):  # it was changed before
                lines[at] = mutant_of_bytes(chance, lines[at])
        elif kind == 4:
            lines[at] = mutant_of_bytes(chance, lines[at])
        elif kind == 5:
            del lines[at]
        elif kind == 6:
            lines.insert(at, lines[at])
        else:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    return lines
