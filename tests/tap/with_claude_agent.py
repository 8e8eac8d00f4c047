"""claude-agent-sdk with the program that it has, Claude Code, which sends its requests to a local server."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

# Nothing of this machine's own Claude Code is used.
HOME = tempfile.mkdtemp(prefix="claude-")
for variable in [name for name in os.environ if name.startswith(("ANTHROPIC", "CLAUDE"))]:
    del os.environ[variable]

from claude_agent_sdk import (  # noqa: E402 - after the environment
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    SystemMessage,
    TaskNotificationMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    query,
)

from rxworker.events import TextDelta  # noqa: E402
from rxworker.log import MemoryLog  # noqa: E402
from rxworker.log.format import records_of  # noqa: E402
from rxworker.run.run import end_of  # noqa: E402
from rxworker.tap import tap as make_run  # noqa: E402
from rxworker.tap import tap_each  # noqa: E402
from rxworker.tap.sources import ClaudeAgent, ClaudeCode, session_files  # noqa: E402
from rxworker.testing import ReplayServer, ServedResponse, call, say, think  # noqa: E402
from tests.tap.kit import Figures, Recorder, figures_of, main  # noqa: E402

BUSY = ServedResponse.from_status(529, body={"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})


def answers(*replies: Any) -> Any:
    """A reply to each request of the agent, the last one again and again, and one to those of the program itself."""
    left = chain(replies, repeat(replies[-1]))

    def answer(received: Any) -> Any:
        return next(left) if (received.body or {}).get("tools") else say("A title")

    return answer


def options(server: ReplayServer, folder: str, **more: Any) -> ClaudeAgentOptions:
    env = {
        "HOME": HOME,
        "CLAUDE_CONFIG_DIR": folder,
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }
    chosen = {
        "allowed_tools": ["Bash", "Agent"],
        "model": "claude-sonnet-4-5",
        "cwd": HOME,
        "include_partial_messages": True,
    }
    return ClaudeAgentOptions(env=env, **{**chosen, **more})


def figures(messages: Iterable[Any], status: str) -> Figures:
    messages = [each for each in messages if getattr(each, "parent_tool_use_id", None) is None]
    said = [each for each in messages if isinstance(each, AssistantMessage) and each.error is None]
    blocks = [block for each in said for block in each.content]
    results = {
        block.tool_use_id: block
        for each in messages
        if isinstance(each, UserMessage) and not isinstance(each.content, str)
        for block in each.content
        if isinstance(block, ToolResultBlock)
    }
    calls = []
    for each in blocks:
        if isinstance(each, ToolUseBlock):
            result = results[each.id]
            content = (
                result.content if isinstance(result.content, str) else "".join(b["text"] for b in result.content or [])
            )
            calls.append([each.name, each.input, content, bool(result.is_error)])
    end = [each for each in messages if isinstance(each, ResultMessage)][-1]
    models = (end.model_usage or {}).values()  # sub-agents included
    last = said[-1].message_id if said else None
    return Figures(
        status=status,
        text="".join(
            b.text for each in said if each.message_id == last for b in each.content if isinstance(b, TextBlock)
        ),
        thinking="".join(each.thinking for each in blocks if isinstance(each, ThinkingBlock)),
        calls=calls,
        responses=len({each.message_id for each in said}) + any(getattr(each, "error", None) for each in messages),
        input=sum(each["inputTokens"] for each in models),
        output=sum(each["outputTokens"] for each in models),
    )


async def shared(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The messages without what describes this machine."""
    ended = False
    async for each in stream:
        if isinstance(each, ResultMessage) and ended:
            continue  # a second one, of the turn that the end of a sub-agent has begun
        ended = isinstance(each, ResultMessage)
        if isinstance(each, TaskNotificationMessage):
            each.output_file, each.data = "", {}
        for block in getattr(each, "content", ()):
            for part in (getattr(block, "content", None) or ()) if isinstance(block, ToolResultBlock) else ():
                if isinstance(part, dict):
                    part["text"] = part["text"].partition(".")[0]
        if isinstance(each, UserMessage):
            known = each.tool_use_result
            each.tool_use_result = {"status": known.get("status")} if isinstance(known, dict) else None
        if not isinstance(each, SystemMessage) or getattr(each, "subtype", "") in ("api_retry", "task_notification"):
            yield each


