from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rxworker import Limits, Worker, worker_tool
from rxworker.decisions import Decided
from rxworker.events import Usage
from rxworker.log import Claim, EventLog, MemoryLog, decide_running
from rxworker.messages import Prices, ToolMeta
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail, say, stall
from rxworker.tools import ClientTool
from rxworker.ui.web import Settings

from .conftest import OpenDesk


async def test_the_server_describes_itself(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=Settings(title="<b>Desk</b>"))
    status, info = await desk.get("api/info")
    assert status == 200
    assert info["title"] == "<b>Desk</b>"
    assert info["version"]
    [worker] = info["workers"]
    assert (worker["name"], worker["provider"], worker["model"]) == ("worker", "scripted", "scripted-1")
    delete = worker["tools"][1]
    assert (delete["name"], delete["description"]) == ("delete", "Delete a file.")
    assert delete["input_schema"]["properties"]["path"]["type"] == "string"
    other = await open_desk()
    assert (await other.get("api/info"))[1]["instance"] != info["instance"]


async def test_the_worker_that_was_made_to_describe_it_serves_the_first_conversation(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two")
    await desk.get("api/info")
    await desk.get("api/info")
    await desk.begin()
    assert len(desk.workers) == 1


async def test_a_run_is_begun_listed_and_ends(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!")
    run = await desk.begin("What is <script>this</script>?" + "x" * 200)
    assert run["title"] == ("What is <script>this</script>?" + "x" * 200)[:120]
    assert run["worker"] == "worker"
    ended = await desk.ended(run["id"])
    assert (ended["status"], ended["turns"], ended["pause"], ended["cost"]) == ("finished", 1, None, None)
    assert ended["ended"] >= ended["started"]
    assert ended["usage"]["input_tokens"] == 10
    assert set(ended) == {
        *("id", "conversation", "worker", "status", "title", "started", "ended", "seq", "turns"),
        *("tool_calls", "usage", "cost", "currency", "unpriced", "reason", "cause", "pause", "resumes", "resumed_as"),
        *("watchers", "allowed", "can_requeue", "branch", "marks"),
    }
    status, listed = await desk.get("api/runs")
    assert status == 200
    assert [one["id"] for one in listed["runs"]] == [run["id"]]
    assert listed["instance"]


async def test_a_conversation_goes_on_and_others_begin_anew(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two", "three")
    first = await desk.begin("a")
    await desk.ended(first["id"])
    second = await desk.begin("b", conversation=first["conversation"])
    await desk.ended(second["id"])
    assert second["conversation"] == first["conversation"]
    assert [m.text for m in desk.sessions[0].conversation.messages] == ["a", "one", "b", "two"]
    other = await desk.begin("c")
    assert other["conversation"] != first["conversation"]
    listed = (await desk.get("api/runs"))[1]["runs"]
    assert [one["title"] for one in listed] == ["c", "b", "a"]


async def test_a_busy_conversation_begins_no_second_run(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = await desk.begin()
    status, told = await desk.post("api/runs", {"input": "b", "conversation": run["conversation"]})
    assert (status, told["error"]["code"]) == (409, "busy")
    assert run["id"] in told["error"]["message"]


@pytest.mark.aiohttp
@pytest.mark.unlogged  # it has a log of its own
async def test_a_conversation_is_free_as_soon_as_the_last_record_of_its_run_is_published(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MemoryLog() as log:
        release, may_release = log.release, asyncio.Event()

        async def release_later(claim: Claim) -> None:
            await may_release.wait()
            await release(claim)

        monkeypatch.setattr(log, "release", release_later)
        desk = await open_desk(call("delete", path="/a"), "Deleted.", "And?", log=log)
        run = await desk.begin()
        for path, body in (
            (f"api/runs/{run['id']}/resume", {"decisions": [{"type": "approve"}]}),
            ("api/runs", {"input": "b", "conversation": run["conversation"]}),
        ):
            async with desk.http.get(desk.url(f"api/runs/{run['id']}/events")) as response:
                await response.read()
            may_release.clear()
            posted = asyncio.create_task(desk.post(path, body))
            await desk.get("api/runs")
            await desk.get("api/runs")
            may_release.set()
            status, run = await posted
            assert status == 201, run
        may_release.set()


async def test_more_runs_than_allowed_are_refused_until_one_has_ended(open_desk: OpenDesk) -> None:
    desk = await open_desk(always=say("...") + stall(), settings=Settings(max_runs=2))
    runs = [await desk.begin(), await desk.begin()]
    status, told = await desk.post("api/runs", {"input": "b"})
    assert (status, told["error"]["code"]) == (429, "too_many_runs")
    await desk.post(f"api/runs/{runs[0]['id']}/cancel")
    await desk.begin()


async def test_what_is_not_there_is_404_with_a_word_of_help(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    for path in ("api/runs/run-0", "api/runs/run-0/events", "api/nothing", "nothing"):
        status, told = await desk.get(path)
        assert (status, set(told["error"])) == (404, {"code", "message"}), path
    for action in ("send", "edit", "withdraw", "deliver", "pause", "cancel", "resume"):
        status, _ = await desk.post(f"api/runs/run-0/{action}", {"message": "x"})
        assert status == 404
    assert (await desk.post("api/runs", {"input": "a", "worker": "no"}))[0] == 404
    assert (await desk.post("api/runs", {"input": "a", "conversation": "no"}))[0] == 404
    assert (await desk.post("api/info"))[0] == 405


async def test_a_body_that_is_not_what_it_should_be_is_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    bad: list[object] = [{}, {"input": 3}, {"input": "  "}, [], "x", {"input": ["\ud800"]}]
    for body in bad:
        status, told = await desk.post("api/runs", body)
        assert (status, "code" in told["error"]) == (400, True), body
    headers = {"Content-Type": "text/plain"}
    status, _ = await desk.post("api/runs", data=b'{"input":"a"}', headers=headers)
    assert status == 415
    headers = {"Content-Type": "application/json"}
    assert (await desk.post("api/runs", data=b'{"input":', headers=headers))[0] == 400
    assert (await desk.post("api/runs", data=b"[" * 100_000, headers=headers))[0] == 400
    assert (await desk.get("api/runs"))[1]["runs"] == []


async def test_a_message_is_sent_into_a_run(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.")
    run = await desk.begin()
    await desk.waiting.wait()
    status, _ = await desk.post(f"api/runs/{run['id']}/send", {"message": "And hurry."})
    assert status == 200
    desk.release.set()
    await desk.ended(run["id"])
    assert "And hurry." in [m.text for m in desk.sessions[0].conversation.messages]
    status, told = await desk.post(f"api/runs/{run['id']}/send", {"message": "too late"})
    assert (status, told["error"]["code"]) == (409, "conflict")


async def test_a_message_that_waits_is_withdrawn_by_its_id(open_desk: OpenDesk, server_kind: str) -> None:
    has_log = server_kind == "log"
    async with MemoryLog() as log:
        desk = await open_desk(call("wait"), "Done.", log=log if has_log else None)
        path = f"api/runs/{(run := await desk.begin())['id']}"
        await desk.waiting.wait()
        for sent in ({"message": "First.", "id": "a"}, {"message": "Second.", "id": "b"}):
            assert (await desk.post(f"{path}/send", sent))[0] == 200
        malformed: list[dict[str, Any]] = [{}, {"id": ""}, {"id": 3}, {"id": "a", "run": 3}]
        for body in [*malformed, {"id": "x" * 101}]:
            assert (await desk.post(f"{path}/withdraw", body))[0] == 400, body
        assert (await desk.post(f"{path}/withdraw", {"id": "a"}))[0] == 200
        if not has_log:  # over a log the records tell
            for unknown in ("a", "c"):
                status, told = await desk.post(f"{path}/withdraw", {"id": unknown})
                assert (status, told["error"]["code"]) == (409, "conflict")
            status, told = await desk.post(f"{path}/send", {"message": "Again.", "id": "b"})
            assert (status, told["error"]["code"]) == (409, "conflict")
        desk.release.set()
        await desk.ended(run["id"])
        texts = [m.text for m in desk.sessions[0].conversation.messages]
        assert "Second." in texts
        assert "First." not in texts
        status, told = await desk.post(f"{path}/withdraw", {"id": "b"})
        assert (status, told["error"]["code"]) == (409, "conflict")


async def test_a_result_is_delivered_with_a_token_that_gives_no_other_right(open_desk: OpenDesk) -> None:
    settings = Settings(token="the token of all", deliver_token="the token of a webhook")
    desk = await open_desk(call("order"), "It is ordered.", "It is here.", settings=settings, token="the token of all")
    run = await desk.begin()
    id = "call_1_1"  # noqa: A001 - what it is
    path = f"api/runs/{run['id']}"
    webhook = {"headers": {"Authorization": "Bearer the token of a webhook"}}
    for refused in (f"{path}/cancel", "api/runs", f"{path}/send"):
        assert (await desk.post(refused, {"message": "x"}, **webhook))[0] == 401, refused
    assert (await desk.get(path, **webhook))[0] == 401
    wrong = {"headers": {"Authorization": "Bearer another"}}
    body = {"call": id, "result": {"parcel": 1}}
    assert (await desk.post(f"{path}/deliver", body, **wrong))[0] == 401
    malformed: list[dict[str, Any]] = [{}, {"call": id}, {"call": "", "result": "x"}, {**body, "to": "me"}]
    for each in malformed:
        assert (await desk.post(f"{path}/deliver", each, **webhook))[0] == 400, each
    assert (await desk.post("api/runs/run-0/deliver", body, **webhook))[0] == 404
    assert await desk.post(f"{path}/deliver", body, **webhook) == (200, {})
    await desk.ended(run["id"])
    (session,) = desk.sessions
    assert '{"parcel":1}' in session.conversation.messages[-2].text
    assert (await desk.post(f"{path}/deliver", body))[0] == 409


async def test_a_run_that_goes_on_takes_decisions_about_what_waits_in_its_background(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("sure"), call("wait"), "Done.", "They are.")
    path = f"api/runs/{(run := await desk.begin())['id']}"
    nothing = {"decisions": {"background/call_1_1": {"type": "approve"}}}
    await desk.waiting.wait()
    async with asyncio.timeout(10), desk.http.get(desk.url(f"{path}/events")):  # what is looked at is shown
        while (shown := (await desk.get(path))[1])["pause"] is None:
            assert shown["status"] == "running"
    (pending,) = shown["pause"]["pending"]
    assert (pending["id"], pending["name"], pending["needs_decision"]) == ("background/call_1_1", "sure", True)
    for wrong in ({"decisions": {"x": {"type": "approve"}}}, {"continue": True}):
        assert (await desk.post(f"{path}/resume", wrong))[0] == 400
    status, told = await desk.post(f"{path}/resume", nothing)
    assert (status, told["id"]) == (201, run["id"])
    async with asyncio.timeout(10):
        while (await desk.get(path))[1]["pause"] is not None:
            pass
    assert (await desk.post(f"{path}/resume", nothing))[0] == 409
    desk.release.set()
    ended = await desk.ended(run["id"])
    assert (ended["status"], ended["pause"]) == ("finished", None)
    assert "They are sure." in desk.sessions[0].conversation.messages[-2].text


async def test_a_decision_that_comes_as_the_run_pauses_resumes_it(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog()
    desk = await open_desk(call("sure") + call("wait"), "Done.", "They are.", log=log)
    run = (await desk.begin())["id"]
    await desk.waiting.wait()

    async def decide(log: EventLog, run_id: str, given: Decided) -> str:
        desk.release.set()
        async with asyncio.timeout(10):
            while (await desk.get(f"api/runs/{run}"))[1]["status"] != "paused":
                pass
        return await decide_running(log, run_id, given)

    monkeypatch.setattr("rxworker.desk.run.decide_running", decide)
    given = {"decisions": {"background/call_1_1": {"type": "approve"}}}
    async with asyncio.timeout(10), desk.http.get(desk.url(f"api/runs/{run}/events")):
        while (await desk.get(f"api/runs/{run}"))[1]["pause"] is None:
            pass
    status, told = await desk.post(f"api/runs/{run}/resume", given)
    assert (status, told["resumes"]) == (201, run)
    assert (await desk.ended(told["id"]))["status"] == "finished"


async def test_a_message_is_sent_at_once_or_at_the_end_and_changed(open_desk: OpenDesk, server_kind: str) -> None:
    has_log = server_kind == "log"
    async with MemoryLog() as log:
        desk = await open_desk(say("Once") + stall(), "Yes.", "No.", log=log if has_log else None)
        path = f"api/runs/{(run := await desk.begin('go'))['id']}"
        assert (await desk.post(f"{path}/send", {"message": "e", "id": "e", "when": "end"}))[0] == 200
        assert (await desk.post(f"{path}/send", {"message": "n", "id": "n"}))[0] == 200
        bad: list[dict[str, Any]] = [{"id": "n"}, {"message": "x"}, {"id": "n", "message": "x", "when": "soon"}]
        for body in bad:
            assert (await desk.post(f"{path}/edit", body))[0] == 400, body
        assert (await desk.post(f"{path}/send", {"message": "x", "when": "soon"}))[0] == 400
        assert (await desk.post(f"{path}/edit", {"id": "none", "message": "x"}))[0] == (200 if has_log else 409)
        assert (await desk.post(f"{path}/edit", {"id": "e", "message": "E"}))[0] == 200
        assert (await desk.post(f"{path}/edit", {"id": "n", "message": "N", "when": "now"}))[0] == 200
        await desk.ended(run["id"])
        texts = [m.text for m in desk.sessions[0].conversation.messages]
        assert texts[-4:] == ["N", "Yes.", "E", "No."]


async def test_what_a_run_refuses_is_refused_over_http_in_the_same_words(open_desk: OpenDesk, server_kind: str) -> None:
    has_log = server_kind == "log"
    async with MemoryLog() as log:
        desk = await open_desk(call("wait"), "Done.", log=log if has_log else None)
        path = f"api/runs/{(run := await desk.begin())['id']}"
        await desk.waiting.wait()
        for empty in ("", " ", [{"type": "text", "text": ""}]):
            status, told = await desk.post(f"{path}/send", {"message": empty})
            assert status == 400
            assert "the input is empty: no provider answers that" in told["error"]["message"]
        refused: list[tuple[str, dict[str, Any]]] = [
            ("cancel", {"when": "after-turn"}),
            ("cancel", {"reason": 3}),
            ("pause", {"reason": 3}),
            ("send", {"message": [{"type": "tool_result", "tool_use_id": "z", "content": []}]}),
            ("send", {"message": [{"type": "tool_call", "id": "z", "name": "x", "input": {}}]}),
            ("send", {}),
        ]
        for door, body in refused:
            assert (await desk.post(f"{path}/{door}", body))[0] == 400, (door, body)
        if has_log:
            assert await log.sent(run["id"]) == []
        desk.release.set()
        assert (await desk.ended(run["id"]))["status"] == "finished"


async def test_a_run_is_paused_by_request_and_resumed(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.")
    run = await desk.begin()
    await desk.waiting.wait()
    status, _ = await desk.post(f"api/runs/{run['id']}/pause", {"reason": "lunch"})
    assert status == 200
    desk.release.set()
    paused = await desk.ended(run["id"])
    assert (paused["status"], paused["reason"], paused["pause"]["reason"]) == ("paused", "lunch", "lunch")
    status, resumed = await desk.post(f"api/runs/{run['id']}/resume", {"continue": True})
    assert (status, resumed["resumes"], resumed["title"]) == (201, run["id"], run["title"])
    assert resumed["id"] != run["id"]
    assert (await desk.ended(resumed["id"]))["status"] == "finished"
    before = (await desk.get(f"api/runs/{run['id']}"))[1]
    assert before["resumed_as"] == resumed["id"]


async def test_a_run_that_waits_for_a_tool_of_its_client_is_resumed_with_the_result_alone(open_desk: OpenDesk) -> None:
    """It would pause at the same call again."""
    desk = await open_desk(call("wait"), call("open_tab"), "Done.")
    run = await desk.begin()
    await desk.waiting.wait()
    open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"}))
    desk.workers[0].tools.add(open_tab)
    desk.release.set()
    assert (await desk.ended(run["id"]))["status"] == "paused"
    path = f"api/runs/{run['id']}/resume"
    status, told = await desk.post(path, {"continue": True})
    assert status == 400
    assert "until its client runs open_tab" in told["error"]["message"]
    status, resumed = await desk.post(path, {"decisions": [{"type": "answer", "content": "It is open."}]})
    assert status == 201
    assert (await desk.ended(resumed["id"]))["status"] == "finished"


async def test_a_call_that_waits_is_shown_and_approved_with_other_arguments(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a.txt"), "Done.")
    run = await desk.begin()
    paused = await desk.ended(run["id"])
    pause = paused["pause"]
    assert (pause["hook"], pause["reason"]) == ("permit", "Deleting cannot be undone.")
    [pending] = pause["pending"]
    assert (pending["name"], pending["input"]) == ("delete", {"path": "a.txt"})
    assert pause["paused_at"] == pending["id"]
    decisions = {pending["id"]: {"type": "approve", "input": {"path": "b.txt"}}}
    _, resumed = await desk.post(f"api/runs/{run['id']}/resume", {"decisions": decisions})
    assert (await desk.ended(resumed["id"]))["status"] == "finished"
    assert desk.deleted == ["b.txt"]


async def test_a_call_that_waits_is_denied_or_answered(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a.txt"), "Kept.", call("delete", path="b.txt"), "Kept too.")
    first = await desk.begin()
    pending = (await desk.ended(first["id"]))["pause"]["pending"]
    decisions = {pending[0]["id"]: {"type": "deny", "reason": "Not that one."}}
    _, denied = await desk.post(f"api/runs/{first['id']}/resume", {"decisions": decisions})
    await desk.ended(denied["id"])
    second = await desk.begin("b", conversation=first["conversation"])
    pending = (await desk.ended(second["id"]))["pause"]["pending"]
    decisions = {pending[0]["id"]: {"type": "answer", "content": "It is gone already."}}
    _, answered = await desk.post(f"api/runs/{second['id']}/resume", {"decisions": decisions})
    await desk.ended(answered["id"])
    told = [r.content for m in desk.sessions[0].conversation.messages for r in m.tool_results]
    assert told == ["Not that one.", "It is gone already."]
    assert desk.deleted == []


async def test_a_tool_that_is_always_allowed_pauses_no_run_of_its_conversation_until_that_is_revoked(
    open_desk: OpenDesk,
) -> None:
    asked = [call("delete", path=path) for path in "abcd"]
    desk = await open_desk(asked[0], asked[1], "Done.", asked[2], "Done.", asked[3])
    run = await desk.ended((await desk.begin())["id"])
    assert run["allowed"] == []
    at, path = run["pause"]["paused_at"], f"api/runs/{run['id']}/resume"
    decisions = {at: {"type": "approve", "always": True}}
    status, resumed = await desk.post(path, {"decisions": decisions})
    allowed = {"tool": "delete", "hook": "permit"}
    assert (status, resumed["allowed"]) == (201, [allowed])
    # A decision that comes too late changes nothing, and what is allowed already is listed once.
    assert (await desk.post(path, {"decisions": decisions}))[0] == 409
    assert (await desk.ended(resumed["id"]))["status"] == "finished"
    assert desk.deleted == ["a", "b"]
    again = {"conversation": run["conversation"]}
    assert (await desk.ended((await desk.begin(**again))["id"]))["status"] == "finished"
    assert desk.deleted == ["a", "b", "c"]
    forget = f"api/conversations/{run['conversation']}/disallow"
    assert await desk.post(forget, allowed) == (200, {"allowed": []})
    assert (await desk.get(f"api/runs/{run['id']}"))[1]["allowed"] == []
    for address, body, code in [
        (forget, allowed, 404),
        (forget, {"tool": 1}, 400),
        ("api/conversations/x/disallow", allowed, 404),
    ]:
        assert (await desk.post(address, body))[0] == code
    assert (await desk.ended((await desk.begin(**again))["id"]))["status"] == "paused"
    assert desk.deleted == ["a", "b", "c"]


async def test_only_the_call_that_a_run_paused_at_is_allowed_always(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a") + call("delete", path="b"), "Done.")
    run = await desk.ended((await desk.begin())["id"])
    first, second = (each["id"] for each in run["pause"]["pending"])
    always = {"type": "approve", "always": True}
    for decisions in [{second: always}, {first: always, second: always}, {"x": always}]:
        status, told = await desk.post(f"api/runs/{run['id']}/resume", {"decisions": decisions})
        assert (status, told["error"]["code"]) == (400, "bad_decision")
    wrong = {first: always, "x": {"type": "deny"}}
    assert (await desk.post(f"api/runs/{run['id']}/resume", {"decisions": wrong}))[0] >= 400
    kept = (await desk.get(f"api/runs/{run['id']}"))[1]
    assert (kept["status"], kept["allowed"], desk.deleted) == ("paused", [], [])


async def test_a_paused_run_is_resumed_once_and_only_by_valid_decisions(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a.txt"), "Done.")
    run = await desk.begin()
    await desk.ended(run["id"])
    path = f"api/runs/{run['id']}/resume"
    status, told = await desk.post(path, {"decisions": {"call_9": {"type": "approve"}}})
    assert (status, "call_9" in told["error"]["message"]) == (400, True)
    assert (await desk.post(path, {"decisions": {"call_9": {"type": "maybe"}}}))[0] == 400
    body = {"decisions": [{"type": "approve"}]}
    statuses = [(await desk.post(path, body))[0] for _ in range(3)]
    assert sorted(statuses) == [201, 409, 409]
    await desk.ended((await desk.get("api/runs"))[1]["runs"][0]["id"])
    assert desk.deleted == ["a.txt"]


async def test_a_run_is_cancelled_now(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = await desk.begin()
    status, told = await desk.post(f"api/runs/{run['id']}/cancel", {"reason": "enough"})
    assert (status, told["status"], told["cause"]) == (200, "aborted", "cancel")
    assert "enough" in told["reason"]
    status, told = await desk.post(f"api/runs/{run['id']}/resume")
    assert (status, told["error"]["code"]) == (409, "not_paused")


async def test_a_run_is_cancelled_after_its_turn(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Never said.")
    run = await desk.begin()
    await desk.waiting.wait()
    status, told = await desk.post(f"api/runs/{run['id']}/cancel", {"when": "after_turn"})
    assert (status, told["status"]) == (200, "running")
    desk.release.set()
    ended = await desk.ended(run["id"])
    assert (ended["status"], ended["tool_calls"]) == ("aborted", 1)


async def test_a_run_costs_what_its_prices_state(open_desk: OpenDesk) -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000)
    prices = {"scripted-1": Prices(input=3.0, output=15.0)}
    desk = await open_desk(say("dear", usage=usage), settings=Settings(prices=prices))
    run = await desk.begin()
    assert (await desk.ended(run["id"]))["cost"] == 4.5


async def test_the_page_has_the_prices_by_which_the_server_computes_costs(open_desk: OpenDesk) -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    desk = await open_desk(settings=Settings(prices={"scripted-1": Prices(input=9.0, output=9.0)}))

    def make_worker() -> Worker:
        model = ScriptedModel([say("dear", usage=usage)], model="scripted-1")
        return Worker(model, limits=Limits(prices=Prices(input=3.0, output=1.0)))

    workers = desk.server.state.workers
    workers._makers["worker"], workers._infos = make_worker, {}
    run = await desk.begin()
    assert (await desk.ended(run["id"]))["cost"] == 3.0
    status, info = await desk.get("api/info")
    assert (status, info["prices"]["scripted-1"]["input"]) == (200, 3.0)


async def test_each_model_of_a_run_has_its_own_prices(open_desk: OpenDesk) -> None:
    usage = Reply(usage=Usage(input_tokens=1_000_000))
    prices = {"scripted-1": Prices(input=3.0, output=1.0), "large": Prices(input=10.0, output=1.0)}
    replies = [call("think", task="?") + usage, say("Done.") + usage]
    desk = await open_desk(*replies, settings=Settings(prices=prices))
    made = desk.make_worker

    def make_worker() -> Worker:
        def make_thinker() -> Worker:
            return Worker(ScriptedModel([say("Hm.") + usage], model="large"))

        worker = made()
        worker.tools.add(worker_tool(make_thinker, name="think", description="Think."))
        return worker

    desk.server.state.workers._makers["worker"] = make_worker
    run = await desk.begin()
    assert (await desk.ended(run["id"]))["cost"] == 16.0


@pytest.mark.unlogged
async def test_the_oldest_runs_are_forgotten_and_with_the_last_its_conversation(open_desk: OpenDesk) -> None:
    desk = await open_desk(always="ok", settings=Settings(max_kept=2))
    runs = [await desk.begin(str(n)) for n in range(4)]
    for run in runs[2:]:
        await desk.ended(run["id"])
    listed = (await desk.get("api/runs"))[1]["runs"]
    assert [one["title"] for one in listed] == ["3", "2"]
    status, _ = await desk.post("api/runs", {"input": "a", "conversation": runs[0]["conversation"]})
    assert status == 404


async def test_a_run_that_waits_for_a_person_outlives_finished_ones(open_desk: OpenDesk) -> None:
    replies = iter([call("delete", path="a"), say("ok"), say("ok")])

    def answer(_: Request) -> Reply:
        return next(replies)

    desk = await open_desk(script=answer, settings=Settings(max_kept=1))
    paused = await desk.begin("paused")
    await desk.ended(paused["id"])
    for n in range(2):
        run = await desk.begin(str(n))
        await asyncio.wait_for(desk.ended(run["id"]), 60)
    assert [one["title"] for one in (await desk.get("api/runs"))[1]["runs"]] == ["1", "paused"]


async def test_runs_that_wait_for_a_person_do_not_push_out_what_has_just_ended(open_desk: OpenDesk) -> None:
    def answer(request: Request) -> Reply:
        text = request.conversation.messages[-1].text
        return call("delete", path="a") if text == "paused" else say("ok")

    desk = await open_desk(script=answer, settings=Settings(max_kept=2))
    for _ in range(3):
        await desk.ended((await desk.begin("paused"))["id"])
    ended = await desk.begin("one")
    assert (await desk.ended(ended["id"]))["status"] == "finished"
    for _ in range(2):  # what is kept stays when others come
        await desk.ended((await desk.begin("paused"))["id"])
        assert (await desk.get(f"api/runs/{ended['id']}"))[0] == 200
    following = await desk.begin("two", conversation=ended["conversation"])
    assert (await desk.ended(following["id"]))["status"] == "finished"
    body = {"model": "worker", "input": "three", "previous_response_id": following["id"]}
    status, answered = await desk.post("v1/responses", body)
    assert (status, answered.get("status")) == (200, "completed")
    titles = [one["title"] for one in (await desk.get("api/runs"))[1]["runs"]]
    assert titles[:2] == ["three", "two"]


async def test_a_run_without_watchers_ends_where_that_is_set(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall(), settings=Settings(grace=0.01))
    async with desk.socket() as socket:
        await socket.send_json({"type": "list"})
        await desk.begin()
        while True:
            message = await socket.receive_json()
            if message["type"] == "runs" and message["runs"]:
                run = message["runs"][0]
                if run["status"] == "aborted":
                    break
    assert "it had no watcher" in run["reason"]


async def test_a_run_that_fails_gives_the_reason(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("half") + fail("too much \ud83d", "invalid_request"))
    run = await desk.begin()
    ended = await desk.ended(run["id"])
    assert (ended["status"], ended["cause"]) == ("aborted", "error")
    assert "too much \ufffd" in ended["reason"]


async def test_a_paused_run_that_is_cancelled_waits_no_longer(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), "Bye.")
    run = await desk.begin()
    assert (await desk.ended(run["id"]))["status"] == "paused"
    status, told = await desk.post(f"api/runs/{run['id']}/cancel", {"reason": "too late"})
    assert (status, told["status"], told["cause"]) == (200, "aborted", "cancel")
    assert (told["pause"], "too late" in told["reason"]) == (None, True)
    assert (await desk.get("api/runs"))[1]["runs"] == [told]
    end = (await desk.frames(f"api/runs/{run['id']}/events"))[-1]
    assert json.loads(end["data"]) == {"status": "aborted", "reason": told["reason"]}
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": run["id"]})
        while (message := await socket.receive_json())["type"] != "end":
            pass
        assert (message["status"], message["reason"]) == ("aborted", told["reason"])
    status, told = await desk.post(f"api/runs/{run['id']}/resume", {})
    assert (status, told["error"]["code"]) == (409, "not_paused")
    again = await desk.begin("bye", conversation=run["conversation"])
    assert (await desk.ended(again["id"]))["status"] == "finished"
    assert desk.deleted == []


async def test_a_paused_run_that_was_resumed_takes_nothing_and_names_the_one_that_does(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), call("wait"), "Bye.")
    run = await desk.begin()
    await desk.ended(run["id"])
    body = {"decisions": [{"type": "approve"}]}
    _, resumed = await desk.post(f"api/runs/{run['id']}/resume", body)
    status, told = await desk.post(f"api/runs/{run['id']}/cancel")
    assert (status, told["error"]["code"]) == (409, "resumed")
    assert resumed["id"] in told["error"]["message"]
    status, told = await desk.post(f"api/runs/{run['id']}/send", {"message": "And?"})
    assert (status, told["error"]["code"]) == (409, "resumed")
    assert f"resumed as {resumed['id']}: send the message to that one" in told["error"]["message"]
    desk.release.set()
    assert (await desk.ended(resumed["id"]))["status"] == "finished"
