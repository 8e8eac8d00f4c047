"""What a person always allows, door x door: over one log, in one process and in two, and however a decision is lost."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, cast

import aiohttp
import mcp
import pytest

from rxworker import Approve, ApproveAlways, Deny, Paused, Session, Worker, tool
from rxworker.adapters.acp.agent import AcpSession
from rxworker.adapters.mcp import McpServer
from rxworker.cli.chat import converse
from rxworker.decisions import Decision
from rxworker.desk.run import OpenRun
from rxworker.errors import CommandConflictError, LogError, RunStatusError, RxWorkerError
from rxworker.log import EventLog, dismiss_run, open_log, withdraw
from rxworker.log.permissions import allowed_in
from rxworker.log.values import CONVERSATION
from rxworker.messages import Message
from rxworker.protocols.acp import wire
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call
from rxworker.ui.terminal.session import TerminalSession, list_sessions
from rxworker.ui.web import WebServer
from tests.adapters.mcp import test_mcp
from tests.log.conftest import NewAddress
from tests.pauses import pause_of
from tests.whole import IS_WHOLE, SLOW_STORES

CHAT = "conversation-1"


def answer(request: Request) -> Reply | str:
    last = request.conversation.messages[-1]
    return "Done." if last.tool_results else call("wipe", disk="a")


class Desk:
    """A process, as far as the log knows, with the worker of all doors."""

    def __init__(
        self,
        log: EventLog,
        address: str = "",
        *,
        answers: Callable[[Request], Reply | str] = answer,
        map_input: Callable[[Message], Message] | None = None,
    ) -> None:
        self.log, self.address = log, address
        self.wiped = 0
        self.model = ScriptedModel(answers)

        @tool(requires_approval=True)
        async def wipe(disk: str) -> str:
            """Wipe a disk."""
            self.wiped += 1
            return f"{disk} is empty"

        def make(log: EventLog | None = None) -> Worker:
            """Make the worker that a server has."""
            return Worker(self.model, tools=[wipe], log=log, name="worker", map_input=map_input)

        self.make, self.worker = make, make(log)


class Door:
    """A door of a process: a conversation at it is begun, allowed always, withdrawn, and continued.

    Attributes:
        names_no_conversation: Whether its clients cannot continue a conversation, so that each message begins one.
        text: What the person writes.
        shown: What the door has shown.
    """

    names_no_conversation = False
    text = "Clean up."
    every: ClassVar[list[type[Door]]] = []

    def __init_subclass__(cls) -> None:
        if "say" in cls.__dict__:
            Door.every.append(cls)

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.shown: list[object] = []

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Door]:
        yield self

    async def say(self) -> bool:
        """Send the next message; whether the call waits."""
        raise NotImplementedError

    async def always(self) -> None:
        """Allow the call that waits always; a door that cannot say so leaves it to the program."""
        await Session(self.desk.worker).decide(await self.last(), [ApproveAlways()])

    async def withdraw(self) -> None:
        raise NotImplementedError

    async def last(self) -> str:
        infos = await self.desk.log.list(limit=1)
        return infos[0].run_id


class Python(Door):
    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.session = Session(desk.worker, labels={CONVERSATION: CHAT})

    async def say(self) -> bool:
        return isinstance(await self.session.run(self.text), Paused)

    async def always(self) -> None:
        await self.session.decide(await self.last(), [ApproveAlways()])

    async def withdraw(self) -> None:
        await withdraw(self.desk.log, await self.last(), "wipe")


class Terminal(Door):
    app: TerminalSession

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Door]:
        self.app = TerminalSession(Session(self.desk.worker, labels={CONVERSATION: CHAT}))
        for stored in await list_sessions(self.desk.log):
            await self.app.open_session(stored)
        yield self
        await self.app.close()

    async def _follow(self) -> None:
        async for lanes in self.app.follow():
            self.shown.append([lane.text for lane in lanes])

    async def say(self) -> bool:
        self.app.send(Message.user(self.text))
        await self._follow()
        return self.app.paused is not None

    async def always(self) -> None:
        [stored] = await list_sessions(self.desk.log)
        if self.app.paused is None:
            await self.app.open_session(stored)
        self.app.decide(Approve(), always=True)
        await self._follow()

    async def withdraw(self) -> None:
        await self.app.opened.refresh()
        await self.app.allow("wipe", is_allowed=False)


async def prompt_of(text: str) -> wire.Prompt:
    return wire.Prompt(CHAT, [wire.TextContent(text)])


class Editor(Door):
    """An editor, whose user approves the call always, or cancels the question."""

    option = ""
    asked = 0
    race: Any = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Door]:
        session = Session(self.desk.worker, labels={CONVERSATION: CHAT})
        infos = [i for i in await self.desk.log.list() if i.row.labels.get(CONVERSATION) == CHAT]
        self.acp = AcpSession(session, "/", cast("Any", self), infos[::-1])
        yield self

    async def notify(self, method: str, params: object) -> None:
        self.shown.append(params)

    async def request(self, method: str, params: object, kind: object) -> wire.PermissionResult:
        self.asked += 1
        if self.race is not None:  # another door decides while the question is open
            await self.race()
            self.race = None
        elif self.asked > 1:
            self.option = ""
        outcome = "selected" if self.option else "cancelled"
        return wire.PermissionResult(wire.Outcome(cast("Any", outcome), self.option))

    async def say(self) -> bool:
        self.asked, self.option = 0, ""
        await self.acp.prompt(prompt_of(self.text))
        return self.asked > 0

    async def always(self) -> None:
        self.option = "allow_always"
        await self.acp.prompt(prompt_of("Clean up, always."))


class Served(Door):
    """A door of the web server."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Door]:
        server = WebServer(self.desk.make, port=0, log=self.desk.log)
        async with server, aiohttp.ClientSession(server.url, trust_env=False) as self.http:
            yield self

    async def _post(self, path: str, body: object) -> Any:
        async with self.http.post(f"api/{path}", json=body) as response:
            self.shown.append(await response.text())
            return await response.json()

    async def _chats(self) -> bool:
        async with self.http.get("api/runs") as response:
            return any(one["conversation"] == CHAT for one in (await response.json())["runs"])

    async def _over(self, run_id: str) -> str:
        async with aclosing(self.desk.log.changes(every=0.0)) as changes:
            async for infos in changes:
                for info in infos:
                    if info.run_id == run_id and info.status not in ("queued", "running"):
                        return info.status
        raise AssertionError(run_id)


