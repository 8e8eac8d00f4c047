"""Compare tools that answer later: a tool that takes three seconds, and a call meanwhile that a person approves.

    python examples/compare/background.py                     all, in temporary environments
    python examples/compare/background.py rxworker strands    some of them
    python examples/compare/background.py --folder F          environments in a folder

Each program, beside this file, runs the slow tool in the background, in the way that its documentation gives. The model
calls it, writes a text, and calls a tool that needs an approval, which a person gives after a second. Its last answer
depends on whether it has the result of the slow tool.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TypedDict

import guards
import kit

from rxworker.testing import ReplayServer, call, say
from rxworker.testing.server import AnswerLike, Received

HERE = Path(__file__).parent
PEERS: dict[str, tuple[str, ...]] = {
    "rxworker": (),
    # The harness comes first, so that pip takes its newest release.
    "pydantic_ai": ("pydantic-ai-harness", "pydantic-ai-slim[openai]"),
    "strands": ("strands-agents[openai]",),
    "ag2": ("ag2[openai]",),
}
"""What pip installs for each."""


class Seen(TypedDict):
    """What a program reports: its last answer, and what has happened when."""

    answer: str
    seen: list[tuple[str, float]]


def answer(request: Received) -> AnswerLike:
    """What the model answers."""
    known = json.dumps(request.body)
    if "paid 1" in known:
        return say(f"It is paid, and there is {kit.FOUND if kit.FOUND in known else 'nothing yet'}.")
    if '"role": "tool"' in known:
        return say("I look.") + call("pay")
    return call("look")


def run_program(python: Path, name: str, folder: Path) -> Seen | str:
    """What a program reports, or the last line of what it printed."""
    with ReplayServer(answer) as server:
        port = server.base_url.rpartition(":")[2]
        own = {"COMPARE_PORT": port, "COMPARE_FOLDER": str(folder), "NO_PROXY": kit.HOST, "OPENAI_API_KEY": "none"}
        command = [python, "-W", "ignore", HERE / f"background_{name}.py"]
        done = subprocess.run(
            command, env={**os.environ, **own}, cwd=folder, capture_output=True, text=True, timeout=60
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else (done.stderr.strip() or "nothing").splitlines()[-1]


def first(seen: Seen | str, what: str) -> str:
    """When something happened first."""
    if isinstance(seen, str):
        return f"`{seen}`"
    return next((f"{at:.2f}" for name, at in seen["seen"] if name == what), "—")


def fate(seen: Seen | str) -> str:
    """What has become of the slow call."""
    if isinstance(seen, str):
        return f"`{seen}`"
    return ", ".join(f"{name} at {at:.2f}" for name, at in seen["seen"] if name in ("begun", "cancelled", "ended"))


def last(seen: Seen | str) -> str:
    """The last answer, and when it came."""
    return f"`{seen}`" if isinstance(seen, str) else f"{seen['answer']} ({first(seen, 'answered')})"


def main() -> None:
    """Make the environments, run the programs, print the table."""
    with guards.environments("Compare tools that answer later.", PEERS) as (folder, pythons):
        found = {name: run_program(python, name, folder) for name, python in pythons.items()}
    print("| seconds | " + " | ".join(found) + " |\n" + "|---" * (len(found) + 1) + "|")
    for title, row in (
        ("the first text", [first(each, "text") for each in found.values()]),
        ("the run has paused for the approval", [first(each, "paused") for each in found.values()]),
        ("the slow call", [fate(each) for each in found.values()]),
        ("the last answer", [last(each) for each in found.values()]),
    ):
        print(f"| {title} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
