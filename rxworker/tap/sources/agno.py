"""agno: the events of ``agent.arun(..., stream=True, stream_events=True)``, and of a team and a workflow."""

from __future__ import annotations

from rxworker.messages.message import Input
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import RunMapper
from rxworker.tap.sources.values import content_of, json_of, member, members, text, usage_of

PAUSED = ("requires_confirmation", "requires_user_input", "external_execution_required")


class Agno(RunMapper):
    """The mapper of the events of agno.

    Its events do not report the input. They report a call when its tool begins, so that a response with calls goes on
    until the next one begins. What a member of a team does is a run inside the call that has delegated it. A step of a
    workflow is a call of its name, with the run of its agent inside; what groups steps is left out.

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
        super().__init__(RunBuilder("agno", late_calls=True))
        self._given = given
        self._levels: dict[str, _Level] = {}

    def _take(self, item: object) -> None:
        kind, id = text(item, "event").removeprefix("Team"), text(item, "run_id")  # noqa: A001 - what it is
        if not kind:
            return
        if id not in self._levels:
            outer = self._levels.get(text(item, "parent_run_id"))
            name = text(item, "agent_name") or text(item, "team_name") or text(item, "workflow_name")
            if outer is not None:
                run = outer.inside(id, name)
            elif (flow := self._levels.get(text(item, "workflow_run_id"))) is not None:
                run = flow.within(text(item, "step_id"), name)
            else:
                run = self._run
                if run.status == "new":
                    run.name = name or run.name
                    run.start(self._given)
            self._levels[id] = _Level(run)
        self._levels[id].take(kind, item)

    def _end(self, error: Exception | None) -> None:
        """The stream has the end of its run, unless its reader has left."""
        if error is not None:
            for level in self._levels.values():
                level.settle()
        super()._end(error)


class _Level:
    """The events of one run."""

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self._begun = self._in_tools = False
        self._free: list[str] = []  # calls that run and that no run of a member is known to be in
        self._steps: dict[str, str] = {}  # the calls of steps, which a loop executes again

    def take(self, kind: str, item: object) -> None:
        """Take an event."""
        run = self._run
        match kind:
            case "RunContent" | "ReasoningContentDelta":
                self._content(text(item, "content"), text(item, "reasoning_content"))
            case "RunStarted":
                if self._begun:
                    run.retract("the run is repeated")
                self._begun = True
            case "ModelRequestStarted":
                self._in_tools = False
                run.request(text(item, "model"), text(item, "model_provider"))
            case "ModelRequestCompleted":
                run.usage(usage_of(item))
            case "ToolCallStarted" | "ToolCallCompleted" | "ToolCallError":
                self._tool(kind, text(item, "tool.tool_call_id"), item)
            case "RunPaused":
                self._pause([each for each in members(item, "tools") if any(member(each, why) for why in PAUSED)])
            case "StepStarted" | "StepCompleted" | "StepError":
                self._step(kind, text(item, "step_id"), item)
            case "WorkflowPaused":
                run.pause("a step waits for an answer", hook="pause")
            case "RunError" | "WorkflowError":
                self._fail(text(item, "content") or text(item, "error"), text(item, "error_type"))
            case "RunCancelled" | "WorkflowCancelled":
                self.settle()
                run.abort(text(item, "reason") or "cancelled", "cancel")
            case "RunCompleted" | "WorkflowCompleted":
                run.end()
            case "CustomEvent":
                run.custom(f"agno.{type(item).__name__}", json_of(item))
            case _:
                pass

    def inside(self, id: str, name: str) -> RunBuilder:  # noqa: A002 - what it is
        """The builder of the run of a member."""
        call = self._free.pop(0) if self._free else id
        self._run.tool_start(call, name)
        return self._run.inside(call, name)

    def within(self, step: str, name: str) -> RunBuilder:
        """The builder of the run of a step."""
        return self._run.inside(self._steps.get(step, step), name)

    def settle(self) -> None:
        """The response is whole if its tools have begun."""
        if self._in_tools:
            self._run.respond()

    def _content(self, added: str, thought: str) -> None:
        if self._in_tools and (added or thought):  # a version that does not report requests
            self._in_tools = False
            self._run.request()
        self._run.thinking(thought)
        self._run.text(added)

    def _tool(self, kind: str, call: str, item: object) -> None:
        if not call:
            return
        tool, self._in_tools = member(item, "tool"), True
        name, result, took = text(tool, "tool_name"), member(tool, "result"), member(tool, "metrics.duration")
        if kind == "ToolCallStarted":
            self._free.append(call)
            self._run.tool_start(call, name, json_of(member(tool, "tool_args")))
            return
        self._free = [each for each in self._free if each != call]
        content, is_error = member(item, "error") if result is None else result, member(tool, "tool_call_error") is True
        seconds = took if isinstance(took, float) else None
        self._run.tool_stop(call, content_of(content), is_error=is_error, name=name, seconds=seconds)

    def _step(self, kind: str, step: str, item: object) -> None:
        if kind == "StepStarted":
            self._in_tools = True
            self._steps[step] = f"{self._steps[step]}+" if step in self._steps else step
            self._run.tool_start(self._steps[step], text(item, "step_name"))
            return
        is_error = kind == "StepError"
        content = content_of(member(item, "error" if is_error else "content"))
        self._run.tool_stop(self._steps.get(step, step), content, is_error=is_error, name=text(item, "step_name"))

    def _pause(self, tools: list[object]) -> None:
        for tool in tools:
            self._run.call(text(tool, "tool_call_id"), text(tool, "tool_name"), json_of(member(tool, "tool_args")))
        self._run.pause("calls wait for an answer", [text(tool, "tool_call_id") for tool in tools])

    def _fail(self, reason: str, kind: str) -> None:
        reason = reason or kind or "the run has failed"
        if self._in_tools:
            self._run.respond()
        else:
            self._run.fail(reason, kind or None)
        self._run.abort(reason)
