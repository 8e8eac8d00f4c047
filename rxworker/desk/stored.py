"""The conversations of a log: listed, found by their ids, and deleted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from msgspec import Struct

from rxworker.errors import LeaseHeldError, LogError
from rxworker.log import EventLog, RunInfo
from rxworker.log.kept import conversation_of


def new_conversation() -> str:
    """An id for a conversation.

    >>> new_conversation().partition("-")[0]
    'conversation'
    """
    return f"conversation-{uuid.uuid4().hex[:12]}"


def conversation_id(info: RunInfo) -> str:
    """The id of the conversation of a stored run."""
    return conversation_of(info.row.labels, info.run_id)


class StoredConversation(Struct, frozen=True):
    """A conversation of a log.

    Attributes:
        id: Its id.
        runs: Its runs, the oldest first.
    """

    id: str
    runs: tuple[RunInfo, ...]

    @property
    def last(self) -> RunInfo:
        """The run that goes on with the next message."""
        return self.runs[-1]


def conversations_in(infos: Iterable[RunInfo]) -> list[StoredConversation]:
    """The conversations of stored runs, the one that was used last first. Runs inside tool calls are left out.

    >>> conversations_in([])
    []
    """
    found: dict[str, list[RunInfo]] = {}
    for info in infos:
        if not info.row.outer:
            found.setdefault(conversation_id(info), []).append(info)
    every = [StoredConversation(name, tuple(sorted(runs, key=attrgetter("created")))) for name, runs in found.items()]
    return sorted(every, key=lambda each: each.last.updated, reverse=True)


async def stored_runs(log: EventLog, is_of: Callable[[RunInfo], bool], *, nested: bool = False) -> list[RunInfo]:
    """The runs of conversations, the oldest first.

    Args:
        log: The log.
        is_of: Whether a run is of one of these conversations; it is called with runs that are not nested.
        nested: Whether the runs inside their tool calls are among them.

    Raises:
        LogError: The log cannot be read.
    """
    every = [info async for infos in log.list_pages() for info in infos]
    found = {info.run_id: info for info in every if not info.row.outer and is_of(info)}
    is_more = nested
    while is_more:  # a nested run may have nested runs
        inner = {info.run_id: info for info in every if info.row.outer in found}
        is_more = not inner.keys() <= found.keys()
        found |= inner
    return sorted(found.values(), key=attrgetter("created"))


async def delete_runs(log: EventLog, runs: Sequence[RunInfo]) -> None:
    """Delete runs; others may do the same at the same time.

    Raises:
        LeaseHeldError: A process holds one of them. Those before it are deleted.
        LogError: The log cannot be read or written.
    """
    for info in runs:
        try:
            await log.delete(info.run_id)
        except LeaseHeldError:
            raise
        except LogError:
            left = await log.listed(info.run_id)
            if left is not None and left.status != "deleted":
                raise  # it was not another client that has deleted it
