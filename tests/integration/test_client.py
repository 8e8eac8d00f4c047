"""The npm package rxworker-client: packed, installed beside what it needs, and run by node against real servers."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import reactivex
from aiohttp import web
from aiohttp.test_utils import TestServer
from reactivex.subject import Subject

from rxworker import Worker, tool
from rxworker.boards import publish
from rxworker.events import Event, Record, TextDelta
from rxworker.hub.history import expand
from rxworker.log import MemoryLog
from rxworker.log.replica import Replica
from rxworker.protocols import decode_record
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, say, stall
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.guard import Guard
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.runs.entry import RunEntry
from tests.integration.client.event_types import FILE, event_types
from tests.integration.npm import node_with
from tests.integration.served_log import WORDS
from tests.integration.test_native_clients import line_to, talking
from tests.integration.test_served_log import Server, begin
from tests.whole import one_of

HERE = Path(__file__).parent / "client"
PACKAGE = FILE.parents[1]
PATIENCE = 60.0


def install(folder: Path) -> Path:
    """Make a folder with what the package needs, and the scripts of these tests. Returns the place of the package."""
    modules = folder / "node_modules"
    modules.mkdir()
    for each in Path(node_with(HERE, "rxjs")[1]).parent.iterdir():
        (modules / each.name).symlink_to(each)
    for script in ("client.mjs", "use.ts", "use.tsx"):
        shutil.copy(HERE / script, folder)
    return modules / "rxworker-client"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed."""
    folder = tmp_path_factory.mktemp("client")
    shutil.copytree(PACKAGE, install(folder), ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


class Watching:
    """A program that watches with the package.

    Attributes:
        received: What each of its subscriptions has received.
        ended: How each has ended: ``complete``, or the error.
    """

    def __init__(self, lines: asyncio.StreamReader, count: int) -> None:
        self.received: list[list[Any]] = [[] for _ in range(count)]
        self.ended: list[Any] = [None] * count
        self._lines = lines

    async def next(self) -> None:
        """Take the next notification."""
        async with asyncio.timeout(PATIENCE):
            line = await self._lines.readline()
        assert line, "the program has ended"
        which, kind, *value = json.loads(line)
        if kind == "next":
            self.received[which] += value
        else:
            self.ended[which] = value[0] if value else kind

    async def until_value(self, which: int, value: object) -> None:
        """Take notifications until this is the newest value of a panel."""
        while not (states := self.received[which]) or states[-1].get("value") != value:
            await self.next()

    async def end(self) -> None:
        """Take all notifications, until the program ends by itself."""
        while None in self.ended:
            await self.next()
        async with asyncio.timeout(PATIENCE):
            assert not await self._lines.read()

    def records(self, which: int = 0) -> list[Record]:
        """The records of a subscription, each number once."""
        records = [decode_record(json.dumps(each)) for each in self.received[which]]
        numbers = [(record.seq - record.covers, record.seq) for record in records]
        assert [first for first, _ in numbers] == [0, *(last for _, last in numbers)][:-1]
        return [one for record in records for one in expand(record)]


@asynccontextmanager
async def watching(installed: Path, url: str, *asked: list[Any]) -> AsyncGenerator[Watching, None]:
    process = await asyncio.create_subprocess_exec(
        "node", "client.mjs", url, *map(json.dumps, asked),
        cwd=installed, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield Watching(process.stdout, len(asked))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def tokens_of(records: list[Record]) -> int:
    """What the panel of the tokens shows after these records."""
    usage = fold_run(records).usage
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def text_and_events(records: list[Record]) -> tuple[str, list[Event]]:
    """The deltas in one piece, since deliveries merge them, and the other events."""
    text = "".join(one.event.text for one in records if isinstance(one.event, TextDelta))
    return text, [one.event for one in records if not isinstance(one.event, TextDelta)]


def test_the_types_are_those_of_python() -> None:
    assert FILE.read_text() == event_types(), "run python tests/integration/client/event_types.py"


IMPORT = ["--input-type=module", "-e", "await import('rxworker-client')"]
COMPILE = [
    *("node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"),
    *("--jsx", "react-jsx", "--skipLibCheck", "false", "--skipDefaultLibCheck", "use.ts", "use.tsx"),
]


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("use", one_of([IMPORT, COMPILE]), ids=lambda use: use[0])
def test_a_program_finds_what_is_packed_and_compiles_against_the_types(tmp_path: Path, use: list[str]) -> None:
    """The suite does not compile, which takes as long as the other tests of this file together."""
    place = install(tmp_path)
    pack = ["npm", "pack", "--silent", "--offline", "--pack-destination", str(tmp_path)]
    subprocess.run(pack, cwd=PACKAGE, check=True, capture_output=True, timeout=PATIENCE)
    (packed,) = tmp_path.glob("rxworker-client-*.tgz")
    with tarfile.open(packed) as files:
        files.extractall(tmp_path, filter="data")
    (tmp_path / "package").rename(place)
    done = subprocess.run(["node", *use], cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server, None]:
    one = Server(tmp_path / "runs.db")
    yield one
    await one.stop(signal.SIGKILL)


@pytest.mark.parametrize("number", one_of([signal.SIGKILL, signal.SIGTERM]), ids=lambda number: number.name)
async def test_each_record_arrives_once_over_restarts(installed: Path, server: Server, number: signal.Signals) -> None:
    await server.start(60.0 if number is signal.SIGTERM else 0.5, holds=True)
    async with aiohttp.ClientSession() as http:
        run = await begin(http, server, "Tell me a lot.")
    asked = [["records$", run], ["records$", run, {"delivery": "reliable"}], ["view$", run]]
    panel = ["panel$", "usage", "tokens", {"run": run}]
    async with watching(installed, server.url, *asked, panel, ["problem$"]) as seen:
        while not any(each["event"]["type"] == "text_delta" for each in seen.received[0]):
            await seen.next()
        await server.stop(number)
        await server.start()
        while None in seen.ended[:3]:
            await seen.next()
        await seen.until_value(3, tokens_of(seen.records(0)))
    problems = [each and each["code"] for each in seen.received[4]]
    assert (problems[:2], problems[-1]) == ([None, "unreachable"], None)
    assert text_and_events(seen.records(1)) == text_and_events(seen.records(0))
    assert seen.ended[:3] == ["complete"] * 3
    view = seen.received[2][-1]
    assert view["status"] == "finished"
    assert view["items"][-1] == ["block", WORDS]


async def test_a_stream_arrives_once_over_cuts_and_goes_on_with_a_publication_of_its_name(installed: Path) -> None:
    first: Subject[int] = Subject()
    second: Subject[int] = Subject()
    worker = Worker(ScriptedModel(["Hello!"]))
    async with WebServer(worker, port=0) as server, line_to(server.url, [1500] * 3) as line:
        published = publish("numbers", first, type=int, keep="all")
        serving = server.publish(published)
        async with watching(installed, line.url, ["stream$", "numbers", {"delivery": "reliable"}]) as seen:
            for number in range(60):
                first.on_next(number)
                while len(seen.received[0]) <= number:
                    await seen.next()
            assert line.made > len(line.cuts)
            # The cursor of an item continues after it.
            cursor = seen.received[0][49]["cursor"]
            async with watching(installed, line.url, ["stream$", "numbers", {"after": cursor}]) as other:
                first.on_completed()
                await other.end()
            await seen.end()
        assert [item["value"] for item in seen.received[0]] == list(range(60))
        assert [item["seq"] for item in seen.received[0]] == list(range(1, 61))
        assert other.received[0][-1]["value"] == 59
        assert all(item["value"] >= 50 for item in other.received[0])
        # A cursor of another publication counts as none.
        serving.dispose()
        server.publish(publish("numbers", second, type=int, keep="all"))
        second.on_next(7)
        second.on_error(ValueError("enough"))
        async with watching(installed, line.url, ["stream$", "numbers", {"after": cursor}]) as last:
            await last.end()
        assert [item["value"] for item in last.received[0]] == [7]
        assert last.ended == [{"status": 0, "code": "aborted", "message": "enough"}]


@pytest.mark.slow
async def test_a_panel_shows_the_present_over_cuts_and_the_past(installed: Path) -> None:
    begin = asyncio.Event()
    async with WebServer(lambda: talking(begin), port=0) as server:
        run = server.state.runs.start("go")
        async with line_to(server.url, [900, 40, 1500]) as line:
            of_run = {"run": run.id}
            live = ["panel$", "usage", "tokens", of_run]
            async with watching(installed, line.url, live, ["board$", "usage", of_run], ["records$", run.id]) as seen:
                while not seen.received[2]:
                    await seen.next()
                begin.set()
                while seen.ended[2] is None:
                    await seen.next()
                records = seen.records(2)
                await seen.until_value(0, tokens_of(records))
            names = [panel.name for panel in server.state.boards.find("usage").panels]
            assert [state["panel"] for state in seen.received[1][-1]] == names
            # Before its first record and at its last; each comes once, and then the program ends.
            moments = [{**of_run, "at": records[n].time + after} for n, after in ((0, -1.0), (-1, 0.0))]
            past = [["panel$", "usage", "tokens", moment] for moment in moments]
            async with watching(installed, line.url, *past) as seen_past:
                await seen_past.end()
            assert [len(states) for states in seen_past.received] == [1, 1]
            assert seen_past.received[0][0].get("value") is None
            assert seen_past.received[1][0]["value"] == seen.received[0][-1]["value"]


async def test_the_list_of_runs_begins_with_the_present_and_follows(installed: Path) -> None:
    async with WebServer(Worker(ScriptedModel(["Hello!", "Bye!"])), port=0) as server:
        first = server.state.runs.start("go")
        async with watching(installed, server.url, ["runs$"], ["runs$"]) as seen:
            while not all(seen.received):
                await seen.next()
            assert [run["id"] for run in seen.received[1][0]] == [first.id]
            second = server.state.runs.start("go")
            while [run["id"] for run in seen.received[0][-1]] != [second.id, first.id]:
                await seen.next()


async def test_a_program_that_unsubscribes_is_not_connected(installed: Path) -> None:
    """It ends, since nothing is left that would call it."""
    begin = asyncio.Event()
    async with WebServer(lambda: talking(begin), port=0) as server:
        run = server.state.runs.start("go").id
        server.publish(publish("numbers", reactivex.concat(reactivex.of(1), reactivex.never())))
        asked = [
            ["first", "runs$"],
            ["first", "records$", run],
            ["first", "view$", run],
            ["first", "stream$", "numbers"],
            ["first", "board$", "usage"],
            ["first", "panel$", "usage", "tokens", {"run": run}],
        ]
        async with watching(installed, server.url, *asked) as seen:
            await seen.end()
        assert seen.ended == ["complete"] * 6
        begin.set()


async def test_what_the_server_does_not_have_is_an_error(installed: Path) -> None:
    async with WebServer(Worker(ScriptedModel(["Hello!"])), port=0) as server:
        asked = [["records$", "run-0"], ["stream$", "none"], ["board$", "none"], ["panel$", "usage", "none"]]
        async with watching(installed, server.url, *asked) as seen:
            await seen.end()
    assert [error["code"] for error in seen.ended] == ["gone", "gone", "no_board", "no_panel"]


@pytest.mark.slow
async def test_a_server_that_refuses_the_client_is_not_tried_again(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "a-very-secret-token-0123456789"
    settings = Settings(token=token)
    async with WebServer(Worker(ScriptedModel(["Hello!"])), port=0, settings=settings) as server:
        asked = [["records$", "run-0"], ["runs$"], ["board$", "usage"]]
        async with watching(installed, server.url, *asked) as seen:
            await seen.end()
        assert [error["status"] for error in seen.ended] == [401, 401, 401]
        monkeypatch.setenv("RXWORKER_TOKEN", token)
        run = server.state.runs.start("go").id
        of_run = {"run": run}
        asked = [
            ["records$", run],
            ["panel$", "usage", "tokens", of_run],
            ["panel$", "usage", "tokens", {**of_run, "at": 1.0}],
        ]
        async with watching(installed, server.url, *asked) as seen:
            while None in (seen.ended[0], seen.ended[2]) or not seen.received[1]:
                await seen.next()
            assert (seen.ended[0], seen.ended[2]) == ("complete", "complete")


@tool(requires_approval=True)
def book(seat: str) -> str:
    """Book a seat."""
    return f"{seat} is booked"


async def test_a_program_starts_and_steers_runs_with_a_token_that_is_in_no_address(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "a very secret tökên, ?&"
    monkeypatch.setenv("RXWORKER_TOKEN", token)
    addresses: list[str] = []

    check = Guard.check_source

    def note(guard: Guard, request: WebRequest) -> None:
        addresses.append(f"{request.raw_path}?{request.query}")
        check(guard, request)

    monkeypatch.setattr(Guard, "check_source", note)
    replies = [call("book", seat="12A"), say("Booked."), call("book", seat="13B"), say("A pity.")]
    replies += [stall(), say("Branched.")]
    async with (
        MemoryLog() as log,
        WebServer(
            Worker(ScriptedModel(replies), tools=[book]), port=0, settings=Settings(token=token), log=log
        ) as server,
    ):
        first = server.state.runs.start("Book 12A")
        call_id = await waiting_call(first)
        asked = [
            ["deny", first.id, "none", "why"],
            ["approve", first.id, call_id, {"input": {"seat": "12B"}}],
            ["records$", "$1"],
        ]
        async with watching(installed, server.url, *asked) as seen:
            await seen.end()
        assert (seen.ended[0]["status"], seen.ended[0]["code"]) == (400, "bad_decision")
        assert seen.received[1][0]["resumes"] == first.id
        assert "12B is booked" in json.dumps(seen.received[2])
        conversation = {"conversation": first.conversation.id}
        second = server.state.runs.start("Book 13B", **conversation)
        asked = [
            ["deny", second.id, await waiting_call(second), "No money."],
            ["records$", "$0"],
            ["start", "Wait", conversation],
            ["send", "$2", "Hello?"],
            ["cancel", "$2", {"reason": "enough"}],
            ["send", "$2", "Hello?"],
            ["fork", first.id, 2],
            ["board$", "usage", {"run": first.id, "at": 1.0}],
        ]
        async with watching(installed, server.url, *asked) as seen:
            await seen.end()
        assert (seen.ended[5]["status"], seen.ended[5]["code"]) == (409, "conflict")
        assert [*seen.ended[:5], *seen.ended[6:]] == ["complete"] * 7
        assert "No money." in json.dumps(seen.received[1])
        assert [seen.received[n][0]["status"] for n in (3, 4)] == ["running", "aborted"]
        assert seen.received[4][0]["reason"].endswith("enough")
        assert seen.received[6][0]["title"] == "Book 12A"
    assert len(addresses) > len(asked)
    assert not any("secret" in address for address in addresses)


@pytest.mark.slow
async def test_the_token_of_a_read_only_link_shows_its_run_and_nothing_else(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(token="a-very-secret-token-0123456789")
    async with WebServer(Worker(ScriptedModel(["Hi!"] * 2)), port=0, settings=settings) as server:
        run, other = (server.state.runs.start("go") for _ in range(2))
        link = await server.state.share(run=run.id)
        monkeypatch.setenv("RXWORKER_TOKEN", link.token)
        asked = [
            ["records$", run.id],
            ["view$", run.id],
            ["records$", other.id],
            ["stream$", "none"],
            ["send", run.id, "Hello?"],
            ["start", "go"],
            ["board$", "usage", {"run": run.id, "at": 1.0}],
            ["board$", "usage", {"at": 1.0}],
        ]
        async with watching(installed, server.url, *asked) as seen:
            await seen.end()
        assert seen.received[0][-1]["event"]["type"] == "run_stop"
        assert seen.received[1][-1]["items"][-1] == ["block", "Hi!"]
        ends = [end if end == "complete" else end["code"] for end in seen.ended]
        refused = ["not_shared"] * 2
        assert ends == ["complete"] * 2 + ["gone"] * 2 + refused + ["complete", "not_shared"]
        # Once it is revoked, nothing tries again.
        await server.state.links.revoke(link.link.id)
        async with watching(installed, server.url, ["records$", run.id]) as seen:
            await seen.end()
        assert seen.ended[0]["code"] == "link_over"


async def waiting_call(entry: RunEntry) -> str:
    """The id of the only call that a run waits for."""
    run = entry.run
    assert isinstance(run, Replica)
    await run.ended()
    assert run.state.pause is not None
    [waiting] = run.state.pause.calls
    return waiting.call.id


@pytest.mark.parametrize(
    ("numbers", "fault"), one_of([([1, 2, 4], "after record 2 of run-1 comes 4"), ([1, 2, 2], "comes 2")])
)
async def test_a_gap_or_a_double_is_an_error(installed: Path, numbers: list[int], fault: str) -> None:
    """The check itself: what the tests above rely on must be able to fail."""

    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "instance": "1"})
        await socket.receive()
        records = [{"seq": seq, "event": {"type": "turn_stop"}} for seq in numbers]
        await socket.send_json({"type": "records", "run": "run-1", "records": records})
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/api/ws", answer)
    async with TestServer(app) as server, watching(installed, str(server.make_url("/")), ["records$", "run-1"]) as seen:
        await seen.end()
    assert seen.ended[0]["code"] == "gap"
    assert fault in seen.ended[0]["message"]
    assert seen.received == [[]]
