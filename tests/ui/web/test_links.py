"""Read-only links: what they show, what they refuse, and how they end."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from reactivex import operators as ops

from rxworker import Worker, tool, worker_tool
from rxworker.boards import Dashboard, panel
from rxworker.errors import ConfigurationError, LogError
from rxworker.events import BackgroundStop, Record, RunStart
from rxworker.log import EventLog, MemoryLog, Replica, SQLiteLog
from rxworker.log.format import record_of
from rxworker.panels import count, label_of
from rxworker.testing import ScriptedModel, call
from rxworker.tools import ToolContext
from rxworker.ui.web import Settings, WebRequest, WebServer
from rxworker.ui.web.api import routes_of
from rxworker.ui.web.boards import links
from rxworker.ui.web.boards.links import READABLE
from rxworker.ui.web.guard import HEADERS, OPEN
from rxworker.ui.web.http.responses import PROBES, ApiError

from .conftest import Body, Desk, OpenDesk, read_frames

TOKEN = "a-very-secret-token-0123456789"


async def share(desk: Desk, **shown: Any) -> tuple[Body, dict[str, str]]:
    """The answer for a new link, and the headers of its clients."""
    status, made = await desk.post("api/links", shown)
    assert status == 201, made
    return made, {"Authorization": f"Bearer {made['token']}"}


async def code_of(desk: Desk, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """The status and the code of a refusal."""
    status, answer = await desk.get(path, headers=headers)
    return status, answer["error"]["code"]


async def test_a_link_answers_the_routes_of_its_table_alone(open_desk: OpenDesk) -> None:
    """It walks the routes of the server, so that a new one is refused until it is in the table."""
    desk = await open_desk("hello")
    run = await desk.begin()
    await desk.ended(run["id"])
    _, headers = await share(desk, run=run["id"])
    answered: set[str] = set()
    for route in routes_of(desk.server.state):
        if route.name in OPEN or route.name in PROBES:  # files of the page, and whether it lives
            continue
        path = re.sub(r"\{id\}", run["id"], route.path.lstrip("/"))
        path = re.sub(r"\{name\}", "usage", re.sub(r"\{seq\}", "1", path))
        query = {"run": run["id"]} if "boards" in path else {}
        async with desk.http.request(route.method, desk.url(path), headers=headers, params=query) as response:
            if response.status == 200:
                answered.add(route.name)
            else:
                told = await response.text()
                assert response.status == 403, (route.path, told)
                assert "does not show that" in told
            assert response.headers["Referrer-Policy"] == HEADERS["Referrer-Policy"]
    assert answered == set(READABLE)


@pytest.mark.parametrize(
    "path",
    [
        "api/runs/OTHER/events",
        "api/boards/usage",
        "api/boards/usage?run=OTHER",
        "api/boards/usage?run=RUN&conversation=CONVERSATION",
        "api/boards/usage?conversation=CONVERSATION",
        "api/boards/usage/events?run=OTHER",
        "api/boards/runs/events",
        "api/runs?run=RUN",
        "api/runs/RUN",
        "api/runs/RUN/requests/3",
        "api/nothing",
        "metrics",
        "",
    ],
)
async def test_a_link_to_a_run_shows_nothing_else(open_desk: OpenDesk, path: str) -> None:
    desk = await open_desk("one", "two")
    run, other = await desk.begin("a"), await desk.begin("b")
    for each in (run, other):
        await desk.ended(each["id"])
    _, headers = await share(desk, run=run["id"])
    for name, value in {"RUN": run["id"], "OTHER": other["id"], "CONVERSATION": run["conversation"]}.items():
        path = path.replace(name, value)
    assert await code_of(desk, path, headers) == (403, "not_shared")


async def test_a_link_shows_a_run_and_its_dashboards_without_what_is_private(open_desk: OpenDesk) -> None:
    desk = await open_desk("hello", settings=Settings(token=TOKEN, title="Desk"), token=TOKEN)
    run = await desk.begin("hi")
    await desk.ended(run["id"])
    await desk.post(f"api/conversations/{run['conversation']}/mark", {"tags": ["secret"]})
    made, headers = await share(desk, run=run["id"])
    assert made["path"] == f"shared#link={made['token']}"
    async with aiohttp.ClientSession(headers=headers) as stranger:
        async with stranger.get(desk.url("api/link")) as response:
            told = await response.json()
        assert (told["title"], told["link"]) == ("Desk", made["link"])
        assert (told["run"]["title"], told["run"]["status"]) == ("hi", "finished")
        assert (told["run"]["conversation"], told["run"]["watchers"]) == ("", [])
        assert "secret" not in str(told)
        async with stranger.get(desk.url(f"api/runs/{run['id']}/events")) as response:
            frames = read_frames(await response.text())
        assert '"type":"run_start"' in frames[1]["data"]
        async with stranger.get(desk.url(f"api/boards/usage?run={run['id']}")) as response:
            assert response.status == 200
        async with stranger.get(desk.url("shared"), headers={"Authorization": ""}) as response:
            assert response.status == 200  # the page has nothing of its own to hide
            assert TOKEN not in await response.text()


async def test_a_link_to_a_dashboard_shows_that_one_alone(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    run = await desk.begin("a")
    await desk.ended(run["id"])
    in_it = {"conversation": run["conversation"]}
    for scope, query in (({}, ""), (in_it, f"?conversation={run['conversation']}")):
        made, headers = await share(desk, board="runs", **scope)
        assert made["link"]["board"] == "runs"
        boards = (await desk.get("api/boards", headers=headers))[1]["boards"]
        assert [each["name"] for each in boards] == ["runs"]
        assert "run" not in (await desk.get("api/link", headers=headers))[1]
        status, states = await desk.get(f"api/boards/runs{query}", headers=headers)
        assert status == 200
        assert states
        for path in (f"api/boards/usage{query}", f"api/boards/runs?run={run['id']}", f"api/runs/{run['id']}/events"):
            assert await code_of(desk, path, headers) == (403, "not_shared"), path


@pytest.mark.parametrize("in_address", [False, True])
async def test_a_link_to_a_call_delivers_its_result_once_and_reads_nothing(
    open_desk: OpenDesk, in_address: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [call("order") + call("order"), "It is ordered.", "It is here.", "Both are."]
    desk = await open_desk(*replies, settings=Settings(token=TOKEN), token=TOKEN)
    run, other = await desk.begin(), await desk.begin()
    made, headers = await share(desk, run=run["id"], call="call_1_1", until=time.time() + 3600)
    assert made["path"] == f"api/runs/{run['id']}/deliver?link={made['token']}"
    query = f"?link={made['token']}" if in_address else ""
    given = {"headers": {"Authorization": ""} if in_address else headers}
    for path in ("api/link", "api/boards", f"api/runs/{run['id']}/events", f"api/boards/usage?run={run['id']}"):
        assert await code_of(desk, path, headers) == (403, "not_shared"), path
    for path in (f"api/runs/{run['id']}/send", f"api/runs/{run['id']}/cancel"):
        assert (await desk.post(path, {"message": "x"}, headers=headers))[0] == 403, path
    deliver = f"api/runs/{run['id']}/deliver{query}"
    result: Body = {"result": {"parcel": 1}}
    elsewhere = f"api/runs/{other['id']}/deliver{query}"
    assert (await desk.post(elsewhere, result, **given))[1]["error"]["code"] == "not_shared"
    refused: list[tuple[Body, int]] = [({**result, "call": "call_1_2"}, 403), ({}, 400), ({**result, "to": "me"}, 400)]
    for body, status in refused:
        assert (await desk.post(deliver, body, **given))[0] == status, body
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(links.time, "time", lambda: now + 3601)
        assert (await desk.post(deliver, result, **given))[0] == 401
    assert await desk.post(deliver, result, **given) == (200, {})
    assert (await desk.post(deliver, result, **given))[0] == 401
    assert (await desk.get("api/links"))[1]["links"] == []
    assert (await desk.post(f"api/runs/{run['id']}/deliver", result))[0] == 400
    assert (await desk.post(f"api/runs/{run['id']}/deliver", {**result, "call": "call_1_2"}))[0] == 200
    await desk.ended(run["id"])
    assert '{"parcel":1}' in str(desk.sessions[0].conversation.messages)


@pytest.mark.parametrize("by_link", [False, True])
async def test_the_result_of_a_call_in_a_run_inside_is_delivered(by_link: bool) -> None:
    @tool
    async def order(context: ToolContext) -> str:
        context.later()

    inner = Worker(ScriptedModel([call("order"), "It is ordered.", "It is here."]), tools=[order])
    ask = worker_tool(inner, name="ask", description="Ask.")
    outer = Worker(ScriptedModel([call("ask", task="Order tea."), "Done."]), tools=[ask])
    settings = Settings(deliver_token="the token of a webhook")

    def user(request: WebRequest) -> str | None:
        return request.headers.get("X-User")

    async with (
        MemoryLog() as log,
        WebServer(outer, port=0, log=log, settings=settings, user=user) as server,
        aiohttp.ClientSession() as http,
    ):
        ada = {"X-User": "ada"}
        async with http.post(f"{server.url}api/runs", json={"input": "Go."}, headers=ada) as response:
            run = (await response.json())["id"]
        async with asyncio.timeout(10):
            while not (inside := [one for one in await log.list() if one.row.outer and one.row.turns == 2]):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.005)
        nested, body = inside[0].run_id, {"call": "call_1_1", "result": "a parcel"}
        path, headers = f"api/runs/{nested}/deliver", _bearer("the token of a webhook")
        if by_link:
            new = await server.state.share(nested, call="call_1_1", owner="ada")
            path, headers = new.path, {}
        async with http.post(server.url + path, json=body, headers=headers | {"X-User": "bob"}) as response:
            assert response.status == 200
        async with http.post(f"{server.url}api/runs/{nested}/deliver", json=body, headers=ada) as response:
            assert response.status == 409
        ended = Replica(log, run)
        await ended.ended()
        assert ended.state.status == "finished"
        stored = [record_of(entry, nested).event async for entry in log.read(nested)]
        assert [each.result.text for each in stored if isinstance(each, BackgroundStop)] == ["a parcel"]


@pytest.mark.parametrize("shown", [{"call": "x"}, {"call": "x", "board": "runs"}, {"call": "x", "run": "run-0"}])
async def test_a_link_to_a_call_has_its_run_alone(open_desk: OpenDesk, shown: dict[str, str]) -> None:
    desk = await open_desk()
    assert (await desk.post("api/links", shown))[0] in (400, 404)


async def test_a_revoked_link_ends_its_open_streams_at_once(open_desk: OpenDesk) -> None:
    desk = await open_desk(always="never", delay=60)
    run = await desk.begin()
    made, headers = await share(desk, run=run["id"])
    _, others = await share(desk, run=run["id"])
    url = desk.url(f"api/runs/{run['id']}/events")
    async with desk.http.get(url, headers=headers) as one, desk.http.get(url, headers=others) as two:
        await one.content.readuntil(b"\n\n")
        await two.content.readuntil(b"\n\n")
        async with desk.http.delete(desk.url(f"api/links/{made['link']['id']}")) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientError):
            await one.content.read()
        assert await code_of(desk, f"api/runs/{run['id']}/events", headers) == (401, "link_over")
        listed = (await desk.get("api/links"))[1]["links"]
        assert [each["run"] for each in listed] == [run["id"]]
        assert (await desk.get("api/link", headers=others))[0] == 200
        assert not two.content.at_eof()
    async with desk.http.delete(desk.url(f"api/links/{made['link']['id']}")) as response:
        assert response.status == 404


async def test_a_link_holds_on_all_servers_of_a_log_and_ends_on_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "EVERY", 0.05)

    def open_log() -> EventLog:
        return SQLiteLog(tmp_path / "runs.db")

    model = ScriptedModel(["hello"])
    async with (
        open_log() as first,
        open_log() as second,
        WebServer(Worker(model), port=0, log=first) as a,
        WebServer(Worker(model), port=0, log=second) as b,
        aiohttp.ClientSession() as http,
    ):
        new = await a.state.share(board="runs")
        async with http.get(f"{b.url}api/boards/runs/events", headers=_bearer(new.token)) as response:
            await response.content.readuntil(b"\n\n")
            await a.state.links.revoke(new.link.id)
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()
        kept = await a.state.share(board="usage")
    async with open_log() as log, WebServer(Worker(model), port=0, log=log) as server, aiohttp.ClientSession() as http:
        async with http.get(f"{server.url}api/link", headers=_bearer(kept.token)) as response:
            assert response.status == 200
        assert [link.board for link in await server.state.links.of()] == ["usage"]
    stored = (tmp_path / "runs.db").read_bytes()
    secret = _secret(kept.token)
    assert kept.link.id.encode() in stored
    assert secret.encode() not in stored
    assert secret not in repr(kept)


async def test_a_link_that_was_just_made_holds_on_another_server_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(["hello"])
    async with (
        MemoryLog() as log,
        WebServer(Worker(model), port=0, log=log) as a,
        WebServer(Worker(model), port=0, log=log) as b,
        aiohttp.ClientSession() as http,
    ):
        for _ in range(3):  # the other server has just read the links
            new = await a.state.share(board="runs")
            async with http.get(f"{b.url}api/link", headers=_bearer(new.token)) as response:
                assert response.status == 200
        reads = 0
        load = log._load_fold

        async def counted(key: str) -> tuple[int, bytes] | None:
            nonlocal reads
            reads += 1
            await asyncio.sleep(0.01)
            return await load(key)

        monkeypatch.setattr(log, "_load_fold", counted)
        wrong = f"{links.PREFIX}{'0' * 16}_{'x' * 43}"

        async def ask() -> int:
            async with http.get(f"{b.url}api/link", headers=_bearer(wrong)) as response:
                return response.status

        assert await asyncio.gather(*(ask() for _ in range(20))) == [401] * 20
        assert reads <= 4  # tokens that are guessed share what is read


def _secret(token: str) -> str:
    match = links.TOKEN.fullmatch(token)
    assert match is not None
    return match["secret"]


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_link_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "EVERY", 0.01)
    now = time.time()
    async with WebServer(Worker(ScriptedModel([])), port=0) as server, aiohttp.ClientSession() as http:
        new = await server.state.share(board="runs", until=now + 3600)
        url, headers = f"{server.url}api/boards/runs/events", _bearer(new.token)
        async with http.get(url, headers=headers) as response:
            await response.content.readuntil(b"\n\n")
            monkeypatch.setattr(links.time, "time", lambda: now + 3601)
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()
        async with http.get(url, headers=headers) as response:
            assert response.status == 401
        assert await server.state.links.of() == []


async def _fail(_: str) -> None:
    raise LogError("the disk is gone")


async def _break(_: str) -> None:
    raise RuntimeError("a defect")


async def _hang(_: str) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("load", "status"), [(_fail, 503), (_break, 500), (_hang, 0)])
async def test_links_that_cannot_be_read_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, load: Any, status: int
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr(links, "EVERY", 0.01)
    monkeypatch.setattr(links, "PATIENCE", 0.01)
    async with (
        MemoryLog() as log,
        WebServer(Worker(ScriptedModel([])), port=0, log=log) as server,
        aiohttp.ClientSession() as http,
    ):
        new = await server.state.share(board="runs")
        url, headers = f"{server.url}api/boards/runs/events", _bearer(new.token)
        async with http.get(url, headers=headers) as response:
            await response.content.readuntil(b"\n\n")
            monkeypatch.setattr(log, "_load_fold", load)
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()
        if status:
            async with http.get(url, headers=headers) as response:
                assert response.status == status
        assert "links cannot be read" in caplog.text
        assert _secret(new.token) not in caplog.text


async def test_a_stored_link_with_a_member_that_is_not_known_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one of a newer version, which restricts what the link shows."""
    monkeypatch.setattr(links, "EVERY", 0.0)
    async with (
        MemoryLog() as log,
        WebServer(Worker(ScriptedModel([])), port=0, log=log) as server,
        aiohttp.ClientSession() as http,
    ):
        new = await server.state.share(board="runs")
        url, headers = f"{server.url}api/boards/runs", _bearer(new.token)
        async with http.get(url, headers=headers) as response:
            assert response.status == 200
        kept = await log._load_fold(links.KEY)
        assert kept is not None
        newer = kept[1].replace(b'"digest"', b'"panel":"cost","digest"')
        assert await log._save_fold(links.KEY, kept[0], newer)
        async with http.get(url, headers=headers) as response:
            assert response.status == 503


