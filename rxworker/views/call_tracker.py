"""The calls of one scope that were shown and have no result yet.

Methods that return an iterator yield the changes that follow.

A conversation with a call that has no result is refused by every provider, and a user interface shows such a call as
one that is still running. So each call that was shown gets a result, at the latest at the end of its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from msgspec import Struct

from rxworker.events import BlockType
from rxworker.messages import ToolCall, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.views.changes import BlockClose, BlockGrow, BlockOpen, CallResult, Changes, Scope, ShownBlock


class OpenCall(Struct, frozen=True):
    """A call that has no result.

    Attributes:
        native: Its id as the model gave it.
        shown: Its id as it is shown.
        name: The tool's name.
        is_provided: Whether the provider runs the tool.
    """

    native: str
    shown: str
    name: str
    is_provided: bool = False


class CallTracker:
    """The calls of one scope.

    A provider may use an id twice, and a run inside the run has ids of its own. Clients need ids that differ, so the
    second call of an id is shown with ``~2`` after it, and one of a run inside with its scope before it.

    Args:
        scope: The scope.
        used: How often each id was used before.
        elsewhere: Calls that were shown by an earlier run.

    Attributes:
        own_tools: The names of the tools that the worker runs itself; ``None`` where it is not known.
        answered: The ids of the calls that have had their result in this turn.
        seconds: How long each call ran whose result follows.
    """

    def __init__(self, scope: Scope, used: Counter[str], elsewhere: Mapping[str, ToolCall] | None = None) -> None:
        self.own_tools: Collection[str] | None = None
        self._scope = scope
        self._used = used
        self._elsewhere = elsewhere or {}
        self._waiting: list[OpenCall] = []
        self.answered: set[str] = set()
        self._shown: set[str] = set()
        self.seconds: dict[str, float] = {}

    def shown_id(self, native: str) -> str:
        """The id under which the latest call of this id is shown."""
        name = f"{self._scope.id}/{native}" if self._scope.id else native
        number = self._used[native]
        return name if number <= 1 else f"{name}~{number}"

    def find(self, native: str) -> OpenCall | None:
        """The first call of this id that has no result."""
        return next((call for call in self._waiting if call.native == native), None)

    def has_answered(self, native: str) -> bool:
        """Whether a call of this id that was shown here has had its result in this turn."""
        return native in self.answered and native in self._shown

    def show(
        self,
        native: str,
        name: str,
        response: str,
        *,
        is_provided: bool = False,
        is_free_text: bool = False,
        starts: bool = False,
    ) -> ShownBlock:
        """Return a new call as it is shown. It waits for its result from now on."""
        self._used[native] += 1
        self._shown.add(native)
        shown = self.shown_id(native)
        self._wait(OpenCall(native, shown, name, is_provided))
        return ShownBlock(
            self._scope,
            shown,
            response,
            BlockType.SERVER_TOOL_USE if is_provided else BlockType.TOOL_USE,
            name,
            is_free_text,
            call_id=native,
            is_held=not is_provided and self.is_held(name, starts=starts),
        )

    def is_held(self, tool: str, *, starts: bool = False) -> bool:
        """Whether a call of a tool is held back.

        ``starts`` if the worker runs it now, or reports that it has no such tool.
        """
        return not starts if self.own_tools is None else tool not in self.own_tools

    def announce(self, call: ToolCall, response: str, *, starts: bool = False) -> Changes:
        """Show a call whose block was not seen, in one go; ``starts`` if the worker runs it now."""
        text = call.input if isinstance(call.input, str) else encode_lenient(call.input).decode()
        shown = self.show(call.id, call.name, response, is_free_text=isinstance(call.input, str), starts=starts)
        yield BlockOpen(shown)
        if text:
            yield BlockGrow(shown, text)
        yield BlockClose(shown)

    def expect(self, call: ToolCall) -> OpenCall:
        """Wait for the result of a call that was shown before."""
        waiting = OpenCall(call.id, self.shown_id(call.id), call.name)
        self._wait(waiting)
        return waiting

    def take(self, native: str) -> OpenCall | None:
        """Remove the first waiting call of this id, and return it."""
        if (call := self.find(native)) is not None:
            self._waiting.remove(call)
        return call

    def answer(
        self, result: ToolResult, seconds: float = 0.0, *, is_denied: bool = False, again: bool = False
    ) -> Changes:
        """Report the result of a call. A second result of the same call is dropped, unless ``again`` is set."""
        native = result.tool_use_id
        call = self.take(native)
        if call is None and native in self.answered and not again:
            return
        self.answered.add(native)
        yield CallResult(
            self._scope,
            self.shown_id(native) if call is None else call.shown,
            result,
            self.seconds.pop(native, seconds),
            is_denied,
            call=self._elsewhere.get(native) if call is None else None,
            is_provided=call is not None and call.is_provided,
        )

    def give_up(self, text: str, shown: str = "") -> Changes:
        """Report a placeholder as the result of one call, or of each that waits."""
        for call in [each for each in self._waiting if shown in ("", each.shown)]:
            self._waiting.remove(call)
            yield self._placeholder(call, text)
        if not shown:
            self.answered.clear()

    def _wait(self, call: OpenCall) -> None:
        self._waiting.append(call)
        self.answered.discard(call.native)

    def _placeholder(self, call: OpenCall, text: str) -> CallResult:
        result = ToolResult(call.native, text, is_error=True, name=call.name)
        return CallResult(self._scope, call.shown, result, is_placeholder=True, is_provided=call.is_provided)
