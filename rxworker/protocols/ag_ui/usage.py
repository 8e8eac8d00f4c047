"""The token usage of a run, as AG-UI reports it."""

from __future__ import annotations

from rxworker.events import AttemptStart, Record, ResponseStatus, Status, Usage
from rxworker.protocols.ag_ui.wire import TokenUsage
from rxworker.state import RunState

Names = tuple[str, str]
Counts = dict[Names, Usage]
_NONE = ("", ""), Usage()


class UsageTotals:
    """The usage of all responses of a run and its nested runs, by provider and model.

    >>> totals = UsageTotals()
    >>> for place, event in enumerate([AttemptStart("acme", "large"), Usage(10, 5)], start=1):
    ...     totals.feed(Record(seq=place, run_id="r", turn=1, attempt=1, time=0.0, event=event))
    >>> totals.usage[0].total_tokens
    15
    """

    def __init__(self) -> None:
        self._spent: Counts = {}
        # By path: the current response's provider and model, and its last report.
        self._open: dict[tuple[str, ...], tuple[Names, Usage]] = {}

    def feed(self, record: Record) -> None:
        """Take the next record."""
        event, path = record.event, record.path
        if not isinstance(event, Usage | AttemptStart | Status):
            return
        (provider, model), last = self._open.get(path, _NONE)
        if isinstance(event, Usage):
            self._open[path] = (provider, model), event
        elif isinstance(event, AttemptStart):
            _add(self._spent, (provider, model), last)
            self._open[path] = (event.provider, event.model), Usage()
        elif event.status is ResponseStatus.STARTED:
            if not event.provider:  # several models: the next usage has what all of them took
                _add(self._spent, (provider, model), last)
            self._open[path] = (event.provider or provider, event.model or model), Usage()

    def catch_up(self, state: RunState) -> None:
        """Start with the usage of a run so far. The usage of the current response is replaced by its next report."""
        response = state.response
        names = (state.provider, (response.model if response else None) or "")
        self._spent[names] = state.spent + state.inner.spent
        self._open[()] = names, (response.usage if response else None) or Usage()

    @property
    def usage(self) -> tuple[TokenUsage, ...]:
        """The usage so far."""
        counts = dict(self._spent)
        for names, last in self._open.values():
            _add(counts, names, last)
        return tuple(_token_usage(names, usage) for names, usage in counts.items() if usage != Usage())


def _add(counts: Counts, names: Names, usage: Usage) -> None:
    counts[names] = counts.get(names, Usage()) + usage


def _token_usage(names: Names, usage: Usage) -> TokenUsage:
    return TokenUsage(
        provider=names[0] or None,
        model=names[1] or None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cached_input_tokens=usage.cache_read_tokens,
        cache_write_input_tokens=usage.cache_creation_tokens,
    )
