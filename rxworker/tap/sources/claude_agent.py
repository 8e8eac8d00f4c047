"""The messages of claude-agent-sdk: of ``query(...)``, or of ``ClaudeSDKClient.receive_messages()``.

Theory of operation. A message has whole blocks of a response, and several messages may be of one response. With
``include_partial_messages`` the events of Anthropic's stream come before them, and the blocks of what was streamed are
left out. A call may end before its response has: its result waits for that. A sub-agent is a run inside its call, also
where it goes on in the background after the call has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.messages import Json, JsonObject
from rxworker.messages.message import Input
from rxworker.messages.usage import Usage, less
from rxworker.providers.anthropic.wire import read_usage
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.claude_code import Thread, kind_of, take_response, take_results
from rxworker.tap.sources.session_files import object_of, text_of
from rxworker.tap.sources.values import member, members, stop_of, text

LIMITS = ("error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries")


class _Stream(Struct):
    """What is streamed of a response.

    Attributes:
        name: The id of the response.
        is_open: Whether it goes on.
        usage: Its tokens, as reported so far.
        stop: Why it ends.
        held: Results of its calls, which came before its end.
    """

    name: str = ""
    is_open: bool = False
    usage: JsonObject = field(default_factory=dict[str, Json])
    stop: object = None
    held: list[object] = field(default_factory=list[object])


class ClaudeAgent:
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
        self._prompt, self._name, self._number = prompt, name, 0
        self._begin()

    def _begin(self) -> None:
        self._main = Thread(RunBuilder(self._name, str(self._number)))
        self._threads: dict[str, Thread] = {}
        self._streams: dict[str, _Stream] = {}
        self._reported: dict[str, Usage] = {}  # by the responses without a stream

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of a message."""
        kind, run = type(item).__name__, self._main.run
        if run.is_over:
            self._number += 1
            self._begin()
            run, self._prompt = self._main.run, None
        if run.is_new and self._number and kind == "ResultMessage":
            return ()  # a second one, of what went on by itself within the same run
        if run.is_new and kind in ("StreamEvent", "AssistantMessage", "UserMessage", "ResultMessage"):
            given = text_of(member(item, "content")) if kind == "UserMessage" else ""
            run.start(self._prompt or given or None)
            if given and not self._prompt:
                return run.take()
        outer = text(member(item, "parent_tool_use_id"))
        if kind == "StreamEvent":
            self._event(outer, member(item, "event"))
        elif kind == "AssistantMessage":
            self._assistant(outer, item)
        elif kind == "UserMessage":
            self._user(outer, item)
        elif kind == "ResultMessage":
            self._result(item)
        elif member(item, "subtype") == "api_retry":
            run.retract(text(member(item, "data.error")) or "error")
        elif kind == "TaskNotificationMessage":
            thread = self._threads.pop(text(member(item, "tool_use_id")), None)
            thread.run.end() if thread is not None else None
        return run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end of the stream: without a result, the run has none, unless the stream has failed."""
        self._cut()
        if error is not None:
            self._main.run.abort_with(error)
        return self._main.run.take()

    def _cut(self) -> None:
        """End the sub-agents that go on."""
        for thread in self._threads.values():
            thread.run.abort("the run ended while it went on")
        self._threads = {}

    def _thread(self, outer: str) -> Thread:
        """The main agent, or a sub-agent by its call."""
        if not outer:
            return self._main
        known = self._threads.get(outer)
        if known is None:
            if outer in self._main.calls and not self._stream("").is_open:
                self._main.run.tool_start(outer)
                self._main.is_whole = True
            known = self._threads[outer] = Thread(self._main.run.beside(outer))
        return known

    def _stream(self, outer: str) -> _Stream:
        return self._streams.setdefault(outer, _Stream())

    def _event(self, outer: str, event: object) -> None:
        thread, stream = self._thread(outer), self._stream(outer)
        run, kind, index = thread.run, member(event, "type"), member(event, "index")
        key = f"{stream.name}/{index}"
        delta = member(event, "delta")
        if kind == "message_start":
            stream.name, stream.is_open, stream.usage = text(member(event, "message.id")), True, {}
            stream.stop = None
            take_response(thread, stream.name, text(member(event, "message.model")), (), {})
            self._take(thread, stream, member(event, "message.usage"))
        elif kind == "content_block_start" and member(event, "content_block.type") == "tool_use":
            call = text(member(event, "content_block.id"))
            run.call(call, text(member(event, "content_block.name")))
            thread.calls[call] = None
        elif kind == "content_block_delta":
            run.text(text(member(delta, "text")), key)
            run.thinking(text(member(delta, "thinking")), key)
            run.arguments(text(member(delta, "partial_json")))
            if signature := text(member(delta, "signature")):
                run.signature(signature, key)
        elif kind == "content_block_stop":
            run.stop_block()
        elif kind == "message_delta":
            self._take(thread, stream, member(event, "usage"))
            stream.stop = member(delta, "stop_reason")
        elif kind == "message_stop" and stream.is_open:
            stream.is_open, held, stream.held = False, stream.held, []
            run.respond(stop_of(stream.stop))
            thread.is_whole = True
            take_results(thread, held)

    def _take(self, thread: Thread, stream: _Stream, usage: object) -> None:
        stream.usage = stream.usage | {name: value for name, value in object_of(usage).items() if value is not None}
        if stream.usage:
            thread.run.usage(read_usage(stream.usage))

    def _assistant(self, outer: str, item: object) -> None:
        thread, stream = self._thread(outer), self._stream(outer)
        error, said = member(item, "error"), text_of(member(item, "content"))
        if isinstance(error, str):
            thread.run.fail(said, error)
            return
        name = text(member(item, "message_id")) or text(member(item, "uuid"))
        if name == stream.name:
            return  # it was streamed
        known = thread.usage if thread.response == name else None
        take_response(thread, name, text(member(item, "model")), members(item, "content"), {})
        if usage := object_of(member(item, "usage")):
            thread.usage = replace(read_usage(usage), is_partial=bool(outer))
            if thread.usage != known:
                thread.run.usage(less(thread.usage, thread.counted))
            if not outer:
                self._reported[name] = thread.usage

    def _user(self, outer: str, item: object) -> None:
        thread, stream = self._thread(outer), self._stream(outer)
        results = [each for each in members(item, "content") if kind_of(each) == "tool_result"]
        if not results:
            given = text_of(member(item, "content"))
            thread.run.start(given) if given else None
        elif stream.is_open:
            stream.held += results
        else:
            take_results(thread, results)
        if member(item, "tool_use_result.status") != "async_launched":
            for each in results:
                inside = self._threads.pop(text(member(each, "tool_use_id")), None)
                inside.run.end() if inside is not None else None

    def _result(self, item: object) -> None:
        run, kind, total = self._main.run, text(member(item, "subtype")), object_of(member(item, "usage"))
        last = self._reported.pop(self._main.response, None)
        if total and last is not None and not self._main.is_whole:
            rest = read_usage(total)
            for each in self._reported.values():
                rest = less(rest, each)
            run.usage(rest if rest.total_tokens > last.total_tokens else last)
        self._cut()
        if member(item, "is_error") is True or kind.startswith("error"):
            reason = text(member(item, "result")) or "; ".join(map(str, members(item, "errors"))) or kind
            is_cancelled = text(member(item, "terminal_reason")).startswith("aborted")
            run.abort(reason, "cancel" if is_cancelled else "limit" if kind in LIMITS else "error")
            return
        run.respond(stop_of(member(item, "stop_reason")))
        run.end()
