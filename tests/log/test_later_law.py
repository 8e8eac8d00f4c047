"""Random interleavings of results, messages, deliveries, cancels, pauses, decisions, retries, forks and kills.

Some calls in the background wait: for a decision about a call in a run inside, for the answer to a question, or for a
moment, a signal or a message.

Each call in the background has one result, which joins once; every history is one that all encoders accept; records are
legal, and their fold is the live state; panels show the same of a run of this process and of what is stored.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from operator import itemgetter
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker import Approve, Deny, Finished, Paused, Run, Session, Worker, after_tool_call, tool, worker_tool
from rxworker.decisions import Decided, Decision, PendingCalls
from rxworker.errors import CommandConflictError, LocalProtocolError, LogError, RunStatusError, RxWorkerError
from rxworker.events import (
    BackgroundStart,
    BackgroundStop,
    CommandTaken,
    MessageAdd,
    PauseState,
    Question,
    ResponseEvent,
    RunAbort,
)
from rxworker.events.pause import BACKGROUND
from rxworker.hooks import ToolResultContext
from rxworker.log import EventLog, MemoryLog, open_log, replay
from rxworker.log.recover import decide_running
from rxworker.log.values import is_woken
from rxworker.messages import JsonObject, validate
from rxworker.panels import failures, run_line, status, tokens
from rxworker.providers import PROVIDERS, Options, Request
from rxworker.state import fold_run
from rxworker.testing import Reply, call, say
from rxworker.tools import FunctionTool, Tool, ToolContext, base
from tests.log.conftest import NewAddress
from tests.log.test_later import copy_of, stored_state
from tests.log.victim import ByTurn
from tests.whole import IS_WHOLE

FORM: JsonObject = {"type": "object", "properties": {"day": {"type": "string"}}}
STORES = ["none", "memory", "memory", "sqlite"]
WALKS = [
    *[(seed, STORES[seed % len(STORES)]) for seed in range(1000 if IS_WHOLE else 15)],
    *[(seed, store) for store in ("postgres", "nats") for seed in range(100 if IS_WHOLE else 0)],
]


class Paced(ByTurn):
    """Its events come one after the other, so that a message may cut a response off anywhere."""

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        steps = reactivex.interval(0.0002, scheduler=AsyncIOScheduler(asyncio.get_running_loop()))
        return super().stream(request).pipe(ops.zip(steps), ops.map(itemgetter(0)))


class Walk:
    """One random run, with everything that happens to it."""

    def __init__(self, seed: int, store: str, new_address: NewAddress) -> None:
        self.random = chance = random.Random(f"{seed} {store}")
        self.store = store
        self.new_address = new_address
        self.log: EventLog | None = None
        self.chain: list[str] = []
        self.results: dict[str, list[str]] = {}
        self.pauses = 6  # a slow store has begun hardly anything before the next one
        self.has_mask = chance.random() < 0.4
        self.replies = self._replies()
        self.settings = {name: self._settings() for name in ("one", "two")}

    def _settings(self) -> dict[str, Any]:
        chance = self.random
        effect = chance.choice(["pure", "idempotent", "write"])
        return {
            "background": chance.choice([True, True, 0.002]),
            "effect": effect,
            "at_end": chance.choice(["wait", "wait", "wake", "cancel"]),
            "retries": 0 if effect == "write" else chance.choice([0, 2]),
        }

    def _replies(self) -> list[Reply]:
        names = ["one", "two", "detached", "later", "quick", "pay", "sub", "sub", "sure", "sure", "waits", "waits"]
        replies: list[Reply] = []
        for turn in range(self.random.randint(1, 3)):
            several = [
                call(name, **({"task": "?"} if name == "sub" else {"n": turn}))
                for name in self.random.sample(names, self.random.randint(1, 3))
            ]
            reply = several[0]
            for other in several[1:]:
                reply = reply + other
            replies.append(reply)
        return [*replies, *[say(f"Answer {n}.") for n in range(60)]]

    def _tools(self) -> list[Tool]:
        make: Any = tool

        def working(name: str, **settings: Any) -> FunctionTool[..., Any]:
            @make(name=name, **settings)
            async def work(n: int, context: ToolContext) -> str:
                context.progress(n)
                await asyncio.sleep(self.random.random() * 0.006)
                if settings.get("retries") and self.random.random() < 0.3:
                    raise OSError("once more")
                if name == "detached":
                    context.detach()
                    await asyncio.sleep(self.random.random() * 0.004)
                return f"{name} {n}"

            return work

        @tool
        async def later(n: int, context: ToolContext) -> str:
            context.later()

        @tool(background=True, effect="idempotent", retries=1)
        async def sure(n: int, context: ToolContext) -> str:
            reply = None if context.begun is None else context.begun.reply
            if reply is None:
                context.ask(Question("sure", "Sure?", FORM))
            return f"sure {n}: {reply.action}"

        @tool(background=True, effect="idempotent")
        async def waits(n: int, context: ToolContext) -> str:
            if self.log is None:
                return f"waited {n} {await context.until(0.004)}"
            first = await context.until(self.random.choice([0.004, None]), signal=f"s{n}", message=n == 1)
            return f"waited {n} {first} {await context.until(0.002)}"

        pay = working("pay", requires_approval=True)
        inside = Worker(ByTurn([call("pay", n=0), call("pay", n=1), say("Paid.")]), tools=[pay], log=self.log)
        sub = worker_tool(inside, name="sub", description="Pay.", background=True)
        names = {name: working(name, **settings) for name, settings in self.settings.items()}
        return [*names.values(), working("detached", effect="pure"), later, working("quick"), pay, sub, sure, waits]

    def worker(self) -> Worker:
        @after_tool_call
        async def mask(context: ToolResultContext) -> None:
            await asyncio.sleep(0)
            context.set_content(f"masked {context.result.text}")

        hooks = [mask] if self.has_mask else []
        return Worker(Paced(self.replies), tools=self._tools(), hooks=hooks, log=self.log)

    def _decisions(self, pause: PauseState) -> list[Decision | None]:
        """Decisions about what must be decided, and about some of what waits in the background."""
        pending, chance = PendingCalls.of(pause), self.random
        decided = list[Decision | None]([None] * len(pending.calls))
        is_all = all(pending.node(at).path for at in pending.required) and chance.random() < 0.5
        left: dict[str, bool] = {}
        for at in pending.required:
            node = pending.node(at)
            if not node.path or is_all or left.setdefault(node.run, chance.random() < 0.5):
                form: JsonObject = {} if node.question is None else {"day": "today"}
                decided[at] = chance.choice([Approve(form or None), Approve(form or None), Deny()])
        if pending.required and not any(decided):
            return self._decisions(pause)
        return decided

    async def _decide(self, run: Run[Any]) -> None:
        """Decide about what waits while the run goes on, in its process or in another one."""
        if (pause := run.state.waiting) is not None and run.state.status == "running":
            decided = self._decisions(pause)
            if self.log is None or self.random.random() < 0.5:
                run.decide(decided)
            else:
                await run.barrier()
                await decide_running(self.log, run.id, Decided(decided))

    async def _disturb(self, run: Run[Any]) -> None:
        """Do something random to a run, again and again."""
        while not run.done():
            await asyncio.sleep(self.random.random() * 0.003)
            if run.done():
                return
            several = run.state.background
            act = self.random.choice(
                [
                    "send",
                    "deliver",
                    "deliver",
                    "cancel_call",
                    "pause",
                    "decide",
                    "decide",
                    "progress",
                    "signal",
                    "signal",
                ]
            )
            with suppress(LocalProtocolError, CommandConflictError, RunStatusError):
                if act == "send" and self.random.random() < 0.3:
                    sent = run.send("Go on.", self.random.choice(["now", "turn", "end"]))
                    if self.random.random() < 0.3:
                        run.edit(sent, "Go on, please.", self.random.choice(["now", "turn", "end", None]))
                elif act == "pause" and self.pauses and self.random.random() < 0.2:
                    self.pauses -= 1
                    run.pause()
                elif act == "decide":
                    await self._decide(run)
                elif act == "signal" and several and self.log is not None:
                    await run.barrier()
                    await self.log.signal(run.id, f"s{self.random.randint(0, 2)}")
                elif act in ("deliver", "cancel_call") and several:
                    each = self.random.choice(several)
                    if act == "cancel_call" and self.random.random() < 0.5:
                        run.cancel_call(each.id)
                    elif self.log is not None:
                        await run.barrier()
                        await self.log.deliver(run.id, self.random.choice([each.id, each.key]), "delivered")
                    else:
                        run.deliver(each.id, "delivered")
                elif several and all(each.is_delivered for each in several):
                    run.deliver(several[0].id, "delivered at last")

    async def _ended(self, run: Run[Any]) -> None:
        disturbing = asyncio.create_task(self._disturb(run))
        is_watched = self.random.random() < 0.5
        with suppress(RxWorkerError):
            if is_watched:
                records = [record async for record in run]
                assert fold_run(records) == run.state
            await run
        disturbing.cancel()
        with suppress(asyncio.CancelledError):
            await disturbing

    async def _killed(self, run: Run[Any]) -> EventLog:
        """What the log has when the process of a run is killed at a random moment."""
        watching = asyncio.create_task(self._disturb(run))
        await asyncio.sleep(self.random.random() * 0.01)
        assert self.log is not None
        await run.barrier()
        left = await copy_of(self.log, *[info.run_id for info in reversed(await self.log.list(limit=1000))])
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        if not run.done():
            await run.cancel()
        return left

    async def play(self) -> None:
        if self.store == "memory":
            self.log = MemoryLog()
        elif self.store != "none":
            self.log = open_log(self.new_address(self.store))
        session = Session(self.worker())
        run = await self._to_end(session, session.run("Begin."))
        await self._check(run)
        if self.log is not None:
            if self.random.random() < 0.5:
                await self._fork(self.log)
            await self.log.close()

    async def _fork(self, log: EventLog) -> None:
        """A copy of one of the runs up to a random record goes on to an end of its own."""
        source = self.random.choice(self.chain)
        seq = self.random.randint(1, (await log.existing(source)).last_seq)
        session = Session(self.worker())
        self.chain = []
        run = await self._to_end(session, session.fork(source, seq))
        self._check_end(run)
        assert self.log is not None  # another one, if its process was killed
        assert (await stored_state(self.log, run.id))[0] == run.state

    async def _to_end(self, session: Session, run: Run[Any]) -> Run[Any]:
        self.chain.append(run.id)
        for _ in range(60):
            if self.store == "memory" and self.random.random() < 0.3 and not run.done():
                with suppress(RxWorkerError):
                    await run.started()
                    self.log = await self._killed(run)
                    session = Session(self.worker())
                    if (await self.log.existing(self.chain[-1])).status == "running":
                        run = session.recover(self.chain[-1])
            await self._ended(run)
            state = run.state
            if isinstance(run.exception(), LogError | LocalProtocolError) and state.status == "new":
                raise run.exception() or AssertionError
            if state.status != "paused":
                break
            session, run = await self._resumed(session, run)
            self.chain.append(run.id)
        return run

    async def _resumed(self, session: Session, run: Run[Any]) -> tuple[Session, Run[Any]]:
        pause, state = run.state.pause, run.state
        assert pause is not None
        outside = [each for each in state.background if each.is_delivered]
        decisions = self._decisions(pause)
        if self.log is None:
            paused = run.result()
            assert isinstance(paused, Paused)
            return session, session.resume(paused, decisions=decisions)
        if outside and self.random.random() < 0.5:
            with suppress(CommandConflictError):
                await self.log.deliver(run.id, outside[0].id, "delivered while it was paused")
        if self.random.random() < 0.5:
            session = Session(self.worker())
        info = await self.log.existing(run.id)
        sent = await self.log.sent(run.id)
        steps = {f"deliver~{each.step + 1}-{each.id}" for each in pause.background}
        if pause.hook == BACKGROUND and steps & {each.key for each in sent}:
            assert is_woken(info.row, sent)
        if is_woken(info.row, sent) and self.random.random() < 0.7:
            again = session.recover(run.id)
            await again.started()
            return session, again
        with suppress(CommandConflictError):
            again = session.decide(run.id, decisions)
            await again.started()
            return session, again
        # A decision came as it paused, and another one about that call is refused.
        session, pending = Session(self.worker()), PendingCalls.of(pause)
        if is_woken((await self.log.existing(run.id)).row, await self.log.sent(run.id)):
            again = session.recover(run.id)
        else:
            own = [(pending.ids[at], decisions[at]) for at in pending.own]
            again = session.decide(run.id, {name: given for name, given in own if given is not None})
        await again.started()
        return session, again

    def _check_end(self, run: Run[Any]) -> None:
        error = run.exception()
        assert error is None, repr(error)
        assert isinstance(run.result(), Finished)
        state = run.state
        assert not state.background
        assert validate(state.conversation) == []
        for name in PROVIDERS:
            PROVIDERS[name]("m", api_key="k").request(state.conversation, (), Options())

    async def _check(self, run: Run[Any]) -> None:
        self._check_end(run)
        state = run.state
        if self.log is None:
            return
        starts: list[str] = []
        stops: list[str] = []
        joined = 0
        for id in self.chain:  # noqa: A001 - what it is
            folded, records = await stored_state(self.log, id)
            if id == run.id:
                assert folded == state
                panels: list[Any] = [tokens, failures, status, run_line()]
                for panel in panels:
                    last: Any = ops.last_or_default(None)
                    shown = [await run.records.pipe(panel, last), await replay(self.log, id, speed=0).pipe(panel, last)]
                    assert shown[0] == shown[1], panel
            commands = {command.number: command.data for command in await self.log.sent(id)}
            taken = ""
            for record in records:
                event = record.event
                if isinstance(event, CommandTaken) and event.kind == "deliver" and not (record.path or event.ignored):
                    taken = str(commands[event.number]["id"])
                elif isinstance(event, BackgroundStop | BackgroundStart) and not record.path:
                    name = event.id if isinstance(event, BackgroundStop) else event.background.id
                    assert taken in ("", name) or not taken.startswith("call"), "another command was taken"
                    taken = ""
                if isinstance(event, BackgroundStart) and event.background.key not in starts:
                    starts.append(event.background.key)
                elif isinstance(event, BackgroundStop):
                    stops.append(event.id)
                joined += isinstance(event, MessageAdd) and event.source == BACKGROUND
                assert not isinstance(event, RunAbort)
        assert len(starts) == len(stops), (starts, stops)
        texts = [message.text for message in state.conversation.messages if message.text.startswith("[The result of")]
        assert len(texts) == joined <= len(stops)
        if not any(settings["at_end"] == "cancel" for settings in self.settings.values()):
            assert joined == len(stops)


@pytest.mark.parametrize(("seed", "store"), WALKS)
async def test_each_result_joins_once_whatever_happens(
    seed: int, store: str, new_address: NewAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "SHORT", 0.0)  # a wait of any length leaves the tool
    async with asyncio.timeout(20):
        await Walk(seed, store, new_address).play()
