"""The messages of claude-agent-sdk: of ``query(...)``, or of ``ClaudeSDKClient.receive_messages()``.

Theory of operation. A message has whole blocks of a response, and several messages may be of one response. With
``include_partial_messages`` the events of Anthropic's stream come before them, and the blocks of what was streamed are
left out. A call may end before its response has: its result waits for that. A sub-agent is a run inside its call, also
where it goes on in the background after the call has ended.
"""

from __future__ import annotations

from msgspec import field
from msgspec.structs import replace

from rxworker.messages import Json, JsonObject
from rxworker.messages.message import Input
from rxworker.messages.usage import Usage, less
from rxworker.providers.anthropic.wire import read_usage
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.claude_code import Thread
from rxworker.tap.sources.mapper import RunMapper
from rxworker.tap.sources.values import kind_of, member, members, object_of, stop_of, text, text_of

LIMITS = ("error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries")


class _Agent(Thread):
    """The main agent, or a sub-agent, with what is streamed of a response.

    Attributes:
        streamed: The id of that response.
        is_open: Whether it goes on.
        counts: Its tokens, as reported so far.
        stop: Why it ends.
        held: Results of its calls, which came before its end.
    """

    streamed: str = ""
    is_open: bool = False
    counts: JsonObject = field(default_factory=dict[str, Json])
    stop: object = None
    held: list[object] = field(default_factory=list[object])

    def count(self, usage: object) -> None:
        """Take what the response that is streamed took so far."""
        self.counts |= {name: value for name, value in object_of(usage).items() if value is not None}
        self.run.usage(read_usage(self.counts) if self.counts else None)


