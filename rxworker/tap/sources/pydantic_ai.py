"""pydantic-ai: the events of ``agent.run_stream_events()``, and those of an ``event_stream_handler``."""

from __future__ import annotations

from typing import cast

from rxworker.messages.message import read_input
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import RunMapper
from rxworker.tap.sources.values import (
    content_of,
    count,
    items,
    json_of,
    member,
    members,
    stop_of,
    sum_of,
    text,
    usage_of,
)

CALLS = ("tool-call", "builtin-tool-call")
"""The calls of a response; the second are those of tools that the provider runs itself."""
OWN = ("builtin-tool-return", "compaction", "file")
"""What else the provider has done."""


class PydanticAI(RunMapper):
    """The mapper of the events of pydantic-ai.

    Its events do not report the input, the model, the tokens and why a response ended: the messages of the run do. A
    run that fails has them only with ``events``; the tokens of one that ends well are those of its last response
    without. Runs that a tool begins by itself are not in the stream. An item that is the ``AgentRunResult`` ends the
    run, where the events come from an ``event_stream_handler``.

    Args:
        agent: The agent, for its name, and the name of its model.
        events: What ``run_stream_events()`` gives, or the context of an ``event_stream_handler``, for the messages.

    Example:
        >>> from types import SimpleNamespace as Item
        >>> mapper = PydanticAI()
        >>> part = Item(part_kind="text", content="Hello.")
        >>> [type(each.event).__name__ for each in mapper.feed(Item(event_kind="part_start", index=0, part=part))]
        ['RunStart', 'TurnStart', 'AttemptStart', 'Status', 'BlockStart', 'TextDelta']
    """

    def __init__(self, agent: object = None, events: object = None) -> None:
        super().__init__(RunBuilder(text(agent, "name") or "pydantic-ai"))
        model = member(agent, "model")
        self._provider, _, self._model = model.rpartition(":") if isinstance(model, str) else ("", "", "")
        if self._model == "":
            self._provider, self._model = text(model, "system"), text(model, "model_name")
        self._source = events
        self._responses = self._counted = 0
        self._has_ended = False  # a part of the response

    def _take(self, item: object) -> None:
        run = self._run
        match text(item, "event_kind"):
            case "part_delta":
                place, delta = count(item, "index") or 0, member(item, "delta")
                if (kind := member(delta, "part_delta_kind")) == "tool_call":
                    run.arguments(text(delta, "args_delta"), place)
                else:
                    self._text(kind, place, text(delta, "content_delta"))
            case "part_start":
                self._start(count(item, "index") or 0, member(item, "part"))
            case "part_end":
                self._stop(count(item, "index") or 0, member(item, "part"))
            case "function_tool_call" | "output_tool_call":
                self._close()
                if getattr(item, "args_valid", True) is not None:  # else it does not run now
                    run.tool_start(text(item, "part.tool_call_id"), text(item, "part.tool_name"))
            case "function_tool_result" | "output_tool_result":
                self._close()
                self._result(member(item, "part") or member(item, "result"))
            case "enqueued_messages":
                self._close()
                for message in members(item, "messages"):
                    _, given = _prompt(message)
                    run.add(*(read_input(given) if given else ()))
            case "custom":
                run.custom(f"pydantic_ai.{text(item, 'name') or 'custom'}", json_of(item))
            case "agent_run_result":
                self._finish(member(item, "result"))
            case "" if hasattr(item, "new_messages"):
                self._finish(item)
            case _:
                pass

    def _begin(self) -> None:
        """The next response begins."""
        self._close()
        if self._run.status == "new":
            messages = _messages(self._source)
            system, given = _prompt(messages[0]) if messages else (None, None)
            self._run.start(given, system=system)
        self._run.request(self._model, self._provider)
        self._has_ended = False
        self._responses += 1

    def _close(self, last: object = None) -> None:
        """The response is whole; its message has what its events do not report. The last one has what is left."""
        if not self._run.is_responding:
            return
        messages = _messages(self._source if last is None else last)
        responses = [each for each in messages if member(each, "kind") == "response"][: self._responses]
        reason = None
        if responses and len(responses) == self._responses:
            message = responses[-1]
            self._model = text(message, "model_name") or self._model
            self._provider = text(message, "provider_name") or self._provider
            reason = stop_of(member(message, "finish_reason"))
            usages = [member(each, "usage") for each in responses[self._counted :]]
            self._run.usage(sum_of(usage_of(each) for each in usages if not member(each, "unmeasured_requests")))
            self._counted = self._responses
        self._run.respond(reason)

    def _start(self, place: int, part: object) -> None:
        if not self._run.is_responding or (place == 0 and self._has_ended):
            self._begin()
        kind = text(part, "part_kind")
        if kind in CALLS:
            is_provided = kind != "tool-call"
            self._run.call(text(part, "tool_call_id"), text(part, "tool_name"), key=place, is_provided=is_provided)
            self._run.arguments(text(part, "args"), place)
        elif kind in OWN:
            self._run.custom(f"pydantic_ai.{kind}", json_of(part))
        else:
            self._text(kind, place, text(part, "content"))

    def _stop(self, place: int, part: object) -> None:
        self._has_ended = True
        if member(part, "part_kind") not in CALLS:
            self._run.stop_block(place)
        elif isinstance(arguments := member(part, "args"), dict):  # else more may come when the next one has begun
            self._run.call(text(part, "tool_call_id"), text(part, "tool_name"), json_of(cast("object", arguments)))

    def _text(self, kind: object, place: int, written: str) -> None:
        if kind == "text":
            self._run.text(written, place)
        elif kind == "thinking":
            self._run.thinking(written, place)

    def _result(self, part: object) -> None:
        is_error = member(part, "part_kind") == "retry-prompt" or member(part, "outcome") not in (None, "success")
        call, content = text(part, "tool_call_id"), content_of(member(part, "content"))
        self._run.tool_stop(call, content, is_error=is_error, name=text(part, "tool_name"))

    def _finish(self, result: object) -> None:
        self._close(result)
        output = member(result, "output")
        if type(output).__name__ == "DeferredToolRequests":
            ids = [text(call, "tool_call_id") for call in members(output, "approvals")]
            self._run.pause("calls wait for an approval or a result", ids)
        self._run.end()


def _messages(source: object) -> list[object]:
    """The messages of a run, of its result or of the context of a handler."""
    method = member(source, "new_messages")
    try:
        new = items(method() if callable(method) else None)
    except Exception:  # the run has none yet
        new = []
    return new or members(source, "messages")


def _prompt(message: object) -> tuple[str | None, str | None]:
    """The system prompt and the input of the messages with which a run begins, as far as they are texts."""
    system, given = [text(message, "instructions")], list[str]()
    for part in members(message, "parts"):
        content = member(part, "content")
        texts = [content] if isinstance(content, str) else members(part, "content")
        kind = member(part, "part_kind")
        to = system if kind == "system-prompt" else given if kind == "user-prompt" else []
        to += [text(each) or text(each, "content") for each in texts]
    return "\n\n".join(filter(None, system)) or None, "\n".join(filter(None, given)) or None