def _wrong(token: str) -> list[str]:
    last = "b" if token.endswith("a") else "a"
    return [token[:-1] + last, token[:4] + "0" * 16 + token[20:], token + "a", token[:-1], "rxl_"]


async def test_a_token_that_is_not_right_is_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    made, headers = await share(desk, board="runs")
    assert (await desk.get("api/link", headers=headers))[0] == 200
    for wrong in _wrong(made["token"]):
        assert await code_of(desk, "api/runs", _bearer(wrong)) == (401, "link_over"), wrong


async def test_a_link_has_no_more_rights_with_a_cookie_of_its_owner(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=Settings(token=TOKEN), token=TOKEN)
    _, headers = await share(desk, board="runs")
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(desk.url(f"?token={TOKEN}")) as response:
            assert response.status == 200
        async with browser.get(desk.url("api/runs")) as response:
            assert response.status == 200
        async with browser.get(desk.url("api/runs"), headers=headers) as response:
            assert response.status == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"run": "no-run"}, 404),
        ({"board": "no-board"}, 404),
        ({"board": "runs", "conversation": "none"}, 404),
        ({"board": "runs", "until": 1.0}, 400),
        ({"board": "runs", "until": 1e400}, 400),
        ({"board": "runs", "may": "send"}, 400),
        ({"conversation": "c"}, 404),
    ],
)
async def test_a_link_that_is_not_understood_is_not_made(open_desk: OpenDesk, body: Body, status: int) -> None:
    desk = await open_desk()
    assert (await desk.post("api/links", body))[0] == status
    assert (await desk.get("api/links"))[1] == {"links": []}