class Page(Served):
    async def say(self) -> bool:
        while not await self._chats():
            pass
        said = await self._post("runs", {"input": self.text, "conversation": CHAT})
        return await self._over(said["id"]) == "paused"

    async def always(self) -> None:
        last = await self.last()
        while True:
            async with self.http.get(f"api/runs/{last}") as response:
                if response.status == 200 and (await response.json())["status"] == "paused":
                    break
        resumed = await self._post(f"runs/{last}/resume", {"decisions": [{"type": "approve", "always": True}]})
        await self._over(resumed["id"])

    async def withdraw(self) -> None:
        while not await self._chats():
            pass
        body = {"tool": "wipe", "hook": "requires_approval"}
        assert await self._post(f"conversations/{CHAT}/disallow", body) == {"allowed": []}


class AgUi(Served):
    async def say(self) -> bool:
        message = {"id": "1", "role": "user", "content": self.text}
        return await self._stream("ag-ui", {"threadId": CHAT, "runId": "r", "messages": [message]})

    async def _stream(self, path: str, body: object) -> bool:
        """Send a message, and read the response to its end; whether its run waits."""
        async with self.http.post(path, json=body) as response:
            self.shown.append(await response.text())
            assert response.status == 200, self.shown[-1]
        return await self._over(await self.last()) == "paused"


class UseChat(AgUi):
    async def say(self) -> bool:
        message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": self.text}]}
        return await self._stream("api/chat", {"id": CHAT, "messages": [message]})


class Responses(AgUi):
    async def say(self) -> bool:
        body = {"model": "worker", "previous_response_id": await self.last(), "input": self.text}
        return await self._stream("v1/responses", body)


class Completions(AgUi):
    names_no_conversation = True

    async def say(self) -> bool:
        message = {"role": "user", "content": self.text}
        return await self._stream("v1/chat/completions", {"model": "worker", "messages": [message]})


class Mcp(Door):
    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Door]:
        server = McpServer({"worker": self.desk.make}, log=self.desk.log)
        async with server.listen() as url, test_mcp.client(url, "auto", _no_form) as self.client:
            yield self

    async def say(self) -> bool:
        arguments = {"message": self.text, "conversation": await self.last()}
        result = await self.client.session.call_tool("worker", arguments, allow_input_required=True)
        self.shown.append(result)
        return isinstance(result, mcp.types.InputRequiredResult)


