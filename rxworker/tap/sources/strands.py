"""The events of Strands Agents: of ``stream_async`` of an agent, a graph and a swarm.

Theory of operation. An event is a mapping, and one of its members is its kind. The chunks of the model are under
``event``; what has the same text in another form is left out. A response stays open until its message is whole, since
its tokens come after its end. The results of all tools of a response come in one message.
"""

from __future__ import annotations

from msgspec.structs import replace

from rxworker.messages import JsonObject
from rxworker.messages.message import Input
from rxworker.messages.usage import Usage
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import RunMapper
from rxworker.tap.sources.values import count, json_of, member, members, object_of, stop_of, text, text_of, usage_of

NODE_EVENTS = ("handoff", "node_start", "node_stream", "node_stop", "node_cancel", "node_interrupt")
"""What graphs and swarms report, besides their result."""


class Strands(RunMapper):
    """Makes a run of the events of a Strands agent: a mapper for `rxworker.tap.tap` and `rxworker.tap.tee`.

    An agent that is a tool of another one is a run inside its call. Each execution of a node of a graph or a swarm is a
    call of its name, with the run of its agent inside. An interrupt pauses the run. All tools of a response end when
    the last one has. Not reported: the conversation before, the address of the model, and when a tool begins and ends
    by itself.

    Args:
        prompt: The prompt, which the events do not have.
        agent: The agent, for its name, its system prompt and the name of its model; or the graph or the swarm.

    Example:
        >>> mapper = Strands("Hello")
        >>> chunks = [{"messageStart": {}}, {"contentBlockDelta": {"delta": {"text": "Hi."}}}]
        >>> said = {"message": {"role": "assistant", "content": [{"text": "Hi."}]}}
        >>> items = [*({"event": each} for each in chunks), said, {"result": {"stop_reason": "end_turn"}}]
        >>> events = [each for item in items for each in mapper.feed(item)]
        >>> type(events[0].event).__name__, type(events[-1].event).__name__
        ('RunStart', 'RunStop')
    """

    def __init__(self, prompt: Input | None = None, agent: object = None) -> None:
        super().__init__(RunBuilder(text(agent, "name") or "strands"))
        self._prompt, self._system = prompt, text(agent, "system_prompt") or None
        self._model = text(agent, "model.config.model_id")
        self._stop: object = None
        self._inside: dict[str, Strands] = {}
        self._nodes: dict[str, str] = {}  # the calls of the nodes that run
        self._executed = 0

    def _take(self, item: object) -> None:
        kinds = object_of(item)
        if self._run.status == "new":
            self._run.start(self._prompt, system=self._system)
        if self._run.status == "over":
            return
        if (kind := text(item, "type").removeprefix("multiagent_")) in NODE_EVENTS:
            self._node(kind, text(item, "node_id"), item)
        elif "event" in kinds:
            self._chunk(object_of(member(item, "event")))
        elif "message" in kinds:
            self._message(member(item, "message"))
        elif "event_loop_throttled_delay" in kinds:
            self._run.retract("throttled")
        elif "tool_stream_event" in kinds:
            event = member(item, "tool_stream_event")
            self._progress(text(event, "tool_use.toolUseId"), member(event, "data"))
        elif "result" in kinds:
            self._result(member(item, "result"))

    def _chunk(self, chunk: JsonObject) -> None:
        run, call = self._run, member(chunk, "contentBlockStart.start.toolUse")
        delta = member(chunk, "contentBlockDelta.delta")
        if "messageStart" in chunk:
            run.request(self._model)
        elif call is not None:
            run.call(text(call, "toolUseId"), text(call, "name"))
        elif delta is not None:
            run.text(text(delta, "text"))
            run.thinking(text(delta, "reasoningContent.text"))
            run.arguments(text(delta, "toolUse.input"))
            run.signature(text(delta, "reasoningContent.signature"))
        elif "contentBlockStop" in chunk:
            run.stop_block()
        elif "messageStop" in chunk:
            self._stop = member(chunk, "messageStop.stopReason")
        else:
            run.usage(_usage(member(chunk, "metadata.usage")))

    def _message(self, message: object) -> None:
        run = self._run
        if member(message, "role") == "assistant":
            run.respond(stop_of(self._stop))
            for each in members(message, "content"):
                if call := text(each, "toolUse.toolUseId"):
                    run.tool_start(call, text(each, "toolUse.name"))
            return
        for each in members(message, "content"):
            if call := text(each, "toolResult.toolUseId"):
                self._inside.pop(call, None)
                content = [_part(part) for part in members(each, "toolResult.content")]
                run.tool_stop(call, "\n".join(content), is_error=member(each, "toolResult.status") == "error")

    def _progress(self, call: str, data: object) -> None:
        """What a tool reports: the events of an agent, or anything else."""
        if not call:
            return
        if {"init_event_loop", "event", "message"} & {*object_of(data)} or call in self._inside:
            self._take_inside(call, data)
        elif isinstance(data, str | int | float):
            self._run.tool_progress(call, data)

    def _take_inside(self, call: str, item: object) -> None:
        inside = self._inside.setdefault(call, Strands())
        inside._run = self._run.inside(call)
        inside._run.late_calls = bool(inside._nodes)
        inside._take(item)

    def _node(self, kind: str, node: str, item: object) -> None:
        run = self._run
        run.late_calls = True  # nodes run side by side
        if kind == "handoff":
            run.custom("strands.handoff", json_of(item))
        elif kind == "node_start":
            self._executed += 1
            self._nodes[node] = f"{node}-{self._executed}"
            run.tool_start(self._nodes[node], node)
        elif (call := self._nodes.get(node)) is None:
            return
        elif kind == "node_stream":
            self._take_inside(call, member(item, "event"))
        elif kind != "node_interrupt":
            del self._nodes[node]
            result = member(item, "node_result")
            said = text_of(member(result, "result.message.content")) or text(item, "message")
            status = text(result, "status.value") or text(result, "status")
            run.tool_stop(call, said, is_error=status != "completed")

    def _result(self, result: object) -> None:
        run, stop = self._run, member(result, "stop_reason")
        interrupts = members(result, "interrupts")
        if stop == "interrupt" or interrupts:
            reasons = [text(each, "reason") or text(each, "name") for each in interrupts]
            run.pause("; ".join(reasons), hook="pause")
        elif stop == "cancelled":
            run.abort("the agent was cancelled", "cancel")
        elif (text(result, "status.value") or text(result, "status")) == "failed":  # a swarm at one of its limits
            run.abort("the graph or the swarm has failed")
        run.end()


def _part(part: object) -> str:
    found = member(part, "json")
    return text_of([part]) if found is None else str(found)


def _usage(counts: object) -> Usage | None:
    """The tokens of a response. What came from a cache is part of the total, and of some models' input."""
    usage, whole = usage_of(counts), count(counts, "totalTokens")
    if usage is None or usage.output_tokens is None or not whole:
        return usage
    return replace(usage, input_tokens=max(usage.input_tokens or 0, whole - usage.output_tokens))
