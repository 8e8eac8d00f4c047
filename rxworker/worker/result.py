"""What a run comes to. What is neither finished nor paused is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from msgspec import Struct

from rxworker.messages import Conversation, StopReason, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    # A run without an output type is a ``Run``. Until Python 3.13 only the type checker knows of defaults.
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=None)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class RunResult(Struct, Generic[T_co], frozen=True):
    """The base of the results.

    Attributes:
        conversation: Everything said, the answer at its end.
        text: The visible text of the last answer.
        usage: The tokens of all requests of the run, those of runs inside it included.
        turns: How many turns it took.
        stop_reason: Why the last response ended.
        run: The run's id.
        output: The answer as a value, where the run was asked for one. ``None`` also where the model refused.
    """

    conversation: Conversation
    text: str
    usage: Usage
    turns: int
    stop_reason: StopReason | None
    run: str
    output: T_co | None = None


class Finished(RunResult[T_co], Generic[T_co], frozen=True):
    """The model has answered."""


class Paused(RunResult[T_co], Generic[T_co], frozen=True):
    """A hook paused the run, or `Run.pause` did; ``worker.resume()`` goes on.

    Attributes:
        pending: The tool calls that wait, with their exact arguments.
        paused_at: The ``id`` of the call that was asked about; ``None`` when the turn's end was, and for `Run.pause`.
        hook: The hook's name; ``pause`` for `Run.pause`.
        reason: What was given as the reason.
        refused: Results of calls that hooks have skipped.
        tool_calls: How many tools the run has started.
        continuations: How often hooks have sent an answer back.
        let_through: How many of the pending calls, from the first, hooks have let through.
        key: What the idempotency keys of the pending calls begin with, however often the turn is paused.
        seals: A digest of each pending call: what was shown is what will run.
        variables: What hooks and tools have put under names; the run that goes on has them again. `save_paused` takes JSON values only.
    """

    pending: tuple[ToolCall, ...] = ()
    paused_at: str | None = None
    hook: str = ""
    reason: str = ""
    refused: tuple[ToolResult, ...] = ()
    tool_calls: int = 0
    continuations: int = 0
    let_through: int = 0
    key: str = ""
    seals: tuple[str, ...] = ()
    variables: dict[str, object] = {}


__all__ = ["Finished", "Paused", "RunResult"]
