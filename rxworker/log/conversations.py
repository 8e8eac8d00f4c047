"""Of which conversation a run is, and what becomes of its permissions when its last run is deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rxworker.log.kept import drop_kept
from rxworker.log.store import LogReader
from rxworker.log.values import CONVERSATION, USER, RunInfo, first_id


def conversation_of(labels: Mapping[str, str], run_id: str) -> str:
    """The id of the conversation of a run with these labels.

    >>> conversation_of({}, "run-1~2"), conversation_of({"conversation": "c-1"}, "run-1")
    ('conversation-1', 'c-1')
    """
    return labels.get(CONVERSATION, f"conversation-{first_id(run_id).removeprefix('run-')}")


def permissions_key(labels: Mapping[str, str], run_id: str) -> str:
    """The key of what is always allowed in the conversation of a run with these labels.

    Of two users each has conversations of their own.
    """
    name = [labels.get(USER), conversation_of(labels, run_id)]
    return f"permissions:{msgspec.json.encode(name).decode()}"


async def forget(log: LogReader, infos: Sequence[RunInfo]) -> None:
    """Drop what is allowed in conversations whose last runs these are.

    It comes before the deletion: a process that ends between the two leaves no permission to a later run of the
    conversation.

    Args:
        log: The log.
        infos: The runs that are deleted next.

    Raises:
        LogError: The log cannot be read or written.
    """
    gone = {info.run_id for info in infos}
    keys = [*{permissions_key(info.row.labels, info.run_id) for info in infos}]
    left = await log._kept_of(keys)
    if left:  # seldom: all other runs are read
        async for page in log.list_pages():
            others = [each for each in page if each.run_id not in gone and not each.row.outer]
            left -= {permissions_key(each.row.labels, each.run_id) for each in others}
    for key in left:
        await drop_kept(log, key)
