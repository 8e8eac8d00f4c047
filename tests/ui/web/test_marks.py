"""Conversations are named, tagged, pinned and deleted."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from rxworker import Worker
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.protocols.socket import Marks
from rxworker.testing import ScriptedModel, call
from rxworker.ui.web import WebRequest, WebServer
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.runs.of_user import Runs

from .conftest import Body, Desk, OpenDesk

EMPTY: Body = {"title": "", "tags": [], "pinned": False}


async def mark(desk: Desk, run: Body, **changes: object) -> Body:
    status, answer = await desk.post(f"api/conversations/{run['conversation']}/mark", changes)
    assert status == 200, answer
    return answer["marks"]


async def marks(desk: Desk, run: Body) -> Body:
    return (await desk.get(f"api/runs/{run['id']}"))[1]["marks"]


async def test_a_conversation_is_named_tagged_and_pinned_one_by_one(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two")
    first = await desk.begin("a")
    ended = await desk.ended(first["id"])
    assert await marks(desk, first) == EMPTY
    assert (await mark(desk, first, title="  The \n name "))["title"] == "The name"
    assert (await mark(desk, first, tags=["b", " a", "b", " "]))["tags"] == ["b", "a"]
    whole = {"title": "The name", "tags": ["b", "a"], "pinned": True}
    assert await mark(desk, first, pinned=True) == whole
    # A note changes neither the title of the run, nor when it has ended.
    noted = (await desk.get(f"api/runs/{first['id']}"))[1]
    assert (noted["title"], noted["marks"]) == ("a", whole)
    assert noted["ended"] == ended["ended"]
    second = await desk.begin("b", conversation=first["conversation"])
    await desk.ended(second["id"])
    assert await marks(desk, second) == whole
    assert await marks(desk, first) == whole
    for query in ("q=NAME", "tag=a"):
        found = (await desk.get(f"api/runs?{query}"))[1]["runs"]
        assert {run["id"] for run in found} == {first["id"], second["id"]}
    assert (await desk.get("api/runs?tag=c"))[1]["runs"] == []
    assert await mark(desk, second, title="", tags=[], pinned=False) == EMPTY
    assert await marks(desk, first) == EMPTY


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a"},
        {"title": None},
        {"title": "a" * 121},
        {"tags": "a"},
        {"tags": ["a"] * 21},
        {"title": "\0"},
        {"pinned": "yes"},
        [],
    ],
)
async def test_a_note_that_is_not_understood_is_refused(open_desk: OpenDesk, body: object) -> None:
    desk = await open_desk("one")
    run = await desk.begin()
    await desk.ended(run["id"])
    path = f"api/conversations/{run['conversation']}"
    assert (await desk.post(f"{path}/mark", body))[0] == 400
    assert await marks(desk, run) == EMPTY
    assert (await desk.post(f"{path}/delete", {"all": True}))[0] == 400
    assert (await desk.get(f"api/runs/{run['id']}"))[0] == 200


async def test_a_conversation_is_deleted_with_its_runs_unless_one_is_running(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", call("wait"), "two", "three")
    kept = await desk.begin("kept")
    first = await desk.begin("a")
    await desk.ended(first["id"])
    second = await desk.begin("b", conversation=first["conversation"])
    await desk.waiting.wait()
    path = f"api/conversations/{first['conversation']}"
    status, answer = await desk.post(f"{path}/delete", {})
    assert (status, answer["error"]["code"]) == (409, "busy")
    assert second["id"] in answer["error"]["message"]
    assert (await mark(desk, second, title="While it runs"))["title"] == "While it runs"
    desk.release.set()
    await desk.ended(second["id"])
    assert (await marks(desk, first))["title"] == "While it runs"
    status, answer = await desk.post(f"{path}/delete", {})
    assert (status, set(answer["deleted"])) == (200, {first["id"], second["id"]})
    assert [run["id"] for run in (await desk.get("api/runs"))[1]["runs"]] == [kept["id"]]
    for run in (first, second):
        assert (await desk.get(f"api/runs/{run['id']}"))[0] == 404
    for verb in ("delete", "mark"):
        status, answer = await desk.post(f"{path}/{verb}", {})
        assert (status, answer["error"]["code"]) == (404, "no_conversation")
    again = {"input": "c", "conversation": first["conversation"]}
    assert (await desk.post("api/runs", again))[0] == 404


async def test_notes_are_stored_with_the_log_and_what_is_deleted_stays_deleted(tmp_path: Path) -> None:
    def make() -> Worker:
        return Worker(ScriptedModel(["one", "two"]))

    async with SQLiteLog(tmp_path / "runs.db") as log:
        async with WebServer(make, port=0, log=log) as server:
            runs = server.state.runs
            entry, other = runs.start("a"), runs.start("b")
            for each in (entry, other):
                assert each.here is not None
                await each.here
            await server.state.store.mark(entry.conversation, Marks("Kept", ("x",), True))
            nested = [info.run_id for info in await log.list()]
            assert await server.state.store.delete(other.conversation) == [other.id]
            assert [info.run_id for info in await log.list()] == [entry.id]
            assert len(nested) == 2
        async with WebServer(make, port=0, log=log) as server:
            [again] = server.state.runs
            assert again.summary().marks == entry.conversation.marks
            assert again.summary().ended == entry.summary().ended
            # Another process of the log sees a change, too.
            async with WebServer(make, port=0, log=log) as second:
                store, [seen] = second.state.store, second.state.runs
                await store.mark(seen.conversation, replace(seen.conversation.marks, title="Elsewhere"))
                async with aclosing(server.state.store.feed(None).lists()) as lists:
                    async for data in lists:
                        if b'"title":"Elsewhere"' in data:
                            break


async def test_a_user_notes_and_deletes_nothing_of_another_one() -> None:
    def user(request: WebRequest) -> str:
        return request.headers.get("X-User", "")

    def make() -> Worker:
        return Worker(ScriptedModel(["one"]))

    async with MemoryLog() as log, WebServer(make, port=0, log=log, user=user) as server:
        ann, ben = (Runs(server.state.store, server.state.workers, name) for name in ("ann", "ben"))
        entry = ann.start("a")
        assert entry.here is not None
        await entry.here
        id_ = entry.conversation.id
        with pytest.raises(ApiError, match="no such conversation"):
            ben.existing(id_)
        assert await server.state.store.delete(ann.existing(id_)) == [entry.id]
