"""The tokens and tool calls of the runs inside a run, folded from their records. Pure.

The outer run needs only the consumption of such a run. A usage is a snapshot of one response, so the last one
of each response counts, as soon as the response has ended.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.events import (
    AttemptStart,
    ConversationCompact,
    Record,
    ResponseStatus,
    RunAbort,
    RunStart,
    RunStop,
    Status,
    ToolStart,
    Usage,
)

Path = tuple[str, ...]

# What ends a response that did not complete.
_ENDS = (AttemptStart, RunStart, RunStop, RunAbort, Status)


class InnerUsage(Struct, frozen=True):
    """The tokens of the runs inside a run.

    Attributes:
        spent: Those of the responses that are over.
        open: Those of the responses that are being received, by the path of their run.
        tool_calls: How many tools they have started.
        models: The model of the last request of each run that has not ended, by the path of the run.
        by_model: The tokens of the responses that are over, by model.
    """

    spent: Usage = Usage()
    open: dict[Path, Usage] = field(default_factory=dict[Path, Usage])
    tool_calls: int = 0
    models: dict[Path, str] = field(default_factory=dict[Path, str])
    by_model: dict[str, Usage] = field(default_factory=dict[str, Usage])

    @property
    def usage(self) -> Usage:
        """All tokens, with those of the responses that are being received."""
        usage = self.spent
        for snapshot in self.open.values():
            usage += replace(snapshot, is_partial=True)
        return usage


NOTHING_INSIDE = InnerUsage()
"""The usage without nested runs."""


def step_inner(state: InnerUsage, record: Record) -> InnerUsage:
    """The tokens after a record of a run inside.

    >>> from rxworker.events import Record
    >>> record = Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=Usage(10, 5), path=("call_1",))
    >>> step_inner(InnerUsage(), record).usage.total_tokens
    15
    """
    event, path = record.event, record.path
    if isinstance(event, ToolStart):
        return replace(state, tool_calls=state.tool_calls + 1)
    if isinstance(event, Usage):
        # A copy of what is open: as many as there are runs at the same time.
        return replace(state, open={**state.open, path: event})
    state = _ended(state, record)
    if isinstance(event, ConversationCompact) and event.usage.total_tokens:
        by_model = with_tokens(state.by_model, event.model, event.usage)
        return replace(state, spent=state.spent + event.usage, by_model=by_model)
    if isinstance(event, AttemptStart):
        return replace(state, models={**state.models, path: event.model})
    if isinstance(event, RunStop | RunAbort) and path in state.models:
        models = {other: model for other, model in state.models.items() if other != path}
        return replace(state, models=models)
    return state


def _ended(state: InnerUsage, record: Record) -> InnerUsage:
    event, path = record.event, record.path
    if path not in state.open or not isinstance(event, _ENDS):
        return state
    complete = isinstance(event, Status) and event.status is ResponseStatus.COMPLETED
    last = state.open[path]
    return replace(
        state,
        spent=state.spent + (last if complete else replace(last, is_partial=True)),
        open={other: usage for other, usage in state.open.items() if other != path},
        by_model=with_tokens(state.by_model, state.models.get(path, ""), last),
    )


def with_tokens(by_model: dict[str, Usage], model: str, usage: Usage) -> dict[str, Usage]:
    """The tokens of models, with those of one more response.

    >>> with_tokens({"small": Usage(1, 1)}, "small", Usage(2, 2))["small"].total_tokens
    6
    """
    return {**by_model, model: by_model.get(model, Usage()) + usage}
