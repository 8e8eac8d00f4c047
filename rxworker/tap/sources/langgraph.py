"""LangGraph and LangChain: the events of ``graph.astream_events(..., version="v2")``."""

from __future__ import annotations

from rxworker.errors import describe
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import RunMapper
from rxworker.tap.sources.values import content_of, items, json_of, member, members, stop_of, text, text_of, usage_of

KINDS = (
    *("on_chat_model_start", "on_chat_model_stream", "on_chat_model_end"),
    *("on_tool_start", "on_tool_end", "on_tool_error", "on_chain_end", "on_custom_event"),
)
"""The events that are read, besides those of the graph itself."""


class LangGraph(RunMapper):
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
        super().__init__(RunBuilder("langgraph"))
        self._root = ""
        self._main = _Level(self._run)
        self._levels: dict[str, _Level] = {}  # those inside tools, by the ids that events have for the tools
        self._interrupts: list[object] = []

    def _take(self, item: object) -> None:
        kind, id = text(item, "event"), text(item, "run_id")  # noqa: A001 - what it is
        if not self._root and kind == "on_chain_start" and not members(item, "parent_ids"):
            self._root = id
            self._run.name = text(item, "name") or self._run.name
            self._run.start(_input(member(item, "data.input")) or None)
        parents = members(item, "parent_ids") if self._levels else ()
        around = [self._levels[each] for each in parents if isinstance(each, str) and each in self._levels]
        level = around[-1] if around else self._main
        if kind in KINDS:
            level.feed(kind, id, item)
        if kind == "on_tool_start":
            self._levels[id] = _Level(level, id)
        elif kind in ("on_tool_end", "on_tool_error"):
            self._levels.pop(id, None)
        elif id == self._root and kind == "on_chain_stream":
            self._interrupts += members(item, "data.chunk.__interrupt__")
        elif id == self._root and kind == "on_chain_end":
            self._main.release()
            if self._interrupts:
                reasons = [content_of(member(each, "value")) for each in self._interrupts]
                self._run.pause("; ".join([each for each in reasons if isinstance(each, str)]), hook="pause")
            self._run.end()

    def _end(self, error: Exception | None) -> None:
        if error is not None:
            for level in (*self._levels.values(), self._main):
                level.settle()
        super()._end(error)


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
        self._tools: dict[str, str] = {}  # the ids of calls, by those that events have
        self._errors: dict[str, str] = {}  # of calls whose results have not come

    @property
    def run(self) -> RunBuilder:
        """The builder of its run."""
        outer = self._outer
        return outer if isinstance(outer, RunBuilder) else outer.run.inside(outer._tools[self._tool])

    def feed(self, kind: str, id: str, item: object) -> None:  # noqa: A002 - what it is
        """Take an event, or hold it until the response is over that it is not of, or until its tool has begun."""
        if isinstance(self._outer, _Level) and self._tool not in self._outer._tools:
            self._outer._held.append((self, kind, id, item))
        elif self._open and kind == "on_chain_end" and id in self._parents:
            self._open = ""  # its request has failed: what follows is another attempt, or another way
            self.run.retract("the request has failed")
            self.release()
        elif self._open and id != self._open:
            self._held.append((self, kind, id, item))
        else:
            self._take(kind, id, item)

    def release(self) -> None:
        """Take what is held."""
        held, self._held = self._held, []
        for level, kind, id, item in held:  # noqa: A001 - what it is
            level.feed(kind, id, item)

    def _take(self, kind: str, id: str, item: object) -> None:  # noqa: A002 - what it is
        run = self.run
        match kind:
            case "on_chat_model_stream":
                self._write(member(item, "data.chunk"))
            case "on_chat_model_start":
                self.settle()
                self._open, self._parents = id, members(item, "parent_ids")
                run.request(text(item, "metadata.ls_model_name"), text(item, "metadata.ls_provider"))
            case "on_chat_model_end":
                self._finish(member(item, "data.output"))
            case "on_tool_start":
                self._tool_start(id, text(item, "name"), member(item, "data.input"))
            case "on_tool_end":
                self._tool_end(self._tools.pop(id, id), member(item, "data.output"))
            case "on_tool_error":
                error = member(item, "data.error")
                shown = describe(error) if isinstance(error, BaseException) else str(error)
                self._errors[self._tools.pop(id, id)] = shown
            case "on_chain_end":
                output = member(item, "data.output")
                for message in _results(member(output, "messages")) + _results(output) if self._errors else ():
                    if text(message, "tool_call_id") in self._errors:
                        self._result(text(message, "tool_call_id"), message)
            case _:  # one of the graph's own
                run.custom(f"langgraph.{text(item, 'name') or 'custom'}", json_of({"data": member(item, "data")}))

    def _write(self, chunk: object) -> None:
        run, content = self.run, member(chunk, "content")
        if isinstance(content, str):  # as of nearly every chunk
            run.text(content)
        for block in items(content):
            run.text(text(block, "text") or text(block))
            run.thinking(text(block, "thinking") or text(block, "reasoning") or text_of(member(block, "summary")))
        run.thinking(text(chunk, "additional_kwargs.reasoning_content"))
        for call in members(chunk, "tool_call_chunks"):
            place, id = member(call, "index"), text(call, "id")  # noqa: A001 - what it is
            key = place if isinstance(place, int | str) else id
            if id:
                run.call(id, text(call, "name"), key=key)
            run.arguments(text(call, "args"), key)

    def _finish(self, message: object) -> None:
        run = self.run
        if not run.has_blocks:  # it was not streamed
            self._write(message)
        for call in members(message, "tool_calls"):
            run.call(text(call, "id"), text(call, "name"), json_of(member(call, "args")))
        run.usage(usage_of(member(message, "usage_metadata")))
        about = member(message, "response_metadata")
        run.respond(stop_of(member(about, "finish_reason") or member(about, "stop_reason")))
        self._open = ""
        self.release()

    def _tool_start(self, id: str, name: str, given: object) -> None:  # noqa: A002 - what it is
        begun = {*self._tools.values(), *self._errors}
        named = [each for each in self.run.calls if each.name == name and each.id not in begun]
        found = next((each.id for each in named if each.input == given), named[0].id if named else None)
        self._tools[id] = found or id
        self.run.tool_start(self._tools[id], name, None if found else json_of(given))

    def _tool_end(self, call: str, output: object) -> None:
        messages = _results(member(output, "update.messages")) or _results([output])
        self._result(call, messages[-1]) if messages else self.run.tool_stop(call, content_of(output))

    def _result(self, call: str, message: object) -> None:
        self._errors.pop(call, None)
        content, is_error = content_of(member(message, "content")), member(message, "status") == "error"
        self.run.tool_stop(call, content, is_error=is_error, name=text(message, "name"))

    def settle(self) -> None:
        """End the tools that have failed, whose results were not reported."""
        for call, error in self._errors.items():
            self.run.tool_stop(call, error, is_error=True)
        self._errors.clear()


def _results(messages: object) -> list[object]:
    """The messages that are results of tools."""
    return [each for each in items(messages) if member(each, "type") == "tool"]


def _input(value: object) -> str:
    """The input of a graph: the last message of its state, or the state."""
    messages = members(value, "messages")
    last = messages[-1] if messages else value
    pair = items(last)
    content = pair[-1] if pair else member(last, "content") if messages else value
    return text_of(content, "\n") or ("" if content is None else text(content_of(content)))