class ClaudeAgent(RunMapper):
    """Makes runs of the messages of claude-agent-sdk: a mapper for `rxworker.tap.tap`.

    Each prompt is a run, which ends with its ``ResultMessage``; for several prompts of one client take
    `rxworker.tap.tap_each`. Without ``include_partial_messages`` texts come whole, and the tokens of the output are
    known at the end only: the last response has what the others do not report. Those of a sub-agent's output stay
    partial. Costs are those of the table of models, and not ``total_cost_usd``. Not reported: the system prompt, and
    what the program itself summarises.

    Args:
        prompt: The prompt, which the messages do not have.
        name: The name of the program in lists.

    Example:
        >>> from types import SimpleNamespace
        >>> class TextBlock(SimpleNamespace): ...
        >>> class AssistantMessage(SimpleNamespace): ...
        >>> class ResultMessage(SimpleNamespace): ...
        >>> mapper = ClaudeAgent("Hello")
        >>> hi = AssistantMessage(content=[TextBlock(text="Hi.")], model="claude-opus-5", message_id="m1")
        >>> events = [*mapper.feed(hi), *mapper.feed(ResultMessage(subtype="success", is_error=False))]
        >>> type(events[0].event).__name__, type(events[-1].event).__name__
        ('RunStart', 'RunStop')
    """

    def __init__(self, prompt: Input | None = None, name: str = "claude-agent") -> None:
        super().__init__(RunBuilder(name, "0"))
        self._prompt, self._number = prompt, 0
        self._begin()

    def _begin(self) -> None:
        self._main = _Agent(self._run)
        self._agents: dict[str, _Agent] = {}  # inside, by their calls
        self._reported: dict[str, Usage] = {}  # by the responses without a stream

    def _take(self, item: object) -> None:
        kind = type(item).__name__
        if self._run.status == "over":
            self._number += 1
            self._run, self._prompt = RunBuilder(self._run.name, str(self._number)), None
            self._begin()
        run = self._run
        if run.status == "new" and self._number and kind == "ResultMessage":
            return  # a second one, of what went on by itself within the same run
        if run.status == "new" and kind in ("StreamEvent", "AssistantMessage", "UserMessage", "ResultMessage"):
            given = text_of(member(item, "content")) if kind == "UserMessage" else ""
            run.start(self._prompt or given or None)
            if given and not self._prompt:
                return
        outer = text(item, "parent_tool_use_id")
        if kind == "StreamEvent":
            self._event(self._agent(outer), member(item, "event"))
        elif kind == "AssistantMessage":
            self._assistant(self._agent(outer), bool(outer), item)
        elif kind == "UserMessage":
            self._user(self._agent(outer), item)
        elif kind == "ResultMessage":
            self._result(item)
        elif member(item, "subtype") == "api_retry":
            run.retract(text(item, "data.error") or "error")
        elif kind == "TaskNotificationMessage":
            self._close(text(item, "tool_use_id"))

    def _end(self, error: Exception | None) -> None:
        """The end of the stream: without a result, the run has none, unless the stream has failed."""
        self._cut()
        super()._end(error)

    def _cut(self) -> None:
        """End the sub-agents that go on."""
        for agent in self._agents.values():
            agent.run.abort("the run ended while it went on")
        self._agents = {}

    def _close(self, outer: str) -> None:
        """A sub-agent has ended."""
        if (agent := self._agents.pop(outer, None)) is not None:
            agent.run.end()

    def _agent(self, outer: str) -> _Agent:
        """The main agent, or a sub-agent by its call."""
        main = self._main
        if outer and outer not in self._agents:
            if outer in main.calls and not main.is_open:
                main.run.tool_start(outer)
                main.is_whole = True
            self._agents[outer] = _Agent(main.run.beside(outer))
        return self._agents[outer] if outer else main

    def _event(self, agent: _Agent, event: object) -> None:
        run, kind, delta = agent.run, member(event, "type"), member(event, "delta")
        key = f"{agent.streamed}/{member(event, 'index')}"
        if kind == "message_start":
            agent.streamed, agent.is_open, agent.counts, agent.stop = text(event, "message.id"), True, {}, None
            agent.take_response(agent.streamed, text(event, "message.model"))
            agent.count(member(event, "message.usage"))
        elif kind == "content_block_start" and member(event, "content_block.type") == "tool_use":
            call = text(event, "content_block.id")
            run.call(call, text(event, "content_block.name"))
            agent.calls.add(call)
        elif kind == "content_block_delta":
            run.text(text(delta, "text"), key)
            run.thinking(text(delta, "thinking"), key)
            run.arguments(text(delta, "partial_json"))
            run.signature(text(delta, "signature"), key)
        elif kind == "content_block_stop":
            run.stop_block()
        elif kind == "message_delta":
            agent.count(member(event, "usage"))
            agent.stop = member(delta, "stop_reason")
        elif kind == "message_stop" and agent.is_open:
            agent.is_open, held, agent.held = False, agent.held, []
            run.respond(stop_of(agent.stop))
            agent.is_whole = True
            agent.take_results(held)

    def _assistant(self, agent: _Agent, is_inside: bool, item: object) -> None:
        if error := text(item, "error"):
            agent.run.fail(text_of(member(item, "content")), error)
            return
        name = text(item, "message_id") or text(item, "uuid")
        if name == agent.streamed:
            return  # it was streamed
        counts = object_of(member(item, "usage"))
        usage = replace(read_usage(counts), is_partial=is_inside) if counts else None
        agent.take_response(name, text(item, "model"), members(item, "content"), usage)
        if usage is not None and not is_inside:
            self._reported[name] = usage

    def _user(self, agent: _Agent, item: object) -> None:
        results = [each for each in members(item, "content") if kind_of(each) == "tool_result"]
        if not results:
            given = text_of(member(item, "content"))
            agent.run.start(given) if given else None
        elif agent.is_open:
            agent.held += results
        else:
            agent.take_results(results)
        if member(item, "tool_use_result.status") != "async_launched":
            for each in results:
                self._close(text(each, "tool_use_id"))

    def _result(self, item: object) -> None:
        run, kind, total = self._main.run, text(item, "subtype"), object_of(member(item, "usage"))
        last = self._reported.pop(self._main.response, None)
        if total and last is not None and not self._main.is_whole:
            rest = read_usage(total)
            for each in self._reported.values():
                rest = less(rest, each)
            run.usage(rest if rest.total_tokens > last.total_tokens else last)
        self._cut()
        if member(item, "is_error") is True or kind.startswith("error"):
            reason = text(item, "result") or "; ".join(map(str, members(item, "errors"))) or kind
            is_cancelled = text(item, "terminal_reason").startswith("aborted")
            run.abort(reason, "cancel" if is_cancelled else "limit" if kind in LIMITS else "error")
            return
        run.respond(stop_of(member(item, "stop_reason")))
        run.end()
