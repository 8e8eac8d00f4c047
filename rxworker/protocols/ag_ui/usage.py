"""The token usage of a run, as AG-UI reports it."""

from __future__ import annotations

from rxworker.events import AttemptStart, Record, ResponseStatus, Status, Usage
from rxworker.protocols.ag_ui.wire import TokenUsage
from rxworker.state import RunState

Names = tuple[str, str]


class UsageTotals:
    """The usage of all responses of a run and its nested runs, by provider and model.

    >>> totals = UsageTotals()
    >>> for place, event in enumerate([AttemptStart("acme", "large"), Usage(10, 5)], start=1):
    ...     totals.feed(Record(seq=place, run_id="r", turn=1, attempt=1, time=0.0, event=event))
    >>> totals.usage[0].total_tokens
    15
    """

    def __init__(self) -> None:
        self._spent: dict[Names, Usage] = {}
        self._open: dict[tuple[str, ...], Usage] = {}
        self._names: dict[tuple[str, ...], Names] = {}

    def feed(self, record: Record) -> None:
        """Take the next record."""
        event = record.event
        match event:
            case Usage():
                self._open[record.path] = event
            case AttemptStart():
                self._flush(record.path)
                self._names[record.path] = (event.provider, event.model)
            case Status(status=ResponseStatus.STARTED):
                self._flush(record.path)
                provider, model = self._names.get(record.path, ("", ""))
                self._names[record.path] = (event.provider or provider, event.model or model)
            case _:
                return

    def catch_up(self, state: RunState) -> None:
        """Start with the usage of a run so far. The usage of the current response is replaced by its next report."""
        response = state.response
        names = (state.provider, (response.model if response else None) or "")
        self._names[()] = names
        self._spent[names] = state.spent + state.inner.spent
        if response is not None and response.usage is not None:
            self._open[()] = response.usage

    @property
    def usage(self) -> tuple[TokenUsage, ...]:
        """The usage so far."""
        for path in list(self._open):
            self._flush(path)
        return tuple(
            _token_usage(names, usage) for names, usage in self._spent.items() if usage != Usage()
        )

    def _flush(self, path: tuple[str, ...]) -> None:
        last = self._open.pop(path, None)
        if last is not None:
            names = self._names.get(path, ("", ""))
            self._spent[names] = self._spent.get(names, Usage()) + last


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
