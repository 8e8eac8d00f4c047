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
        hook: The hook's name; ``requires_approval`` for the policy of the tool, ``pause`` for `Run.pause`.
        reason: What was given as the reason.
        refused: Results of calls that are not run, in the order of the calls.
        tool_calls: How many tools the run has started.
        continuations: How often hooks have sent an answer back.
        let_through: How many of the pending calls, from the first, hooks have let through.
        key: What the idempotency keys of the pending calls begin with, however often the turn is paused.
        seals: A digest of each pending call: what was shown is what will run.
        places: The index of each pending call among the calls of its response.
        hooks: The names of the hooks of the point, in the order in force when the run paused.
        asked: How many of these, from the first, have been asked about what the run paused at; the last one paused it.
        variables: What hooks and tools have put under names; the run that goes on has them again. `save_paused` takes JSON values only.
        called: The names of the tools that the model has called in the run, each once.
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
    places: tuple[int, ...] = ()
    hooks: tuple[str, ...] = ()
    asked: int = 0
    variables: dict[str, object] = {}
    called: tuple[str, ...] = ()


__all__ = ["Finished", "Paused", "RunResult"]
