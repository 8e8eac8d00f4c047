"""Session files in the shape in which Claude Code and Codex write them, and a process that taps a folder of them."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from rxworker.log import SQLiteLog
from rxworker.run.run import Run
from rxworker.tap import tap_each
from rxworker.tap.sources import ClaudeCode, Codex, session_files

S = "5e55"
SONNET = "claude-sonnet-4-5"
LEASE = 0.3


BEGAN = (datetime.now(UTC) - timedelta(hours=1)).replace(second=0, microsecond=0)
"""Within the last day, which is what a dashboard of runs takes from a log."""


def at(second: float) -> str:
    return f"{BEGAN:%Y-%m-%dT%H:%M}:{second:06.3f}Z"


def line(kind: str, second: float, **more: Any) -> dict[str, Any]:
    """A line of Claude Code."""
    return {
        "type": kind,
        "sessionId": S,
        "cwd": "/home/me/shop",
        "uuid": f"{second:08.3f}",
        "timestamp": at(second),
    } | more


def user(second: float, content: Any, **more: Any) -> dict[str, Any]:
    return line("user", second, message={"role": "user", "content": content}) | more


def result(second: float, call: str, content: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": content} | more
    return user(second, [block])


def said(
    second: float, name: str, block: dict[str, Any], stop: str | None, output: int = 7, **more: Any
) -> dict[str, Any]:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": output,
    }
    message = {
        "id": name,
        "model": SONNET,
        "role": "assistant",
        "content": [block],
        "stop_reason": stop,
        "usage": usage,
    }
    return line("assistant", second, message=message) | more


def text(written: str) -> dict[str, Any]:
    return {"type": "text", "text": written}


def use(call: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


INSIDE = {"isSidechain": True}
CLAUDE: list[dict[str, Any]] = [
    {"type": "summary", "summary": "A title", "leafUuid": "x"},
    user(1, "Look at it"),
    line("system", 2, subtype="api_error", error={"formatted": "529 Overloaded"}, retryAttempt=1),
    said(3, "m1", {"type": "thinking", "thinking": "Hm.", "signature": "s"}, None, output=1),
    said(3.5, "m1", text("I look. "), None, output=1),
    said(4, "m1", use("t1", "Bash", command="ls"), "tool_use"),
    said(4.5, "m1", use("t2", "Bash", command="cat x"), "tool_use"),
    result(6, "t1", "a file"),
    result(7.5, "t2", [{"type": "text", "text": "Exit code 1"}], is_error=True),
    said(8, "m2", {"type": "thinking", "thinking": "So.", "signature": "s"}, "end_turn", output=5),
    said(9, "m2", text("One file."), "end_turn", output=5),
    user(10, "<command-name>/model</command-name>"),
    user(11, "And ask another"),
    said(12, "m3", use("t3", "Task", prompt="Count"), "tool_use"),
    user(13, "Count", **INSIDE, parentUuid=None),
    said(14, "i1", use("t4", "Bash", command="wc"), "tool_use", **INSIDE, parentUuid=f"{13:08.3f}"),
    result(15, "t4", "3") | INSIDE | {"parentUuid": f"{14:08.3f}"},
    said(16, "i2", text("Three."), "end_turn", **INSIDE, parentUuid=f"{15:08.3f}"),
    result(17, "t3", "Three."),
    line("system", 18, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 900}),
    user(18.5, "A summary of it.", isCompactSummary=True),
    said(19, "m4", use("t5", "Edit", path="y"), "tool_use"),
    user(20, [text("[Request interrupted by user for tool use]")]),
    user(21, "Try again"),
    said(22, "e", text("API Error: 500"), "stop_sequence", isApiErrorMessage=True, error="server_error"),
    user(23, "Once more", isMeta=True),
    said(24, "m5", text("It went on by itself."), "end_turn", output=2),
    user(25, "Still there?"),
    said(26, "m6", text("Yes,"), None, output=2),
]
"""Five runs: two that finish, one that is interrupted, one that fails, and one that goes on."""


def notice(call: str) -> str:
    return f"<task-notification>\n<task-id>a</task-id>\n<tool-use-id>{call}</tool-use-id>\n</task-notification>"


def delegate(second: float, name: str, call: str, prompt: str, **more: Any) -> dict[str, Any]:
    return said(second, name, use(call, "Agent", prompt=prompt), "tool_use", **more)


LAUNCHED = {"toolUseResult": {"isAsync": True, "status": "async_launched", "agentId": "a3"}}
HANDED_BACK = {"toolUseResult": {"status": "completed", "agentId": "a1"}}
FOLDER = f"{S}/subagents/agent-"
AGENTS: dict[str, list[dict[str, Any]]] = {
    f"{S}.jsonl": [
        user(1, "Look at it"),
        delegate(2, "m1", "t1", "Count"),
        delegate(2.5, "m1", "t2", "Count"),
        result(7, "t2", "Two.") | HANDED_BACK,
        result(7.5, "t1", "One.") | HANDED_BACK,
        said(8, "m2", text("Three in all."), "end_turn"),
        user(10, "And further"),
        delegate(11, "m3", "t3", "Wait"),
        result(12, "t3", "Async agent launched") | LAUNCHED,
        said(13, "m4", text("It waits."), "end_turn"),
        user(14, "Meanwhile?"),
        said(15, "m5", text("Nothing."), "end_turn"),
        user(22, notice("t3")),
        said(23, "m6", text("It is over."), "end_turn"),
    ],
    f"{FOLDER}a1.meta.json": [{"agentType": "general-purpose", "toolUseId": "t1"}],
    f"{FOLDER}a1.jsonl": [
        user(3, "Count", **INSIDE),
        delegate(4, "i1", "t4", "Deeper", **INSIDE),
        result(6, "t4", "So.") | INSIDE | HANDED_BACK,
        said(6.5, "i2", text("One."), "end_turn", **INSIDE),
    ],
    f"{FOLDER}a2.meta.json": [{"agentType": "general-purpose", "toolUseId": "t2"}],
    f"{FOLDER}a2.jsonl": [
        user(3.1, "Count", **INSIDE),
        said(4.1, "i3", use("t5", "Bash", command="wc"), "tool_use", **INSIDE),
        result(4.2, "t5", "2") | INSIDE,
        said(6.1, "i4", text("Two."), "end_turn", **INSIDE),
    ],
    f"{FOLDER}a4.meta.json": [{"agentType": "general-purpose", "toolUseId": "t4", "spawnDepth": 2}],
    f"{FOLDER}a4.jsonl": [user(5, "Deeper", **INSIDE), said(5.5, "i5", text("So."), "end_turn", **INSIDE)],
    f"{FOLDER}a3.meta.json": [{"agentType": "general-purpose", "toolUseId": "t3"}],
    f"{FOLDER}a3.jsonl": [user(12.5, "Wait", **INSIDE), said(21, "i6", text("Over."), "end_turn", **INSIDE)],
}
"""The files of a session, in the shape in which Claude Code 2.1 writes them.

