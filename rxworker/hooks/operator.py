"""A reactivex operator as a hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import reactivex
from reactivex import Observable

from rxworker.hooks.context import HookContext
from rxworker.hooks.verdicts import Abort, Cancel, Continue, Finish, Skip, Verdict

C = TypeVar("C", bound=HookContext)

REASON = "This call was not allowed."


class OperatorFunction(Generic[C]):
    """An operator over contexts, to be given where a hook's function is. Made by `from_operator`."""

    def __init__(
        self,
        operator: Callable[[Observable[C]], Observable[C]],
        name: str,
        reason: str | None = None,
    ) -> None:
        self.operator = operator
        self.reason = reason
        self.__name__ = name

    def __call__(self, context: C) -> Observable[C]:
        """The context through the operator."""
        return reactivex.just(context).pipe(self.operator)

    async def ask(self, context: C, point: str) -> Verdict | None:
        """The verdict that the operator's notifications stand for at this point."""
        from reactivex import operators as ops  # by few: importing all of them takes its time

        try:
            passed = await self(context).pipe(
                ops.map(_passed), ops.default_if_empty(False), ops.take(1)
            )
        except Exception as error:
            return refused(point, error)
        return let_through(point) if passed else dropped(point, self.reason)


def from_operator(
    operator: Callable[[Observable[C]], Observable[C]],
    *,
    name: str | None = None,
    reason: str | None = None,
) -> OperatorFunction[C]:
    """A reactivex operator as a hook's function.

    The operator sees each context as an observable of one item. What it does with it is the verdict:

        --c|      the context
        [ operator ]
        --c|      Continue                 (Finish at on_turn_end)
        ---|      Skip                     (Cancel at on_message_send, Abort at after_tool_call)
        --x       Abort                    (Cancel at on_message_send)

    At ``on_turn_end`` completing without the context is `Finish`, and an error is the hook's failure. An operator that is
    to remember what it saw before is for `from_lasting_operator`.

    Args:
        operator: Passes the context on, or does not.
        name: What it is called; the operator's own name by default.
        reason: What the verdict says where the context is not passed on.

    Example:
        >>> import asyncio
        >>> from reactivex import operators as ops
        >>> from rxworker.messages import Conversation
        >>> def is_foreign(context: HookContext) -> bool:
        ...     return context.run != "ours"
        >>> permit = from_operator(ops.filter(is_foreign))
        >>> context = HookContext(conversation=Conversation(), emit=print, run="ours")
        >>> asyncio.run(permit.ask(context, "before_tool_call"))
        Skip(reason='This call was not allowed.')
    """
    return OperatorFunction(operator, name or getattr(operator, "__name__", "operator"), reason)


def _passed(context: object) -> bool:
    del context
    return True


def let_through(point: str) -> Verdict:
    """What it is at this point to pass the context on."""
    return Finish() if point == "on_turn_end" else Continue()


def refused(point: str, error: Exception) -> Verdict:
    """What an operator's error is at this point."""
    if point == "on_turn_end":
        raise error
    reason = str(error) or type(error).__name__
    return Cancel(reason) if point == "on_message_send" else Abort(reason)


def dropped(point: str, reason: str | None) -> Verdict | None:
    """What it is at this point not to pass the context on."""
    match point:
        case "before_tool_call":
            return Skip(reason or REASON)
        case "on_message_send":
            return Cancel(reason or "the request was held back")
        case "after_tool_call":
            return Abort(reason or "the result was held back")
        case _:
            return None


__all__ = ["OperatorFunction", "dropped", "from_operator", "let_through", "refused"]
