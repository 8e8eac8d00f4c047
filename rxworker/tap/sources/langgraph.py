"""LangGraph and LangChain: the events of ``graph.astream_events(..., version="v2")``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxworker.errors import describe
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.values import content_of, items, json_of, member, members, stop_of, text, usage_of

TOOL = ("on_tool_start", "on_tool_end", "on_tool_error")


class LangGraph:
    """The mapper of the events of LangGraph.

    What happens within a tool, such as a graph that it calls, is a run inside the call. A run has one response at a
    time: what branches do beside a response is recorded after it. That a request has failed is not reported; it is
    known when its node ends, and what it has brought is retracted then.

    Example:
        >>> mapper = LangGraph()
        >>> item = {"event": "on_chat_model_start", "run_id": "1", "parent_ids": ["0"], "data": {}}
        >>> [type(each.event).__name__ for each in mapper.feed(item)]
        ['RunStart', 'TurnStart', 'AttemptStart', 'Status']
    """

    def __init__(self) -> None:
        self._run = RunBuilder("langgraph")
        self._root = ""
        self._main = _Level(self._run)
        self._levels: dict[str, _Level] = {}  # those inside tools, by the ids that events have for the tools
        self._interrupts: list[object] = []

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an event."""
        kind, id = text(member(item, "event")), text(member(item, "run_id"))  # noqa: A001 - what it is
        if not self._root and kind == "on_chain_start" and not members(item, "parent_ids"):
            self._root = id
            self._run.name = text(member(item, "name")) or self._run.name
            self._run.start(_input(member(item, "data.input")) or None)
        level = self._level(members(item, "parent_ids")) if self._levels else self._main
        level.feed(kind, id, item)
        if kind == "on_tool_start":
            self._levels[id] = _Level(level, id)
        elif kind in TOOL:
            self._levels.pop(id, None)
        elif id == self._root and kind == "on_chain_stream":
            self._interrupts += members(item, "data.chunk.__interrupt__")
        elif id == self._root and kind == "on_chain_end":
            self._end()
        return self._run.take()

    def _level(self, parents: list[object]) -> _Level:
        around = [self._levels[each] for each in parents if isinstance(each, str) and each in self._levels]
        return around[-1] if around else self._main

    def _end(self) -> None:
        self._main.release()
        if self._interrupts:
            reasons = [content_of(member(each, "value")) for each in self._interrupts]
            self._run.pause("; ".join([each for each in reasons if isinstance(each, str)]), hook="pause")
        self._run.end()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end: the stream has that of the graph before, unless it has failed."""
        if error is not None:
            for level in (*self._levels.values(), self._main):
                level.settle()
            self._run.abort_with(error)
        return self._run.take()


class _Level:
    """What happens in a run, or within a tool: there it is a run of its own as soon as a model is called.

    Args:
        outer: The builder of the run, or the level of the tool.
        tool: The id that events have for the tool.
    """

    def __init__(self, outer: RunBuilder | _Level, tool: str = "") -> None:
        self._outer, self._tool = outer, tool
        self._open = ""  # the id that events have for the response
        self._parents: list[object] = []
        self._held: list[tuple[_Level, str, str, object]] = []
        self._waiting: list[tuple[str, str, object]] = []  # calls that have not started: id, name, arguments
        self._ids: dict[object, str] = {}  # the ids of the calls of the response, by their places
        self._tools: dict[str, str] = {}  # the ids of calls, by those that events have
        self._errors: dict[str, str] = {}  # of calls whose results have not come
        self._has_content = False
        self._handlers: dict[str, Callable[[str, object], None]] = {
            "on_chat_model_start": self._start,
            "on_chat_model_stream": self._stream,
            "on_chat_model_end": self._finish,
            "on_tool_start": self._tool_start,
            "on_tool_end": self._tool_end,
            "on_tool_error": self._tool_error,
            "on_chain_end": self._chain_end,
            "on_custom_event": self._custom,
        }

    @property
    def run(self) -> RunBuilder:
        """The builder of its run."""
        outer = self._outer
        return outer if isinstance(outer, RunBuilder) else outer.run.inside(outer._tools[self._tool])

    def feed(self, kind: str, id: str, item: object) -> None:  # noqa: A002 - what it is
        """Take an event, or hold it until the response is over that it is not of, or until its tool has begun."""
        if kind not in self._handlers:
            return
        if isinstance(self._outer, _Level) and self._tool not in self._outer._tools:
            self._outer._held.append((self, kind, id, item))
        elif self._open and kind == "on_chain_end" and id in self._parents:
            self._open = ""  # its request has failed: what follows is another attempt, or another way
            self.run.retract("the request has failed")
            self.release()
        elif self._open and id != self._open:
            self._held.append((self, kind, id, item))
        else:
            self._handlers[kind](id, item)

    def release(self) -> None:
        """Take what is held."""
        held, self._held = self._held, []
        for level, kind, id, item in held:  # noqa: A001 - what it is
            level.feed(kind, id, item)

    def _start(self, id: str, item: object) -> None:  # noqa: A002 - what it is
        self.settle()
        self._open, self._parents = id, members(item, "parent_ids")
        self._waiting, self._ids, self._has_content = [], {}, False
        model, provider = member(item, "metadata.ls_model_name"), member(item, "metadata.ls_provider")
        self.run.request(text(model), text(provider))

    def _stream(self, _: str, item: object) -> None:
        self._take(member(item, "data.chunk"))

    def _take(self, chunk: object) -> None:
        content = member(chunk, "content")
        if isinstance(content, str):  # as of nearly every chunk
            self._text(content)
        for block in items(content):
            self._text(text(member(block, "text")) or text(block))
            self._thinking(text(member(block, "thinking")) or text(member(block, "reasoning")))
            self._thinking("".join([text(member(each, "text")) for each in members(block, "summary")]))
        if more := member(chunk, "additional_kwargs"):
            self._thinking(text(member(more, "reasoning_content")))
        for call in members(chunk, "tool_call_chunks"):
            place, id = member(call, "index"), text(member(call, "id"))  # noqa: A001 - what it is
            if id and id not in self._ids.values():
                self._ids[place if isinstance(place, int | str) else id] = id
                self.run.call(id, text(member(call, "name")))
            written = self._ids.get(place if isinstance(place, int | str) else id, id)
            self.run.arguments(text(member(call, "args")), written)

    def _text(self, added: str) -> None:
        if added:
            self._has_content = True
            self.run.text(added)

    def _thinking(self, added: str) -> None:
        if added:
            self._has_content = True
            self.run.thinking(added)

    def _finish(self, _: str, item: object) -> None:
        message = member(item, "data.output")
        if not self._has_content and not self._ids:  # it was not streamed
            self._take(message)
        for call in members(message, "tool_calls"):
            id, name = text(member(call, "id")), text(member(call, "name"))  # noqa: A001 - what it is
            self._waiting.append((id, name, member(call, "args")))
            if id not in self._ids.values():
                self.run.call(id, name, json_of(member(call, "args")))
        usage = usage_of(
            member(message, "usage_metadata"),
            "input_tokens",
            "output_tokens",
            cache_read="input_token_details.cache_read",
            cache_creation="input_token_details.cache_creation",
            reasoning="output_token_details.reasoning",
        )
        if usage is not None:
            self.run.usage(usage)
        about = member(message, "response_metadata")
        self.run.respond(stop_of(member(about, "finish_reason") or member(about, "stop_reason")))
        self._open = ""
        self.release()

    def _tool_start(self, id: str, item: object) -> None:  # noqa: A002 - what it is
        name, given = text(member(item, "name")), member(item, "data.input")
        named = [call for call in self._waiting if call[1] == name]
        call = next((call for call in named if call[2] == given), named[0] if named else (id, name, given))
        self._waiting = [each for each in self._waiting if each is not call]
        self._tools[id] = call[0]
        self.run.tool_start(call[0], name, None if named else json_of(given))

    def _tool_end(self, id: str, item: object) -> None:  # noqa: A002 - what it is
        output = member(item, "data.output")
        messages = _results(member(output, "update.messages")) or _results([output])
        call = self._tools.pop(id, id)
        if messages:
            self._result(call, messages[-1])
        else:
            self.run.tool_stop(call, content_of(output))

    def _tool_error(self, id: str, item: object) -> None:  # noqa: A002 - what it is
        error = member(item, "data.error")
        self._errors[self._tools.pop(id, id)] = describe(error) if isinstance(error, BaseException) else str(error)

    def _chain_end(self, _: str, item: object) -> None:
        if self._errors:
            output = member(item, "data.output")
            for message in _results(member(output, "messages")) + _results(output):
                call = text(member(message, "tool_call_id"))
                if call in self._errors:
                    self._result(call, message)

    def _result(self, call: str, message: object) -> None:
        self._errors.pop(call, None)
        content, is_error = content_of(member(message, "content")), member(message, "status") == "error"
        self.run.tool_stop(call, content, is_error=is_error, name=text(member(message, "name")))

    def settle(self) -> None:
        """End the tools that have failed, whose results were not reported."""
        for call, error in self._errors.items():
            self.run.tool_stop(call, error, is_error=True)
        self._errors.clear()

    def _custom(self, _: str, item: object) -> None:
        name = text(member(item, "name"))
        self.run.custom(f"langgraph.{name or 'custom'}", json_of({"data": member(item, "data")}))


def _results(messages: object) -> list[object]:
    """The messages that are results of tools."""
    return [each for each in items(messages) if member(each, "type") == "tool"]


def _input(value: object) -> str:
    """The input of a graph: the last message of its state, or the state."""
    messages = members(value, "messages")
    last = messages[-1] if messages else value
    pair = items(last)
    content = pair[-1] if pair else member(last, "content") if messages else value
    parts = "\n".join([text(member(part, "text")) for part in items(content)])
    found = content if isinstance(content, str) else parts or (None if content is None else content_of(content))
    return found if isinstance(found, str) else ""
