"""openai-agents: the events of ``Runner.run_streamed(...).stream_events()``."""

from __future__ import annotations

from rxworker.events import BlockType
from rxworker.messages import JsonObject
from rxworker.providers.openai_responses.item import block_type_of, input_of
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
    text,
    text_of,
    usage_of,
)

OUTSIDE = ("message", "reasoning", "function_call")
"""The items of a response that are not something that the provider has done itself."""


class OpenAIAgents(RunMapper):
    """The mapper of the events of openai-agents.

    Its events do not report the input, that a run was cancelled or waits for approvals: ``result`` does. They do not
    report when a tool begins, which is taken to be the end of the response, nor whether it has failed: its result is
    then a text about the error. What an agent that is used as a tool does is in its ``on_stream`` only; these events
    may be fed as well, and are a run inside the call.

    Args:
        result: What ``Runner.run_streamed`` returns.

    Example:
        >>> from types import SimpleNamespace as Item
        >>> mapper = OpenAIAgents()
        >>> delta = Item(type="response.output_text.delta", delta="Hello.", output_index=0)
        >>> [type(each.event).__name__ for each in mapper.feed(Item(type="raw_response_event", data=delta))]
        ['RunStart', 'TurnStart', 'AttemptStart', 'Status', 'BlockStart', 'TextDelta']
    """

    def __init__(self, result: object = None) -> None:
        super().__init__(RunBuilder("openai-agents"))
        self._result = result
        self._inner: dict[str, OpenAIAgents] = {}

    def _take(self, item: object) -> None:
        if self._run.status == "new":
            agent = member(self._result, "current_agent") or member(item, "new_agent")
            self._run.name = text(agent, "name") or self._run.name
            given = _input(member(self._result, "input"))
            self._run.start(given or None, system=text(agent, "instructions") or None)
        call = text(item, "tool_call.call_id")
        if not call:
            self._event(item)
            return
        if call not in self._inner:
            self._inner[call] = OpenAIAgents()
            self._inner[call]._run = self._run.inside(call, text(item, "agent.name"))
        self._inner[call]._event(member(item, "event"))

    def _end(self, error: Exception | None) -> None:
        """Without ``result``, it is not known whether a run that stops within a response was cancelled."""
        waiting = members(self._result, "interruptions")
        if error is not None:
            super()._end(error)
        elif waiting:
            self._run.pause("calls wait for an approval", [text(item, "raw_item.call_id") for item in waiting])
        elif self._result is not None and member(self._result, "final_output") is None:
            self._run.abort("its program was cancelled", "cancel")
        elif not self._run.is_responding:
            self._run.end()

    def _event(self, item: object) -> None:
        kind = text(item, "type")
        if kind == "raw_response_event":
            data = member(item, "data")
            self._response(text(data, "type"), data)
        elif kind == "agent_updated_stream_event":
            self._run.custom("openai_agents.agent", {"name": text(item, "new_agent.name")})
        elif member(item, "name") in ("tool_output", "handoff_occured"):
            call, output = text(item, "item.raw_item.call_id"), member(item, "item.output")
            output = member(item, "item.raw_item.output") if output is None else output
            self._run.tool_stop(call, content_of(output)) if call else None

    def _response(self, kind: str, data: object) -> None:
        run = self._run
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                run.text(text(data, "delta"), _place(data))
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                run.thinking(text(data, "delta"), _place(data))
            case "response.function_call_arguments.delta":
                run.arguments(text(data, "delta"), count(data, "output_index"))
            case "response.output_item.added" | "response.output_item.done":
                self._item(count(data, "output_index"), member(data, "item"), kind == "response.output_item.done")
            case "response.created":
                if run.is_responding:
                    run.retract("the request is repeated")
                run.request(text(data, "response.model"), response_id=text(data, "response.id") or None)
            case "response.completed" | "response.incomplete":
                run.usage(usage_of(member(data, "response.usage")))
                run.respond(stop_of(member(data, "response.incomplete_details.reason")))
                for call in run.calls:
                    run.tool_start(call.id)
            case "response.failed" | "error":
                error = member(data, "response.error") or data
                run.fail(text(error, "message"), text(error, "code") or None)
            case _:
                pass

    def _item(self, place: int | None, item: object, is_whole: bool) -> None:
        kind, call = text(item, "type"), text(item, "call_id")
        if kind == "function_call" and call:
            self._run.call(call, text(item, "name"), text(item, "arguments") if is_whole else None, key=place)
        elif kind and kind not in OUTSIDE:
            self._of_provider(place, kind, json_of(item), is_whole)

    def _of_provider(self, place: int | None, kind: str, item: JsonObject, is_whole: bool) -> None:
        """What the provider does itself: a call of its tools, and the whole item, which has the result."""
        if block_type_of(item) is BlockType.SERVER_TOOL_USE:
            given = (input_of(item) or "{}") if is_whole else None
            self._run.call(text(item, "id"), text(item, "name") or kind, given, key=place, is_provided=True)
        if is_whole:
            self._run.custom(f"openai_agents.{kind}", item)


def _place(data: object) -> tuple[int | None, ...]:
    """Where a text stands in its response."""
    part = member(data, "content_index")
    return count(data, "output_index"), count(data, "summary_index") if part is None else count(part)


def _input(value: object) -> str:
    """The input as far as it is a text: of a list of items that of its last message."""
    messages = [item for item in items(value) if member(item, "role") == "user"]
    return text_of(member(messages[-1], "content") if messages else value, "\n")
