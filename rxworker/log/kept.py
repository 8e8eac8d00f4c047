"""Small documents that an application keeps with a log, beside its runs, such as the links of a web server.

The moments that a team notes, such as deployments, are among them. All processes of the log have the same ones.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LogError
from rxworker.log.store import LogReader
from rxworker.log.values import CONVERSATION, USER, RunInfo, first_id
from rxworker.messages.settings import check_type


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
    left = await log._kept_of([*{permissions_key(info.row.labels, info.run_id) for info in infos}])
    if left:  # seldom: all other runs are read
        async for page in log.list_pages():
            others = [each for each in page if each.run_id not in gone and not each.row.outer]
            left -= {permissions_key(each.row.labels, each.run_id) for each in others}
    for key in left:
        await drop_kept(log, key)


D = TypeVar("D", bound=Struct)

TRIES = 20
"""How often a change is made again that other processes were faster with."""


async def load_kept(log: LogReader, key: str, kind: type[D]) -> D:
    """The document under a key; a new one if there is none.

    Args:
        log: The log.
        key: The key.
        kind: Its type, whose fields have defaults.

    Raises:
        LogError: The log cannot be read, or what it has under the key is not such a document.
    """
    return (await _load(log, key, kind))[1]


async def change_kept(log: LogReader, key: str, kind: type[D], change: Callable[[D], D]) -> D:
    """Change the document under a key.

    Of two changes at a time, the second one is made of what the first one has written.

    Args:
        log: The log.
        key: The key.
        kind: As for `load_kept`.
        change: Returns the new document. It is called again where another process was faster; what it raises is raised.

    Raises:
        LogError: The log cannot be read or written, or what it has under the key is not such a document.
    """
    for _ in range(TRIES):
        number, found = await _load(log, key, kind)
        changed = change(found)
        data = log._encoding.encode(changed, _name(key))
        if changed == found or await log._save_fold(key, number, data):
            return changed
    raise _busy(key)


async def drop_kept(log: LogReader, key: str) -> None:
    """Empty the document under a key, also one that cannot be decoded.

    Raises:
        LogError: The log cannot be read or written.
    """
    for _ in range(TRIES):
        found = await log._load_fold(key)
        if found is None or not found[1] or await log._save_fold(key, found[0], b""):
            return
    raise _busy(key)


def _busy(key: str) -> LogError:
    return LogError(f"{key!r} keeps being changed by other processes: try again", retryable=True)


def _name(key: str) -> str:
    """By which a codec and errors name it, as what is kept of a fold."""
    return f"fold:{key}"


async def _load(log: LogReader, key: str, kind: type[D]) -> tuple[int, D]:
    found = await log._load_fold(key)
    if found is None:
        return 0, kind()
    number, data = found
    if not data:  # it was dropped
        return number, kind()
    return number, log._encoding.decode(data, _name(key), partial(msgspec.json.decode, type=kind))


KEY = "rxworker/time-marks"
MAX_MARKS = 1000
"""How many are kept, the newest ones."""
MAX_TEXT, MAX_BY = 200, 100
"""Of the characters."""
MAX_TIME = 1e11
"""Seconds since the epoch, in the year 5138: what has more may be milliseconds."""


class TimeMark(Struct, frozen=True, omit_defaults=True):
    """A moment that was noted.

    Attributes:
        time: When, in seconds since the epoch.
        text: What happened then.
        by: The person or the program that has noted it; empty if it is not known.
    """

    time: float
    text: str
    by: str = ""


class _Marks(Struct, frozen=True):
    marks: tuple[TimeMark, ...] = ()


async def mark_time(log: LogReader, text: str, *, time: float | None = None, by: str = "") -> TimeMark:
    """Note a moment for the charts of all dashboards of a log. The newest 1,000 are kept.

    Args:
        log: The log.
        text: What happened, such as ``deploy 12``.
        time: When, in seconds since the epoch; by default now.
        by: The person or the program that notes it.

    Raises:
        ConfigurationError: The text is empty or longer than 200 characters, ``by`` is longer than 100, or the time is
            not one from 1970 on, in seconds.
        LogError: The log cannot be read or written.

    Example:
        >>> import asyncio
        >>> from rxworker.log import MemoryLog
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         await mark_time(log, "deploy 12", time=60.0)
        ...         print(await time_marks(log))
        >>> asyncio.run(main())
        [TimeMark(time=60.0, text='deploy 12', by='')]
    """
    check_type("text", text, str, "mark_time(log, 'deploy 12')")
    if not text.strip() or len(text) > MAX_TEXT:
        raise ConfigurationError(f"a text of {len(text)} characters: give 1 to {MAX_TEXT} of them")
    if len(by) > MAX_BY:
        raise ConfigurationError(f"by= has {len(by)} characters: give {MAX_BY} at most")
    mark = TimeMark(clock.time() if time is None else time, text, by)
    if not 0 <= mark.time < MAX_TIME:
        raise ConfigurationError(f"{time} is not a time: give seconds since the epoch")

    def added(kept: _Marks) -> _Marks:
        return replace(kept, marks=tuple(sorted((*kept.marks, mark), key=attrgetter("time"))[-MAX_MARKS:]))

    await change_kept(log, KEY, _Marks, added)
    return mark


async def time_marks(log: LogReader, since: float | None = None, until: float | None = None) -> Sequence[TimeMark]:
    """The moments that were noted, from one time to another, the oldest first.

    Raises:
        LogError: The log cannot be read.
    """
    least, most = -inf if since is None else since, inf if until is None else until
    return [mark for mark in (await load_kept(log, KEY, _Marks)).marks if least <= mark.time <= most]
