"""The stored sessions of a log: a session is a conversation, whose runs have the same label.

Without a log they are kept until the process ends.
"""

from __future__ import annotations

import time

from msgspec.structs import replace

from rxworker.desk.stored import StoredConversation, conversations_in
from rxworker.log import EventLog
from rxworker.log.values import LISTED
from rxworker.ui.clean import one_line
from rxworker.ui.describe import plural

MAX_RUNS = 500
"""How many stored runs are searched for sessions, the newest."""
TITLE = 60


def title_of_session(session: StoredConversation) -> str:
    """The title of a stored conversation: that of its first run."""
    return one_line(session.runs[0].row.title, TITLE) or "(no title)"


def describe_session(session: StoredConversation) -> str:
    """Return the number of its runs and its age in one line."""
    last = session.last
    state = "" if last.status == "finished" else f" · {last.status}"
    return f"{plural(len(session.runs), 'run')} · {describe_age(time.time() - last.updated)}{state}"


def describe_age(seconds: float) -> str:
    """Return how long ago something was.

    >>> describe_age(3), describe_age(7200), describe_age(3 * 86400)
    ('just now', '2 h ago', '3 d ago')
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


async def list_sessions(log: EventLog) -> list[StoredConversation]:
    """Return the stored conversations, the one that was used last first. Runs inside tool calls are left out.

    Raises:
        LogError: The log cannot be read.
    """
    return conversations_in(await log.list(limit=MAX_RUNS))


async def rename_session(log: EventLog, session: StoredConversation, title: str) -> None:
    """Store a new title of a conversation, that of its first run.

    Raises:
        LeaseHeldError: Another process runs that run.
        LogError: The log cannot be written.
    """
    first = session.runs[0]
    claim = await log.claim(first.run_id, statuses=LISTED)
    try:
        info = await log.info(first.run_id)  # it may have changed since it was listed
        row = replace(first.row if info is None else info.row, title=title)
        await log.append(claim, (), after=claim.last_seq, row=row)
    finally:
        await log.release(claim)
