"""The runs of a log as they are run again: which they are, and what is known of each."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from rxworker.boards import read_selection
from rxworker.boards.selection import Selecting
from rxworker.errors import ConfigurationError
from rxworker.events import Annotation, AttemptStart, Record, RunStart
from rxworker.log import EventLog
from rxworker.log.format import records_of
from rxworker.log.open import open_stored
from rxworker.log.values import RunRow
from rxworker.providers.models import cost_of
from rxworker.state import RunState
from rxworker.testing.lab.steps import StepKind, StepReader
from rxworker.testing.scripted import StoredResponse, responses_of

if TYPE_CHECKING:
    import pytest


class Spent(Struct, frozen=True):
    """What a run took, with the runs inside it.

    Attributes:
        input_tokens: The tokens that the models have read; ``None`` if it is not known.
        output_tokens: The tokens that they have written; ``None`` if it is not known.
        cost: The cost; ``None`` if the price of any of them is not known.
        currency: Its currency.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    currency: str = ""

    @classmethod
    def of(cls, state: RunState) -> Self:
        """What a run took, of its state."""
        usage = state.usage
        cost = cost_of(state.usage_by_model, state.prices)
        is_known = usage.input_tokens is not None or usage.output_tokens is not None
        known = None if cost.unpriced or not is_known else cost.known
        return cls(usage.input_tokens, usage.output_tokens, known, cost.currency)


class LabRun:
    """A run of a log, as it is run again. Read them with `LabRun.read`.

    Args:
        run_id: Its id.
        records: Its records, from the first.
        row: What a list of the log shows of it, if it has a list.

    Attributes:
        run_id: Its id.
        records: Its records.
        labels: Its labels, which no report shows.
        allowed: The tools that a person always allowed, each with the hook that then pauses no run for it.
    """

    def __init__(self, run_id: str, records: Iterable[Record], row: RunRow | None = None) -> None:
        self.run_id = run_id
        self.records = tuple(records)
        known = self.start.labels if self.start is not None else {}
        self.labels, self.allowed = (known, ()) if row is None else (row.labels, row.allowed)

    def __repr__(self) -> str:
        return f"LabRun({self.run_id!r})"

    @classmethod
    async def read(cls, log: EventLog, where: str | Sequence[str] = ()) -> list[Self]:
        """The runs of a log that can be selected, the oldest first, without those that are nested in others.

        Args:
            log: The log.
            where: Filters, all of which hold: ``tag:NAME`` for runs with an annotation of that name whose value is not
                false, or ``NAME=VALUE`` as of ``rxworker dash --where``.

        Raises:
            ConfigurationError: There is no such filter.
            LogError: The log cannot be read.
        """
        filters = [where] if isinstance(where, str) else where
        tags = [each.removeprefix("tag:") for each in filters if each.startswith("tag:")]
        pairs = [each.partition("=") for each in filters if not each.startswith("tag:")]
        selection = read_selection([(name, value) for name, _, value in pairs])
        found: list[Self] = []
        async for infos in log.list_pages():
            for info in infos:
                if info.row.outer or not selection.may_have(info):
                    continue
                entries = [entry async for entry in log.read(info.run_id)]
                one = cls(info.run_id, records_of(entries, info.run_id), info.row)
                selecting = Selecting(selection)
                if one._has(tags) and (not pairs or any(map(selecting.feed, one.records))):
                    found.append(one)
        return found[::-1]

    def _has(self, tags: Collection[str]) -> bool:
        given = {each.name: each.value for each in map(Annotation.of, (r.event for r in self.records)) if each}
        return all(given.get(tag, False) is not False for tag in tags)

    @cached_property
    def start(self) -> RunStart | None:
        """Its first event, if it begins with its input."""
        first = next(iter(self.records), None)
        return first.event if first is not None and isinstance(first.event, RunStart) else None

    @cached_property
    def spent(self) -> Spent:
        """What it took."""
        return Spent.of(self.steps.state)

    @cached_property
    def responses(self) -> list[StoredResponse]:
        """Its responses, without those that were retracted."""
        return responses_of(self.records)

    @cached_property
    def left_out(self) -> frozenset[StepKind]:
        """The kinds of steps that are not compared, since another library has recorded the run without them."""
        starts = [each.event for each in self.records if isinstance(each.event, AttemptStart) and not each.path]
        if any(each.own_tools is not None for each in starts):
            return frozenset()
        kinds: list[StepKind] = ["tools", "verdict"]
        if self.start is None or not self.start.conversation.system:
            kinds.append("system")
        return frozenset(kinds)

    @cached_property
    def steps(self) -> StepReader:
        """Its steps."""
        reader = StepReader(self.left_out)
        for record in self.records:
            reader.feed(record)
        reader.finish()
        return reader


def stored_runs(address: str, where: str | Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test of pytest once for each stored run, which is its parameter ``stored``.

    The log is read when the test is collected.

    Args:
        address: The address of the log, such as ``sqlite:runs.db``.
        where: As for `LabRun.read`.

    Raises:
        ConfigurationError: There is no such log, no such filter, or no such run.
        LogError: The log cannot be read.

    Example:
        A test, with the asyncio plugin of pytest::

            from my_workers import make_clerk
            from rxworker.testing import lab

            @lab.stored_runs("sqlite:runs.db", where="tag:golden")
            async def test_the_clerk_does_the_same(stored: lab.LabRun) -> None:
                outcome = await lab.rerun(stored, make_clerk)
                assert outcome.same, outcome
    """
    import pytest

    found = asyncio.run(read_runs(address, where))
    if not found:
        text = f"the log has no run {where or 'at all'}: annotate one, or give another where="
        raise ConfigurationError(text, page="run-again")
    return pytest.mark.parametrize("stored", found, ids=[each.run_id for each in found])


async def read_runs(address: str, where: str | Sequence[str]) -> list[LabRun]:
    """The runs of the log at an address; see `LabRun.read`."""
    async with open_stored(address) as log:
        return await LabRun.read(log, where)
