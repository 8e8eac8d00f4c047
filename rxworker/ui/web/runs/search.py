"""Which runs a client looks for: the parameters of a request, and what matches them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct, field

from rxworker.desk.run import RunStatus
from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.log.format import entries_of
from rxworker.log.search import KINDS, Texts, excerpt, matches, texts_of, words_of
from rxworker.protocols.socket import RunSummary
from rxworker.run.run import Run
from rxworker.ui.web.runs.entry import RunEntry
from rxworker.ui.web.runs.of_user import Runs

Sort: TypeAlias = Literal["newest", "cost", "duration"]
Finite: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)]

MAX_SEARCHED = 5_000
"""How many runs of a log that match the text and the tool are compared with the other parameters, the newest."""
LISTED, MAX_LISTED = 100, 1_000

ORDERS: dict[Sort, Callable[[RunSummary], float]] = {
    "newest": lambda run: run.started,
    "cost": lambda run: -1.0 if run.cost is None else run.cost,
    "duration": lambda run: 0.0 if run.ended is None else run.ended - run.started,
}


class FoundRun(Struct, frozen=True):
    """A run that matches a text, and the text around what was found."""

    entry: RunEntry
    excerpt: str


class RunQuery(Struct, frozen=True):
    """Which runs a client lists.

    Attributes:
        text: Only runs whose title or texts contain each of its words.
        status: Only runs of this status.
        worker: Only runs of this worker.
        tag: Only runs of a conversation with this tag.
        tool: Only runs that have started a tool of this name.
        since: Only runs that began then or later, in seconds since the epoch.
        min_cost: Only runs that cost as much or more.
        sort: The newest, the dearest, or the longest first.
        limit: At most so many.
        after: Only those that come after this run in that order.
    """

    beside: ClassVar[frozenset[str]] = frozenset({"token"})

    text: str = field(default="", name="q")
    status: RunStatus | None = None
    worker: str | None = None
    tag: str = ""
    tool: str = ""
    since: Finite | None = None
    min_cost: Finite | None = None
    sort: Sort = "newest"
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED)] = LISTED
    after: str | None = None

    def matches(self, run: RunSummary) -> bool:
        """Whether a run is listed, whatever its texts are."""
        return (
            self.status in (None, run.status)
            and self.worker in (None, run.worker)
            and (not self.tag or self.tag in run.marks.tags)
            and (self.since is None or run.started >= self.since)
            and (self.min_cost is None or (run.cost is not None and run.cost >= self.min_cost))
        )

    def select(self, found: list[FoundRun]) -> tuple[list[FoundRun], bool]:
        """Of runs that match the text, those that match the rest, in order, and whether there are more."""
        by_id = {one.entry.id: one.entry for one in found}
        for one in found:
            before = by_id.get(one.entry.resumes or "")
            if before is not None and before.resumed_as is None:
                before.resumed_as = one.entry.id
        summaries = [(one.entry.summary(), one) for one in found]
        listed = [(summary, one) for summary, one in summaries if self.matches(summary)]
        order = ORDERS[self.sort]
        listed.sort(key=lambda pair: (order(pair[0]), pair[0].started), reverse=True)
        ids = [summary.id for summary, _ in listed]
        start = ids.index(self.after) + 1 if self.after in ids else 0
        end = start + self.limit
        return [one for _, one in listed[start:end]], end < len(listed)


def texts_in(run: Run[object]) -> Texts:
    """What is searched of a run that is not stored: what is searched of it in a log."""
    records: list[Record] = []
    run.entries(name="search").subscribe(records.append, lambda _: None).dispose()
    with suppress(LogError):  # what has no form in a log is not searched
        return texts_of([entry for entry in entries_of(records, 0) if entry.kind in KINDS])
    return Texts("", ())


def noted_in(entry: RunEntry) -> str:
    """What is noted about the conversation of a run, to be searched."""
    return "\n".join((entry.conversation.marks.title, *entry.conversation.marks.tags))


async def search_runs(runs: Runs, query: RunQuery) -> tuple[list[FoundRun], bool]:
    """Return the runs of a user that match, also those that only the log has, and whether more do.

    It looks at the newest `MAX_SEARCHED` of these.
    """
    log, words = runs.store.log, words_of(query.text)
    found: dict[str, FoundRun] = {}
    for entry in runs:
        if entry.here is None or entry.log is not None:
            if words and not query.tool and matches(words, noted_in(entry)):
                found[entry.id] = FoundRun(entry, "")
            continue
        texts = texts_in(entry.here)
        text = texts.text.lstrip()
        is_match = matches(words, f"{entry.info.row.title}\n{noted_in(entry)}\n{text}")
        if is_match and (not query.tool or query.tool in texts.tools):
            found[entry.id] = FoundRun(entry, excerpt(words, entry.info.row.title, text))
    if log is not None:
        async with aclosing(log.search(query.text, tool=query.tool)) as stored:
            read = 0
            async for one in stored:
                entry, read = runs.store.look(one.info, runs.owner), read + 1
                if entry is not None:
                    found.setdefault(entry.id, FoundRun(entry, one.excerpt))
                if read == MAX_SEARCHED:
                    break
    return query.select(list(found.values()))
