"""What real frames cost: recordings as they are, and long answers in the frames that real servers send.

    python tests/bench/real_frames.py            some minutes
    python tests/bench/real_frames.py --quick    a minute, and rough

`bench.py` measures long synthetic answers, whose frames are alike. Real frames differ from each other, and most real
answers have 20 to 200 of them. The shared harness sends such frames and times a floor written by hand, a client and a
worker in turn, each in a fresh process; this program runs it and prints a table: the median over the streams of a
protocol, and the lowest and highest stream.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness import PERF
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS = ("anthropic", "chat", "responses", "gemini", "ollama")


class Set(Struct, frozen=True):
    """What is sent.

    Attributes:
        what: For the table.
        streams: ``rec``: recordings as they are; ``long``: long answers in the frames of some servers.
        mode: ``one`` frame a chunk, ``few``: 2 to 8 a chunk, ``paced5000``: a frame each 5 ms.
        repeat: Calls in a process.
        rounds: Processes.
        frames: The frames of a long answer.
        at_once: Streams at once.
    """

    what: str
    streams: str
    mode: str
    repeat: int
    rounds: int
    frames: int = 2000
    at_once: int = 1


SETS = (
    Set("recordings as they are, a frame a chunk", "rec", "one", 10, 2),
    Set("real frames, 100 deltas, a frame a chunk", "long", "one", 10, 2, frames=100),
    Set("real frames, 2,000 deltas, 2 to 8 frames a chunk", "long", "few", 3, 2),
    Set("recordings as they are, paced: 20 at once, a frame each 5 ms", "rec", "paced5000", 2, 3, at_once=20),
)

QUICK = (Set("recordings as they are, a frame a chunk", "rec", "one", 3, 1),)

LINE = re.compile(
    r"(?P<stream>\S.*?)\s+floor\s.*?\| client\s+\S+ x(?P<client>[\d.]+)(?:.*\| worker\s+\S+ x(?P<worker>[\d.]+))?"
)


class Ratios(Struct, frozen=True):
    """One stream's cost, as a ratio to the floor; a worker does not measure a response that calls tools."""

    protocol: str
    client: float
    worker: float | None


def main() -> int:
    """Measure and print; 2 without the harness."""
    parser = argparse.ArgumentParser(description="What real frames cost, against the floor.")
    parser.add_argument("--perf", type=Path, default=PERF, help="where the harness is")
    parser.add_argument("--quick", action="store_true", help="one set, one round")
    args = parser.parse_args()
    drive: Path = args.perf / "real" / "drive.py"
    if not drive.exists():
        print(f"nothing was measured: the harness is not at {drive.parent}; say where with --perf", file=sys.stderr)
        return 2
    print("| what | who | " + " | ".join(name.capitalize() for name in PROTOCOLS) + " |")
    print("|---|---|" + "---:|" * len(PROTOCOLS))
    for one in QUICK if args.quick else SETS:
        for row in rows_of(one, list(measured(drive, one))):
            print(row, flush=True)
    return 0


def measured(drive: Path, one: Set) -> Iterator[Ratios]:
    """The ratios of each stream."""
    command = [sys.executable, str(drive), one.streams, one.mode, str(one.repeat), str(one.rounds), str(one.at_once)]
    tree = f"{Path(__file__).with_name('shim')}{os.pathsep}{ROOT}"
    environment = {**os.environ, "TREE": tree, "N": str(one.frames)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    for line in done.stdout.splitlines():
        found = LINE.match(line)
        if found:
            worker = found["worker"]
            yield Ratios(protocol_of(found["stream"]), float(found["client"]), float(worker) if worker else None)


def protocol_of(stream: str) -> str:
    """``openai_chat/text`` and ``chat-groq`` are of chat.

    >>> protocol_of("openai_chat/text"), protocol_of("responses plain")
    ('chat', 'responses')
    """
    return re.split(r"[-/ ]", stream.removeprefix("openai_"))[0]


def rows_of(one: Set, ratios: list[Ratios]) -> Iterator[str]:
    """The lines of the table for what was sent."""
    for who in ("client", "worker"):
        cells: list[str] = []
        for protocol in PROTOCOLS:
            found: list[float | None] = [getattr(r, who) for r in ratios if r.protocol == protocol]
            numbers = sorted(number for number in found if number is not None)
            middle = f"{statistics.median(numbers):.2g} ({numbers[0]:.2g} to {numbers[-1]:.2g})" if numbers else ""
            cells.append(middle)
        label = one.what if who == "client" else ""
        yield f"| {label} | {who} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
