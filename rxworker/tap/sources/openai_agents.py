"""openai-agents: the events of ``Runner.run_streamed(...).stream_events()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.values import content_of, count, items, json_of, member, members, stop_of, text, usage_of

OUTSIDE = ("message", "reasoning", "function_call")
"""The items of a response that are not something that the provider has done itself."""


class OpenAIAgents:
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
        self._result = result
        self._run = RunBuilder("openai-agents")
        self._stream = _Stream(self._run)
        self._inner: dict[str, _Stream] = {}

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an event, or of one of an agent that is a tool."""
        if self._run.is_new:
            agent = member(self._result, "current_agent") or member(item, "new_agent")
            self._run.name = text(member(agent, "name")) or self._run.name
            given = _input(member(self._result, "input"))
            self._run.start(given or None, system=text(member(agent, "instructions")) or None)
        id = text(member(item, "tool_call.call_id"))  # noqa: A001 - what it is
        if id and id not in self._inner:
            self._inner[id] = _Stream(self._run.inside(id, text(member(item, "agent.name"))))
        if id:
            self._inner[id].feed(member(item, "event"))
        else:
            self._stream.feed(item)
        return self._run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end. Without ``result``, it is not known whether a run that stops within a response was cancelled."""
        waiting = members(self._result, "interruptions")
        if error is not None:
            self._run.abort_with(error)
        elif waiting:
            ids = [text(member(item, "raw_item.call_id")) for item in waiting]
            self._run.pause("calls wait for an approval", ids)
        elif self._result is not None and member(self._result, "final_output") is None:
            self._run.abort("its program was cancelled", "cancel")
        elif not self._stream.in_response:
            self._run.end()
        return self._run.take()


class _Stream:
    """The events of one run.

    Attributes:
        in_response: Whether a response has begun and has not ended.
    """

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self.in_response = False
        self._called: dict[str, str] = {}  # the names of the calls of the response
        self._ids: dict[object, str] = {}  # their ids, by their places
        self._written: set[str] = set()  # those whose arguments have come in pieces
        self._handlers: dict[str, Callable[[object], None]] = {
            "response.created": self._created,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.function_call_arguments.delta": self._arguments,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._text,
            "response.reasoning_text.delta": self._thinking,
            "response.reasoning_summary_text.delta": self._thinking,
            "response.completed": self._completed,
            "response.incomplete": self._completed,
            "response.failed": self._failed,
            "error": self._failed,
        }

    def feed(self, item: object) -> None:
        """Take an event."""
        kind = text(member(item, "type"))
        if kind == "raw_response_event":
            data = member(item, "data")
            handler = self._handlers.get(text(member(data, "type")))
            if handler is not None:
                handler(data)
        elif kind == "agent_updated_stream_event":
            self._run.custom("openai_agents.agent", {"name": text(member(item, "new_agent.name"))})
        elif member(item, "name") in ("tool_output", "handoff_occured"):
            raw = member(item, "item.raw_item")
            id = text(member(raw, "call_id"))  # noqa: A001 - what it is
            output = member(item, "item.output")
            self._run.tool_stop(id, content_of(member(raw, "output") if output is None else output)) if id else None

    def _created(self, data: object) -> None:
        if self.in_response:
            self._run.retract("the request is repeated")
        self.in_response = True
        self._called, self._ids = {}, {}
        self._run.request(text(member(data, "response.model")), response_id=text(member(data, "response.id")) or None)

    def _item_added(self, data: object) -> None:
        id = text(member(data, "item.call_id"))  # noqa: A001 - what it is
        if member(data, "item.type") == "function_call" and id:
            self._ids[count(member(data, "output_index"))] = id
            self._called[id] = text(member(data, "item.name"))
            self._run.call(id, self._called[id])

    def _arguments(self, data: object) -> None:
        id = self._ids.get(count(member(data, "output_index")), "")  # noqa: A001 - what it is
        self._written.add(id)
        self._run.arguments(text(member(data, "delta")), id)

    def _item_done(self, data: object) -> None:
        kind, id = text(member(data, "item.type")), text(member(data, "item.call_id"))  # noqa: A001 - what it is
        if kind == "function_call" and id:
            if id not in self._called:
                self._item_added(data)
            if id not in self._written:
                self._run.arguments(text(member(data, "item.arguments")), id)
            self._run.stop_block(id)
        elif kind and kind not in OUTSIDE:
            self._run.custom(f"openai_agents.{kind}", json_of(member(data, "item")))

    def _text(self, data: object) -> None:
        self._run.text(text(member(data, "delta")), _place(data))

    def _thinking(self, data: object) -> None:
        self._run.thinking(text(member(data, "delta")), _place(data))

    def _completed(self, data: object) -> None:
        usage = usage_of(
            member(data, "response.usage"),
            "input_tokens",
            "output_tokens",
            cache_read="input_tokens_details.cached_tokens",
            cache_creation="input_tokens_details.cache_write_tokens",
            reasoning="output_tokens_details.reasoning_tokens",
        )
        if usage is not None:
            self._run.usage(usage)
        self.in_response = False
        self._run.respond(stop_of(member(data, "response.incomplete_details.reason")))
        for id, name in self._called.items():  # noqa: A001 - what it is
            self._run.tool_start(id, name)

    def _failed(self, data: object) -> None:
        error = member(data, "response.error") or data
        self.in_response = False
        self._run.fail(text(member(error, "message")), text(member(error, "code")) or None)


def _place(data: object) -> tuple[int | None, ...]:
    """Where a text stands in its response."""
    part = member(data, "content_index")
    return count(member(data, "output_index")), count(member(data, "summary_index") if part is None else part)


def _input(value: object) -> str:
    """The input as far as it is a text: of a list of items that of its last message."""
    messages = [item for item in items(value) if member(item, "role") == "user"]
    content = member(messages[-1], "content") if messages else value
    return text(content) or "\n".join([text(member(part, "text")) for part in items(content)])
