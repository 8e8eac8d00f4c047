"""What the programs of the comparison share: consumers, tools and measurements.

It needs the standard library alone, since the environment of every peer runs it. A program has some of the functions of
`Program`, and calls ``kit.main``.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypedDict, cast

WORDS = 200
TEXT = "".join(f"word{number:03} " for number in range(WORDS))
PIECE = len("word000 ")
"""The model's answer, and the characters of each of its deltas."""
HALF = WORDS // 2

DELTAS = 2000
ROUNDS = 5
LIMIT = 8.0
HOST, PORT = "127.0.0.1", int(os.environ.get("COMPARE_PORT", "0"))
URL = f"http://{HOST}:{PORT}"
FOLDER = Path(os.environ.get("COMPARE_FOLDER", "."))


class Reader:
    """One consumer of a run.

    Args:
        raises_at: The number of the delta at which it raises; 0: never.
        takes: How many seconds it takes for each delta.
    """

    def __init__(self, *, raises_at: int = 0, takes: float = 0.0) -> None:
        self.text = ""
        self._count = 0
        self._raises_at = raises_at
        self._takes = takes

    async def read(self, text: str) -> None:
        """Take one delta."""
        self.text += text
        self._count += 1
        if self._count == self._raises_at:
            raise OSError("the consumer is broken")
        if self._takes:
            await asyncio.sleep(self._takes)


Ended = Callable[[str], None]
"""Takes the answer, at the moment in which the program has it."""

Tool = Callable[[int], Awaitable[str]]


class Program(Protocol):
    """What a peer's program has. A function that it lacks is a thing that the peer does not offer.

    Attributes:
        PATH: The path of the protocol that it speaks.
    """

    PATH: str

    async def watch(self, readers: list[Reader], ended: Ended) -> None:
        """Run once, and give the deltas of the text to every reader. Return when all have read."""
        ...

    async def single(self, reader: Reader, ended: Ended) -> None:
        """The same with one consumer, where there are no runs to watch."""
        ...

    async def late(self) -> str:
        """Run to the end, and then read what a new consumer receives of it."""
        ...

    async def reload(self, ended: Ended) -> str:
        """Read `HALF` of the deltas, stop, and read with a new consumer while the run goes on.

        What the new one receives.
        """
        ...

    async def work(self, tools: list[Tool], again: bool) -> str:
        """Run with tools, or continue the run whose process was killed."""
        ...

    async def cancel(self, cancelling: Callable[[], None]) -> None:
        """Run, and cancel at the first text."""
        ...

    async def count(self) -> int:
        """Run once with one consumer, in the way that costs the peer the least: the characters of the text."""
        ...


class Outcome(TypedDict, total=False):
    """What a case has shown: what the program had at its end, and what the consumers received."""

    answer: str
    seen: list[str]
    seconds: float
    usual: float
    error: str
    missing: bool
    ratio: float
    milliseconds: float


async def observe(program: Program, *readers: Reader) -> Outcome:
    """Run once with these consumers."""
    outcome = Outcome(answer="", error="")
    begun = time.perf_counter()

    def ended(answer: str) -> None:
        outcome.update(answer=answer, seconds=time.perf_counter() - begun)

    try:
        async with asyncio.timeout(LIMIT):
            if hasattr(program, "watch"):
                await program.watch(list(readers), ended)
            else:
                await program.single(readers[0], ended)
    except Exception as error:
        outcome["error"] = named(error)
    outcome["seen"] = [reader.text for reader in readers]
    return outcome


def named(error: Exception) -> str:
    """The error in short."""
    return "waits" if isinstance(error, TimeoutError) else type(error).__name__


FOUND = "a tree by the lake"
"""The result of the tool that takes three seconds."""


