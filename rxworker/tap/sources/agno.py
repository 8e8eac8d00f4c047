"""agno: the events of ``agent.arun(..., stream=True, stream_events=True)``, and of a team."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxworker.messages.message import Input
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.values import content_of, json_of, member, members, text, usage_of

PAUSED = ("requires_confirmation", "requires_user_input", "external_execution_required")


class Agno:
    """The mapper of the events of agno.

    Its events do not report the input. They report a call when its tool begins, so that a response with calls goes on
    until the next one begins. What a member of a team does is a run inside the call that has delegated it.

    Args:
        given: The input of the run, which lists show.

    Example:
        >>> from types import SimpleNamespace as Item
        >>> mapper = Agno("Hi")
        >>> events = mapper.feed(Item(event="RunContent", run_id="1", content="Hello."))
        >>> [type(each.event).__name__ for each in events]
        ['RunStart', 'TurnStart', 'AttemptStart', 'Status', 'BlockStart', 'TextDelta']
    """

    def __init__(self, given: Input | None = None) -> None:
        self._given = given
        self._run = RunBuilder("agno", late_calls=True)
        self._levels: dict[str, _Level] = {}

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an event."""
        kind, id = text(member(item, "event")).removeprefix("Team"), text(member(item, "run_id"))  # noqa: A001 - what it is
        if not kind:
            return ()
        if id not in self._levels:
            outer = self._levels.get(text(member(item, "parent_run_id")))
            name = text(member(item, "agent_name")) or text(member(item, "team_name"))
            if outer is not None:
                self._levels[id] = _Level(outer.inside(id, name))
            else:
                if self._run.is_new:
                    self._run.name = name or self._run.name
                    self._run.start(self._given)
                self._levels[id] = _Level(self._run)
        self._levels[id].feed(kind, item)
        return self._run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end: the stream has that of the run before, unless its reader has left."""
        if error is not None:
            for level in self._levels.values():
                level.settle()
            self._run.abort_with(error)
        return self._run.take()


class _Level:
    """The events of one run."""

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self._begun = self._in_tools = False
        self._free: list[str] = []  # calls that run and that no run of a member is known to be in
        self._handlers: dict[str, Callable[[object], None]] = {
            "RunStarted": self._started,
            "ModelRequestStarted": self._request,
            "RunContent": self._content,
            "ReasoningContentDelta": self._content,
            "ModelRequestCompleted": self._usage,
            "ToolCallStarted": self._tool_start,
            "ToolCallCompleted": self._tool_stop,
            "ToolCallError": self._tool_stop,
            "RunPaused": self._paused,
            "RunError": self._error,
            "RunCancelled": self._cancelled,
            "RunCompleted": self._completed,
            "CustomEvent": self._custom,
        }

    def feed(self, kind: str, item: object) -> None:
        """Take an event."""
        if kind in self._handlers:
            self._handlers[kind](item)

    def inside(self, id: str, name: str) -> RunBuilder:  # noqa: A002 - what it is
        """The builder of the run of a member."""
        call = self._free.pop(0) if self._free else id
        self._run.tool_start(call, name)
        return self._run.inside(call, name)

    def settle(self) -> None:
        """The response is whole if its tools have begun."""
        if self._in_tools:
            self._run.respond()

    def _started(self, item: object) -> None:  # noqa: ARG002 - as a handler has it
        if self._begun:
            self._run.retract("the run is repeated")
        self._begun = True

    def _request(self, item: object) -> None:
        self._in_tools = False
        self._run.request(text(member(item, "model")), text(member(item, "model_provider")))

    def _content(self, item: object) -> None:
        added, thought = text(member(item, "content")), text(member(item, "reasoning_content"))
        if self._in_tools and (added or thought):  # a version that does not report requests
            self._in_tools = False
            self._run.request()
        self._run.thinking(thought)
        self._run.text(added)

    def _usage(self, item: object) -> None:
        usage = usage_of(
            item,
            "input_tokens",
            "output_tokens",
            cache_read="cache_read_tokens",
            cache_creation="cache_write_tokens",
            reasoning="reasoning_tokens",
        )
        if usage is not None:
            self._run.usage(usage)

    def _tool_start(self, item: object) -> None:
        self._in_tools = True
        tool = member(item, "tool")
        id = text(member(tool, "tool_call_id"))  # noqa: A001 - what it is
        if id:
            self._free.append(id)
            self._run.tool_start(id, text(member(tool, "tool_name")), json_of(member(tool, "tool_args")))

    def _tool_stop(self, item: object) -> None:
        tool = member(item, "tool")
        id, name = text(member(tool, "tool_call_id")), text(member(tool, "tool_name"))  # noqa: A001 - what it is
        result, took = member(tool, "result"), member(tool, "metrics.duration")
        if id:
            self._in_tools = True
            self._free = [each for each in self._free if each != id]
            self._run.tool_stop(
                id,
                content_of(member(item, "error") if result is None else result),
                is_error=member(tool, "tool_call_error") is True,
                name=name,
                seconds=took if isinstance(took, float) else None,
            )

    def _paused(self, item: object) -> None:
        waiting = [each for each in members(item, "tools") if any(member(each, why) for why in PAUSED)]
        for tool in waiting:
            id, name = text(member(tool, "tool_call_id")), text(member(tool, "tool_name"))  # noqa: A001 - what it is
            self._run.call(id, name, json_of(member(tool, "tool_args")))
        self._run.pause("calls wait for an answer", [text(member(tool, "tool_call_id")) for tool in waiting])

    def _error(self, item: object) -> None:
        reason = text(member(item, "content")) or text(member(item, "error_type")) or "the run has failed"
        if self._in_tools:
            self._run.respond()
        else:
            self._run.fail(reason, text(member(item, "error_type")) or None)
        self._run.abort(reason)

    def _cancelled(self, item: object) -> None:
        self.settle()
        self._run.abort(text(member(item, "reason")) or "cancelled", "cancel")

    def _completed(self, item: object) -> None:  # noqa: ARG002 - as a handler has it
        self._run.end()

    def _custom(self, item: object) -> None:
        self._run.custom(f"agno.{type(item).__name__}", json_of(item))
