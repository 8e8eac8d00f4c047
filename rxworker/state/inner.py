"""The tokens of requests, and the tokens and tool calls of the runs inside a run, folded from records. Pure.

A usage is a snapshot of one response, so the last one of each response counts. A call that was refused, skipped or
cancelled before its tool has started ends as well (`step_tools`), and no tool has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from rxworker import events

RunningTool: TypeAlias = tuple[tuple[str, ...], int, str]
"""The path of the run of a call, the place of the call, and its id."""


def step_tools(
    running: tuple[RunningTool, ...], path: tuple[str, ...], row: Sequence[events.ToolStart | events.ToolStop]
) -> tuple[tuple[RunningTool, ...], list[events.ToolStop]]:
    """The tools that run after some events, and the ends of tools among these.

    >>> from rxworker.events import ToolStart, ToolStop
    >>> from rxworker.messages import ToolCall
    >>> running, _ = step_tools((), (), [ToolStart(ToolCall("call_1", "look", {}))])
    >>> [len(step_tools(running, (), [ToolStop(call_id=name)])[1]) for name in ("call_1", "call_2")]
    [1, 0]
    """
    counts: dict[RunningTool, int] = {}  # two calls may have one id, and old records have no places
    for tool in running:
        counts[tool] = counts.get(tool, 0) + 1
    ended: list[events.ToolStop] = []
    for event in row:
        if type(event) is events.ToolStart:
            tool = path, event.place, event.call.id
            counts[tool] = counts.get(tool, 0) + 1
        elif counts.get(tool := (path, event.place, event.call_id), 0):
            counts[tool] -= 1
            ended.append(event)
    left: list[RunningTool] = []
    for tool, count in counts.items():
        left += [tool] * count
    return tuple(left), ended


Path = tuple[str, ...]
OF_REQUESTS: frozenset[type[object]] = frozenset(
    {
        events.AttemptStart,
        events.RunPause,
        events.RunStart,
        events.RunStop,
        events.RunAbort,
        events.Status,
        events.Usage,
    }
)
"""The events that change what is known of a request."""


_REPORTS = events.Usage, events.Status


class RequestTokens(Struct, frozen=True):
    """What a request has taken so far.

    Attributes:
        number: The numbers of its turn and attempt.
        provider: The name of the provider; empty if its start was not seen.
        model: The name of the model; empty if its start was not seen.
        usage: The last snapshot of its response; ``None`` before the first.
        before: The tokens of its responses that began anew, each of which was paid; ``None`` without one.
        status: The last status of its response.
    """

    number: tuple[int, int]
    provider: str = ""
    model: str = ""
    usage: events.Usage | None = None
    status: events.ResponseStatus | None = None
    before: events.Usage | None = None

    def begins_anew(self, event: events.Event) -> bool:
        """Whether an event retracts its response, and begins another one.

        A second start does. Where several models received the request, the usage has what all of them took.
        """
        if not isinstance(event, events.Status) or self.status is None:
            return False
        return event.status is events.ResponseStatus.STARTED and not event.provider

    def is_over(self, after: RequestTokens | None, event: events.Event) -> bool:
        """Whether an event has ended the request: another one has begun, or the run has ended."""
        return after is None or after.number != self.number or isinstance(event, events.AttemptStart)

    @property
    def tokens(self) -> events.Usage | None:
        """Its tokens so far; ``None`` if it has reported none."""
        return self.usage if self.before is None else self.before + (self.usage or events.Usage())

    @property
    def taken(self) -> events.Usage:
        """Its tokens; partial, as long as the response is not complete."""
        tokens = self.tokens or events.Usage()
        is_complete = self.status is events.ResponseStatus.COMPLETED
        return tokens if is_complete else replace(tokens, is_partial=True)


def step_request(request: RequestTokens | None, record: events.Record) -> RequestTokens | None:
    """The last request of a run after a record of `OF_REQUESTS`; ``None`` after the end of the run.

    >>> from rxworker.events import Record, Usage
    >>> usage = Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=Usage(10, 5))
    >>> step_request(None, usage).taken.total_tokens
    15
    """
    event, number = record.event, (record.turn, record.attempt)
    if isinstance(event, events.AttemptStart):
        return RequestTokens(number, event.provider, event.model)
    if not isinstance(event, _REPORTS):
        return None
    if request is None or request.number != number:  # its start was not seen
        request = RequestTokens(number)
    if isinstance(event, events.Usage):
        return replace(request, usage=event)
    begins_anew = request.begins_anew(event)
    usage, before = (None, request.tokens and request.taken) if begins_anew else (request.usage, request.before)
    return replace(request, usage=usage, status=event.status, before=before)


class InnerUsage(Struct, frozen=True):
    """The tokens of the runs inside a run.

    Attributes:
        spent: Those of the requests that are over.
        open: The last request of each run that has not ended, by the path of the run.
        tool_calls: How many tools they have started.
        by_model: The tokens of the requests that are over, by model.
    """

    spent: events.Usage = events.Usage()
    open: dict[Path, RequestTokens] = field(default_factory=dict[Path, RequestTokens])
    tool_calls: int = 0
    by_model: dict[str, events.Usage] = field(default_factory=dict[str, events.Usage])

    @property
    def usage(self) -> events.Usage:
        """All tokens, with those of the requests that are not over."""
        usage = self.spent
        for request in self.open.values():
            if request.tokens is not None:
                usage += request.taken
        return usage


NOTHING_INSIDE = InnerUsage()
"""The usage without nested runs."""


def step_inner(state: InnerUsage, record: events.Record) -> InnerUsage:
    """The tokens after a record of a run inside.

    >>> from rxworker.events import Record, Usage
    >>> record = Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=Usage(10, 5), path=("call_1",))
    >>> step_inner(InnerUsage(), record).usage.total_tokens
    15
    """
    event, path = record.event, record.path
    if isinstance(event, events.ToolStart):
        return replace(state, tool_calls=state.tool_calls + 1)
    if isinstance(event, events.ConversationCompact) and event.usage.total_tokens:
        by_model = with_tokens(state.by_model, event.model, event.usage)
        return replace(state, spent=state.spent + event.usage, by_model=by_model)
    if event.__class__ not in OF_REQUESTS:
        return state
    before = state.open.get(path)
    after = step_request(before, record)
    if before is not None and before.tokens is not None and before.is_over(after, event):
        by_model = with_tokens(state.by_model, before.model, before.tokens)
        state = replace(state, spent=state.spent + before.taken, by_model=by_model)
    # A copy of what is open: as many as there are runs at the same time.
    others = {other: request for other, request in state.open.items() if other != path}
    return replace(state, open=others if after is None else {**others, path: after})


def with_tokens(by_model: dict[str, events.Usage], model: str, usage: events.Usage) -> dict[str, events.Usage]:
    """The tokens of models, with those of one more response.

    >>> from rxworker.events import Usage
    >>> with_tokens({"small": Usage(1, 1)}, "small", Usage(2, 2))["small"].total_tokens
    6
    """
    return {**by_model, model: by_model.get(model, events.Usage()) + usage}
