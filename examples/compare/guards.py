"""Compare the gate of rxworker with the guards of peers: what a consumer receives of a stream with a secret, and when.

    python examples/compare/guards.py                     all, in temporary environments
    python examples/compare/guards.py rxworker litellm    some of them
    python examples/compare/guards.py --folder F          environments in a folder

Each program, beside this file, has the guard that its documentation gives for streams, with a check that takes 100 ms.
The model answers with the secret in its text, then calls a tool with the secret in its arguments, then gives a clean
answer of 100 deltas in about half a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TypedDict

from rxworker.testing import ReplayServer, Reply, ServedResponse, call, say
from rxworker.testing.server import AnswerLike, Received

HERE = Path(__file__).parent
SECRET = "hunter2"
PEERS: dict[str, tuple[str, ...]] = {
    "rxworker": (),
    "pydantic_ai": ("pydantic-ai-slim[openai]", "pydantic-ai-harness"),
    "litellm": ("litellm[proxy]",),
}
"""What pip installs for each."""

TEXT = say("The password of the house by the river is " + SECRET + ", and it is old.")
CALL = call("look", where=SECRET)
CLEAN = Reply("word " * 100, chunk=5)


class Seen(TypedDict):
    """What a program reports: all that its consumer received, and when the first and the last text came."""

    events: str
    first: float
    last: float


def answers(case: str) -> AnswerLike:
    """What the model answers; a call is answered once."""
    if case == "clean":
        return ServedResponse.from_reply(CLEAN, pace=0.005)
    return CALL if case == "arguments" else TEXT


def environment(folder: Path, name: str, installs: tuple[str, ...]) -> Path:
    """The Python of an environment with the newest versions of a peer."""
    if not installs:
        return Path(sys.executable)
    python = folder / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", *installs]
    subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
    return python


@contextlib.contextmanager
def environments(description: str, peers: dict[str, tuple[str, ...]]) -> Generator[tuple[Path, dict[str, Path]]]:
    """A folder, and the Pythons of the peers that the command line names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("peers", nargs="*", default=list(peers), help=f"of {', '.join(peers)}")
    parser.add_argument("--folder", type=Path, help="where the environments are kept")
    arguments = parser.parse_args()
    if set(arguments.peers) - set(peers):
        parser.error(f"the peers are {', '.join(peers)}")
    with tempfile.TemporaryDirectory(prefix="compare-") as made:
        folder = arguments.folder or Path(made)
        folder.mkdir(exist_ok=True)
        yield folder, {name: environment(folder, name, peers[name]) for name in arguments.peers}


def run_case(python: Path, name: str, case: str, folder: Path) -> Seen | str:
    """What a program reports of a case, or the last line of what it printed."""
    calls = 0

    def answer(_: Received) -> AnswerLike:
        nonlocal calls
        calls += 1
        return answers(case) if case != "arguments" or calls == 1 else say("Done.")

    with ReplayServer(answer) as server:
        own = {"GUARD_URL": server.base_url, "GUARD_FOLDER": str(folder), "NO_PROXY": "127.0.0.1"}
        command = [python, "-W", "ignore", HERE / f"guard_{name}.py"]
        done = subprocess.run(command, env={**os.environ, **own}, cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else (done.stderr.strip() or "nothing").splitlines()[-1]


def shown(case: str, seen: Seen | str) -> str:
    """How a case is shown: whether the secret came, or the milliseconds of the first and of the last text."""
    if isinstance(seen, str):
        return f"`{seen}`"
    if case == "clean":
        return f"{seen['first'] * 1000:.0f}, {seen['last'] * 1000:.0f}"
    received = next((SECRET[:end] for end in range(len(SECRET), 3, -1) if SECRET[:end] in seen["events"]), "")
    return f"receives `{received}`" if received else "receives none of it"


def main() -> None:
    """Make the environments, run the programs, print the table."""
    titles = {"text": "text", "arguments": "arguments of a call", "clean": "ms until the first text, and the last"}
    with environments("Compare the gate of rxworker with the guards of peers.", PEERS) as (folder, pythons):
        print("| | " + " | ".join(pythons) + " |\n" + "|---" * (len(pythons) + 1) + "|")
        for case, title in titles.items():
            cells = [shown(case, run_case(python, name, case, folder)) for name, python in pythons.items()]
            print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
