"""Comparing runs: up to where their records are equal, and how their conversations differ.

Two runs never have equal times and ids, so these are not compared: a call is known by its place in the order in which
the ids appear. Nor are records that only describe a process: `Ping`, `Fork`, `RunRecover`, `RunRequeue`, `HandOver`,
`CommandTaken`, `LoopHold`, `WatcherDetach` and `Gap`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import (
    CommandTaken,
    Fork,
    Gap,
    HandOver,
    LoopHold,
    Ping,
    Record,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    WatcherDetach,
)
from rxworker.events.pause import NAMES_A_CALL
from rxworker.hub.history import expand
from rxworker.log.base import EventLog
from rxworker.log.format import records_of
from rxworker.log.values import CONVERSATION, RunRow
from rxworker.messages import Message
from rxworker.state import fold_run

_NOT_COMPARED = frozenset({Ping, Fork, RunRecover, RunRequeue, HandOver, CommandTaken, LoopHold, WatcherDetach, Gap})
_IDS = frozenset({"id", "tool_use_id", "call_id", "paused_at"})
# Seals, names and times that are made anew each time.
_RANDOM = frozenset(
    {"began", "delay", "echo", "key", "request_id", "response_id", "resumes", "retry_after",
     "seconds", "signature", "traceparent"}
)  # fmt: skip


class MessageDiff(Struct, frozen=True):
    """A difference of two conversations.

    Attributes:
        index: The place of the message, from 0: in the first conversation, or in the second one if it was ``added``.
        kind: ``added``: only the second conversation has it; ``removed``: only the first one; ``changed``: it differs.
        a: The message of the first conversation.
        b: The message of the second conversation.
    """

    index: int
    kind: Literal["added", "removed", "changed"]
    a: Message | None = None
    b: Message | None = None


class RunDiff(Struct, frozen=True):
    """How two runs differ.

    Attributes:
        common: The number of the record of the first run up to which both are equal; 0 if they differ from the
            beginning.
        first_a: The first record of the first run that is not equal; ``None`` if it has no more records.
        first_b: The first record of the second run that is not equal; ``None`` if it has no more records.
        messages: The differences of their conversations, in order.
        a: What a list shows of the first run, with its figures.
        b: What a list shows of the second run.
    """

    common: int
    first_a: Record | None
    first_b: Record | None
    messages: tuple[MessageDiff, ...]
    a: RunRow
    b: RunRow

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return self.first_a is None and self.first_b is None


async def diff_runs(log: EventLog, a: str, b: str) -> RunDiff:
    """Compare two stored runs, for example a run and its fork.

    Ids, times, epochs, and what a provider wants back (``echo``, signatures) are not compared.

    Args:
        log: The log of the runs.
        a: The id of the first run.
        b: The id of the second run.

    Raises:
        LogError: There is no such run, or the log cannot be read.

    Example:
        >>> import asyncio
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         one = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         other = Worker(ScriptedModel(["Good day."]), log=log).run("Hi")
        ...         await asyncio.gather(one, other)
        ...         (each,) = (await diff_runs(log, one.id, other.id)).messages
        ...         print(each.index, each.kind, each.b and each.b.text)
        >>> asyncio.run(main())
        1 changed Good day.
    """
    of_a, of_b = await _stored(log, a), await _stored(log, b)
    ids_a, ids_b = dict[str, str](), dict[str, str]()
    common = 0
    first_a = first_b = None
    for first_a, first_b in zip_longest(_compared(of_a), _compared(of_b)):
        if first_a is None or first_b is None or _record_key(first_a, ids_a) != _record_key(first_b, ids_b):
            break
        common, first_a, first_b = first_a.seq, None, None
    messages_a, messages_b = (fold_run(each).conversation.messages for each in (of_a, of_b))
    messages = diff_messages(messages_a, messages_b)
    return RunDiff(common, first_a, first_b, messages, (await log.existing(a)).row, (await log.existing(b)).row)


def diff_messages(a: tuple[Message, ...], b: tuple[Message, ...]) -> tuple[MessageDiff, ...]:
    """The differences of two conversations.

    >>> (removed,) = diff_messages((Message.user("hi"),), ())
    >>> removed.index, removed.kind
    (0, 'removed')
    """
    matcher = SequenceMatcher(None, message_keys(a), message_keys(b), autojunk=False)
    found: list[MessageDiff] = []
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        for at, (one, other) in enumerate(zip_longest(a[a_from:a_to], b[b_from:b_to])):
            start, kind = (a_from, "changed") if one is not None else (b_from, "added")
            found.append(MessageDiff(start + at, "removed" if other is None else kind, one, other))
    return tuple(found)


def message_keys(messages: Iterable[Message]) -> list[str]:
    """Keys of messages; two are equal if their messages are, but for ids, models and what the provider wants back."""
    ids: dict[str, str] = {}
    return [_key(message, ids) for message in messages]


async def _stored(log: EventLog, run_id: str) -> list[Record]:
    return list(records_of([entry async for entry in log.read(run_id)], run_id))


def _compared(records: Iterable[Record]) -> Iterator[Record]:
    """The single records, without those that are not compared."""
    for entry in records:
        for record in expand(entry):
            if type(record.event) not in _NOT_COMPARED:
                yield record


def _record_key(record: Record, ids: dict[str, str]) -> str:
    path = tuple([_known(each, ids) for each in record.path])
    return f"{record.turn} {record.attempt} {path} {_key(record.event, ids)}"


def _key(value: object, ids: dict[str, str]) -> str:
    return json.dumps(_essence(value, ids), sort_keys=True, default=str)


def _essence(value: Any, ids: dict[str, str]) -> object:
    if isinstance(value, Message):
        value = replace(value, provider=None, model=None, service=None)
    if isinstance(value, RunStart | RunResume):
        value = replace(value, labels={**value.labels, CONVERSATION: ""})
    if isinstance(value, Struct):
        # Only the fields of Structs are left out: the JSON objects in them, such as arguments, may have any names.
        essence: dict[str, object] = {"": type(value).__name__}
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if name not in _RANDOM and held is not None:
                essence[name] = _known(held, ids) if name in _IDS else _essence(held, ids)
        return essence
    if isinstance(value, str) and value.startswith(NAMES_A_CALL):
        for known, place in ids.items():
            value = value.replace(known, place)
    if isinstance(value, tuple):
        return [_essence(each, ids) for each in value]  # pyright: ignore[reportUnknownVariableType] - a tuple of anything
    return value


def _known(name: str, ids: dict[str, str]) -> str:
    """An id, by its place in the order in which they appear."""
    return ids.setdefault(name, f"#{len(ids)}")
