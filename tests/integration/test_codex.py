"""The session file that Codex itself writes, with a local server in place of the model."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from rxworker.log import MemoryLog, Replica
from rxworker.tap import tap_each
from rxworker.tap.sources import Codex, session_files
from rxworker.testing import ReplayServer, call, say, think
from rxworker.testing.conformance import lint
from tests.integration.npm import node_with

CONFIG = """\
model = "gpt-5.2"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{}/v1"
wire_api = "responses"
[analytics]
enabled = false
"""
PROGRAM = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
LOOK = think("Hm.") + say("I look. ") + call("exec_command", cmd="echo hello") + call("exec_command", cmd="exit 2")


async def codex(node: str, script: str, home: Path, *arguments: str) -> None:
    """Run it, with nothing of this machine's own Codex."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home)}
    process = await asyncio.create_subprocess_exec(
        *(node, script, *arguments),
        env=env,
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 60)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode == 0, output.decode()


async def test_a_session_of_two_prompts_has_the_figures_of_codex(tmp_path: Path) -> None:
    node, script = node_with(Path(__file__).parent / "codex", "@openai/codex/bin/codex.js")
    home = tmp_path / "home"
    home.mkdir()
    async with ReplayServer([LOOK, say("One word."), say("And that is all.")]) as server, MemoryLog() as log:
        (home / "config.toml").write_text(CONFIG.format(server.base_url))
        await codex(node, script, home, *PROGRAM, "Look at it.")
        await codex(node, script, home, PROGRAM[0], "resume", "--last", *PROGRAM[1:], "Is there more?")
        each = tap_each(session_files(home / "sessions", follow=False), Codex(), log=log)
        await each.ended()
        rows = {info.run_id[-2:]: info.row for info in await log.list()}
        assert {name: (row.status, row.turns, row.tool_calls, row.tool_errors) for name, row in rows.items()} == {
            "-1": ("finished", 2, 2, 1),
            "-2": ("finished", 1, 0, 0),
        }
        assert len({row.labels["conversation"] for row in rows.values()}) == 1
        [path] = (home / "sessions").rglob("*.jsonl")
        total = [each for each in map(payload, path.read_text().splitlines()) if "thread_token_usage" in each][-1]
        found = sum(row.input_tokens for row in rows.values()), sum(row.output_tokens for row in rows.values())
        assert found == (total["thread_token_usage"]["input_tokens"], total["thread_token_usage"]["output_tokens"])
        for info in await log.list():
            replica = Replica(log, info.run_id)
            await replica.ended()
            assert lint([*replica.hub.history.records(0)]) == []


def payload(line: str) -> dict[str, Any]:
    return json.loads(line)["payload"]
