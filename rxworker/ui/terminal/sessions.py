"""The stored sessions of a log: a session is a conversation, whose runs have the same label.

Without a log they are kept until the process ends.
"""

from __future__ import annotations

import time
import uuid

from msgspec import Struct
from msgspec.structs import replace

from rxworker.log import EventLog, RunInfo
from rxworker.log.values import CONVERSATION, LISTED
from rxworker.ui.clean import one_line
from rxworker.ui.describe import plural

MOST_RUNS = 500
"""How many stored runs are searched for sessions, the newest."""
TITLE = 60


class StoredSession(Struct, frozen=True):
    """A stored conversation.

    Attributes:
        id: Its id.
        title: The title of its first run.
        runs: Its runs, the oldest first.
    """

    id: str
    title: str
    runs: tuple[RunInfo, ...]

    def describe(self) -> str:
        """Return the number of its messages and its age in one line.

        >>> StoredSession("c", "Trip", ()).describe()
        'no runs'
        """
        if not self.runs:
            return "no runs"
        last = self.runs[-1]
        state = "" if last.status == "finished" else f" · {last.status}"
        return f"{plural(len(self.runs), 'run')} · {describe_age(time.time() - last.updated)}{state}"


def describe_age(seconds: float) -> str:
    """Return how long ago something was.

    >>> describe_age(3), describe_age(7200), describe_age(3 * 86400)
    ('just now', '2 h ago', '3 d ago')
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def new_session_id() -> str:
    """Return the id of a new conversation."""
    return f"conversation-{uuid.uuid4().hex[:12]}"


async def list_sessions(log: EventLog) -> list[StoredSession]:
    """Return the stored conversations, the one that was used last first. Runs inside tool calls are left out.

    Raises:
        LogError: The log cannot be read.
    """
    found: dict[str, list[RunInfo]] = {}
    for info in await log.list(limit=MOST_RUNS):
        if not info.row.outer:
            # Without the label, the id that the web server makes.
            own = f"conversation-{info.run_id.partition('~')[0].removeprefix('run-')}"
            name = info.row.labels.get(CONVERSATION) or own
            found.setdefault(name, []).append(info)
    sessions: list[StoredSession] = []
    for name, infos in found.items():
        infos.sort(key=lambda info: info.created)
        title = one_line(infos[0].row.title, TITLE) or "(no title)"
        sessions.append(StoredSession(name, title, tuple(infos)))
    return sorted(sessions, key=lambda session: session.runs[-1].updated, reverse=True)


async def rename_session(log: EventLog, session: StoredSession, title: str) -> None:
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