async def test_links_belong_to_their_users() -> None:
    def user(request: WebRequest) -> str:
        return request.headers.get("X-User", "")

    async with (
        WebServer(Worker(ScriptedModel(["a", "b"])), port=0, user=user) as server,
        aiohttp.ClientSession() as http,
    ):
        async with http.post(f"{server.url}api/runs", json={"input": "hi"}, headers={"X-User": "ann"}) as response:
            run = (await response.json())["id"]
        made: Body = {}
        for name, status in (("bob", 404), ("ann", 201)):
            async with http.post(f"{server.url}api/links", json={"run": run}, headers={"X-User": name}) as response:
                assert response.status == status
                made = await response.json()
        headers = _bearer(made["token"])
        async with http.get(f"{server.url}api/runs/{run}/events", headers=headers) as response:
            assert response.status == 200
        address = f"{server.url}api/links/{made['link']['id']}"
        for name, status in (("bob", 404), ("ann", 200)):
            async with http.delete(address, headers={"X-User": name}) as response:
                assert response.status == status
        with pytest.raises(ConfigurationError, match="owner"):
            await server.state.share(board="runs")
        for _ in range(links.MAX_OF_ONE):
            await server.state.share(board="runs", owner="ann")
        with pytest.raises(ApiError, match="too many"):
            await server.state.share(board="runs", owner="ann")
        await server.state.share(board="runs", owner="bob")


