"""Dashboards over HTTP: of a run, a conversation and all runs; now, as they change, and at a moment of the past."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.disposable import Disposable
from yarl import URL

from rxworker import Worker, on_turn_end, tool
from rxworker.boards import AlertChange, Dashboard, Selection, below, panel
from rxworker.boards.moments import Moments
from rxworker.errors import ConfigurationError
from rxworker.events import Record, RunStart, TextDelta
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.operators import rate, records_of
from rxworker.panels import count, run_of
from rxworker.testing import ScriptedModel, call
from rxworker.ui.web import Settings, WebRequest, WebServer
from rxworker.ui.web.boards import boards
from rxworker.ui.web.boards.boards import MAX_FOLDS, ExplainedFeed
from rxworker.ui.web.http.request import Shown

States = dict[str, Any]


def key_of(record: Record) -> str:
    return getattr(record.event, "text", "")


BOARD = Dashboard(
    [panel("Deltas", count(TextDelta), view="bar", group=run_of), panel("Key", ops.map(key_of), view="text")],
    title="Desk",
)


@pytest.fixture(autouse=True)
def counts_are_sent_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "LOOK", 0.01)


def user_of(request: WebRequest) -> str | None:
    return request.headers.get("X-User")


class Client:
    """A client of a server with a dashboard."""

    def __init__(self, server: WebServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http

    async def get(self, path: str, status: int = 200, **headers: str) -> Any:
        async with self.http.get(f"{self.server.url}{path}", headers=headers) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def begin(self, text: str = "Hi", *, headers: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
        body, headers = {"input": text, **more}, {"X-User": "ada", **(headers or {})}
        async with self.http.post(f"{self.server.url}api/runs", json=body, headers=headers) as response:
            assert response.status == 201, await response.text()
            return await response.json()

    async def ended(self, run: dict[str, Any], **headers: str) -> None:
        path = f"{self.server.url}api/runs/{run['id']}/events"
        async with self.http.get(path, headers=headers) as response:
            await response.read()

    async def states(self, query: str = "", **headers: str) -> States:
        states = await self.get(f"api/boards/desk{query}", 200, **headers)
        return {state["panel"]: state for state in states}

    @asynccontextmanager
    async def follow(self, query: str = "", **headers: str) -> AsyncGenerator[AsyncGenerator[States, None]]:
        """The states as they change."""
        path = query if query.startswith("explain") else f"events{query}"
        address = f"{self.server.url}api/boards/desk/{path}"
        async with self.http.get(address, headers=headers) as response:
            assert response.status == 200, await response.text()

            async def read() -> AsyncGenerator[States, None]:
                known: States = {}
                async for line in response.content:
                    if line.startswith(b"data: "):
                        for state in json.loads(line[6:]):
                            known[state["panel"]] = state
                        yield known

            yield read()


@asynccontextmanager
async def serving(
    *replies: str, dashboards: Sequence[Dashboard] = (BOARD,), **options: Any
) -> AsyncGenerator[Client, None]:
    given = iter(replies or ["An old pond."] * 10)

    def make() -> Worker:
        return Worker(ScriptedModel([next(given) for _ in range(2)]))

    async with (
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer(make, port=0, dashboards=dashboards, **options) as server,
    ):
        yield Client(server, http)


async def until(states: AsyncGenerator[States, None], is_so: Callable[[States], object]) -> States:
    async with asyncio.timeout(30):
        async for known in states:
            if is_so(known):
                return known
    raise AssertionError("the events have ended")


async def test_the_server_lists_its_dashboards() -> None:
    async with serving() as client:
        [board, own] = (await client.get("api/boards"))["boards"]
        assert own["name"] == "usage"  # the page shows it also where other dashboards are given
        assert board["title"] == "Desk"
        assert board["panels"][0] == {"name": "deltas", "title": "Deltas", "view": "bar", "unit": ""}
        assert (await client.get("api/boards/dusk", 404))["error"]["code"] == "no_board"


async def test_a_panel_is_listed_with_its_limit_and_its_size() -> None:
    spent = panel("Spent", count(TextDelta), alert=below(0.5, lasting=60), width=2, height=3)
    async with serving(dashboards=[Dashboard([spent], title="Desk")]) as client:
        [listed] = (await client.get("api/boards"))["boards"][0]["panels"]
        assert listed["alert"] == {"limit": 0.5, "is_above": False, "lasting": 60.0}
        assert (listed["width"], listed["height"]) == (2, 3)


async def test_without_dashboards_the_ready_ones_are_served() -> None:
    async with (
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer(lambda: Worker(ScriptedModel(["Hi."])), port=0) as server,
        http.get(f"{server.url}api/boards") as response,
    ):
        assert [each["name"] for each in (await response.json())["boards"]] == ["usage", "runs"]


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_dashboard_is_shown_of_a_run_of_a_conversation_and_of_all_runs(is_stored: bool) -> None:
    async with MemoryLog() as log, serving(log=log if is_stored else None) as client:
        one = await client.begin()
        await client.ended(one)
        two = await client.begin(conversation=one["conversation"])
        other = await client.begin()
        for run in (two, other):
            await client.ended(run)
        deltas = {run["id"]: 3 for run in (one, two, other)}
        scopes = {f"?run={one['id']}": [one], f"?conversation={one['conversation']}": [one, two], "": [one, two, other]}
        for query, shown in scopes.items():
            expected = {run["id"]: deltas[run["id"]] for run in shown}
            assert (await client.states(query))["deltas"]["value"] == expected
            async with client.follow(query) as states:
                await until(states, lambda s: s.get("deltas", {}).get("value") == expected)  # noqa: B023


async def test_changes_arrive_and_runs_that_begin_later_are_shown() -> None:
    async with serving() as client, client.follow() as states:
        one = await client.begin()
        await until(states, lambda known: known.get("deltas", {}).get("value") == {one["id"]: 3})
        two = await client.begin()
        both = {one["id"]: 3, two["id"]: 3}
        await until(states, lambda known: known.get("deltas", {}).get("value") == both)


async def test_the_board_of_a_stored_run_goes_on_when_nothing_else_watches_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rxworker.desk.run.LINGER", 0.0)
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "waited"

    worker = Worker(ScriptedModel([call("wait"), "An old pond."]), tools=[wait])
    async with (
        MemoryLog() as log,
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer(worker, port=0, log=log, dashboards=[BOARD]) as server,
    ):
        client = Client(server, http)
        run = await client.begin()
        async with client.follow(f"?run={run['id']}") as states:
            await anext(states)
            entry = server.state.store.get(run["id"], None)
            assert entry is not None
            async with asyncio.timeout(30):
                while entry.shown is not None:  # noqa: ASYNC110 - its replica is closed by a timer
                    await asyncio.sleep(0)
            gate.set()
            await until(states, lambda known: known.get("deltas", {}).get("value") == {run["id"]: 3})


async def test_a_moment_of_the_past_is_shown_as_it_was() -> None:
    async with serving() as client:
        run = await client.begin()
        await client.ended(run)
        entry = await client.server.state.runs.find(run["id"])
        records = [record async for record in entry.run.watch()]
        first, last = records[0].time, records[-1].time
        query = f"?run={run['id']}"
        assert "value" not in (await client.states(f"{query}&time={first - 1}"))["deltas"]
        assert (await client.states(f"{query}&time={last + 1}"))["deltas"]["value"] == {run["id"]: 3}
        answer = await client.get(f"api/boards/desk/events{query}&time={first}", 400)
        assert answer["error"]["code"] == "bad_query"


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_moment_of_the_future_is_now_and_nan_is_refused(is_stored: bool) -> None:
    async with serving(log=MemoryLog() if is_stored else None) as client:
        run = await client.begin()
        await client.ended(run)
        for query in ("", f"run={run['id']}&conversation=none&"):
            for later in ("inf", "1e300", "4e9"):
                shown = await client.states(f"?{query}time={later}")
                assert shown["deltas"]["value"] == {run["id"]: 3}
            assert "value" not in (await client.states(f"?{query}time=-1e300"))["deltas"]
            error = await client.get(f"api/boards/desk?{query}time=nan", 400)
            assert error["error"]["code"] == "bad_query"


async def test_a_board_is_computed_once_and_as_long_as_it_has_clients() -> None:
    async with serving() as client:
        run = await client.begin()
        await client.ended(run)
        feeds = client.server.state.boards.feeds
        query = f"?run={run['id']}"
        async with client.follow(query) as one, client.follow(query) as two:
            for states in (one, two):
                await until(states, lambda known: "deltas" in known)
            [feed] = feeds.values()
            assert feed.clients == 2
        while feeds:  # noqa: ASYNC110 - the server notices later that a client has left
            await asyncio.sleep(0)
        async with client.follow() as states:
            await until(states, lambda known: "deltas" in known)
        assert len(feeds) == 1  # that of all runs is kept


async def test_a_server_that_stops_while_a_board_of_a_run_is_shown_reports_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with aiohttp.ClientSession(trust_env=False) as http:
        model = ScriptedModel(["An old pond."])
        async with WebServer(Worker(model), port=0, dashboards=[BOARD]) as server:
            client = Client(server, http)
            run = await client.begin()
            following = client.follow(f"?run={run['id']}")
            states = await following.__aenter__()
            await until(states, lambda known: "deltas" in known)
        await following.__aexit__(None, None, None)
    assert caplog.record_tuples == []


async def test_users_see_their_own_runs_alone() -> None:
    async with serving(user=user_of) as client:
        run = await client.begin()
        await client.ended(run, **{"X-User": "ada"})
        query, ada, bob = f"?run={run['id']}", {"X-User": "ada"}, {"X-User": "bob"}
        assert (await client.states(query, **ada))["deltas"]["value"] == {run["id"]: 3}
        assert (await client.states("", **ada))["deltas"]["value"] == {run["id"]: 3}
        assert "value" not in (await client.states("", **bob))["deltas"]
        await client.get(f"api/boards/desk{query}", 404, **bob)
        await client.get(f"api/boards/desk/events{query}", 404, **bob)
        path = f"api/boards/desk?conversation={run['conversation']}"
        await client.get(path, 404, **bob)
        async with client.follow("", **bob) as states:
            other = await client.begin()
            await client.ended(other, **ada)
            known = await until(states, lambda known: len(known) == 2)
            assert "value" not in known["deltas"]


async def test_it_needs_the_token_of_the_server() -> None:
    async with serving(settings=Settings(token="t" * 32)) as client:
        await client.get("api/boards", 401)
        await client.get("api/boards/desk", 401)
        await client.get("api/boards/desk/events", 401)


async def test_secrets_of_the_environment_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "sk-1234567890abcdef")
    async with serving("sk-1234567890abcdef", "x") as client:
        run = await client.begin("sk-1234567890abcdef")
        await client.ended(run)
        assert "sk-1234567890" not in json.dumps(await client.states())
        assert "sk-1234567890" not in json.dumps(await client.get("api/boards/desk/runs?panel=deltas"))


async def test_all_runs_of_a_log_are_shown_after_a_restart(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        async with serving(log=log) as client:
            run = await client.begin()
            await client.ended(run)
        async with serving(log=log) as client:
            assert (await client.states())["deltas"]["value"] == {run["id"]: 3}
            async with client.follow() as states:
                await until(states, lambda s: s.get("deltas", {}).get("value") == {run["id"]: 3})
                two = await client.begin()
                both = {run["id"]: 3, two["id"]: 3}
                await until(states, lambda s: s["deltas"]["value"] == both)


async def test_a_panel_that_has_no_json_shows_why_and_the_others_go_on() -> None:
    def row_of(_: Record) -> dict[str, int]:
        return {"digits": 10**5000}

    board = Dashboard([panel("Rows", ops.map(row_of), view="table"), panel("Runs", count(RunStart))], title="Desk")
    async with serving(dashboards=[board]) as client:
        run = await client.begin()
        await client.ended(run)
        shown = await client.states(f"?run={run['id']}")
        assert "digits" in shown["rows"]["error"]
        assert shown["runs"]["value"] == 1
        async with client.follow(f"?run={run['id']}") as states:
            shown = await until(states, lambda known: "value" in known["runs"])
            assert "digits" in shown["rows"]["error"]


async def test_a_moment_of_all_runs_is_computed_once_and_not_for_clients_that_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[float | None] = []
    at_once = ended = 0
    may_go, left = asyncio.Event(), asyncio.Event()

    at = Moments.at

    async def fold(moments: Moments, time: float) -> Any:
        nonlocal at_once, ended
        begun.append(time)
        at_once += 1
        assert at_once == 1
        try:
            await may_go.wait()
            ended += 1
            return await at(moments, time)
        except asyncio.CancelledError:
            left.set()
            raise
        finally:
            at_once -= 1

    monkeypatch.setattr(Moments, "at", fold)
    async with MemoryLog() as log, serving(log=log) as client:
        run = await client.begin()
        await client.ended(run)
        now = time.time()
        gone = asyncio.create_task(client.states(f"?time={now - 1}"))
        boards = client.server.state.boards.folds
        while not begun:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.001)
        same = [asyncio.create_task(client.states(f"?time={now}")) for _ in range(50)]
        while boards._waiting.total() < 51:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        gone.cancel()
        await left.wait()
        may_go.set()
        shown = await asyncio.gather(*same)
        assert all(each["deltas"]["value"] == {run["id"]: 3} for each in shown)
        assert (begun, ended) == ([now - 1, now], 1)
        assert not boards._folds
        assert not boards._waiting


@pytest.mark.parametrize("path", ["", "/runs?panel=deltas", "/explain?panel=deltas"])
@pytest.mark.parametrize("is_stored", [False, True])
async def test_few_are_computed_at_once_whatever_is_selected(path: str, is_stored: bool) -> None:
    async with MemoryLog() as log, serving(log=log if is_stored else None) as client:
        boards, more = client.server.state.boards.folds, "&" if path else "?"
        paths = [f"api/boards/desk{path}{more}q=word{at}" for at in range(MAX_FOLDS + 1)]
        async with boards._turn:
            tasks = [asyncio.create_task(client.get(each)) for each in paths[:-1]]
            while len(boards._folds) < MAX_FOLDS and not boards._alone.locked():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)
            async with asyncio.timeout(5):
                assert (await client.get(paths[-1], 429))["error"]["code"] == "too_many_moments"
        await asyncio.gather(*tasks)
        assert await client.get(paths[-1])


async def test_a_live_board_and_a_moment_of_the_past_show_the_same_runs() -> None:
    """Those that began in the day before the board: also when the server has run for weeks."""
    async with MemoryLog() as log, serving(log=log) as client:
        run = await client.begin()
        await client.ended(run)
        async with client.follow() as states:
            value = {run["id"]: 3}
            await until(states, lambda s: s.get("deltas", {}).get("value") == value)
            [feed] = client.server.state.boards.feeds.values()
            assert (await client.states())["deltas"]["value"] == value
            since: list[float | None] = []
            boards = client.server.state.boards
            for began, moment in ((1e9, 2e9), (1e9, 1.5e9), (1.6e9, 1.5e9)):
                feed.began, feed.since = began, began - 86400

                async def fold(moments: Moments, _: float) -> Any:
                    since.append(moments.since)
                    return ()

                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(Moments, "at", fold)
                    await boards.folds._of_log(BOARD, log, moment, moment)
            assert since == [1e9 - 86400, 1e9 - 86400, (1.5e9 - 86400) // 5760 * 5760]


PAGE = "https://desk.example.com"


@pytest.mark.parametrize("path", ["", "/desk", "/desk?time=1", "/desk/events"])
async def test_a_page_of_another_origin_reads_boards_with_its_token_if_it_is_allowed(path: str) -> None:
    token = "t" * 32
    settings = Settings(token=token, allowed_origins=(PAGE,))
    bearer = {"Authorization": f"Bearer {token}"}
    async with serving(settings=settings) as client:
        await client.begin("Hi", headers=bearer)
        url = f"{client.server.url}api/boards{path}"
        for headers, status, allowed in (
            ({"Origin": PAGE, **bearer}, 200, PAGE),
            ({"Origin": PAGE}, 401, PAGE),
            ({"Origin": "https://evil.example", **bearer}, 403, None),
            ({"Origin": "null", **bearer}, 403, None),
            ({"Sec-Fetch-Site": "cross-site", **bearer}, 403, None),
        ):
            async with client.http.get(url, headers=headers) as response:
                assert response.status == status, headers
                assert response.headers.get("Access-Control-Allow-Origin") == allowed


@pytest.mark.parametrize(
    "name",
    [
        *("..", "desk%2f..", "Desk", "desk%00", "%F0%9F%A6%89", "desk?run=", "desk?conversation=x"),
        *("desk?run=x&conversation=x", "x" * 5000),
    ],
)
@pytest.mark.parametrize("tail", ["", "/events"])
async def test_no_other_address_shows_a_board_of_another_user(name: str, tail: str) -> None:
    async with serving(user=user_of) as client:
        run = await client.begin()
        await client.ended(run, **{"X-User": "ada"})
        board, _, query = name.partition("?")
        url = URL(f"{client.server.url}api/boards/{board}{tail}?{query}", encoded=True)
        async with client.http.get(url, headers={"X-User": "bob"}) as response:
            shown = await response.content.readany()
            assert response.status in (200, 400, 404, 414)
            assert run["id"].encode() not in shown
            assert b'"value"' not in shown


async def test_a_panel_that_fails_in_any_way_shows_why_and_the_others_go_on() -> None:
    deep: dict[str, Any] = {}
    deep["self"] = deep

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("it has no text")

    def always(value: Any) -> Any:
        def value_at(_: Record) -> Any:
            return value

        return ops.map(value_at)

    def at_once(_: object) -> Any:
        raise RuntimeError("at once")

    def no_name(_: Record) -> Any:
        return Odd()

    bad = [
        panel("At once", at_once),
        panel("None", always(None)),
        panel("NaN", always(float("nan"))),
        panel("Infinite", always(float("inf")), view="line"),
        panel("Huge", always(10**400)),
        panel("Sum", always({f"{n}": 1e308 for n in range(150)}), view="bar"),
        panel("Deep", always(deep), view="table"),
        panel("Odd", always({"x": Odd()}), view="table"),
        panel("Bytes", always(b"\xff"), view="text"),
        panel("Names", count(RunStart), view="bar", group=no_name),
    ]
    good = [
        panel("Never", lambda _: reactivex.never()),
        panel("Text", always("x" * 100_000), view="text"),
        panel("Surrogate", always("\ud800"), view="text"),
        panel("Many", lambda records: records.pipe(ops.flat_map(lambda _: range(10_000)))),
        panel("Runs", count(RunStart)),
    ]
    board = Dashboard([*bad, *good], title="Desk")
    async with serving(dashboards=[board]) as client:
        async with client.follow() as states:
            run = await client.begin()
            await client.ended(run)
            live = await until(states, lambda known: known.get("many", {}).get("value") == 9999)
        for known in (live, await client.states(f"?run={run['id']}"), await client.states()):
            assert [each.name for each in bad if not known[each.name].get("error")] == []
            assert [each.name for each in good if known[each.name].get("error")] == []
            assert known["runs"]["value"] == 1


async def test_mistakes_are_reported() -> None:
    worker = Worker(ScriptedModel(["Hi."]))
    with pytest.raises(ConfigurationError, match="is not a dashboard"):
        WebServer(lambda: worker, dashboards=[BOARD.panels[0]])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="two dashboards have the name 'desk'"):
        WebServer(lambda: worker, dashboards=[BOARD, BOARD])


async def test_the_stream_of_a_board_whose_records_fail_ends_and_the_next_one_has_a_new_board() -> None:
    async with MemoryLog() as log, serving(log=log) as client:
        async with client.follow() as states:
            await anext(states)
            [feed] = client.server.state.boards.feeds.values()
            feed.board._fail(OSError("the log is away"))
            async with asyncio.timeout(30):
                async for _ in states:
                    pass
        await client.begin()
        async with client.follow() as states:
            await until(states, lambda known: known["deltas"].get("value"))


SECRET = "sk-0123456789abcdefghijklmnopqrstuvwxyz0123"


def leaky(record: Record) -> str:
    return f"the key is {SECRET} of {record.run_id}"


def broken(record: Record) -> str:
    raise OSError(f"{leaky(record)} {'x' * 9000}")


LEAKY = Dashboard(
    [panel("Key", ops.map(leaky), view="text"), panel("Broken", ops.map(broken), view="text")], title="Desk"
)


@pytest.mark.parametrize("is_stored", [False, True])
async def test_the_operators_of_a_panel_are_served_now_and_while_they_change(*, is_stored: bool) -> None:
    log = MemoryLog() if is_stored else None
    async with serving(log=log) as client:
        run = await client.begin()
        await client.ended(run)
        for query in ("", f"&run={run['id']}"):
            path = f"api/boards/desk/explain?panel=deltas{query}"
            [found] = await client.get(path)
            assert found["panel"] == "deltas"
            names = [each["name"] for each in found["operators"]]
            assert names == ["source", "events", "only(TextDelta)", "scan(_one_more, 0)"]
            assert [each["inputs"] for each in found["operators"]] == [[], [0], [1], [2]]
            assert found["operators"][3]["items"] > 0
            at = path.replace("explain", "explain/events", 1).removeprefix("api/boards/desk/")
            async with client.follow(at) as states:
                known = await until(states, lambda each: each["deltas"]["operators"][3]["items"])
                assert [each["name"] for each in known["deltas"]["operators"]] == names
        feeds = client.server.state.boards.feeds
        while any(key[1] == "desk deltas" for key in feeds):  # noqa: ASYNC110 - the server notices later that a client has left
            await asyncio.sleep(0)


async def test_operators_go_on_counting_for_who_looks() -> None:
    async with serving() as client, client.follow("explain/events?panel=deltas") as states:
        assert (await anext(states))["deltas"]["operators"][0]["items"] == 0
        await client.ended(await client.begin())
        await until(states, lambda each: each["deltas"]["operators"][3]["items"])


async def test_operators_of_a_long_history_are_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.boards.dashboard.TURN", 0.0)

    def stored(observer: Any, _scheduler: object) -> Disposable:
        for seq in range(1, 100):
            observer.on_next(Record(seq, "a", 1, 1, float(seq), TextDelta(0, "a")))
        return Disposable()

    board = BOARD.show(reactivex.create(stored), xray=True)
    feed = ExplainedFeed(board)
    for taken in (1, 2, 3):
        assert board.xray("key").states[0].items == taken
        feed._timer.cancel()
        feed._look()
    feed.close()


async def test_operators_show_no_secret_and_short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_API_KEY", SECRET)
    async with serving(dashboards=[LEAKY]) as client:
        await client.ended(await client.begin())
        [key] = await client.get("api/boards/desk/explain?panel=key")
        _, text = key["operators"][1]["last"][-1]
        assert text.startswith("the key is *** of run-")
        [failed] = await client.get("api/boards/desk/explain?panel=broken")
        error = failed["operators"][1]["error"]
        assert error.startswith("OSError: the key is ***")
        assert len(error) <= 500
        assert SECRET[:20] not in json.dumps([key, failed])


async def test_operators_are_those_of_the_runs_of_a_user() -> None:
    async with serving(user=user_of) as client:
        run = await client.begin()
        await client.ended(run, **{"X-User": "ada"})
        path = "api/boards/desk/explain?panel=deltas"
        [own] = await client.get(path, 200, **{"X-User": "ada"})
        [other] = await client.get(path, 200, **{"X-User": "bob"})
        assert own["operators"][0]["items"] > 0
        assert other["operators"][0]["items"] == 0
        await client.get(f"{path}&run={run['id']}", 404, **{"X-User": "bob"})
        await client.get(path, 401)


async def test_a_server_may_show_no_operators_and_a_link_never_does() -> None:
    async with serving(settings=Settings(xray=False)) as client:
        board, *_ = (await client.get("api/boards"))["boards"]
        assert board["xray"] is False
        for path in ("explain", "explain/events"):
            refused = await client.get(f"api/boards/desk/{path}?panel=deltas", 404)
            assert refused["error"]["code"] == "no_xray"
    async with serving() as client:
        board, *_ = (await client.get("api/boards"))["boards"]
        assert board["xray"] is True
        refused = await client.get("api/boards/desk/explain?panel=delta", 404)
        assert refused["error"]["code"] == "no_panel"
        made = await client.server.state.share(board="desk")
        headers = {"Authorization": f"Bearer {made.token}"}
        board, *_ = (await client.get("api/boards", 200, **headers))["boards"]
        assert board["xray"] is False
        await client.get("api/boards/desk/explain?panel=deltas", 403, **headers)


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_client_selects_a_time_and_runs(is_stored: bool) -> None:
    def make(request: WebRequest) -> Worker:
        labels = {"tenant": request.headers.get("X-Tenant", "none"), "kind": "a=b"}
        return Worker(ScriptedModel(["An old pond.", "A frog."], model="tiny"), labels=labels)

    async with (
        MemoryLog() as log,
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer({"desk": make}, port=0, dashboards=[BOARD], log=log if is_stored else None) as server,
    ):
        client = Client(server, http)
        ids: dict[str, str] = {}
        for tenant in ("acme", "beta"):
            run = await client.begin(f"Hello {tenant}", headers={"X-Tenant": tenant})
            await client.ended(run)
            ids[tenant] = run["id"]
        entry = await server.state.runs.find(ids["beta"])
        begun = (await anext(aiter(entry.run.watch()))).time
        both, beta = dict.fromkeys(ids.values(), 3), {ids["beta"]: 3}
        shown: dict[str, object] = {
            "": both,
            "tenant=beta": beta,
            "label=tenant=beta&label=kind=a%3Db": beta,
            "label=tenant=beta&label=kind=other": None,
            "q=HELLO+beta": beta,
            "worker=desk": both,
            "worker=other": None,
            "model=tiny&status=finished": both,
            "status=failed": None,
            "tool=look": None,
            f"since={begun}": beta,
            f"until={begun}": {ids["acme"]: 3},
            f"since={begun - 100}&until={begun - 50}": None,
            "last=900": both,
            f"last=900&time={begun - 5000}": None,
        }
        for query, expected in shown.items():
            assert (await client.states(f"?{query}"))["deltas"].get("value") == expected, query
            if "time=" not in query:
                async with client.follow(f"?{query}") as states:
                    await until(states, lambda known: known["deltas"].get("value") == expected)  # noqa: B023
                assert (await client.get(f"api/boards/desk/explain?panel=deltas&{query}"))[0]["operators"]
        assert len(server.state.boards.feeds) == 1  # what was selected is not computed any more
        for query in (
            "status=fail",
            "since=5&until=4",
            "last=60&since=5",
            "last=0",
            "last=5e-324",
            "since=inf",
            "until=inf",
            "label=x",
            "tenant=",
            "last=soon",
            "tenantt=acme",
        ):
            error = (await client.get(f"api/boards/desk?{query}", 400))["error"]
            assert query.partition("=")[0] in error["message"], query


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_time_of_the_past_is_shown_as_at_its_end_live_and_folded_again(is_stored: bool) -> None:
    def deltas_a_minute(records: Observable[Record]) -> Observable[float]:
        return records.pipe(records_of(TextDelta), ops.map(lambda _: 1.0), rate(0.002))

    @on_turn_end
    async def wait(_: Any) -> None:
        begun = time.time()
        while time.time() < begun + 0.003:  # noqa: ASYNC110 - the end has a later time
            await asyncio.sleep(0)

    board = Dashboard([panel("Rate", deltas_a_minute), BOARD.panels[0]], name="desk", reach=60)
    worker = Worker(ScriptedModel(["An old pond."]), hooks=[wait])
    async with (
        MemoryLog() as log,
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer(worker, port=0, dashboards=[board], log=log if is_stored else None) as server,
    ):
        client = Client(server, http)
        run = await client.begin()
        await client.ended(run)
        entry = await server.state.runs.find(run["id"])
        records = [record async for record in entry.run.watch()]
        end = max(each.time for each in records if isinstance(each.event, TextDelta)) + 0.001
        assert end < records[-1].time
        query = f"?until={end}&status=finished"  # which it gets after that
        at_end = await client.states(query)
        assert at_end["deltas"]["value"] == {run["id"]: 3}
        assert at_end["rate"]["value"] > 0
        async with client.follow(query) as states:
            await until(states, lambda known: known["deltas"].get("value") == {run["id"]: 3})
            while time.time() < end + 0.01:  # noqa: ASYNC110 - the window of the rate passes
                await asyncio.sleep(0)
            assert await client.states(query) == at_end


async def test_what_a_client_selects_is_within_the_selection_of_the_dashboard() -> None:
    def make(request: WebRequest) -> Worker:
        return Worker(ScriptedModel(["An old pond."], model="tiny"), labels={"tenant": request.headers["X-Tenant"]})

    runs = panel("Runs", count(RunStart), view="bar", group=run_of, alert=below(0.5))
    board = Dashboard([runs], name="desk", selection=Selection(labels={"tenant": "acme"}, model="tiny"))
    async with (
        MemoryLog() as log,
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer({"desk": make}, port=0, dashboards=[board], log=log) as server,
    ):
        client = Client(server, http)
        ids = [(await client.begin(headers={"X-Tenant": each}))["id"] for each in ("acme", "beta")]
        for each in ids:
            await client.ended({"id": each})
        link = await server.state.links.make(Shown(board="desk"))
        reader = {"Authorization": f"Bearer {link.token}"}
        for query, headers in [("", {}), ("?last=900", reader), ("?tenant=acme", {}), ("?q=hi", {})]:
            assert (await client.states(query, **headers))["runs"]["value"] == {ids[0]: 1}, query
        for query in ("?tenant=beta", "?model=large"):
            await client.get(f"api/boards/desk{query}", 400)
        alerts: list[AlertChange] = []
        server.state.boards.report(alerts.append)
        [feed] = server.state.boards.feeds.values()
        async with client.follow() as states:
            await anext(states)
            assert feed.clients == 1
        while feed.clients:  # noqa: ASYNC110 - the server notices later that a client has left
            await asyncio.sleep(0)
        assert server.state.boards.feeds  # the alerts go on


async def test_clients_share_what_is_computed_of_the_last_minutes() -> None:
    async with serving() as client, client.follow("?last=9000") as one, client.follow("?last=9000") as other:
        for states in (one, other):
            await anext(states)
        assert len(client.server.state.boards.feeds) == 1


async def test_a_link_may_be_narrowed_by_time_and_not_by_what_records_have() -> None:
    async with serving() as client:
        link = await client.server.state.links.make(Shown(board="desk"))
        headers = {"Authorization": f"Bearer {link.token}"}
        assert await client.states("?last=900", **headers)
        for query in ("tenant=acme", "q=secret", "model=tiny"):
            answer = await client.get(f"api/boards/desk?{query}", 403, **headers)
            assert answer["error"]["code"] == "not_shared"
            await client.get(f"api/boards/desk/events?{query}", 403, **headers)


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_client_gets_the_runs_behind_a_value(is_stored: bool) -> None:
    async with MemoryLog() as log, serving(log=log if is_stored else None) as client:
        runs = [await client.begin(f"Hello {n}") for n in range(3)]
        for run in runs:
            await client.ended(run)
        entry = await client.server.state.runs.find(runs[0]["id"])
        last = [record async for record in entry.run.watch()][-1].time
        path = "api/boards/desk/runs?panel=deltas"
        found = (await client.get(path))["runs"]
        assert {each["run"] for each in found} == {run["id"] for run in runs}
        assert {each["values"] for each in found} == {3}
        for query in (f"group={runs[1]['id']}", f"run={runs[1]['id']}", "q=hello+1"):
            assert [each["run"] for each in (await client.get(f"{path}&{query}"))["runs"]] == [runs[1]["id"]]
        assert (await client.get(f"{path}&time={last - 3600}"))["runs"] == []
        assert (await client.get("api/boards/desk/runs?panel=dusk", 404))["error"]["code"] == "no_panel"
        link = await client.server.state.links.make(Shown(board="desk"))
        await client.get(path, 403, Authorization=f"Bearer {link.token}")


async def test_the_runs_behind_a_value_are_those_of_the_user() -> None:
    async with serving(user=user_of) as client:
        mine = await client.begin(headers={"X-User": "ada"})
        await client.ended(mine, **{"X-User": "ada"})
        path = "api/boards/desk/runs?panel=deltas"
        assert [each["run"] for each in (await client.get(path, 200, **{"X-User": "ada"}))["runs"]] == [mine["id"]]
        assert (await client.get(path, 200, **{"X-User": "bob"}))["runs"] == []
