"""``rxworker mcp`` as a client starts it: a process with pipes, or one that listens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest

from rxworker.cli import main
from rxworker.messages import ToolCall
from rxworker.tools import Toolbox, mcp_tools
from rxworker.tools.run import run_call

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

COMMAND = [sys.executable, "-m", "rxworker", "mcp"]
WORKERS = """
import os, subprocess
from rxworker import Worker, tool
from rxworker.testing import ScriptedModel, call, say

@tool
def shout() -> str:
    \"\"\"Write to standard output, here and in another process.\"\"\"
    print("a stray line")
    os.system("echo another; cat")
    return "done"

def answer(request):
    messages = request.conversation.messages
    if messages[-1].text == "shout":
        return call("shout")
    return say(f"{len(messages)} messages")

def make_clerk():
    \"\"\"Counts messages.\"\"\"
    return Worker(ScriptedModel(answer), tools=[shout])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "my_workers.py").write_text(WORKERS)
    return tmp_path


@contextmanager
def started(folder: Path, *options: str) -> Generator[subprocess.Popen[str], None, None]:
    with subprocess.Popen(
        [*COMMAND, *options],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1", "THE_TOKEN": "a-very-secret-token-0123456789"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_refuses_what_is_not_a_message_and_ends_while_its_client_still_writes(folder: Path) -> None:
    with started(folder, "my_workers:make_clerk") as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def refused(line: str) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer["error"]["code"]

        assert refused("Hello?") == mcp.types.PARSE_ERROR
        assert refused('{"id": 1}') == mcp.types.INVALID_REQUEST
        twice = '{"jsonrpc": "2.0", "id": 1, "result": {"approve": false, "approve": true}}'
        assert refused(twice) == mcp.types.INVALID_REQUEST
        assert refused('{"jsonrpc": "2.0", "id": 1, "method": "' + "x" * 9_000_000) == -32600
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.slow
async def test_a_client_starts_it_and_another_continues_the_conversation_where_it_listens_with_a_token(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ("my_workers:make_clerk", "--log", "sqlite:runs.db")
    server = mcp.StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *options], cwd=folder, env={"PYTHONUTF8": "1"}
    )
    async with mcp.Client(server, mode="auto") as client:
        [tool] = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("clerk", "Counts messages.")
        result = await client.call_tool("clerk", {"message": "shout"})
    assert result.meta is not None
    assert result.content[0].type == "text"
    assert result.content[0].text == "3 messages"
    assert caplog.text == ""  # nothing but messages came over standard output
    with started(folder, *options, "--http", "0", "--token-env", "THE_TOKEN") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("rxworker serves MCP at http://127.0.0.1:")
        key = {"Authorization": "Bearer a-very-secret-token-0123456789"}
        async with mcp_tools(url=line.split()[-1], headers=key) as [tool]:
            assert tool.meta.name == "clerk"
            arguments = {"message": "and now", "conversation": result.meta["rxworker/run"]["id"]}
            more = await run_call(Toolbox([tool]), ToolCall("1", "clerk", arguments))
            assert more.text.startswith("5 messages\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ([], "--provider and --model, or --demo"),
        (["--provider", "anthropic"], "--provider and --model, or --demo"),
        (["--demo", "--http", "0.0.0.0:0"], "--token-env"),
        (["--demo", "demo=json:loads"], "NAME=MODULE:FUNCTION"),
        (["--demo", "--http", "70000"], "from 0 to 65535"),
        (["--demo", "--token-env", "NOT_THERE"], "'NOT_THERE' is not set"),
        (["nothing"], "module:function"),
        (["no such name=json:loads"], "name of a tool"),
        (["json:__name__"], "not a function"),
    ],
)
def test_what_cannot_be_meant_is_one_line(options: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["mcp", *options])
    err = capsys.readouterr().err
    assert (code in (1, 2), hint in err, err.count("\n")) == (True, True, 1), err
