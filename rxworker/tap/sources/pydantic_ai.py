"""pydantic-ai: the events of ``agent.run_stream_events()``, and those of an ``event_stream_handler``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxworker.messages.message import read_input
from rxworker.messages.usage import Usage
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.values import called, content_of, count, json_of, member, members, stop_of, text, usage_of

BUILT_IN = ("builtin-tool-call", "builtin-tool-return", "compaction", "file")


class PydanticAI:
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
        self._run = RunBuilder(text(member(agent, "name")) or "pydantic-ai")
        model = member(agent, "model")
        self._provider, _, self._model = model.rpartition(":") if isinstance(model, str) else ("", "", "")
        if self._model == "":
            self._provider, self._model = text(member(model, "system")), text(member(model, "model_name"))
        self._source = events
        self._responses = self._counted = 0
        self._in_response = self._has_ended = False
        self._keys: dict[int, int | str] = {}  # of the parts that go on: the ids of calls
        self._written: set[int | str] = set()  # the calls whose arguments have come as text
        self._handlers: dict[str, Callable[[object], None]] = {
            "part_start": self._part_start,
            "part_delta": self._part_delta,
            "part_end": self._part_end,
            "function_tool_call": self._tool_call,
            "output_tool_call": self._tool_call,
            "function_tool_result": self._tool_result,
            "output_tool_result": self._tool_result,
            "enqueued_messages": self._enqueued,
            "custom": self._custom,
            "agent_run_result": self._result,
        }

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an event, or of the result of the run."""
        kind = text(member(item, "event_kind"))
        if not kind and hasattr(item, "new_messages"):
            self._end(item)
        elif kind in self._handlers:
            self._handlers[kind](item)
        return self._run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end: the stream has its result before, unless the run has failed."""
        if error is not None:
            self._run.abort_with(error)
        return self._run.take()

    def _begin(self) -> None:
        """The next response begins."""
        self._close()
        if self._run.is_new:
            messages = _messages(self._source)
            system, given = _prompt(messages[0]) if messages else (None, None)
            self._run.start(given, system=system)
        self._run.request(self._model, self._provider)
        self._in_response, self._has_ended = True, False
        self._responses += 1
        self._keys.clear()
        self._written.clear()

    def _close(self, last: object = None) -> None:
        """The response is whole; its message has what its events do not report. The last one has what is left."""
        if not self._in_response:
            return
        messages = _messages(self._source if last is None else last)
        responses = [each for each in messages if member(each, "kind") == "response"][: self._responses]
        self._in_response = False
        reason = None
        if len(responses) == self._responses:
            message = responses[-1]
            self._model = text(member(message, "model_name")) or self._model
            self._provider = text(member(message, "provider_name")) or self._provider
            reason = stop_of(member(message, "finish_reason"))
            usages = [_usage(member(each, "usage")) for each in responses[self._counted :]]
            known = [usage for usage in usages if usage is not None]
            if known:
                self._run.usage(sum(known[1:], known[0]))
            self._counted = self._responses
        self._run.respond(reason)

    def _part_start(self, item: object) -> None:
        index, part = count(member(item, "index")) or 0, member(item, "part")
        if not self._in_response or (index == 0 and self._has_ended):
            self._begin()
        kind, self._keys[index] = text(member(part, "part_kind")), index
        if kind == "tool-call":
            self._keys[index] = id = text(member(part, "tool_call_id"))  # noqa: A001 - what it is
            self._run.call(id, text(member(part, "tool_name")))
            self._arguments(id, member(part, "args"))
        elif kind in BUILT_IN:
            self._run.custom(f"pydantic_ai.{kind}", json_of(part))
        else:
            self._text(kind, index, member(part, "content"))

    def _text(self, kind: str, index: int, content: object) -> None:
        if kind == "text":
            self._run.text(text(content), index)
        elif kind == "thinking":
            self._run.thinking(text(content), index)

    def _arguments(self, key: int | str, arguments: object) -> None:
        if isinstance(key, str) and isinstance(arguments, str) and arguments:
            self._written.add(key)
            self._run.arguments(arguments, key)

    def _part_delta(self, item: object) -> None:
        index, delta = count(member(item, "index")) or 0, member(item, "delta")
        kind = text(member(delta, "part_delta_kind"))
        if kind == "tool_call":
            self._arguments(self._keys.get(index, index), member(delta, "args_delta"))
        else:
            self._text(kind, index, member(delta, "content_delta"))

    def _part_end(self, item: object) -> None:
        key = self._keys.get(count(member(item, "index")) or 0, "")
        arguments = member(item, "part.args")
        self._has_ended = True
        if not isinstance(key, str):  # a call may have more arguments when the next one has begun
            self._run.stop_block(key)
        elif key not in self._written and isinstance(arguments, dict):
            self._arguments(key, content_of(arguments))  # pyright: ignore[reportUnknownArgumentType]

    def _tool_call(self, item: object) -> None:
        self._close()
        if getattr(item, "args_valid", True) is not None:  # else it does not run now
            part = member(item, "part")
            self._run.tool_start(text(member(part, "tool_call_id")), text(member(part, "tool_name")))

    def _tool_result(self, item: object) -> None:
        self._close()
        part = member(item, "part") or member(item, "result")
        is_error = member(part, "part_kind") == "retry-prompt" or member(part, "outcome") not in (None, "success")
        content = content_of(member(part, "content"))
        id, name = text(member(part, "tool_call_id")), text(member(part, "tool_name"))  # noqa: A001 - what it is
        self._run.tool_stop(id, content, is_error=is_error, name=name)

    def _enqueued(self, item: object) -> None:
        self._close()
        for message in members(item, "messages"):
            _, given = _prompt(message)
            self._run.add(*(read_input(given) if given else ()))

    def _custom(self, item: object) -> None:
        self._run.custom(f"pydantic_ai.{text(member(item, 'name')) or 'custom'}", json_of(item))

    def _result(self, item: object) -> None:
        self._end(member(item, "result"))

    def _end(self, result: object) -> None:
        self._close(result)
        output = member(result, "output")
        if type(output).__name__ == "DeferredToolRequests":
            ids = [text(member(call, "tool_call_id")) for call in members(output, "approvals")]
            self._run.pause("calls wait for an approval or a result", ids)
        self._run.end()


def _messages(source: object) -> list[object]:
    """The messages of a run, of its result or of the context of a handler."""
    return called(source, "new_messages") or members(source, "messages")


def _prompt(message: object) -> tuple[str | None, str | None]:
    """The system prompt and the input of the messages with which a run begins, as far as they are texts."""
    system, given = [text(member(message, "instructions"))], list[str]()
    for part in members(message, "parts"):
        content = member(part, "content")
        texts = [content] if isinstance(content, str) else members(part, "content")
        kind = member(part, "part_kind")
        to = system if kind == "system-prompt" else given if kind == "user-prompt" else []
        to += [text(each) or text(member(each, "content")) for each in texts]
    return "\n\n".join(filter(None, system)) or None, "\n".join(filter(None, given)) or None


def _usage(usage: object) -> Usage | None:
    """The tokens of a response; ``None`` if its provider has not reported them."""
    if member(usage, "unmeasured_requests"):
        return None
    return usage_of(
        usage,
        "input_tokens",
        "output_tokens",
        cache_read="cache_read_tokens",
        cache_creation="cache_write_tokens",
        cache_creation_1h="cache_write_1h_tokens",
        reasoning="output_reasoning_tokens",
    )