class Times:
    """What has happened in a program with a slow tool and an approval, and when."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._seen: list[tuple[str, float]] = []

    def note(self, what: str) -> None:
        """Something has happened."""
        self._seen.append((what, round(time.perf_counter() - self._begun, 2)))

    async def look(self) -> str:
        """Look for three seconds."""
        self.note("begun")
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            self.note("cancelled")
            raise
        self.note("ended")
        return FOUND

    async def pay(self) -> str:
        """Pay."""
        self.note("paid")
        return "paid 1"

    async def approve(self) -> None:
        """A person decides, which takes a second."""
        self.note("asked")
        await asyncio.sleep(1)

    def report(self, answer: str) -> None:
        """Print all of it as a line of JSON, with the last answer."""
        self.note("answered")
        print(json.dumps({"answer": answer, "seen": self._seen}), flush=True)


async def slow(program: Program) -> Outcome:
    """The same with a slow consumer, and without: the first run of all imports and connects."""
    await observe(program, Reader(), Reader())
    usual = await observe(program, Reader(), Reader())
    outcome = await observe(program, Reader(takes=0.01), Reader())
    outcome["usual"] = usual.get("seconds", 0)
    return outcome


async def late(program: Program) -> Outcome:
    """A consumer that comes after the end."""
    try:
        async with asyncio.timeout(LIMIT):
            return Outcome(seen=[await program.late()], error="")
    except Exception as error:
        return Outcome(seen=[""], error=named(error))


async def reload(program: Program) -> Outcome:
    """A page that is closed in the middle of a run and opened again."""
    outcome = Outcome(answer="", error="", seen=[""])
    try:
        async with asyncio.timeout(LIMIT):
            outcome["seen"] = [await program.reload(lambda answer: outcome.update(answer=answer))]
    except Exception as error:
        outcome["error"] = named(error)
    return outcome


def effects(folder: Path) -> list[str]:
    """The names of the tools, in the order in which their effects happened."""
    file = folder / "effects"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def happen(name: str) -> None:
    """The effect of a tool, which outlives the process."""
    with (FOLDER / "effects").open("a", encoding="utf-8") as file:
        file.write(name + "\n")


async def pay(number: int) -> str:
    """Pay."""
    happen("pay")
    return f"paid {number}"


async def book(number: int) -> str:
    """Book."""
    happen("book")
    return f"booked {number}"


async def order(number: int) -> str:
    """Order."""
    if "order" not in effects(FOLDER):
        happen("order")
        await asyncio.sleep(0.5)  # the others have ended, and what is to be stored is stored
        os.kill(os.getpid(), signal.SIGKILL)
    happen("order")
    return f"ordered {number}"


async def work(program: Program, *, again: bool) -> Outcome:
    """The run with tools: its process is killed in the third, and another process continues it."""
    try:
        async with asyncio.timeout(4 * LIMIT):
            return Outcome(answer=await program.work([pay, book, order], again), error="")
    except Exception as error:
        return Outcome(answer="", error=named(error))


async def cancel(program: Program) -> Outcome:
    """Cancel, and stay alive: only the cancel may close the connection."""
    await program.cancel(lambda: print("cancelling", flush=True))
    await asyncio.to_thread(sys.stdin.read)
    return Outcome(error="")


def read_bare(path: str) -> None:
    """Read an answer with as little as possible: read the bytes, split the lines, parse the JSON of each."""
    connection = http.client.HTTPConnection(HOST, PORT)
    body = json.dumps({"model": "m", "stream": True})
    connection.request("POST", path, body, {"content-type": "application/json"})
    rest = b""
    with connection.getresponse() as response:
        while piece := response.read1(65536):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    json.loads(line[6:])
    connection.close()


async def cpu(program: Program) -> Outcome:
    """The processor time of a run with one consumer: the median of several."""
    spent: list[float] = []
    bare: list[float] = []
    for _ in range(ROUNDS + 1):  # the first one imports and connects
        begun = time.process_time()
        count = await program.count()
        between = time.process_time()
        read_bare(program.PATH)
        spent.append(between - begun)
        bare.append(time.process_time() - between)
        if count != DELTAS * PIECE:
            return Outcome(error=f"read {count} characters")
    own, floor = statistics.median(spent[1:]), statistics.median(bare[1:])
    return Outcome(error="", milliseconds=own * 1000, ratio=own / floor)


CASES: dict[str, tuple[str, Callable[[Program], Awaitable[Outcome]]]] = {
    "two": ("watch", lambda program: observe(program, Reader(), Reader())),
    "raises": ("watch", lambda program: observe(program, Reader(raises_at=5), Reader())),
    "slow": ("watch", slow),
    "late": ("late", late),
    "reload": ("reload", reload),
    "kill": ("work", lambda program: work(program, again=False)),
    "again": ("work", lambda program: work(program, again=True)),
    "cancel": ("cancel", cancel),
    "overloaded": ("count", lambda program: observe(program, Reader())),
    "broken": ("count", lambda program: observe(program, Reader())),
    "cpu": ("count", cpu),
}
"""For each case the function that a program needs, and what is done with it."""


def main(module: ModuleType) -> None:
    """Run the case that the command line names, and print its outcome as a line of JSON."""
    program = cast(Program, module)
    needed, case = CASES[sys.argv[1]]
    if not hasattr(program, needed):
        outcome = Outcome(missing=True)
    else:

        async def run() -> Outcome:
            return await case(program)

        outcome = asyncio.run(run())
    print(json.dumps(outcome), flush=True)
    os._exit(0)  # nothing that a peer left open holds the process
