"""The calls of one scope that were shown and have no result yet.

Methods that return an iterator yield the changes that follow.

A conversation with a call that has no result is refused by every provider, and a user interface shows such a call as
one that is still running. So each call that was shown gets a result, at the latest at the end of its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping

from rxworker.events import BlockType
from rxworker.messages import ToolCall, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.views.changes import BlockClose, BlockGrow, BlockOpen, CallResult, Change, Changes, Scope, ShownBlock


class CallTracker:
    """The calls of one scope.

    A provider may use an id twice, and a run inside the run has ids of its own. Clients need ids that differ, so the
    second call of an id is shown with ``~2`` after it, and one of a run inside with its scope before it.

    Args:
        scope: The scope.
        used: How often each id was used before.
        elsewhere: Calls that were shown by an earlier run.

    Attributes:
        scope: The scope.
        own_tools: The names of the tools that the worker runs itself; ``None`` where it is not known.
        answered: The ids of the calls that have had their result in this turn.
        seconds: How long each call ran whose result follows.
    """

    def __init__(self, scope: Scope, used: Counter[str], elsewhere: Mapping[str, ToolCall] | None = None) -> None:
        self.own_tools: Collection[str] | None = None
        self.scope = scope
        self._used = used
        self._elsewhere = elsewhere or {}
        self._waiting: list[ShownBlock] = []
        self.answered: set[str] = set()
        self._shown: set[str] = set()
        self.seconds: dict[str, float] = {}

    def shown_id(self, native: str) -> str:
        """The id under which the latest call of this id is shown."""
        name = f"{self.scope.id}/{native}" if self.scope.id else native
        number = self._used[native]
        return name if number <= 1 else f"{name}~{number}"

    def find(self, native: str) -> ShownBlock | None:
        """The first call of this id that has no result."""
        return next((call for call in self._waiting if call.call_id == native), None)

    def has_answered(self, native: str) -> bool:
        """Whether a call of this id that was shown here has had its result in this turn."""
        return native in self.answered and native in self._shown

    def show(
        self,
        native: str,
        name: str,
        response: str,
        *,
        block_type: BlockType = BlockType.TOOL_USE,
        is_free_text: bool = False,
        starts: bool = False,
    ) -> ShownBlock:
        """Return a new call as it is shown. It waits for its result from now on."""
        self._used[native] += 1
        self._shown.add(native)
        is_held = block_type is BlockType.TOOL_USE and self.is_held(name, starts=starts)
        shown = self.shown_id(native)
        return self._wait(
            ShownBlock(self.scope, shown, response, block_type, name, is_free_text, call_id=native, is_held=is_held)
        )

    def is_held(self, tool: str, *, starts: bool = False) -> bool:
        """Whether a call of a tool is held back.

        ``starts`` if the worker runs it now, or reports that it has no such tool.
        """
        return not starts if self.own_tools is None else tool not in self.own_tools

    def announce(self, call: ToolCall, response: str, *, starts: bool = False) -> Generator[Change, None, ShownBlock]:
        """Show a call whose block was not seen, in one go; ``starts`` if the worker runs it now."""
        text = call.input if isinstance(call.input, str) else encode_lenient(call.input).decode()
        shown = self.show(call.id, call.name, response, is_free_text=isinstance(call.input, str), starts=starts)
        yield BlockOpen(shown)
        if text:
            yield BlockGrow(shown, text)
        yield BlockClose(shown)
        return shown

    def expect(self, call: ToolCall) -> ShownBlock:
        """Wait for the result of a call that was shown before."""
        shown = self.shown_id(call.id)
        return self._wait(ShownBlock(self.scope, shown, "", BlockType.TOOL_USE, call.name, call_id=call.id))

    def take(self, native: str) -> ShownBlock | None:
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
            self.scope,
            self.shown_id(native) if call is None else call.id,
            result,
            self.seconds.pop(native, seconds),
            is_denied,
            call=self._elsewhere.get(native) if call is None else None,
            is_provided=call is not None and call.is_provided,
        )

    def give_up(self, text: str, shown: str = "") -> Changes:
        """Report a placeholder as the result of one call, or of each that waits."""
        for call in [each for each in self._waiting if shown in ("", each.id)]:
            self._waiting.remove(call)
            yield self._placeholder(call, text)
        if not shown:
            self.answered.clear()

    def _wait(self, call: ShownBlock) -> ShownBlock:
        self._waiting.append(call)
        self.answered.discard(call.call_id)
        return call

    def _placeholder(self, call: ShownBlock, text: str) -> CallResult:
        result = ToolResult(call.call_id, text, is_error=True, name=call.tool)
        return CallResult(self.scope, call.id, result, is_placeholder=True, is_provided=call.is_provided)
