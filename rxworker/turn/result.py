"""The result of a run: finished or paused. Any other outcome raises an exception.

`result_of` makes the result of the last state. A paused call carries a signature of the arguments that were shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from rxworker.errors import LocalProtocolError
from rxworker.events import PauseState
from rxworker.messages import Conversation, Json, OutputFormat, StopReason, ToolCall
from rxworker.messages.settings import shared_fields
from rxworker.messages.usage import Prices, Usage
from rxworker.state import RunState
from rxworker.turn.output import Output

if TYPE_CHECKING:
    # A run without an output type is a ``Run``, and a resumed one may have any. Until Python 3.13 only the type checker
    # knows of defaults.
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=None)
    T = TypeVar("T", default=None)
    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
    T, R = TypeVar("T"), TypeVar("R")


def signature_of(call: ToolCall) -> str:
    """A digest of a call: its id, its name and its exact arguments.

    >>> signature_of(ToolCall("1", "look", {"at": "a"})) == signature_of(ToolCall("1", "look", {"at": "b"}))
    False
    """
    # Not with msgspec: a model may write half of a surrogate pair, which UTF-8 cannot encode.
    text = json.dumps([call.id, call.name, call.input], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_signatures(calls: Sequence[ToolCall], signatures: Sequence[str]) -> None:
    """Reject calls that differ from the calls that were shown for the decision.

    Raises:
        LocalProtocolError: A call differs; the message names it.
    """
    if len(calls) != len(signatures):
        raise LocalProtocolError(f"{len(signatures)} calls were paused, and {len(calls)} are to be resumed")
    for call, signature in zip(calls, signatures, strict=True):
        if signature_of(call) != signature:
            raise LocalProtocolError(
                f"the call {call.id!r} of {call.name} was changed since the run paused: what was approved may not be "
                "what would run; give other arguments with decisions={call.id: Approve(input={...})}"
            )


class RunResult(Struct, Generic[T_co], frozen=True):
    """The base of the results.

    Attributes:
        conversation: The conversation, with the answer at its end.
        text: The visible text of the last answer.
        usage: The tokens of all requests of the run, nested runs included.
        turns: How many turns it took.
        stop_reason: Why the last response ended.
        run_id: The run's id.
        output: The answer as a value, if a type was requested; ``None`` if the model refused.
        shared_state: The state that its tools and hooks share with user interfaces; ``None`` if there is none.
    """

    conversation: Conversation
    text: str
    usage: Usage
    turns: int
    stop_reason: StopReason | None
    run_id: str = field(name="run")
    output: T_co | None = None
    shared_state: Json = None


class Finished(RunResult[T_co], Generic[T_co], frozen=True):
    """The model has answered."""


class Paused(RunResult[T_co], Generic[T_co], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook paused the run, or `Run.pause` did; ``worker.resume()`` continues it.

    Attributes:
        pause: What it waits for.
        signatures: A digest of each call of the pause, so that exactly the call that was shown will run.
        is_foreign: Whether it was imported: hooks and people have agreed to its calls elsewhere, which does not count
            here.
        tool_calls: How many tools the run has started, those of nested runs included, as for the next three.
        tool_errors: How many of them have failed.
        tool_seconds: How long they took together.
        tool_durations: How many of them took how long, as in `RunState`.
        usage_by_model: The tokens by the names of the models.
        prices: Their prices, where requests have recorded them.
        continuations: How often hooks have sent an answer back.
        variables: The variables of hooks and tools; the resumed run has them again. `save_paused` accepts JSON values
            only.
        called: The names of the tools that the model has called in the run, each once.
        traceparent: The trace context of the caller of the run; see `RunStart`.
        output_format: The form of the answer, if a type was requested: the resumed run requests it again.
    """

    pause: PauseState
    signatures: tuple[str, ...]
    is_foreign: bool
    tool_calls: int = 0
    continuations: int = 0
    variables: dict[str, object] = {}
    called: tuple[str, ...] = ()
    traceparent: str = ""
    output_format: OutputFormat | None = None
    tool_errors: int = 0
    tool_seconds: float = 0.0
    tool_durations: tuple[int, ...] = ()
    usage_by_model: dict[str, Usage] = {}
    prices: dict[str, Prices | None] = {}

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The tool calls that wait, in order, with their exact arguments."""
        return self.pause.pending

    @property
    def paused_at(self) -> str | None:
        """The ``id`` of the call that it paused at.

        ``None`` at the end of a turn, for ``client_tool``, and for `Run.pause`.
        """
        at = self.pause.at
        return None if at is None else self.pending[at].id

    @property
    def hook(self) -> str:
        """The name of the hook that requested the pause; see `PauseState`."""
        return self.pause.hook

    @property
    def reason(self) -> str:
        """The reason that was given."""
        return self.pause.reason


def result_of(
    state: RunState,
    run_id: str,
    output: Output[T] | None,
    variables: Mapping[str, object],
    called: Iterable[str],
    *,
    is_foreign: bool = False,
) -> RunResult[T]:
    """The result of the last state of a run.

    A paused run keeps the variables, and the names of the tools that were called. The variables are in no record, so no
    watcher receives them.
    """
    text = answer_of(state.conversation)
    pause = state.pause
    result: RunResult[T] = RunResult(
        conversation=state.conversation,
        text=text,
        usage=state.usage,
        turns=state.turns,
        stop_reason=state.stop_reason,
        run_id=run_id,
        shared_state=state.shared_state,
    )
    if pause is None:
        if output is not None and not output.complaint(text):
            result = replace(result, output=output.decode(text))
        return Finished(**asdict(result))
    carried = shared_fields(state, Paused) | asdict(result)
    carried["tool_calls"] = state.all_tool_calls
    return Paused(
        **carried,
        signatures=tuple([signature_of(call) for call in pause.pending]),
        is_foreign=is_foreign,
        usage_by_model=state.usage_by_model,
        variables=dict(variables),
        called=tuple(called),
    )


def answer_of(conversation: Conversation) -> str:
    """The text of the model's last message."""
    for message in reversed(conversation.messages):
        if message.role == "assistant":
            return message.text
    return ""
