"""Every example runs as a process of its own, against a server that replays answers, and complains of nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rxworker.testing import ReplayServer, Reply, call, say

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TESTS = ROOT / "tests" / "examples"

ANSWERS: dict[str, Sequence[Reply]] = {
    "weather": [call("get_weather", city="Kyoto") + call("get_weather", city="Oslo"), say("Both have 17 °C.")],
    "three_views": [say("The moon is a stone that shines.")],
    "custom_operator": [say("An old pond\na frog jumps in\nthe sound of water")],
    "permission": [
        call("delete_file", path="notes.txt") + call("delete_file", path="letters.txt"),
        say("notes.txt is gone, letters.txt is kept."),
    ],
    "bookshelf": [
        call("add_book", title="Walden") + call("add_book", title="The Pond"),
        call("read_all"),
        say("Ponds."),
    ],
    "client_only": [say("red green blue")],
    "board_run": [
        call("get_weather", city="Kyoto") + call("get_weather", city="Oslo"),
        say("Both have 17 °C. It is clear."),
    ],
    "board_team": [say("An old pond")] * 3,
    "board_moderator": [
        say("I am the assistant. Our lawyer has gone home."),
        say("The password is 493021. Do not pass the password on."),
        say("Good morning!"),
    ],
}

OUTPUT = {
    "weather": "Both have 17 °C.\n"
    "Usage(input_tokens=20, output_tokens=10, cache_read_tokens=0, cache_creation_tokens=0)\n",
    "three_views": "The moon is a stone that shines.\ntokens: 15\nrecords: 21\n"
    "detached: OSError: the display is gone\n",
    "custom_operator": "1  An old pond\n2  a frog jumps in\n3  the sound of water\n",
    "permission": "delete_file notes.txt? yes\ndelete_file letters.txt? no\nnotes.txt is gone, letters.txt is kept.\n",
    "bookshelf": "... reads Walden, 1 of 2\n... reads The Pond, 2 of 2\nPonds.\n['Walden', 'The Pond']\n",
    "client_only": "['red', 'green', 'blue']\n",
    "board_run": """\
Status         finished
Tokens         30
Cost           0.00014 USD
Calls
  get_weather  ██████████████████████████████████████████  2
Last sentence  It is clear.
""",
    "board_team": """\
Running   0
Finished
  acme    ███████████████████████████████████████████████  2
  globex  ████████████████████████                         1
Tokens
  acme    ██████████████████████████████████████████████  30
  globex  ███████████████████████                         15
Cost
  acme    █████████████████████████████████████  0.00014 USD
  globex  ██████████████████                     0.00007 USD
""",
    "board_moderator": """\
run-000000000000 needs a look
Findings (!)
  run-000000000000  █████████████████████████████████████  2 (!)
  run-000000000001  ██████████████████                     1
To look at
  run-000000000001  Our lawyer has gone home.
  run-000000000000  The password is [number]. Do not pass the password on.
""",
}


def run_example(name: str, base_url: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": "none",
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "none",
        "PYTHONUTF8": "1",
        "NO_PROXY": "127.0.0.1",
    }
    return subprocess.run(
        # Development mode warns of whatever is left open.
        [sys.executable, "-X", "dev", str(EXAMPLES / f"{name}.py")],
        env=os.environ | settings,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def numbered(text: str) -> str:
    """The text with the ids of runs, which are made at random, in the order in which they occur."""
    ids = list(dict.fromkeys(re.findall(r"run-[0-9a-f]{12}", text)))
    return re.sub(r"run-[0-9a-f]{12}", lambda found: f"run-{ids.index(found[0]):012}", text)


SLOW = re.compile(r"Executing <.+> took [\d.]+ seconds")


def test_every_example_is_run() -> None:
    """Those that are drawn by somebody else's kit have tests of their own."""
    drawn = {path.stem for path in EXAMPLES.iterdir() if (TESTS / f"test_{path.stem}.py").exists()}
    drawn |= {"fastapi_app"}  # in the browser: tests/ui/browser/test_asgi.py
    programs = {path.stem for path in EXAMPLES.iterdir() if path.is_file()}
    assert set(ANSWERS) == set(OUTPUT) == programs - drawn
    assert {"notebook", "textual_view", "nicegui_view"} <= drawn


def test_an_example_for_a_kit_is_short() -> None:
    views = list(EXAMPLES.glob("*_view.py"))
    assert views
    assert [p.name for p in views if len(p.read_text(encoding="utf-8").splitlines()) >= 40] == []


@pytest.mark.product(4)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_example_prints_what_it_should_and_warns_of_nothing(name: str) -> None:
    with ReplayServer(list(ANSWERS[name])) as server:
        process = run_example(name, server.base_url)
    # How long a step of the event loop takes depends on the machine.
    warned = [line for line in process.stderr.splitlines() if not SLOW.fullmatch(line)]
    assert (numbered(process.stdout), warned, process.returncode) == (OUTPUT[name], [], 0)
