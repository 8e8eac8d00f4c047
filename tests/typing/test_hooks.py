"""What the type checker refuses of hooks.

Verdicts that their point does not accept. pyright is the judge, pytest only runs it.

Each line that must not pass has an ignore, and this setting makes an ignore an error where nothing is wrong.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar, assert_type

import pytest
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, after_tool_call, before_tool_call, on_message_send
from rxworker.errors import ConfigurationError
from rxworker.hooks import (
    Cancel,
    Finish,
    Hook,
    HookContext,
    Hooks,
    MessageSendContext,
    Skip,
    SupportsAfterToolCall,
    SupportsBeforeToolCall,
    SupportsOnTurnEnd,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
    chain,
    from_operator,
    from_stateful_operator,
)
from rxworker.hooks.decorate import HookLike
from rxworker.testing import ScriptedModel


class Fine:
    def before_tool_call(self, context: ToolCallContext) -> Skip | None:
        return Skip("no")


class FineLater:
    name = "later"
    hook_settings: ClassVar = {"priority": 1}

    async def before_tool_call(self, context: HookContext) -> Skip | None:
        return Skip("no")

    def on_turn_end(self, context: TurnEndContext) -> Awaitable[Finish] | None:
        return None


class Wrong:
    def before_tool_call(self, context: ToolCallContext) -> Cancel:
        return Cancel("no")


class WrongLater:
    async def on_message_send(self, context: MessageSendContext) -> Skip | None:
        return Skip("no")


class WrongContext:
    def after_tool_call(self, context: ToolCallContext) -> None: ...


class NotTrue:
    def before_tool_call(self, context: ToolCallContext) -> bool:
        return True


class Nothing:
    def before_tool_calls(self, context: ToolCallContext) -> None: ...


class Several(SupportsBeforeToolCall, SupportsOnTurnEnd):
    """Derived from the protocols, each method is checked by itself."""

    def before_tool_call(self, context: ToolCallContext) -> Skip | None:
        return None

    def on_turn_end(self, context: TurnEndContext) -> Skip | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


class Incomplete(SupportsBeforeToolCall, SupportsAfterToolCall):
    def after_tool_call(self, context: ToolResultContext) -> None: ...


def is_fine(context: ToolCallContext) -> bool:
    return True


def to_verdict(context: ToolCallContext) -> ToolCallContext | Skip:
    return Skip("no")


def to_other_verdict(context: ToolCallContext) -> Cancel:
    return Cancel("no")


def test_methods_with_the_verdicts_of_their_point_pass() -> None:
    hooks: list[HookLike] = [Fine(), FineLater(), before_tool_call(is_none)]
    worker = Worker(ScriptedModel([]), hooks=hooks)
    worker.hooks.add(Fine())
    chain(Fine(), Fine())
    assert len(worker.hooks.list()) == 5


def is_none(context: ToolCallContext) -> None:
    """Go on."""


def test_methods_with_other_verdicts_do_not() -> None:
    Worker(ScriptedModel([]), hooks=[Wrong()])  # pyright: ignore[reportArgumentType]
    Hooks([WrongLater()])  # pyright: ignore[reportArgumentType]
    Hooks([WrongContext()])  # pyright: ignore[reportArgumentType]
    Hooks().add(NotTrue())  # pyright: ignore[reportArgumentType]
    chain(Wrong())  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="did you mean 'before_tool_call'"):
        Hooks([Nothing()])  # pyright: ignore[reportArgumentType]


def test_an_object_may_derive_from_the_protocols_of_its_points() -> None:
    assert len(Hooks([Several()])) == 2
    Incomplete()  # pyright: ignore[reportAbstractUsage]


def test_operators_are_typed_by_their_point() -> None:
    assert_type(before_tool_call(ops.filter(is_fine)), Hook[ToolCallContext])
    assert_type(before_tool_call(ops.map(to_verdict)), Hook[ToolCallContext])
    assert_type(after_tool_call(ops.take(1)), Hook[ToolResultContext])
    assert_type(before_tool_call(from_operator(ops.map(to_verdict))), Hook[ToolCallContext])
    assert_type(before_tool_call(from_stateful_operator(ops.take(2))), Hook[ToolCallContext])
    before_tool_call(ops.map(to_other_verdict))  # pyright: ignore[reportArgumentType, reportCallIssue]
    on_message_send(ops.filter(is_fine))  # pyright: ignore[reportArgumentType, reportCallIssue]

    @before_tool_call(name="own")
    def own(calls: Observable[ToolCallContext]) -> Observable[ToolCallContext | Skip]:
        return calls.pipe(ops.map(to_verdict))

    made: Hook[Any] = own
    assert made.name == "own"
