"""``rxworker acp`` as editors start it: the official clients of npm and of Python, and the signals of the system."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import acp
import pytest
from acp.schema import AllowedOutcome, RequestPermissionResponse, TextContentBlock

from rxworker.cli import main
from tests.integration.npm import node_with

HERE = Path(__file__).parent / "acp"
COMMAND = [sys.executable, "-m", "rxworker", "acp", "desk:make_worker"]
PATIENCE = 60.0


@pytest.fixture
def node() -> str:
    return node_with(HERE, "@agentclientprotocol")[0]


def edit_with(node: str, *steps: list[Any], options: list[str]) -> Any:
    """What the editor of npm has seen."""
    command = [node, "editor.mjs", json.dumps(steps), *COMMAND, *options]
    done = subprocess.run(command, cwd=HERE, capture_output=True, timeout=PATIENCE, text=True)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["exit"] == 0, done.stderr
    return seen


@pytest.mark.slow
def test_the_client_of_npm_edits_cancels_and_loads_a_session(node: str, tmp_path: Path) -> None:
    options = ["--log", f"sqlite:{tmp_path / 'runs.db'}"]
    seen = edit_with(
        node, ["new", "/home/me"], ["prompt", "edit"], ["cancel after", "Well", "wait"], ["raw", "session/nothing", {}],
        ["prompt", "hi"], options=options,
    )  # fmt: skip
    opened, edited, cancelled, unknown, greeted = seen["results"]
    assert edited == greeted == {"stopReason": "end_turn"}
    assert cancelled == {"stopReason": "cancelled"}
    assert unknown["code"] == -32601
    kinds = [update["sessionUpdate"] for update in seen["updates"]]
    assert {"agent_thought_chunk", "plan", "tool_call", "tool_call_update"} < set(kinds)
    (question,) = seen["questions"]
    assert question["toolCall"]["content"][0]["newText"] == "x = 2"
    diff = {"type": "diff", "path": "/home/me/a.py", "oldText": "x = 1", "newText": "x = 2"}
    assert diff in [part for u in seen["updates"] for part in u.get("content", ()) if "path" in part]

    session = opened["sessionId"]
    again = edit_with(node, ["list"], ["load", "/home/me", session], ["prompt", "hi"], options=options)
    assert [each["sessionId"] for each in again["results"][0]["sessions"]] == [session]
    assert again["results"][1:] == [{}, {"stopReason": "end_turn"}]
    shown = [u["content"]["text"] for u in again["updates"] if u["sessionUpdate"] == "user_message_chunk"]  # fmt: skip
    assert shown == ["edit", "wait", "hi"]
    assert diff in [part for u in again["updates"] for part in u.get("content", ()) if "path" in part]  # fmt: skip


class Editor:
    """An editor that allows everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []

    async def request_permission(self, *_: Any, **__: Any) -> RequestPermissionResponse:
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id="allow_always"))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)


async def test_the_client_of_python_sees_the_edit_and_nothing_else_is_on_standard_output() -> None:
    editor = Editor()
    # The package would end a process with a signal that takes more than two seconds for its end.
    transport = {"stderr": asyncio.subprocess.DEVNULL, "shutdown_timeout": PATIENCE}
    async with (
        asyncio.timeout(PATIENCE),
        acp.spawn_agent_process(
            cast("acp.Client", editor), *COMMAND, cwd=HERE, env=dict(os.environ), transport_kwargs=transport
        ) as (agent, process),
    ):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(HERE), mcp_servers=[])
        edit = TextContentBlock(type="text", text="edit")
        told = await agent.prompt(session_id=session.session_id, prompt=[edit])
        assert told.stop_reason == "end_turn"
    assert process.returncode == 0
    texts = [u.content.text for u in editor.updates if u.session_update == "agent_message_chunk"]
    assert "".join(texts) == "It is edited."


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_a_process_that_is_terminated_hands_its_run_over(tmp_path: Path) -> None:
    log = f"sqlite:{tmp_path / 'runs.db'}"
    with subprocess.Popen([*COMMAND, "--log", log], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        session = ""
        requests: list[tuple[str, dict[str, Any]]] = [
            ("initialize", {"protocolVersion": 1}),
            ("session/new", {"cwd": "/home/me", "mcpServers": []}),
            ("session/prompt", {"prompt": [{"type": "text", "text": "wait"}]}),
        ]
        for number, (method, params) in enumerate(requests):
            message = {"jsonrpc": "2.0", "id": number, "method": method}
            params = {**params, "sessionId": session} if session else params
            process.stdin.write(json.dumps({**message, "params": params}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            session = json.loads(line).get("result", {}).get("sessionId", "")
        while b"Well" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    listed = subprocess.run(
        [sys.executable, "-m", "rxworker", "runs", "--log", log, "list"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "cut-off" in listed.stdout


def test_a_command_without_a_worker_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["os:nothing"], ["--log", "nowhere:x", "--demo"]):
        assert main(["acp", *arguments]) in (1, 2)
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("rxworker: ")
