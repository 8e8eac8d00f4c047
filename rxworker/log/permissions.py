"""What a person always allows in a conversation: one document of its log for each, which all processes read and change.

Theory of operation. A decision that is stored with ``always`` grants it as soon as its run is resumed, under the id of
the run that was decided about: each process that resumes that run grants the same, and doing so twice changes nothing,
also after a withdrawal. A run reads it when a call would wait, and not when it begins, so that a withdrawal counts from
the next call on, in any process. A pair that the document does not name is allowed where the run itself has it: from
its program, or from a log of rxworker 0.2, where rows have permissions. A fork and an imported run have those alone
that their own runs were given. The document is emptied before the last run of its conversation is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import LogError
from rxworker.hooks.points import REQUIRES_APPROVAL
from rxworker.log.base import EventLog, claimed
from rxworker.log.kept import change_kept, load_kept, permissions_key
from rxworker.log.values import LISTED, RunRow, decisions_in, first_id

Pair = tuple[str, str]
"""The name of a tool, and the name of the hook that then pauses no run for it."""


class Given(Struct, frozen=True, omit_defaults=True):
    """The last word about a pair.

    Attributes:
        tool: The name of the tool.
        hook: The name of the hook.
        is_allowed: Whether it is allowed; false after a withdrawal.
        by: The id of the run whose decision has granted it last; empty for none.
    """

    tool: str
    hook: str
    is_allowed: bool = False
    by: str = ""


class Permissions(Struct, frozen=True, omit_defaults=True):
    """What is decided about the pairs of a conversation."""

    given: tuple[Given, ...] = ()

    def having(self, pair: Pair, *, is_allowed: bool, by: str = "") -> Permissions:
        """The same with another word about a pair. A decision grants it once, and nothing after it was withdrawn."""
        known = {(one.tool, one.hook): one for one in self.given}
        before = known.get(pair, Given(*pair))
        if not (is_allowed and by and before.by == by):
            known[pair] = Given(*pair, is_allowed, by or before.by)
        return Permissions(tuple(known.values()))


async def allowed_in(log: EventLog, run_id: str, row: RunRow) -> tuple[Pair, ...]:
    """What is always allowed in the conversation of a run now.

    Args:
        log: The log of the run.
        run_id: The run's id; empty for a conversation without a run.
        row: What a list shows of the run: its labels, and what it has itself.

    Raises:
        LogError: The log cannot be read.
    """
    found = await load_kept(log, permissions_key(row.labels, run_id), Permissions)
    if not found.given:
        return row.allowed
    first = await log.listed(first_id(run_id)) if row.resumes else None
    origin = row if first is None else first.row
    is_foreign = bool(origin.fork_of or origin.imported)
    pairs = dict.fromkeys(row.allowed)
    for one in found.given:
        pair = one.tool, one.hook
        if not one.is_allowed:
            pairs.pop(pair, None)
        elif not is_foreign or first_id(one.by) == first_id(run_id):
            pairs[pair] = None
    return tuple(pairs)


async def own_of(log: EventLog, run_id: str, row: RunRow) -> tuple[Pair, ...]:
    """What a run itself has, from its program or from rxworker 0.2, about which nothing is decided in its conversation.

    Raises:
        LogError: The log cannot be read.
    """
    found = await load_kept(log, permissions_key(row.labels, run_id), Permissions)
    decided = {(one.tool, one.hook) for one in found.given}
    return tuple([pair for pair in row.allowed if pair not in decided])


async def grant(log: EventLog, labels: Mapping[str, str], pair: Pair, run_id: str) -> None:
    """Grant what the decision about a run allows always. The same decision grants it once.

    Args:
        log: The log.
        labels: The labels of the run that the decision resumes.
        pair: What is allowed.
        run_id: The id of the run that was decided about.

    Raises:
        LogError: The log cannot be read or written.
    """
    given = partial(Permissions.having, pair=pair, is_allowed=True, by=run_id)
    await change_kept(log, permissions_key(labels, run_id), Permissions, given)


async def set_given(log: EventLog, labels: Mapping[str, str], pair: Pair, run_id: str, *, is_allowed: bool) -> None:
    """Allow a pair in a conversation without a decision, or withdraw it. It counts when this returns.

    Args:
        log: The log.
        labels: The labels of its runs.
        pair: The pair.
        run_id: The id of its last run; empty for a conversation without a run.
        is_allowed: Whether it is allowed.

    Raises:
        LogError: The log cannot be read or written.
    """
    info = await log.listed(run_id) if run_id else None
    by = ""  # a decision that is stored and was not carried out yet grants nothing later
    if info is not None:
        is_decided = info.status == "paused" and decisions_in(await log.sent(run_id))
        by = run_id if is_decided else info.row.resumes
    given = partial(Permissions.having, pair=pair, is_allowed=is_allowed, by=by)
    await change_kept(log, permissions_key(labels, run_id), Permissions, given)
    if info is not None:
        # Lists show the row, and other processes are woken by its change; a run that is running writes its own.
        with suppress(LogError):
            async with claimed(log, run_id, LISTED) as (claim, info):
                row = replace(info.row, allowed=await allowed_in(log, run_id, info.row))
                await log.append(claim, [], after=claim.last_seq, row=row)


async def settle(log: EventLog, run_id: str, labels: Mapping[str, str], allowed: Collection[Pair]) -> None:
    """Set what is known to be decided in a conversation to what a program allows.

    Raises:
        LogError: The log cannot be read or written.
    """

    def settled(found: Permissions) -> Permissions:
        given = [replace(one, is_allowed=(one.tool, one.hook) in allowed) for one in found.given]
        return Permissions(tuple(given))

    await change_kept(log, permissions_key(labels, run_id), Permissions, settled)


async def withdraw(log: EventLog, run_id: str, tool: str, hook: str = REQUIRES_APPROVAL) -> None:
    """Withdraw what a person always allows in the conversation of a run.

    Calls of the tool need approval again, in all processes, from the next one on.

    Args:
        log: The log of the run.
        run_id: The id of a run of the conversation.
        tool: The name of the tool.
        hook: The name of the hook that pauses for it; by default the policy of the tool.

    Raises:
        LogError: There is no such run, or the log cannot be read or written.

    Example:
        >>> import asyncio
        >>> from rxworker import ApproveAlways, Worker, tool
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel, call
        >>> @tool(requires_approval=True)
        ... def delete(path: str) -> str:
        ...     return f"{path} is gone"
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         answers = [call("delete", path="a"), "Done.", call("delete", path="b")]
        ...         worker = Worker(ScriptedModel(answers), tools=[delete], log=log)
        ...         paused = await worker.run("Clean up")
        ...         await worker.resume(paused, decisions=[ApproveAlways()])
        ...         await withdraw(log, paused.run_id, "delete")
        ...         print(type(await worker.run("Clean up again")).__name__)
        >>> asyncio.run(main())
        Paused
    """
    await set_given(log, (await log.existing(run_id)).row.labels, (tool, hook), run_id, is_allowed=False)