Four runs: one with two sub-agents side by side, of which one has begun another; one with a sub-agent in the background,
which goes on while the next one begins and ends; that one; and one that the end of that sub-agent has begun.
"""


def codex(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    """A line of Codex."""
    return {"timestamp": at(second), "type": kind, "payload": payload}


def item(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    return codex(second, "response_item", type=kind, **payload)


def event(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    return codex(second, "event_msg", type=kind, **payload)


def answer(second: float, written: str) -> dict[str, Any]:
    return item(second, "message", role="assistant", content=[{"type": "output_text", "text": written}])


def counts(given: int, made: int) -> dict[str, int]:
    return {
        "input_tokens": given,
        "cached_input_tokens": given // 2,
        "output_tokens": made,
        "reasoning_output_tokens": 1,
    }


def total(second: float, given: int, made: int, last: tuple[int, int]) -> dict[str, Any]:
    return event(
        second, "token_count", info={"total_token_usage": counts(given, made), "last_token_usage": counts(*last)}
    )


META = codex(0, "session_meta", id="c0de", cwd="/home/me/shop", model_provider="openai")
CONTEXT = codex(1, "turn_context", model="gpt-5.2")
SPOKEN = event(2, "item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": "Look"}]})
CALL = item(4, "function_call", name="exec_command", arguments='{"cmd":"ls"}', call_id="k1")
RAN = event(
    5,
    "item_completed",
    item={"type": "CommandExecution", "id": "k1", "exit_code": 2, "duration": {"secs": 1, "nanos": 0}},
)
OUTPUT = item(6, "function_call_output", call_id="k1", output="Process exited with code 2\nOutput:\nno such file")
THOUGHT = item(3, "reasoning", summary=[{"type": "summary_text", "text": "Hm."}], content=None)
PATCH = item(9, "custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="k2")
OLD = '{"output":"Success.","metadata":{"exit_code":0,"duration_seconds":0.0}}'
PATCHED = item(10, "custom_tool_call_output", call_id="k2", output=OLD)
CODEX_NEW: list[dict[str, Any]] = [
    *(META, event(1, "task_started", turn_id="1"), CONTEXT, SPOKEN, THOUGHT, CALL),
    codex(4.5, "token_usage_record", usage=counts(10, 4)),
    *(RAN, OUTPUT, total(6.5, 10, 4, (10, 4)), PATCH),
    codex(9.5, "token_usage_record", usage=counts(30, 6)),
    *(PATCHED, event(11, "user_message", message="And tests"), answer(12, "Done.")),
    codex(12.5, "token_usage_record", usage=counts(50, 8)),
    *(total(13, 90, 18, (50, 8)), event(14, "task_complete", turn_id="1")),
]
"""One task with three responses, to which a message was added."""
CODEX_OLD: list[dict[str, Any]] = [
    *(META, event(2, "user_message", message="Look"), CONTEXT, THOUGHT, CALL, OUTPUT, total(6.5, 10, 4, (10, 4))),
    *(
        total(7, 10, 4, (10, 4)),
        PATCH,
        total(9.5, 40, 10, (30, 6)),
        PATCHED,
        answer(12, "Done."),
        total(13, 90, 18, (50, 8)),
    ),
    event(14, "user_message", message="More"),
    *(answer(15, "Well"), event(16, "turn_aborted", reason="interrupted"), event(17, "user_message", message="So?")),
    event(18, "error", message="usage limit"),
]
"""Three messages without tasks: one is answered, one is interrupted, one fails."""


def lines(items: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(each) for each in items]


async def main(folder: str, database: str) -> None:
    """Tap the sessions of a folder until this process is killed. It reports each event."""
    async with SQLiteLog(database, lease=LEASE) as log:
        mapper = Codex() if "codex" in folder else ClaudeCode()
        each = tap_each(session_files(folder), mapper, prefix="s-", log=log)
        each.runs.subscribe(report)
        await each.ended()


def report(run: Run[None]) -> None:
    run.events.subscribe(lambda _: print(run.id, flush=True), on_error=print)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