async def _no_form(*_: Any) -> Any:
    raise AssertionError("the decision is requested in the result")


class CommandLine(Door):
    """``rxworker chat --continue``, whose input and output are no terminals."""

    async def say(self) -> bool:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as shown:
            patch.setattr("sys.stdin", io.StringIO(f"{self.text}\n"))
            await asyncio.to_thread(converse, self.desk.worker, is_person=False, log=self.desk.address, goes_on=True)
        self.shown.append(shown.getvalue())
        return (await self.desk.log.existing(await self.last())).status != "finished"


@asynccontextmanager
async def logs(address: str, *, is_one: bool) -> AsyncGenerator[tuple[EventLog, EventLog]]:
    """The log of two doors: one object of one process, or one of each of two."""
    async with open_log(address) as one, open_log(address) as two:
        yield one, one if is_one else two


ALWAYS = [door for door in Door.every if door.always is not Door.always]
WITHDRAW = [door for door in Door.every if door.withdraw is not Door.withdraw]


def is_tested(first: type[Door], other: type[Door], *, is_one: bool) -> bool:
    """Whether the suite tests two doors: those of two processes, and only the page beside a door that cannot allow."""
    return IS_WHOLE or (not is_one and (first in ALWAYS or other is Page))


PAIRS = [
    (first, other, is_one)
    for first in Door.every
    for other in WITHDRAW
    for is_one in (True, False)
    if is_tested(first, other, is_one=is_one)
]


@pytest.mark.product(3)
@pytest.mark.parametrize("store", SLOW_STORES)
@pytest.mark.parametrize(("first", "other", "is_one"), PAIRS)
async def test_what_is_allowed_at_one_door_and_withdrawn_at_another_needs_approval_at_the_first(
    first: type[Door], other: type[Door], is_one: bool, store: str, new_address: NewAddress
) -> None:
    address = new_address(store)
    async with asyncio.timeout(60), logs(address, is_one=is_one) as (one, two):
        desk, there = Desk(one, address), Desk(two, address)
        assert await Python(desk).say()
        async with first(desk).opened() as door, other(there).opened() as elsewhere:
            await door.always()
            assert await door.say() is first.names_no_conversation
            wiped = desk.wiped
            await elsewhere.withdraw()
            assert await door.say()
            assert (desk.wiped, there.wiped) == (wiped, 0)


async def allowed_now(log: EventLog, run_id: str) -> tuple[tuple[str, str], ...]:
    info = await log.existing(run_id)
    return await allowed_in(log, run_id, info.row)


async def denied(log: EventLog, session: Session, run_id: str) -> None:
    await session.decide(run_id, [Deny()])


async def resumed(log: EventLog, session: Session, run_id: str) -> None:
    paused = await pause_of(session.load(run_id))
    await session.resume(paused, decisions=[Deny()])


async def dismissed(log: EventLog, session: Session, run_id: str) -> None:
    await dismiss_run(log, run_id, "not wanted")


async def cancelled(log: EventLog, session: Session, run_id: str) -> None:
    """Cancel it as the page does."""
    opened = OpenRun(await log.existing(run_id), log)
    try:
        await opened.cancel("not wanted")
    finally:
        opened.close()


@pytest.mark.product(2)
@pytest.mark.parametrize("store", SLOW_STORES)
@pytest.mark.parametrize("race", [denied, resumed, dismissed])
@pytest.mark.parametrize("door", ALWAYS)
async def test_a_decision_that_another_one_was_faster_than_allows_nothing(
    door: type[Door], race: Any, store: str, new_address: NewAddress
) -> None:
    async with asyncio.timeout(60), logs(new_address(store), is_one=False) as (one, two):
        desk, there = Desk(one), Desk(two)
        assert await Python(desk).say()
        async with door(desk).opened() as opened:
            run_id = await opened.last()
            decide = partial(race, two, Session(there.worker), run_id)
            if isinstance(opened, Editor):
                opened.race = decide
            else:
                await decide()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(opened, "last", lambda: _of(run_id))
                # It is refused, in the way of the door.
                with suppress(RxWorkerError, KeyError, TimeoutError, AssertionError, ValueError):
                    async with asyncio.timeout(1):
                        await opened.always()
            assert await allowed_now(two, run_id) == ()


async def _of(run_id: str) -> str:
    return run_id


