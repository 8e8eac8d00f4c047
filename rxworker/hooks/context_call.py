"""What hooks before and after a tool call are given. They change things in place, by assigning or by reaching into them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, cast

import msgspec
from msgspec.structs import replace

from rxworker.errors import HookError
from rxworker.hooks.context import CallableTool, HookContext
from rxworker.hooks.points import HookPoint
from rxworker.messages import JsonObject, ToolCall, ToolMeta, ToolResult


@dataclass(kw_only=True, repr=False, eq=False)
class ToolCallContext(HookContext):
    """Before a tool call.

    Attributes:
        call: The call. Its ``input`` may be changed in place, or the call replaced.
        tool: The tool itself.
    """

    point: ClassVar[HookPoint | None] = HookPoint.BEFORE_TOOL_CALL

    call: ToolCall
    tool: CallableTool
    _given: ToolCall = field(init=False)

    def __post_init__(self) -> None:
        """Remember which call this is about."""
        self._given = self.call

    @property
    def call_id(self) -> str | None:
        """The id of the call."""
        return self._given.id

    def check(self) -> None:
        """Check that it is still this call, with whatever arguments.

        Raises:
            HookError: The hook has left something other than a call, or a call with another id or name.
        """
        _check_call(self.call, self._given, self)

    @property
    def meta(self) -> ToolMeta:
        """What the model sees of the tool; cannot be changed."""
        return self.tool.meta

    @property
    def input(self) -> JsonObject:
        """The arguments, to be changed in place. An empty object where the model's text was no JSON."""
        return self.call.input if isinstance(self.call.input, dict) else {}

    @property
    def tool_name(self) -> str | None:
        """The name of the tool that is called."""
        return self.call.name

    @property
    def tool_args(self) -> JsonObject | None:
        """The arguments; ``None`` where they are no object."""
        return self.call.input if isinstance(self.call.input, dict) else None

    @property
    def concerned(self) -> tuple[str, ...]:
        """The name of the tool that is called."""
        return (self.call.name,)

    @property
    def content(self) -> str:
        """The arguments as JSON text; of a tool that takes free text, that."""
        given = self.call.input
        return given if isinstance(given, str) else msgspec.json.encode(given).decode()

    def set_content(self, content: str) -> None:
        """Replace the arguments by those of a JSON text; of a tool that takes free text, the text.

        Raises:
            ValueError: The text is no JSON object.
        """
        given: JsonObject | str = content
        if not isinstance(self.call.input, str):
            given = msgspec.json.decode(content, type=cast("type[JsonObject]", dict[str, object]))
        self.call = replace(self.call, input=given)

    def checkpoint(self) -> Callable[[], None]:
        """Remember the call with its arguments."""
        call = copy.deepcopy(self.call)

        def restore() -> None:
            self.call = call

        return restore


@dataclass(kw_only=True, repr=False, eq=False)
class ToolResultContext(HookContext):
    """After a tool call.

    Attributes:
        call: What was called.
        result: What came of it; may be replaced.
        tool: The tool itself.
    """

    point: ClassVar[HookPoint | None] = HookPoint.AFTER_TOOL_CALL

    call: ToolCall
    result: ToolResult
    tool: CallableTool
    _given: ToolCall = field(init=False)

    def __post_init__(self) -> None:
        """Remember which call this is about."""
        self._given = self.call

    @property
    def call_id(self) -> str | None:
        """The id of the call."""
        return self._given.id

    def check(self) -> None:
        """Check that it is still about this call.

        Raises:
            HookError: The hook has left something other than a call, or a call with another id or name.
        """
        _check_call(self.call, self._given, self)

    @property
    def meta(self) -> ToolMeta:
        """What the model sees of the tool."""
        return self.tool.meta

    @property
    def tool_name(self) -> str | None:
        """The name of the tool that was called."""
        return self.call.name

    @property
    def tool_args(self) -> JsonObject | None:
        """What it was called with; ``None`` where that was no object."""
        return self.call.input if isinstance(self.call.input, dict) else None

    @property
    def tool_result(self) -> str | None:
        """The text of the result."""
        return self.result.text

    @property
    def concerned(self) -> tuple[str, ...]:
        """The name of the tool that was called."""
        return (self.call.name,)

    @property
    def content(self) -> str:
        """The text of the result."""
        return self.result.text

    def set_content(self, content: str) -> None:
        """Replace the text of the result; whether it is an error stays as it is."""
        self.result = replace(self.result, content=content)

    def withhold(self, reason: str) -> None:
        """Let the model read an error in place of the result."""
        self.result = ToolResult(self.call.id, reason, is_error=True, name=self.call.name)

    def checkpoint(self) -> Callable[[], None]:
        """Remember the result."""
        result = self.result

        def restore() -> None:
            self.result = result

        return restore


def _check_call(left: object, given: ToolCall, context: HookContext) -> None:
    """Refuse another call: the matchers of the next hooks, approvals, and the result of the call go by its name and its id."""
    if not isinstance(left, ToolCall):
        what = f"is {left!r}, which is no ToolCall"
    elif left.id != given.id:
        what = f"has the id {left.id!r} instead of {given.id!r}, which its result must name"
    elif left.name != given.name:
        what = f"is one of {left.name!r} instead of {given.name!r}, about which hooks and approvals were asked"
    else:
        return
    point = "" if context.point is None else context.point.value
    text = f"after hook {context.hook!r} the call {what}"
    raise HookError(text, hook=context.hook, point=point, kind="verdict")


__all__ = ["ToolCallContext", "ToolResultContext"]
