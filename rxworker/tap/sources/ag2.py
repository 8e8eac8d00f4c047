"""The events of AG2: of a turn of ``Agent.run``, as `ag2_events` reads them.

Theory of operation. A response comes whole, with its tokens, after the chunks of its text. An event has its time. A
task of another agent is a run inside the call that has begun it: its tokens come before its result. A turn ends with
its last response, and its failure is not among the events, so that the end is that of the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec.structs import replace

from rxworker.events import ConversationCompact
from rxworker.messages import Message
from rxworker.messages.usage import Usage
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import RunMapper
from rxworker.tap.sources.values import content_of, member, members, stop_of, text, usage_of

APART = ("anthropic", "bedrock")
"""The providers whose input is without what came from a cache or was written to it."""
ERRORS = ("ToolErrorEvent", "ToolNotFoundEvent")


async def ag2_events(turn: AbstractAsyncContextManager[Any]) -> AsyncGenerator[object, None]:
    """The events of a turn of AG2, which it performs.

    Args:
        turn: What ``Agent.run`` returns.

    Raises:
        Exception: The turn has failed.

    Example:
        >>> from rxworker.tap import tap
        >>> async def watch(agent):  # an ag2.Agent
        ...     return await tap(ag2_events(agent.run("What is 1 + 2?")), AG2(agent))
    """
    events: asyncio.Queue[object] = asyncio.Queue()
    async with turn as opened:
        opened.stream.subscribe(events.put_nowait, sync_to_thread=False)
        ended: asyncio.Future[object] = asyncio.ensure_future(opened.result())
        ended.add_done_callback(lambda _: events.put_nowait(ended))
        while (event := await events.get()) is not ended:
            yield event
        await ended


class AG2(RunMapper):
    """Makes a run of the events of an AG2 agent: a mapper for `rxworker.tap.tap`.

    A sub-task is a run inside its call, with its texts as far as they are reported. The tokens of a compaction count as
    those of one. Not reported: the parts of arguments, the system prompt, and the model of a response before its end;
    until then it is that of the agent.

    Args:
        agent: The agent, for its name and the name of its model.

    Example:
        >>> from types import SimpleNamespace
        >>> class ModelMessageChunk(SimpleNamespace): ...
        >>> class ModelResponse(SimpleNamespace): ...
        >>> mapper = AG2()
        >>> events = [*mapper.feed(ModelMessageChunk(content="Hi.")), *mapper.feed(ModelResponse(finish_reason="stop"))]
        >>> events += mapper.finish()
        >>> type(events[0].event).__name__, type(events[-1].event).__name__
        ('RunStart', 'RunStop')
    """

    def __init__(self, agent: object = None) -> None:
        super().__init__(RunBuilder(text(agent, "name") or "ag2"))
        self._model = text(agent, "config.model")
        self._is_final = self._has_text = False  # of the last response
        self._tasks: dict[str, tuple[str, bool]] = {}  # the calls of tasks, and whether they have reported a text
        self._labels: dict[str, str] = {}  # the tasks that agents work at

    def _take(self, item: object) -> None:
        created = member(item, "created_at")
        self._run.time = created if isinstance(created, float) else None
        kind = type(item).__name__
        if kind.startswith("Task"):
            self._task(kind, item)
        elif kind in ("ModelRequest", "DrainedModelRequest"):
            self._request(item)
        elif kind == "ModelMessageChunk":
            self._respond()
            self._has_text = True
            self._run.text(text(item, "content"))
        elif kind == "ModelReasoning":
            self._respond()
            self._run.thinking(text(item, "content"))
        elif kind == "ModelResponse":
            self._response(item)
        elif kind == "UsageEvent":
            self._usage(item)
        elif kind == "ToolCallEvent":
            arguments = text(item, "arguments") or "{}"
            self._run.tool_start(text(item, "id"), text(item, "name"), arguments)
        elif kind == "ToolResultEvent" or kind in ERRORS:
            call, name = text(item, "parent_id"), text(item, "name")
            self._run.tool_stop(call, _content(member(item, "result")), is_error=kind in ERRORS, name=name)
        elif kind in ("BuiltinToolCallEvent", "HumanInputRequest", "ToolApprovalRequest"):
            about = text(item, "name") or text(item, "content")
            self._run.custom(f"ag2.{kind}", {"about": about})

    def _end(self, error: Exception | None) -> None:
        self._run.time = None
        super()._end(error)
        if self._is_final:
            self._run.end()

    def _request(self, item: object) -> None:
        given = "\n".join([part for each in members(item, "parts") if (part := text(each, "content"))])
        if self._run.status == "new":
            self._run.start(given or None)
        elif given:
            self._run.add(Message.user(given))

    def _respond(self, model: object = None, provider: object = None, name: object = None) -> None:
        if not self._run.is_responding:
            self._model = text(model) or self._model
            self._run.request(self._model, text(provider), text(name) or None)
            self._is_final = self._has_text = False

    def _response(self, item: object) -> None:
        self._respond(member(item, "model"), member(item, "provider"), member(item, "response_id"))
        if not self._has_text:
            self._run.text(text(item, "message.content"))
        calls = members(item, "tool_calls.calls")
        for each in calls:
            self._run.call(text(each, "id"), text(each, "name"), text(each, "arguments") or "{}")
        self._run.usage(_tokens(item))
        self._run.respond(stop_of(member(item, "finish_reason")))
        self._model = text(item, "model") or self._model
        self._is_final = not calls

    def _usage(self, item: object) -> None:
        """Tokens besides those of the responses, which have their own."""
        kind, usage = member(item, "kind"), _tokens(item)
        task = self._labels.get(text(item, "label"), "")
        if kind in ("compaction", "aggregation") and usage is not None:
            self._run.note(ConversationCompact(by="ag2", model=text(item, "model"), usage=usage))
        elif kind == "subtask" and task in self._tasks:
            inside = self._run.inside(self._tasks[task][0])
            for each in members(item, "parts") or [item]:
                inside.request(text(each, "model"), text(each, "provider"))
                inside.usage(_tokens(each))

    def _task(self, kind: str, item: object) -> None:
        task, name = text(item, "task_id"), text(item, "agent_name")
        call = text(item, "parent_tool_call_id")
        if kind == "TaskStarted" and call:
            self._tasks[task], self._labels[name] = (call, False), task
            self._run.inside(call, name).start(text(item, "objective"))
        known, has_text = self._tasks.get(task, ("", False))
        if not known or kind == "TaskStarted":
            return
        inside = self._run.inside(known)
        if kind == "TaskProgress" and (part := text(item, "content")):
            self._tasks[task] = known, True
            inside.text(part)
        elif kind == "TaskCompleted":
            inside.text("" if has_text else text(item, "result"))
            inside.end()
        elif kind != "TaskProgress":
            inside.abort(text(item, "reason") or str(member(item, "error")))


def _content(result: object) -> str:
    """The parts of a result: texts, or data as JSON."""
    parts = members(result, "parts")
    return "\n".join([text(each, "content") or str(content_of(member(each, "data"))) for each in parts])


def _tokens(item: object) -> Usage | None:
    """The tokens of an event, which for some providers are without those from a cache."""
    usage = usage_of(member(item, "usage"), is_exact=True)
    if usage is None or usage.input_tokens is None or member(item, "provider") not in APART:
        return usage
    cached = (usage.cache_read_tokens or 0) + (usage.cache_creation_tokens or 0)
    return replace(usage, input_tokens=usage.input_tokens + cached)