def _is_cut(number: int, count: int, *, is_after: bool) -> bool:
    """Whether the process has ended before a write."""
    return count > number or (count == number and not is_after)


WRITES = ("_send", "_claim", "_append", "_save_fold", "_release")


@contextmanager
def before_writes(log: EventLog, act: Callable[[int], Awaitable[None]]) -> Generator[None]:
    """Await a function before each write to a log, with its number."""
    numbers = count(1)

    async def later(write: Any, *args: Any, **options: Any) -> Any:
        await act(next(numbers))
        return await write(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            patch.setattr(log, name, partial(later, getattr(log, name)))
        yield


@pytest.mark.product(3)
@pytest.mark.parametrize("store", ["memory", *SLOW_STORES])
@pytest.mark.parametrize("race", [denied, resumed, dismissed, cancelled])
@pytest.mark.parametrize("number", range(1, 5))
async def test_of_two_verbs_for_a_paused_run_one_succeeds_whichever_is_faster_between_two_writes(
    number: int, race: Any, store: str, new_address: NewAddress
) -> None:
    is_one = store == "memory"
    failed: list[RxWorkerError | None] = []

    async def note(verb: Awaitable[object]) -> None:
        try:
            await verb
            failed.append(None)
        except RxWorkerError as error:
            failed.append(error)

    async with asyncio.timeout(60), logs("memory:" if is_one else new_address(store), is_one=is_one) as (one, two):
        desk, there = Desk(one), Desk(two)
        session = Session(desk.worker)
        paused = await pause_of(session.run("Clean up."))

        async def act(count: int) -> None:
            if count == number:
                await note(race(two, Session(there.worker), paused.run_id))

        with before_writes(one, act):
            await note(session.resume(paused))
        slower, resuming = failed  # the other verb was called in the midst
        assert isinstance(slower if number > 1 else resuming, CommandConflictError | RunStatusError)
        assert failed.count(None) == 1
        assert (desk.wiped, there.wiped) == (number > 1, 0)


@pytest.mark.product(2)
@pytest.mark.parametrize("store", SLOW_STORES)
@pytest.mark.parametrize("decision", [Approve(), ApproveAlways()])
@pytest.mark.parametrize("verb", [Session.decide, Session.resume])
@pytest.mark.parametrize("is_after", [False, True])
async def test_what_is_killed_between_two_writes_allows_what_its_decision_does_or_nothing(
    is_after: bool, verb: Any, decision: Decision, store: str, new_address: NewAddress
) -> None:
    for number in range(1, 9):

        async def act(count: int, number: int = number) -> None:
            if _is_cut(number, count, is_after=is_after):
                raise LogError("the process has ended")

        address = new_address(store)
        async with open_log(address, lease=0.2) as one:
            desk = Desk(one)
            assert await Python(desk).say()
            run_id = (await one.list())[0].run_id
            session = Session(desk.worker)
            paused = await session.load(run_id)
            with before_writes(one, act), suppress(RxWorkerError):
                await verb(session, run_id if verb is Session.decide else paused, decisions=[decision])
        async with open_log(address) as two:
            counted = bool([c for c in await two.sent(run_id) if c.kind == "decide"])
            granted = await allowed_now(two, run_id)
            assert counted or (granted, desk.wiped) == ((), 0), number
            if not counted:  # a person denies after the restart, and the next message waits
                there = Desk(two)
                await Session(there.worker).decide(run_id, [Deny()])
                assert await Python(there).say()
                assert there.wiped == 0


GOLDEN = Path(__file__).parents[1] / "log" / "golden" / "allowed-0.2.db"
"""A log of rxworker 0.2, of a run whose row has what its conversation always allows."""


@pytest.mark.product(2)
@pytest.mark.parametrize("first", Door.every)
async def test_what_a_log_of_the_version_before_allows_holds_until_it_is_withdrawn(
    first: type[Door], tmp_path: Path
) -> None:
    shutil.copy(GOLDEN, tmp_path / "runs.db")
    address = f"sqlite:{tmp_path}/runs.db"
    async with asyncio.timeout(60), logs(address, is_one=False) as (one, two):
        desk = Desk(one, address)
        async with first(desk).opened() as door:
            assert await allowed_now(two, await door.last()) == (("wipe", "requires_approval"),)
            holds = not await door.say()
            assert holds is not (first is Python or first.names_no_conversation)
            await withdraw(two, (await two.list())[-1].run_id, "wipe")
            assert await door.say()