async def test_a_link_shows_no_labels() -> None:
    """On a server with users, one of them is the name of the user who has made it."""

    def user(request: WebRequest) -> str:
        return request.headers.get("X-User", "")

    def make(_: WebRequest) -> Worker:
        inner = Worker(ScriptedModel(["In."]), labels={"desk": "acme-1"})
        nested = worker_tool(inner, name="ask", description="Ask.")
        replies = [call("ask", task="?"), "Out."]
        return Worker(ScriptedModel(replies), tools=[nested], labels={"tenant": "acme"})

    name = {"X-User": "ann@acme.example"}
    async with (
        MemoryLog() as log,
        WebServer(make, port=0, user=user, log=log) as server,
        aiohttp.ClientSession() as http,
    ):
        address, runs = f"{server.url}api/runs", list[str]()
        begin: list[tuple[str, dict[str, Any]]] = [("", {"input": "Hi"}), ("/{}/fork", {"seq": 1})]
        for path, body in begin:
            async with http.post(address + path.format(*runs), json=body, headers=name) as response:
                assert response.status == 201
                runs.append((await response.json())["id"])
            new = await server.state.share(runs[-1], owner=name["X-User"])
            url, shown = f"{address}/{runs[-1]}/events", list[str]()
            async with http.get(url, headers=name) as response:
                await response.read()  # until it has ended
            rating = {"name": "rating", "value": "poor"}
            async with http.post(f"{address}/{runs[-1]}/annotate", json=rating, headers=name) as response:
                assert response.status == 200
            for headers in (name, _bearer(new.token), name):
                async with http.get(url, headers=headers) as response:
                    shown.append(await response.text())
            assert all(name in shown[0] for name in ("ann@acme", '"acme"', "acme-1"))
            assert "acme" not in shown[1]
            assert shown[2] == shown[0]
            assert ('"type":"fork"' in shown[1]) is bool(path)
            assert '"by":"ann@acme' in shown[0]
            assert '"value":"poor"' in shown[1]


