"""Moments that a team notes for its dashboards, such as deployments: kept with a log, and drawn in every chart."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from math import inf
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.log.kept import change_kept, load_kept
from rxworker.log.store import LogReader
from rxworker.messages.settings import check_type

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
