"""The events of AG2: of a turn of ``Agent.run``, as `ag2_events` reads them.

Theory of operation. A response comes whole, with its tokens, after the chunks of its text. An event has its time. A
task of another agent is a run inside the call that has begun it: its tokens come before its result. A turn ends with
its last response, and its failure is not among the events, so that the end is that of the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from rxworker.events import ConversationCompact
from rxworker.messages import Message
from rxworker.messages.usage import Usage
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.values import content_of, member, members, stop_of, text

APART = ("anthropic", "bedrock")
"""The providers whose input is without what came from a cache or was written to it."""
ERRORS = ("ToolErrorEvent", "ToolNotFoundEvent")
TOKENS = (
    "prompt_tokens",
    "completion_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "thinking_tokens",
)


class _Opened(Protocol):
    """What AG2 has within a turn."""

    @property
    def stream(self) -> Any:
        """Its stream."""
        ...

    async def result(self) -> object:
        """Perform the turn."""
        ...


async def ag2_events(turn: AbstractAsyncContextManager[_Opened]) -> AsyncGenerator[object, None]:
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


class AG2:
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
        self._run = RunBuilder(text(member(agent, "name")) or "ag2")
        self._model = text(member(agent, "config.model"))
        self._is_open = self._is_final = False
        self._texts = ""
        self._tasks: dict[str, tuple[str, bool]] = {}  # the calls of tasks, and whether they have reported a text
        self._labels: dict[str, str] = {}  # the tasks that agents work at

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an event."""
        created = member(item, "created_at")
        self._run.time = created if isinstance(created, float) else None
        kind = type(item).__name__
        if kind.startswith("Task"):
            self._task(kind, item)
        elif kind in ("ModelRequest", "DrainedModelRequest"):
            self._request(item)
        elif kind == "ModelMessageChunk":
            self._respond()
            self._texts += text(member(item, "content"))
            self._run.text(text(member(item, "content")))
        elif kind == "ModelReasoning":
            self._respond()
            self._run.thinking(text(member(item, "content")))
        elif kind == "ModelResponse":
            self._response(item)
        elif kind == "UsageEvent":
            self._usage(item)
        elif kind == "ToolCallEvent":
            arguments = text(member(item, "arguments")) or "{}"
            self._run.tool_start(text(member(item, "id")), text(member(item, "name")), arguments)
        elif kind == "ToolResultEvent" or kind in ERRORS:
            call, name = text(member(item, "parent_id")), text(member(item, "name"))
            self._run.tool_stop(call, _content(member(item, "result")), is_error=kind in ERRORS, name=name)
        elif kind in ("BuiltinToolCallEvent", "HumanInputRequest", "ToolApprovalRequest"):
            about = text(member(item, "name")) or text(member(item, "content"))
            self._run.custom(f"ag2.{kind}", {"about": about})
        return self._run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end of the turn."""
        self._run.time = None
        if error is not None:
            self._run.abort_with(error)
        elif self._is_final:
            self._run.end()
        return self._run.take()

    def _request(self, item: object) -> None:
        given = "\n".join([part for each in members(item, "parts") if (part := text(member(each, "content")))])
        if self._run.is_new:
            self._run.start(given or None)
        elif given:
            self._run.add(Message.user(given))
            self._is_open = False

    def _respond(self, model: object = None, provider: object = None, name: object = None) -> None:
        if not self._is_open:
            self._model = text(model) or self._model
            self._run.request(self._model, text(provider), text(name) or None)
            self._is_open, self._is_final, self._texts = True, False, ""

    def _response(self, item: object) -> None:
        self._respond(member(item, "model"), member(item, "provider"), member(item, "response_id"))
        if not self._texts:
            self._run.text(text(member(item, "message.content")))
        calls = members(item, "tool_calls.calls")
        for each in calls:
            self._run.call(
                text(member(each, "id")), text(member(each, "name")), text(member(each, "arguments")) or "{}"
            )
        if usage := _tokens(item):
            self._run.usage(usage)
        self._run.respond(stop_of(member(item, "finish_reason")))
        self._model = text(member(item, "model")) or self._model
        self._is_open, self._is_final = False, not calls

    def _usage(self, item: object) -> None:
        """Tokens besides those of the responses, which have their own."""
        kind, usage = member(item, "kind"), _tokens(item)
        task = self._labels.get(text(member(item, "label")), "")
        if kind in ("compaction", "aggregation") and usage is not None:
            self._run.note(ConversationCompact(by="ag2", model=text(member(item, "model")), usage=usage))
        elif kind == "subtask" and task in self._tasks:
            inside = self._run.inside(self._tasks[task][0])
            for each in members(item, "parts") or [item]:
                inside.request(text(member(each, "model")), text(member(each, "provider")))
                if part := _tokens(each):
                    inside.usage(part)

    def _task(self, kind: str, item: object) -> None:
        task, name = text(member(item, "task_id")), text(member(item, "agent_name"))
        call = text(member(item, "parent_tool_call_id"))
        if kind == "TaskStarted" and call:
            self._tasks[task], self._labels[name] = (call, False), task
            self._run.inside(call, name).start(text(member(item, "objective")))
        known, has_text = self._tasks.get(task, ("", False))
        if not known or kind == "TaskStarted":
            return
        inside = self._run.inside(known)
        if kind == "TaskProgress" and (part := text(member(item, "content"))):
            self._tasks[task] = known, True
            inside.text(part)
        elif kind == "TaskCompleted":
            inside.text("" if has_text else text(member(item, "result")))
            inside.end()
        elif kind != "TaskProgress":
            inside.abort(text(member(item, "reason")) or str(member(item, "error")))


def _content(result: object) -> str:
    """The parts of a result: texts, or data as JSON."""
    parts = [
        text(member(each, "content")) or str(content_of(member(each, "data"))) for each in members(result, "parts")
    ]
    return "\n".join(parts)


def _tokens(item: object) -> Usage | None:
    """Tokens, which AG2 has as floating-point numbers, and for some providers without those from a cache."""
    found = [member(item, f"usage.{name}") for name in TOKENS]
    given, made, read, created, thought = [int(each) if isinstance(each, int | float) else None for each in found]
    if given is not None and member(item, "provider") in APART:
        given += (read or 0) + (created or 0)
    return None if given is None and made is None else Usage(given, made, read, created, thought)