async def test_a_link_has_so_many_open_requests(open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_OPEN", 1)
    desk = await open_desk()
    _, headers = await share(desk, board="runs")
    async with desk.http.get(desk.url("api/boards/runs/events"), headers=headers) as response:
        await response.content.readuntil(b"\n\n")
        assert (await desk.get("api/link", headers=headers))[0] == 429
    while (await desk.get("api/link", headers=headers))[0] == 429:
        pass  # the server has not noticed yet that the client has left


def _user(record: Record) -> str | None:
    event = record.event
    return event.labels.get("user") if isinstance(event, RunStart) else None


@pytest.mark.parametrize("has_users", [True, False])
@pytest.mark.parametrize("is_logged", [True, False])
async def test_a_dashboard_of_a_link_shows_no_labels(has_users: bool, is_logged: bool) -> None:
    """Not in its groups, and not in what a pipeline makes of the records; for others it does, before and after."""
    board = Dashboard(
        [
            panel("By user", count(RunStart), view="bar", group=label_of("user")),
            panel("By tenant", count(RunStart), view="bar", group=label_of("tenant", "none")),
            panel("By function", count(RunStart), view="bar", group=_user),
            panel("Label", ops.map(lambda record: repr(record.event)[-2000:]), view="text"),
            panel("Runs", count(RunStart)),
        ],
        name="who",
    )
    labels = {"user": "ann@acme.example", "tenant": "acme"}
    name, owner = {"X-User": labels["user"]}, labels["user"] if has_users else None
    worker = Worker(ScriptedModel(["Hello."]), labels=labels)

    def user(request: WebRequest) -> str:
        return request.headers.get("X-User", "")

    async with (
        MemoryLog() as log,
        WebServer(
            worker, port=0, user=user if has_users else None, log=log if is_logged else None, dashboards=[board]
        ) as server,
        aiohttp.ClientSession() as http,
    ):
        address = f"{server.url}api/"
        async with http.post(f"{address}runs", json={"input": "Hi"}, headers=name) as response:
            run = await response.json()
        async with http.get(f"{address}runs/{run['id']}/events", headers=name) as response:
            await response.text()
        conversation = run["conversation"]
        links: list[tuple[dict[str, Any], str]] = [
            ({"run": run["id"]}, f"?run={run['id']}"),
            ({"run": run["id"], "board": "who"}, f"?run={run['id']}"),
            ({"conversation": conversation, "board": "who"}, f"?conversation={conversation}"),
            ({"board": "who"}, "?"),
        ]
        for shown, query in links:
            new = await server.state.share(**shown, owner=owner)
            moment = f"{query}&time={time.time():.3f}"
            for headers in (name, _bearer(new.token), name):
                texts = list[str]()
                for path in (query, moment):
                    async with http.get(f"{address}boards/who{path}", headers=headers) as response:
                        assert response.status == 200
                        texts.append(await response.text())
                url = f"{address}boards/who/events{query}"
                async with http.get(url, headers=headers) as response:
                    text = ""
                    while not re.search(r'"panel":"runs"[^}]*"value":1', text):
                        text += (await response.content.readany()).decode()
                    texts.append(text)
                for text in texts:
                    assert ("acme" in text) is (headers is name), (shown, text)
                    assert re.search(r'"panel":"runs"[^}]*"value":1', text)
            url = f"{address}boards/who/operators{query}&panel=by-user"
            async with http.get(url, headers=_bearer(new.token)) as response:
                assert response.status == 403