async def run(tap: Recorder, status: str, *replies: Any, has_file: bool = True, **more: Any) -> Figures:
    """Run an agent, and compare what its session file has as well."""
    folder = tempfile.mkdtemp(prefix="claude-")
    with ReplayServer(answers(*replies)) as server:
        stream = shared(query(prompt="Look at it.", options=options(server, folder, **more)))
        messages = []
        try:
            async for each in tap(stream, ClaudeAgent("Look at it."), "Look at it."):
                messages.append(each)
        except Exception as error:  # an error of the program comes after its result
            print(error, file=sys.stderr)
    own = figures(messages, status)
    if has_file:
        file = make_run(session_files(Path(folder) / "projects", follow=False), ClaudeCode())
        await end_of(file)
        found = figures_of(file)
        assert {name: found.get(name) for name in own} == own, (own, found)
    return own


LOOK = think("Hm.", "sig") + say("I look. ") + call("Bash", command="echo hello") + call("Bash", command="exit 2")


async def partial(tap: Recorder) -> Figures:
    return await run(tap, "finished", LOOK, say("One word."))


async def whole(tap: Recorder) -> Figures:
    return await run(tap, "finished", LOOK, say("One word."), include_partial_messages=False)


async def retried(tap: Recorder) -> Figures:
    return await run(tap, "finished", BUSY, LOOK, say("One word."))


async def failed(tap: Recorder) -> Figures:
    refused = ServedResponse.from_status(
        400, body={"type": "error", "error": {"type": "invalid_request_error", "message": "No"}}
    )
    return await run(tap, "aborted", LOOK, refused)


async def limited(tap: Recorder) -> Figures:
    return await run(tap, "aborted", LOOK, has_file=False, max_turns=1)


async def delegated(tap: Recorder) -> Figures:
    """A sub-agent, which newer versions run in the background, and the turn that follows its end.

    It has a file of its own, which is inside the call as well. That turn comes before the result of the prompt, or it
    has a result of its own, as a second run: the tap of one run has what comes before the first result.
    """
    folder = tempfile.mkdtemp(prefix="claude-")

    def answer(received: Any) -> Any:
        last = str((received.body or {}).get("messages", [""])[-1])
        if "Count them" in last:
            return say("Three.")
        if "Look at it" in last:
            return call("Agent", description="Count", prompt="Count them", subagent_type="general-purpose")
        return say("They are three.")

    with ReplayServer(answer) as server:
        stream = shared(query(prompt="Look at it.", options=options(server, folder)))
        messages = [each async for each in tap(stream, ClaudeAgent("Look at it."), "Look at it.")]
    inside = [each for each in messages if isinstance(each, AssistantMessage) and each.parent_tool_use_id]
    assert "".join(block.text for each in inside for block in each.content if isinstance(block, TextBlock)) == "Three."
    first = next(place for place, each in enumerate(messages) if isinstance(each, ResultMessage))
    own, total = figures(messages[: first + 1], "finished"), figures(messages, "finished")
    log = MemoryLog()
    await tap_each(session_files(Path(folder) / "projects", follow=False), ClaudeCode(), log=log).ended()
    runs = [records_of([entry async for entry in log.read(info.run_id)], info.run_id) for info in await log.list()]
    events = [(each.path, each.event) for each in chain(*runs)]
    found = {path: event.text for path, event in events if isinstance(event, TextDelta) and path}
    assert found == {(inside[0].parent_tool_use_id,): "Three."}, found
    assert sum(info.row.input_tokens for info in await log.list()) == total["input"]
    del own["output"]  # it is partial
    return own


if __name__ == "__main__":
    main([partial, whole, retried, failed, limited, delegated])
