"""The clients of other protocols: what they post, and what they come back to."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from reactivex import operators as ops

from rxworker.errors import RunCancelledError
from rxworker.providers import Request
from rxworker.testing import Reply, call, say, stall
from rxworker.ui.web import Settings
from rxworker.ui.web.agents import RUN_HEADER

from .conftest import Desk, OpenDesk

Body = dict[str, Any]


def said(text: str, name: str = "1", role: str = "user") -> Body:
    """A message as ``useChat`` sends it."""
    return {"id": name, "role": role, "parts": [{"type": "text", "text": text}]}


def ag_ui(*texts: str, thread: str = "t-1", run_id: str = "r-1", **more: Any) -> Body:
    """What an AG-UI client posts: user and assistant take turns."""
    roles = ("user", "assistant")
    messages = [{"id": str(n), "role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {
        "threadId": thread,
        "runId": run_id,
        "messages": messages,
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **more,
    }


async def stream(desk: Desk, method: str, path: str, body: Body | None = None) -> list[Any]:
    """The events of an answer; each but the last of a UI Message Stream is JSON."""
    async with desk.http.request(method, desk.url(path), json=body) as response:
        text = await response.text()
        assert response.status == 200, text
        assert response.content_type == "text/event-stream"
    lines = [line[6:] for line in text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


def types(events: list[Any]) -> list[str]:
    return [event if isinstance(event, str) else event["type"] for event in events]


def text_of(events: list[Any]) -> str:
    return "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")


async def test_an_ag_ui_client_begins_a_run_and_watches_it(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!", "And again.")
    events = await stream(desk, "POST", "ag-ui", ag_ui("hi"))
    assert types(events)[0] == "RUN_STARTED"
    assert (events[0]["threadId"], events[0]["runId"]) == ("t-1", "r-1")
    assert types(events)[-1] == "RUN_FINISHED"
    assert text_of(events) == "Hello!"
    again = await stream(desk, "POST", "ag-ui", ag_ui("hi", "Hello!", "again", run="r-2"))
    assert text_of(again) == "And again."
    assert len(desk.workers) == 1
    heard = [m.text for m in desk.sessions[0].conversation.messages]
    assert heard == ["hi", "Hello!", "again", "And again."]
    [run, _] = (await desk.get("api/runs"))[1]["runs"]
    assert (run["conversation"], run["title"]) == ("t-1", "again")


async def test_a_conversation_that_is_not_known_begins_with_the_messages_of_the_client(open_desk: OpenDesk) -> None:
    desk = await open_desk("Paris.")
    await stream(desk, "POST", "ag-ui", ag_ui("My name is Ada.", "Hi Ada.", "Who am I?"))
    heard = [m.text for m in desk.sessions[0].conversation.messages]
    assert heard == ["My name is Ada.", "Hi Ada.", "Who am I?", "Paris."]


async def test_a_run_is_watched_in_ag_ui_by_a_later_client(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!")
    run = await desk.begin("hi")
    await desk.ended(run["id"])
    events = await stream(desk, "GET", f"api/runs/{run['id']}/ag-ui")
    assert types(events)[0] == "RUN_STARTED"
    assert "MESSAGES_SNAPSHOT" in types(events)
    assert text_of(events) == "Hello!"
    assert (await desk.get("api/runs/run-0/ag-ui"))[0] == 404


async def test_an_ag_ui_client_approves_a_call_with_other_arguments(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), "Done.")
    events = await stream(desk, "POST", "ag-ui", ag_ui("delete", protocolVersion="1.0"))
    [interrupt] = events[-1]["outcome"]["interrupts"]
    answer = {
        "interruptId": interrupt["id"],
        "status": "resolved",
        "payload": {"approved": True, "editedArgs": {"path": "b"}},
    }
    body = ag_ui("delete", run="r-2", protocolVersion="1.0", resume=[answer])
    body["messages"] = []
    events = await stream(desk, "POST", "ag-ui", body)
    assert text_of(events) == "Done."
    assert desk.deleted == ["b"]
    status, told = await desk.post("ag-ui", body)
    assert (status, told["error"]["code"]) == (409, "conflict")
    # To a client of the protocol, which shows it to a person.
    status, told = await desk.post("ag-ui", body, headers={"Accept": "text/event-stream"})
    assert (status, "was resumed already" in told, "{" in told) == (409, True, False)


async def test_an_ag_ui_client_answers_what_waits_in_the_background(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("sure"), "I wait.", "They are.")
    events = await stream(desk, "POST", "ag-ui", ag_ui("go", protocolVersion="1.0"))
    assert text_of(events) == "I wait."
    [interrupt] = events[-1]["outcome"]["interrupts"]
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    body = ag_ui("go", run="r-2", protocolVersion="1.0", resume=[answer])
    body["messages"] = []
    assert text_of(await stream(desk, "POST", "ag-ui", body)).endswith("They are sure.They are.")


async def test_a_chat_answers_what_waits_in_the_background(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("sure"), "I wait.", "They are.")
    parts = await stream(desk, "POST", "api/chat", {"id": "c", "messages": [said("go")]})
    assert "tool-approval-request" in types(parts)
    _, history = await desk.get("api/chat/c/messages")
    [part] = [each for each in history[-1]["parts"] if each.get("state") == "approval-requested"]
    part.update(state="approval-responded", approval={**part["approval"], "approved": True})
    parts = await stream(desk, "POST", "api/chat", {"id": "c", "messages": history})
    assert [each["delta"] for each in parts if "delta" in each][-1] == "They are."


async def test_a_chat_begins_goes_on_and_is_done(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!", "Bye!")
    body = {"id": "c-1", "messages": [said("hi")], "trigger": "submit-message"}
    async with desk.http.post(desk.url("api/chat"), json=body) as response:
        assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
        run = response.headers[RUN_HEADER]
        assert (await response.text()).endswith("data: [DONE]\n\n")
    assert (await desk.get(f"api/runs/{run}"))[1]["conversation"] == "c-1"
    messages = [said("hi"), said("Hello!", "2", "assistant"), said("bye", "3")]
    parts = await stream(desk, "POST", "api/chat", {"id": "c-1", "messages": messages})
    assert types(parts)[0] == "start"
    assert types(parts)[-2:] == ["finish", "[DONE]"]
    heard = [m.text for m in desk.sessions[0].conversation.messages]
    assert heard == ["hi", "Hello!", "bye", "Bye!"]


async def test_a_chat_is_come_back_to_while_it_is_on(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("Let me see.") + call("wait"), "Done.")
    assert await desk.get("api/chat/c-1/stream") == (204, "")
    body = {"id": "c-1", "messages": [said("hi")]}
    response = await desk.http.post(desk.url("api/chat"), json=body)
    await desk.waiting.wait()
    response.close()
    again = await desk.http.get(desk.url("api/chat/c-1/stream"))
    desk.release.set()
    text = await again.text()
    assert '"type":"start"' in text
    assert "Let me " in text
    assert text.endswith("data: [DONE]\n\n")
    assert await desk.get("api/chat/c-1/stream") == (204, "")


async def test_an_answer_is_given_again_from_where_it_was_requested(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two", "three")
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": [said("a")]})
    messages = [said("a"), said("one", "2", "assistant"), said("b", "3")]
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": messages})
    body = {"id": "c", "messages": messages, "trigger": "regenerate-message", "messageId": "4"}
    await stream(desk, "POST", "api/chat", body)
    heard = [m.text for m in desk.sessions[0].conversation.messages]
    assert heard == ["a", "one", "b", "three"]


async def test_a_message_that_was_edited_takes_the_place_of_what_came_after(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two", "three")
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": [said("a")]})
    messages = [said("a"), said("one", "2", "assistant"), said("b", "3")]
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": messages})
    edited = [said("A")]
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": edited, "messageId": "1"})
    assert [m.text for m in desk.sessions[0].conversation.messages] == ["A", "three"]


@pytest.mark.parametrize("path", ["ag-ui", "api/chat"])
async def test_what_cannot_be_read_or_is_empty_is_refused(open_desk: OpenDesk, path: str) -> None:
    desk = await open_desk("one")
    nothing: list[Body] = [
        {},
        ag_ui(),
        {"id": "c", "messages": []},
        {"id": "", "messages": [said("a")]},
        {"id": "c" * 1000, "messages": [said("a")]},
        ag_ui("a", thread="t" * 1000),
    ]
    for body in nothing:
        assert (await desk.post(path, body))[0] == 400, body
    text = {"Content-Type": "text/plain"}
    assert (await desk.post(path, data=b"{}", headers=text))[0] == 415
    evil = {"Origin": "http://evil.com"}
    assert (await desk.post(path, ag_ui("a"), headers=evil))[0] == 403


async def test_a_busy_conversation_and_a_full_server_are_reported(open_desk: OpenDesk) -> None:
    desk = await open_desk(always=say("...") + stall(), settings=Settings(max_runs=2))
    body = {"id": "c", "messages": [said("a")]}
    first = await desk.http.post(desk.url("api/chat"), json=body)
    status, told = await desk.post("api/chat", body)
    assert status == 409
    assert "is running: wait for its answer" in told
    assert "{" not in told
    other = await desk.http.post(desk.url("ag-ui"), json=ag_ui("a"))
    assert (await desk.post("ag-ui", ag_ui("a", thread="t-2")))[0] == 429
    first.close()
    other.close()


async def ended(desk: Desk, run: int = 0) -> str:
    """The cause of the end of a run, when it has ended; the newest is the first."""
    entry = list(desk.server.state.runs)[run]
    assert entry.here is not None
    with suppress(RunCancelledError):
        await entry.here
    return entry.here.state.reason


@pytest.mark.parametrize("path", ["ag-ui", "api/chat"])
async def test_a_run_whose_client_has_closed_its_connection_is_cancelled(open_desk: OpenDesk, path: str) -> None:
    settings = Settings(cancel_on_disconnect=0.0)
    desk = await open_desk(always=say("...") + stall(), settings=settings)
    body = ag_ui("a") if path == "ag-ui" else {"id": "c", "messages": [said("a")]}
    response = await desk.http.post(desk.url(path), json=body)
    response.close()
    assert "its client has stopped it" in await ended(desk)


@pytest.mark.parametrize("path", ["ag-ui", "api/chat"])
async def test_a_run_goes_on_without_its_client_where_it_is_set(open_desk: OpenDesk, path: str) -> None:
    settings = Settings(cancel_on_disconnect=None)
    desk = await open_desk(call("wait"), "Done.", settings=settings)
    body = ag_ui("a", thread="c") if path == "ag-ui" else {"id": "c", "messages": [said("a")]}
    response = await desk.http.post(desk.url(path), json=body)
    await desk.waiting.wait()
    response.close()
    await unwatched(desk)
    assert (await desk.post(path, body))[0] == 409
    desk.release.set()
    assert await ended(desk) == ""


async def unwatched(desk: Desk) -> None:
    """Until nobody watches the newest run."""

    def are_none(watchers: tuple[object, ...]) -> bool:
        return not watchers

    entry = next(iter(desk.server.state.runs))
    await entry.run.watchers.pipe(ops.filter(are_none), ops.first())


async def test_a_message_after_a_stop_takes_the_place_of_what_is_on(open_desk: OpenDesk) -> None:
    settings = Settings(cancel_on_disconnect=3600.0)
    desk = await open_desk(call("wait"), "Hello again.", settings=settings)
    body = {"id": "c", "messages": [said("a")]}
    response = await desk.http.post(desk.url("api/chat"), json=body)
    await desk.waiting.wait()
    response.close()
    parts = await stream(desk, "POST", "api/chat", {"id": "c", "messages": [said("b", "2")]})
    assert "".join(p["delta"] for p in parts[:-1] if p["type"] == "text-delta") == "Hello again."
    assert "its client has stopped it" in await ended(desk, 1)


async def test_what_was_not_answered_is_not_taken_up_twice(open_desk: OpenDesk) -> None:
    """A client that got nothing of an answer sends what it was to answer again, before the next message."""
    heard: list[list[str]] = []

    def script(request: Request) -> Reply:
        heard.append([m.text for m in request.conversation.messages if m.text and m.role == "user"])
        return say("Hello.") if len(heard) > 2 else call("wait")

    desk = await open_desk(script=script, settings=Settings(cancel_on_disconnect=0.0))
    messages: list[Body] = []
    for number, text in enumerate(("a", "b", "c")):
        messages.append(said(text, str(number)))
        desk.waiting.clear()
        body = {"id": "c", "messages": messages}
        response = await desk.http.post(desk.url("api/chat"), json=body)
        if text == "c":
            await response.read()
        else:
            await desk.waiting.wait()
            response.close()
    assert heard == [["a"], ["a", "b"], ["a", "b", "c"]]
    _, history = await desk.get("api/chat/c/messages")
    assert [text for role, text in shown(history) if role == "user"] == ["a", "b", "c"]
    # What is the same as before is new where it follows an answer.
    messages += [said("Hello.", "4", "assistant"), said("c", "5")]
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": messages})
    assert heard[-1] == ["a", "b", "c", "c"]


async def test_a_chat_that_resumes_is_not_stopped_by_a_reload(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.", settings=Settings(cancel_on_disconnect=0.0))
    # A page with ``resume: true`` asks when it is opened.
    assert (await desk.get("api/chat/c/stream"))[0] == 204
    body = {"id": "c", "messages": [said("a")]}
    response = await desk.http.post(desk.url("api/chat"), json=body)
    await desk.waiting.wait()
    response.close()
    await unwatched(desk)
    again = await desk.http.get(desk.url("api/chat/c/stream"))
    desk.release.set()
    assert '"delta":"Done."' in await again.text()


async def test_a_chat_that_resumes_is_stopped_at_an_address(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"))
    body = {"id": "c", "messages": [said("a")]}
    assert (await desk.get("api/chat/c/stream"))[0] == 204
    response = await desk.http.post(desk.url("api/chat"), json=body)
    await desk.waiting.wait()
    for _ in range(2):  # the second finds nothing to stop
        assert await desk.post("api/chat/c/stop") == (204, None)
    assert "its client has stopped it" in await ended(desk)
    assert '"type":"abort"' in await response.text()


async def test_a_run_that_a_chat_only_looks_at_does_not_end_with_it(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.", settings=Settings(cancel_on_disconnect=0.0))
    run = await desk.begin("hi")
    await desk.waiting.wait()
    for path in (f"api/chat/{run['conversation']}/stream", f"api/runs/{run['id']}/ag-ui"):
        response = await desk.http.get(desk.url(path))
        response.close()
        await unwatched(desk)
    desk.release.set()
    assert await ended(desk) == ""


def shown(messages: list[Body]) -> list[tuple[str, str]]:
    return [(m["role"], "".join(p.get("text", "") for p in m["parts"])) for m in messages]


async def test_the_history_of_a_chat_is_served_while_it_is_on_and_afterwards(open_desk: OpenDesk) -> None:
    desk = await open_desk("One.", say("Let me see.") + call("wait"), "Two.")
    assert await desk.get("api/chat/c/messages") == (200, [])
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": [said("a")]})
    messages = [said("a"), said("One.", "2", "assistant"), said("b", "3")]
    body = {"id": "c", "messages": messages}
    response = await desk.http.post(desk.url("api/chat"), json=body)
    await desk.waiting.wait()
    _, history = await desk.get("api/chat/c/messages")
    before = [("user", "a"), ("assistant", "One."), ("user", "b")]
    assert shown(history) == before
    desk.release.set()
    await response.read()
    _, history = await desk.get("api/chat/c/messages")
    assert shown(history) == [*before, ("assistant", "Let me see.Two.")]
    kinds = [part["type"] for part in history[-1]["parts"]]
    assert kinds == ["step-start", "text", "tool-wait", "step-start", "text"]
    assert history[-1]["parts"][2]["output"] == "waited 0"
    assert len({message["id"] for message in history}) == 4


async def test_an_answer_that_ends_between_the_history_and_its_stream_is_streamed(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("Let me see.") + call("wait"), "Done.")
    response = await desk.http.post(desk.url("api/chat"), json={"id": "c", "messages": [said("a")]})
    await desk.waiting.wait()
    _, history = await desk.get("api/chat/c/messages")
    assert shown(history) == [("user", "a")]
    desk.release.set()
    await response.read()
    parts = await stream(desk, "GET", "api/chat/c/stream")
    assert "".join(p["delta"] for p in parts[:-1] if p["type"] == "text-delta") == "Let me see.Done."
    # Once: a client that has all of it would show it twice.
    assert (await desk.get("api/chat/c/stream"))[0] == 204
    _, history = await desk.get("api/chat/c/messages")
    assert shown(history) == [("user", "a"), ("assistant", "Let me see.Done.")]
    assert (await desk.get("api/chat/c/stream"))[0] == 204


async def test_the_history_holds_an_open_approval_until_it_is_answered_or_cancelled(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"), call("delete", path="b"), "Done.")
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": [said("a")]})
    _, history = await desk.get("api/chat/c/messages")
    part = history[-1]["parts"][-1]
    run = next(iter(desk.server.state.runs)).id
    assert (part["state"], part["input"]) == ("approval-requested", {"path": "a"})
    assert part["approval"]["id"] == f"{run}:{part['toolCallId']}"
    answered = {**part, "state": "approval-responded"}
    answered["approval"] = {**part["approval"], "approved": True}
    history[-1]["parts"][-1] = answered
    await stream(desk, "POST", "api/chat", {"id": "c", "messages": history})
    assert desk.deleted == ["a"]
    _, history = await desk.get("api/chat/c/messages")
    states = [p["state"] for p in history[-1]["parts"] if p["type"] == "tool-delete"]
    assert states == ["output-available", "approval-requested"]
    run = next(iter(desk.server.state.runs)).id
    await desk.post(f"api/runs/{run}/cancel")
    _, history = await desk.get("api/chat/c/messages")
    states = [p["state"] for p in history[-1]["parts"] if p["type"] == "tool-delete"]
    assert states == ["output-available", "output-error"]
