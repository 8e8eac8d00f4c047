"""The program that the server is part of: it adds runs of its own, and is informed of those of clients."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Paused, Run, Session, Worker, tool
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import Record, RunStop
from rxworker.log import MemoryLog
from rxworker.messages import Prices
from rxworker.operators import merge_runs
from rxworker.testing import ScriptedModel, call, say, stall
from rxworker.ui.web import STATE, Settings, WebRequest, WebServer, make_app
from rxworker.ui.web.runs.entry import ConversationEntry
from rxworker.worker import submit

from .conftest import OpenDesk

Runs = list[Run[object]]


async def test_a_run_of_the_program_is_shown_steered_and_approved(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), "Done.")
    worker = desk.make_worker()
    run = worker.run("Delete a.")
    desk.server.add(run)
    desk.server.add(run)  # it is shown once
    [shown] = (await desk.get("api/runs"))[1]["runs"]
    assert (shown["id"], shown["title"], shown["worker"]) == (run.id, "Delete a.", "program")
    paused = await run
    assert isinstance(paused, Paused)
    assert (await desk.ended(run.id))["status"] == "paused"
    [pending] = paused.pending
    decisions = {pending.id: {"type": "approve"}}
    status, resumed = await desk.post(f"api/runs/{run.id}/resume", {"decisions": decisions})
    assert (status, resumed["resumes"], resumed["title"]) == (201, run.id, "Delete a.")
    assert (await desk.ended(resumed["id"]))["status"] == "finished"
    assert desk.deleted == ["a"]
    assert [m.text for m in worker.session.conversation.messages][-1] == "Done."


async def test_the_worker_of_a_run_of_the_program_is_described(open_desk: OpenDesk) -> None:
    prices = {"scripted-1": Prices(input=2.0, output=4.0), "other-1": Prices(input=1.0, output=1.0)}
    desk = await open_desk("Hello!", settings=Settings(prices=prices))
    info = (await desk.get("api/info"))[1]
    assert {name: each["output"] for name, each in info["prices"].items()} == {"scripted-1": 4.0, "other-1": 1.0}
    model = ScriptedModel(["Good night."], model="other-1")
    run = Worker(model, tools=[book]).run("go")
    desk.server.add(run)
    served = await desk.begin("a")
    for id_, name in [(run.id, "program"), (served["id"], "worker")]:
        status, answer = await desk.get(f"api/runs/{id_}/worker")
        assert (status, answer["worker"]["name"]) == (200, name)
    described = (await desk.get(f"api/runs/{run.id}/worker"))[1]["worker"]
    assert (described["model"], described["prices"]["input"]) == ("other-1", 1.0)
    assert described["tools"][0]["input_schema"]["required"] == ["hotel"]
    assert (await desk.get("api/runs/x/worker"))[0] == 404


@tool
async def book(hotel: str) -> str:
    """Book a room."""
    return hotel


async def test_a_client_sends_into_and_cancels_a_run_of_the_program(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), say("Now.") + stall())
    run = desk.make_worker().run("go")
    desk.server.add(run, title="Night shift", conversation="night", worker="cron")
    await desk.waiting.wait()
    status, shown = await desk.post(f"api/runs/{run.id}/send", {"message": "hurry"})
    assert (status, shown["title"], shown["worker"]) == (200, "Night shift", "cron")
    assert shown["conversation"] == "night"
    desk.release.set()
    status, shown = await desk.post(f"api/runs/{run.id}/cancel", {"reason": "enough"})
    assert (status, shown["status"], shown["cause"]) == (200, "aborted", "cancel")


async def test_a_conversation_of_the_program_goes_on_in_both_ways(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two", "three")
    worker = desk.make_worker()
    first = worker.run("a")
    desk.server.add(first)
    await first
    [shown] = (await desk.get("api/runs"))[1]["runs"]
    second = await desk.begin("b", conversation=shown["conversation"])
    await desk.ended(second["id"])
    third = worker.run("c")
    desk.server.add(third)
    await third
    runs = (await desk.get("api/runs"))[1]["runs"]
    assert {run["conversation"] for run in runs} == {shown["conversation"]}
    assert [m.text for m in worker.session.conversation.messages] == ["a", "one", "b", "two", "c", "three"]


async def test_a_run_that_the_program_resumes_itself_is_linked(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), "Done.")
    worker = desk.make_worker()
    run = worker.run("Delete a.")
    desk.server.add(run)
    await run
    resumed = worker.resume()
    desk.server.add(resumed)
    await resumed
    newest, oldest = (await desk.get("api/runs"))[1]["runs"]
    assert (newest["resumes"], oldest["resumed_as"]) == (run.id, resumed.id)


async def test_runs_that_have_ended_are_added_with_their_input_in_any_order(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), "Done.")
    worker = desk.make_worker()
    run = worker.run("Delete a.")
    await run
    resumed = worker.resume()
    await resumed
    for one in (resumed, run):
        desk.server.add(one, conversation="c")
    older, newer = (await desk.get("api/runs"))[1]["runs"]
    assert (newer["resumes"], older["resumed_as"]) == (run.id, resumed.id)
    assert (newer["title"], older["title"]) == ("Delete a.", "Delete a.")
    _, history = await desk.get("api/chat/c/messages")
    assert [part.get("state") for part in history[-1]["parts"]][1::2] == ["output-available", "done"]


async def test_a_run_of_the_program_survives_the_server_and_counts_for_no_limit(open_desk: OpenDesk) -> None:
    desk = await open_desk(always="Hello!", settings=Settings(max_runs=1, grace=0.01))
    gate = asyncio.Event()

    @tool
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    run = Worker(ScriptedModel([call("hold"), "Over."]), tools=[hold]).run("go")
    desk.server.add(run)
    await desk.ended((await desk.begin())["id"])
    await desk.server.__aexit__(None, None, None)
    assert not run.done()
    gate.set()
    assert (await run).text == "Over."


async def test_a_run_that_is_not_loaded_is_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    async with MemoryLog() as log:
        worker = Worker(ScriptedModel(["Hi."]), log=log)
        run = worker.recover(await submit(log, "go"))
        with pytest.raises(LocalProtocolError, match=r"await run\.started"):
            desk.server.add(run)
        desk.server.add(await run.started())
        await run


async def test_a_run_of_another_loop_user_or_session_is_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")

    async def elsewhere() -> Run[object]:
        run = desk.make_worker().run("a")
        await run
        return run

    run = await asyncio.to_thread(asyncio.run, elsewhere())
    with pytest.raises(LocalProtocolError, match="another event loop"):
        desk.server.add(run)
    own = desk.make_worker().run("a")
    with pytest.raises(ConfigurationError, match="user="):
        desk.server.add(own, owner="ada")
    desk.server.add(own, conversation="c")
    other = desk.make_worker().run("b")
    with pytest.raises(LocalProtocolError, match="one session"):
        desk.server.add(other, conversation="c")
    await asyncio.gather(own, other)


async def server_with(stack: AsyncExitStack, **options: Any) -> tuple[WebServer, Any]:
    def make() -> Worker:
        @tool(requires_approval=True)
        def delete() -> str:
            """Delete."""
            return "gone"

        return Worker(ScriptedModel([call("delete"), "Done."]), tools=[delete])

    server = await stack.enter_async_context(WebServer(make, port=0, **options))
    http = await stack.enter_async_context(aiohttp.ClientSession(server.url, trust_env=False))
    return server, http


async def test_the_program_is_informed_of_the_runs_of_clients() -> None:
    begun: Runs = []
    async with AsyncExitStack() as stack:
        server, http = await server_with(stack, on_run=begun.append)
        own = Worker(ScriptedModel(["Hi."])).run("own")
        server.add(own)  # the program knows of it
        answer = await http.post("api/runs", json={"input": "go"})
        run = await answer.json()
        assert [run.id for run in begun] == [run["id"]]
        assert isinstance(await begun[0], Paused)
        await asyncio.sleep(0)
        body = {"decisions": [{"type": "approve"}]}
        await http.post(f"api/runs/{run['id']}/resume", json=body)
        assert begun[1].session is begun[0].session
        assert (await begun[1]).text == "Done."
        await own


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, asyncio.CancelledError])
async def test_a_callback_that_raises_hurts_neither_run_nor_client(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def on_run(_: Run[object]) -> None:
        raise error("oh no")

    async with AsyncExitStack() as stack:
        _, http = await server_with(stack, on_run=on_run)
        with caplog.at_level(logging.ERROR):
            answer = await http.post("api/runs", json={"input": "go"})
        assert answer.status == 201
        assert "on_run failed" in caplog.text


async def test_a_dashboard_sees_every_run_of_the_server(open_desk: OpenDesk) -> None:
    desk = await open_desk(always="Hello!")
    await desk.ended((await desk.begin("before"))["id"])
    ended: list[str] = []
    completed = asyncio.Event()

    def is_end(record: Record) -> bool:
        return isinstance(record.event, RunStop)

    def name(record: Record) -> str:
        return record.run_id

    runs: Observable[Run[object]] = desk.server.runs
    merge_runs(runs).pipe(ops.filter(is_end), ops.map(name)).subscribe(ended.append, on_completed=completed.set)
    await desk.ended((await desk.begin("after"))["id"])
    own = Worker(ScriptedModel(["Hi."])).run("own")
    desk.server.add(own)
    await own
    shown = (await desk.get("api/runs"))[1]["runs"]
    assert ended == [run["id"] for run in reversed(shown)]
    await desk.server.__aexit__(None, None, None)
    await completed.wait()


async def test_a_dashboard_that_raises_is_detached(open_desk: OpenDesk, caplog: pytest.LogCaptureFixture) -> None:
    desk = await open_desk(always="Hello!")
    seen: Runs = []

    def bad(_: Run[object]) -> None:
        raise RuntimeError("oh no")

    desk.server.runs.subscribe(bad)
    desk.server.runs.subscribe(seen.append)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            await desk.ended((await desk.begin())["id"])
    assert len(seen) == 2
    assert caplog.text.count("was detached") == 1


async def test_a_mounted_application_is_used_by_its_key() -> None:
    app = make_app(lambda: Worker(ScriptedModel(["Hello!"])))
    run = Worker(ScriptedModel(["Hi."])).run("own")
    app[STATE].add(run)
    seen: Runs = []
    app[STATE].all_runs.subscribe(seen.append)
    await run
    assert seen == [run]
    await app[STATE].close()


def by_header(request: WebRequest) -> str | None:
    return request.headers.get("X-User")


async def test_each_user_sees_and_steers_only_runs_of_their_own() -> None:
    made: list[str] = []

    def make(request: WebRequest) -> Worker:
        made.append(request.headers["X-User"])
        return Worker(ScriptedModel([say("Hello, ") + stall()]))

    async with (
        WebServer(make, port=0, user=by_header) as server,
        aiohttp.ClientSession(server.url, headers={"X-User": "ada"}, trust_env=False) as ada,
        aiohttp.ClientSession(server.url, headers={"X-User": "bob"}, trust_env=False) as bob,
        aiohttp.ClientSession(server.url, trust_env=False) as nobody,
    ):
        for path in ("", "api/info", "api/runs", "api/ws", "api/chat/c/stream"):
            assert (await nobody.get(path)).status == 401, path
        body = {"input": "hi"}
        run = (await (await ada.post("api/runs", json=body)).json())["id"]
        assert made == ["ada"]
        assert (await (await bob.get("api/runs")).json())["runs"] == []
        assert len((await (await ada.get("api/runs")).json())["runs"]) == 1
        for path in ("", "/events", "/ag-ui"):
            assert (await bob.get(f"api/runs/{run}{path}")).status == 404
        for path in ("send", "pause", "cancel", "resume"):
            steered = await bob.post(f"api/runs/{run}/{path}", json={"message": "x"})
            assert steered.status == 404, path
        chat = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "a"}]}]}
        of_ada = await ada.post("api/chat", json=chat)
        # The same name for another chat.
        assert (await bob.get("api/chat/c/stream")).status == 204
        of_bob = await bob.post("api/chat", json=chat)
        assert (of_ada.status, of_bob.status) == (200, 200)
        async with bob.ws_connect("api/ws") as socket:
            assert (await socket.receive_json())["type"] == "hello"
            await socket.send_json({"type": "list"})
            listed = await socket.receive_json()
            assert [r["conversation"] for r in listed["runs"]] == ["c"]
            await socket.send_json({"type": "watch", "run": run})
            assert (await socket.receive_json()) == {"type": "gone", "run": run}
        own = Worker(ScriptedModel(["Hi."])).run("own")
        with pytest.raises(ConfigurationError, match="owner="):
            server.add(own)
        server.add(own, owner="bob")
        assert (await bob.get(f"api/runs/{own.id}")).status == 200
        assert (await ada.get(f"api/runs/{own.id}")).status == 404
        await own
        of_ada.close()
        of_bob.close()


async def test_no_user_takes_the_place_of_another() -> None:
    """Neither among the runs that are on, nor among those that are kept, nor among the chats that resume."""

    def make(request: WebRequest) -> Worker:
        waits = call("delete") if request.headers["X-User"] == "bob" else say("...") + stall()
        return Worker(ScriptedModel([waits]), tools=[delete])

    @tool(requires_approval=True)
    async def delete() -> str:
        """Delete it."""
        return "gone"

    settings = Settings(max_runs_per_user=2, max_kept=3)
    async with (
        WebServer(make, port=0, user=by_header, settings=settings) as server,
        aiohttp.ClientSession(server.url, headers={"X-User": "ada"}, trust_env=False) as ada,
        aiohttp.ClientSession(server.url, headers={"X-User": "bob"}, trust_env=False) as bob,
    ):

        async def begin(http: aiohttp.ClientSession) -> tuple[int, Any]:
            answer = await http.post("api/runs", json={"input": "hi"})
            return answer.status, await answer.json()

        _, paused = await begin(bob)
        runs = [(await begin(ada))[1]["id"] for _ in range(2)]
        status, refused = await begin(ada)
        assert (status, refused["error"]["code"]) == (429, "too_many_runs")
        assert "2 of your runs" in refused["error"]["message"]
        assert (await begin(bob))[0] == 201
        for _ in range(2):
            for run in runs:
                assert (await ada.post(f"api/runs/{run}/cancel", json={})).status == 200
            runs = [(await begin(ada))[1]["id"] for _ in range(2)]
        assert (await bob.get(f"api/runs/{paused['id']}")).status == 200

    store = server.state.store
    store.note_resuming("c", "bob")
    for number in range(1001):
        store.note_resuming(str(number), "ada")
    assert store.is_resuming(ConversationEntry("c", "w", owner="bob"))
    assert not store.is_resuming(ConversationEntry("0", "w", owner="ada"))
    assert store.is_resuming(ConversationEntry("1000", "w", owner="ada"))


def exits(*_: object) -> Worker:
    raise SystemExit(2)


def returns_later() -> Any:
    async def make() -> Worker:
        return Worker(ScriptedModel(["Hi"]))

    return make()


@pytest.mark.parametrize(
    ("make", "reason"), [(exits, "SystemExit"), (returns_later, "not an async one"), (lambda: None, "not a Worker")]
)
async def test_a_function_that_makes_no_worker_fails_a_request_and_not_the_server(
    make: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with WebServer(make, port=0) as server, aiohttp.ClientSession(server.url, trust_env=False) as http:
        for _ in range(2):
            with caplog.at_level(logging.ERROR):
                assert (await http.post("api/runs", json={"input": "hi"})).status == 500
            assert reason in caplog.text


async def test_a_user_function_that_exits_fails_a_request_and_not_the_server() -> None:
    def user(_: WebRequest) -> str:
        raise SystemExit(2)

    async with (
        WebServer(exits, port=0, user=user) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        for _ in range(2):
            assert (await http.get("api/runs")).status == 500


async def test_a_user_function_may_wait_and_may_send_to_a_login() -> None:
    async def user(request: WebRequest) -> str | None:
        await asyncio.sleep(0)
        name = request.headers.get("X-User")
        if name is None and request.path == "/":
            raise web.HTTPSeeOther("/login")
        return name

    async with (
        WebServer(lambda: Worker(ScriptedModel(["Hi"])), port=0, user=user) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        answer = await http.get("", allow_redirects=False)
        assert (answer.status, answer.headers["Location"]) == (303, "/login")
        assert (await http.get("api/runs")).status == 401
        assert (await http.get("api/runs", headers={"X-User": "ada"})).status == 200


async def test_a_function_with_defaults_gets_no_request(open_desk: OpenDesk) -> None:
    def make(model: str = "small") -> Worker:
        return Worker(ScriptedModel(["Hi"], model=model))

    async with WebServer(make, port=0) as server, aiohttp.ClientSession(server.url, trust_env=False) as http:
        info = await (await http.get("api/info")).json()
        assert info["workers"][0]["model"] == "small"


async def test_what_a_user_withdraws_is_not_allowed_again_by_a_new_session() -> None:
    """A session of the program allows a tool.

    The user of a conversation withdraws that, and its session is made again.
    """
    allowed = [("delete", "requires_approval")]
    first, again = (Session(Worker(ScriptedModel([])), allowed=allowed) for _ in range(2))
    conversation = ConversationEntry("c", "clerk", first)
    assert conversation.allowed == (("delete", "requires_approval"),)
    await first.disallow("delete")
    conversation.use(again)
    assert (conversation.allowed, again.allowed) == ((), [])
