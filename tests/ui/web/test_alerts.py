"""Alerts of a server: they are reported without a client, for the runs of all users, and after a restart once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from rxworker import Worker
from rxworker.boards import AlertChange, Dashboard, above, fold_alerts, panel
from rxworker.errors import ConfigurationError
from rxworker.events import RunStart, RunStop
from rxworker.log import EventLog, MemoryLog, SQLiteLog
from rxworker.panels import count, in_flight, run_of
from rxworker.testing import ScriptedModel, say, stall
from rxworker.ui.web import ServerOptions, Settings, WebServer
from tests.ui.web.test_boards import user_of

BOARD = Dashboard(
    [
        panel("Begun", count(RunStart), alert=above(1)),
        panel("Ended", count(RunStop), alert=above(0), group=run_of),
        panel("Running", in_flight, alert=above(0)),
    ],
    title="Watch",
)


class Alerts:
    """What a server reports."""

    def __init__(self) -> None:
        self.seen: list[AlertChange] = []
        self._more = asyncio.Event()

    def take(self, change: AlertChange) -> None:
        self.seen.append(change)
        self._more.set()

    async def count(self, panel_name: str, number: int) -> list[AlertChange]:
        """Wait for so many alerts of a panel."""
        async with asyncio.timeout(30):
            while len(found := [e for e in self.seen if e.panel == panel_name]) < number:
                self._more.clear()
                await self._more.wait()
        return found

    async def until(self, change: AlertChange) -> None:
        """Wait for an alert."""
        async with asyncio.timeout(30):
            while change not in self.seen:
                self._more.clear()
                await self._more.wait()


def serving(alerts: Alerts, log: EventLog | None = None, **more: Any) -> WebServer:
    def make() -> Worker:
        return Worker(ScriptedModel(["An old pond."] * 5))

    return WebServer(make, port=0, dashboards=[BOARD], on_alert=alerts.take, log=log, **more)


async def begin(server: WebServer, **headers: str) -> None:
    async with ClientSession(trust_env=False) as http:
        url = f"{server.url}api/runs"
        async with http.post(url, json={"input": "Hi"}, headers=headers) as response:
            assert response.status == 201, await response.text()
            run = (await response.json())["id"]
        async with http.get(f"{url}/{run}/events", headers=headers) as response:
            await response.read()


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("has_users", [True, False])
async def test_alerts_are_reported_without_a_client(has_log: bool, has_users: bool) -> None:
    alerts, options = Alerts(), {"user": user_of} if has_users else {}
    async with MemoryLog() as log, serving(alerts, log if has_log else None, **options) as server:
        await begin(server, **{"X-User": "ada"})
        await begin(server, **{"X-User": "bo"})
        [begun] = await alerts.count("begun", 1)
        assert (begun.board, begun.value, begun.is_firing) == ("watch", 2.0, True)
        assert [each.is_firing for each in await alerts.count("running", 4)] == [True, False] * 2
        assert len({each.group for each in await alerts.count("ended", 2)}) == 2
        if has_log:
            key = AlertChange.__repr__
            assert sorted(await fold_alerts(BOARD, log), key=key) == sorted(alerts.seen, key=key)


async def test_after_a_restart_the_last_change_of_each_value_is_reported_again(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        alerts = Alerts()
        async with serving(alerts, log) as server:
            await begin(server)
            await begin(server)
            await alerts.count("ended", 2)
            [begun] = await alerts.count("begun", 1)
        again = Alerts()
        async with serving(again, log) as server:
            [still] = await again.count("begun", 1)
            assert still == begun
            await again.count("ended", 2)
            # Its target may not have received the end: the server may have been killed.
            last = (await alerts.count("running", 4))[3]
            await again.until(last)
            known = len([each for each in again.seen if each.panel == "running"])
            await begin(server)
            await again.count("ended", 3)
            await again.count("running", known + 2)
            changes = [each for each in again.seen if each.panel == "running"]
            later = changes[changes.index(last) + 1 :]
            assert [each.is_firing for each in later] == [True, False]
            assert not last.is_firing
        names = [each.panel for each in again.seen if each.panel != "running"]
        assert {name: names.count(name) for name in names} == {"begun": 1, "ended": 3}


async def test_a_board_that_reports_alerts_is_not_a_watcher_of_a_run() -> None:
    def make() -> Worker:
        return Worker(ScriptedModel([say("An old pond.") + stall()]))

    alerts = Alerts()
    async with (
        WebServer(make, port=0, dashboards=[BOARD], on_alert=alerts.take, settings=Settings(grace=0.01)) as server,
        ClientSession(trust_env=False) as http,
    ):
        async with http.post(f"{server.url}api/runs", json={"input": "Hi"}) as response:
            assert response.status == 201
        assert [each.is_firing for each in await alerts.count("running", 2)] == [True, False]


async def test_alerts_are_reported_again_when_the_records_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.ui.web.boards.boards.AGAIN", 0.0)
    alerts = Alerts()
    async with MemoryLog() as log, serving(alerts, log) as server:
        feed = server.state.boards.feeds[None, "watch", ""]
        feed.board._fail(OSError("the log is away"))
        await begin(server)
        await begin(server)
        await alerts.count("begun", 1)


async def test_a_board_whose_place_another_one_takes_is_computed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.ui.web.boards.boards.AGAIN", 0.0)
    place = None, "watch", ""
    async with MemoryLog() as log, serving(Alerts(), log) as server:
        boards = server.state.boards
        boards.feeds[place].board._fail(OSError("the log is away"))
        boards.shown()  # before the alerts begin again
        between = boards.feeds[place]
        async with asyncio.timeout(30):
            while boards.feeds[place] is between:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0)
        assert between.hub.ended
        assert not boards.feeds[place].hub.ended


async def test_without_a_limit_or_a_function_nothing_is_computed() -> None:
    cases: list[ServerOptions] = [{"dashboards": [BOARD]}, {"on_alert": Alerts().take}]
    for options in cases:
        async with WebServer(Worker(ScriptedModel([])), port=0, **options) as server:
            assert not server.state.boards.feeds


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_alert"):
        WebServer(Worker(ScriptedModel([])), port=0, on_alert="https://h")  # pyright: ignore[reportArgumentType]
