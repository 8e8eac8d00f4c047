"""A process ends between any two writes while a tree of runs pauses, is decided about and goes on.

Another process continues from what is stored: every effect happens once, and nothing waits for ever.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker import Approve, Paused, Run, RunResult, Worker, tool, worker_tool
from rxworker.decisions import Decision, PendingCalls
from rxworker.errors import LogError, RxWorkerError
from rxworker.events import BackgroundStart, BackgroundStop, PauseState, Question, RunStop
from rxworker.log import EventLog, MemoryLog, RunInfo, open_log
from rxworker.log.format import records_of
from rxworker.log.recover import RunSource
from rxworker.log.values import OPEN, Claim, resumed_id
from rxworker.testing import Reply, call, lint, say
from rxworker.tools import ToolContext
from tests.log.conftest import NewAddress
from tests.log.victim import ByTurn
from tests.runs import settle
from tests.whole import IS_WHOLE


class Effects:
    """What the tools have done, by the idempotency keys of their calls, and what a person has approved.

    Args:
        at_end: Of a tool in the background, which the outermost and the innermost run have called before, if there is
            one. ``nested``: there is none, all calls with runs inside are in the background, and one there has a
            question. ``live``: there is one as well, and decisions come while the run goes on.
    """

    def __init__(self, at_end: str = "") -> None:
        self.keys: dict[str, str] = {}
        self.approved: set[str] = set()
        self.is_live, self.is_nested = at_end == "live", at_end in ("live", "nested")
        self.at_end = {"live": "wait", "nested": ""}.get(at_end, at_end)

    @property
    def background(self) -> int:
        """How many calls go into the background."""
        return (4 if self.is_nested else 0) + (2 if self.at_end else 0)

    def worker(self, log: EventLog) -> Worker:
        """Three runs inside each other; the outermost has two calls that pause inside, the innermost pauses twice."""

        @tool(requires_approval=True, effect="idempotent")
        async def wipe(what: str, context: ToolContext) -> str:
            """Wipe."""
            assert what in self.approved
            self.keys[context.idempotency_key] = what
            return f"{what} is gone"

        def asks(worker: Worker, name: str) -> Any:
            return worker_tool(worker, name=name, description="Ask.", background=self.is_nested)

        make: Any = tool

        @make(background=True, at_end=self.at_end or "wait", effect="idempotent")
        async def late() -> str:
            """Take a while."""
            await settle(20)
            return "late"

        @make(background=True, effect="idempotent")
        async def sure(context: ToolContext) -> str:
            """Ask."""
            if context.begun is None or context.begun.reply is None:
                context.ask(Question("sure", "Sure?"))
            self.keys[context.idempotency_key] = "sure"
            return "sure"

        def script(*replies: Reply) -> ByTurn:
            before, after = [call("late")] if self.at_end else [], [say("And it came.")] * 9
            return ByTurn([*before, *replies, *(after if self.at_end or self.is_nested else [])])

        deep = Worker(script(call("wipe", what="a"), call("wipe", what="b"), say("Deep.")), tools=[wipe, late])
        after = [say("And it came.")] * 9 if self.is_nested else []
        middle = Worker(ByTurn([call("ask_deep", task="?"), say("Middle."), *after]), tools=[asks(deep, "ask_deep")])
        flat = Worker(ByTurn([call("wipe", what="c"), say("Flat.")]), tools=[wipe])
        both = call("ask_middle", task="?") + call("ask_flat", task="?")
        both = both + call("sure") if self.is_nested else both
        tools = [asks(middle, "ask_middle"), asks(flat, "ask_flat"), late, sure]
        return Worker(script(both, say("So.")), tools=tools, log=log)


class Mortal:
    """Lets a log fail for ever after so many writes, as if its process had ended. It counts them."""

    def __init__(self, log: Any, writes: int) -> None:
        self.count = 0
        self._release, self._claims, self._log = log._release, list[Claim](), log
        self._patience = log.patience

        def counted(write: Callable[..., Any]) -> Callable[..., Any]:
            async def call_it(*args: Any) -> Any:
                self.count += 1
                if self.count > writes:
                    log.patience = 0.0
                    raise LogError("the process has ended")
                done = await write(*args)
                self._claims += [done] if isinstance(done, Claim) else []
                return done

            return call_it

        for name in ("_claim", "_append", "_release", "_send"):
            setattr(log, name, counted(getattr(log, name)))

    async def buried(self) -> None:
        """Give back what it has claimed, as the end of its leases does."""
        self._log.patience = self._patience
        for claim in self._claims:
            await self._release(claim)
        await self._log.close()


def approve_all(pause: PauseState, effects: Effects) -> list[Decision | None]:
    pending = PendingCalls.of(pause)
    shown: list[Any] = [pending.calls[at].input for at in pending.required if at not in pending.questions]
    effects.approved.update(each["what"] for each in shown)
    return [Approve() if at in pending.required else None for at in range(len(pending.calls))]


async def live(worker: Worker, effects: Effects) -> None:
    """A process that begins the run, and decides."""
    run = worker.run("go")
    if effects.is_live:
        async for _ in run:
            if (pause := run.state.waiting) is not None and run.state.status == "running":
                run.decide(approve_all(pause, effects))
    result: RunResult[Any] = await run
    while isinstance(result, Paused):
        result = await worker.new_session().decide(result.run_id, approve_all(result.pause, effects))


async def go_on(worker: Worker, log: EventLog, effects: Effects) -> RunInfo | None:
    """Another process: it takes what waits for one, decides about what waits for that, and ends what nothing needs."""
    last: RunInfo | None = None
    for _ in range(20):
        async with RunSource(log) as source:
            while (info := await source.take(wait=False)) is not None:
                await ended(worker.new_session().recover(info.run_id))
        outermost = [info for info in await log.list() if not info.row.outer]
        if not outermost:
            return None
        last = max(outermost, key=lambda info: (len(info.run_id), info.run_id))
        if last.status == "paused":
            paused: Any = await worker.load(last.run_id)
            await ended(worker.new_session().decide(last.run_id, approve_all(paused.pause, effects)))
        elif last.status not in OPEN:
            break
    return last


async def ended(run: Run[Any]) -> None:
    try:
        await run
    except RxWorkerError as error:
        raise AssertionError(f"{run.id}: {error!r}") from error


async def check(log: EventLog, effects: Effects, last: RunInfo | None) -> None:
    done = ["a", "b", "c", "sure"] if effects.is_nested else ["a", "b", "c"]
    assert sorted(effects.keys.values()) == (done if last is not None else [])
    known = {info.run_id: info for info in await log.list(limit=1000)}
    begun, joined = set[str](), list[str]()
    for info in known.values():
        assert info.status in ("finished", "paused"), (info.run_id, info.status, info.row.reason)
        assert info.status == "finished" or resumed_id(info.run_id) in known, info.run_id
        records = list(records_of([entry async for entry in log.read(info.run_id)], info.run_id))
        assert lint([each.event for each in records if not each.path]) == []
        own = [each.event for each in records if not each.path]
        begun |= {each.background.key for each in own if isinstance(each, BackgroundStart)}
        joined += [each.id for each in own if isinstance(each, BackgroundStop)]
        if not info.row.outer and info.status == "finished":
            assert isinstance(records[-1].event, RunStop)
            assert effects.at_end or effects.is_nested or (info.row.input_tokens, info.row.turns) == (90, 2), (
                info.run_id
            )
    assert len(joined) == len(begun) == (effects.background if last is not None else 0)


def reborn(log: MemoryLog) -> MemoryLog:
    """What another process finds, when the leases of the one that has ended are over."""
    other = MemoryLog()
    for name in ("_rows", "_entries", "_commands", "_numbers", "_listed", "_revision", "_folds"):
        setattr(other, name, copy.deepcopy(getattr(log, name)))
    other._rows = {run: replace(row, lease_until=0.0) for run, row in other._rows.items()}
    return other


STEPS = {"memory": 11, "sqlite": 29, "postgres": 31, "nats": 31}
SLOW = [pytest.param(store, marks=pytest.mark.product(4)) for store in ("postgres", "nats")]


@pytest.mark.slow
@pytest.mark.timeout(600 if IS_WHOLE else 60)
@pytest.mark.parametrize("store", ["memory", "sqlite", *SLOW])
@pytest.mark.parametrize("at_end", ["", "wait", "wake", "cancel", "nested", "live"])
async def test_a_process_ends_between_any_two_writes(
    store: str, at_end: str, new_address: NewAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rxworker.worker.continuing.RESERVED", 0.0)
    writes, is_over = 0, False
    while not is_over:
        effects, address = Effects(at_end), "" if store == "memory" else new_address(store)
        log: Any = MemoryLog() if store == "memory" else open_log(address)
        mortal = Mortal(log, writes)
        try:
            await live(effects.worker(log), effects)
            is_over = True
        except RxWorkerError:
            pass
        if store == "memory":
            other: EventLog = reborn(log)
        else:
            await mortal.buried()
            other = open_log(address)
        async with other:
            await check(other, effects, await go_on(effects.worker(other), other, effects))
        writes += (1 if IS_WHOLE else STEPS[store]) * (3 if at_end else 1)
    assert writes > 40
