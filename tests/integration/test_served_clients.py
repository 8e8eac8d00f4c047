"""The official clients of AG-UI and of useChat carry on conversations with the web server itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from reactivex import operators as ops

from rxworker import Run, Worker, after_tool_call, before_tool_call, tool
from rxworker.errors import RunCancelledError
from rxworker.events import Record, TextDelta
from rxworker.hooks import Finish, Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.hooks.base import AnyHook
from rxworker.hooks.points import BeforeToolCallVerdict
from rxworker.testing import Reply, ScriptedModel, call, fail, say, think
from rxworker.transport import Retry
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.runs.entry import RunEntry
from tests.integration.test_native_clients import line_to

if TYPE_CHECKING:
    from conftest import Clients

OLDER, NEWER = "@ag-ui/client-older", "@ag-ui/client"
TOKEN = "a-very-secret-token-0123456789"
Told = dict[str, Any]
both = pytest.mark.parametrize("client", [NEWER, OLDER])
names = map("client-{}".format, count())


class Desk:
    """A server whose worker calls tools that wait for the test.

    Attributes:
        gate: Lets the tool ``wait`` return.
        waiting: Set while it waits.
        removed: What the tool ``remove`` was called with.
        workers: The workers that were made.
    """

    def __init__(
        self, *replies: Reply | str, token: str | None = None, grace: float = 3600.0, hooks: Sequence[AnyHook] = ()
    ) -> None:
        self.gate = asyncio.Event()
        self.waiting = asyncio.Event()
        self.removed: list[str] = []
        self.workers: list[Worker] = []
        self._replies = replies
        self._hooks = hooks
        settings = Settings(token=token, max_runs=2, cancel_on_disconnect=grace)
        self.server = WebServer(self._make, port=0, settings=settings)

    def _make(self) -> Worker:
        @tool
        async def wait() -> str:
            """Wait for the test."""
            self.waiting.set()
            await self.gate.wait()
            return "waited"

        @tool(requires_approval=True)
        async def remove(path: str) -> str:
            """Remove a file."""
            self.removed.append(path)
            return f"{path} is gone"

        model = ScriptedModel(list(self._replies))
        self.workers.append(Worker(model, tools=[wait, remove], response_retry=Retry(retries=0), hooks=self._hooks))
        return self.workers[-1]

    def url(self, path: str) -> str:
        return self.server.url + path

    @property
    def runs(self) -> list[RunEntry]:
        """The runs, the newest first."""
        return list(self.server.state.runs)

    def heard(self) -> list[str]:
        """The texts of the messages of the first conversation."""
        session = self.runs[-1].conversation.session
        return [message.text for message in session.conversation.messages if message.text]


@asynccontextmanager
async def desk_of(
    *replies: Reply | str, token: str | None = None, grace: float = 3600.0, hooks: Sequence[AnyHook] = ()
) -> AsyncGenerator[Desk, None]:
    desk = Desk(*replies, token=token, grace=grace, hooks=hooks)
    async with desk.server:
        yield desk


class Client:
    """A client that is known by its name in the process of the clients."""

    def __init__(self, clients: Clients, kind: str) -> None:
        self._clients = clients
        self._kind = kind
        self.name = next(names)

    async def make(self, address: str, **given: Any) -> Client:
        await self._clients.ask(self._kind, name=self.name, address=address, **given)
        return self

    async def run(self, **given: Any) -> Told:
        return await self._clients.ask("agent_run", name=self.name, **given)

    async def leave(self) -> None:
        await self._clients.ask("agent_leave", name=self.name)

    async def do(self, what: str, given: Any = None) -> Told:
        more = {} if given is None else {"given": given}
        return await self._clients.ask("chat_do", name=self.name, what=what, **more)

    async def until(self, text: str | None = None) -> Told:
        """What the chat shows when it shows this text, or has nothing under way."""
        more = {} if text is None else {"text": text}
        return await self._clients.ask("chat_until", name=self.name, **more)


async def agent(clients: Clients, client: str, address: str, **given: Any) -> Client:
    return await Client(clients, "agent").make(address, client=client, **given)


async def chat(clients: Clients, address: str, **given: Any) -> Client:
    return await Client(clients, "chat").make(address, **given)


def said(told: Told, role: str = "assistant") -> list[str]:
    """The texts that a client of AG-UI shows."""
    return [m["content"] for m in told["messages"] if m["role"] == role and m.get("content")]


def shown(told: Told) -> list[str]:
    """The texts that a chat shows, of each message."""
    return ["".join(p.get("text", "") for p in m["parts"]) for m in told["messages"]]


def call_of(told: Told) -> Told:
    """The call that a chat shows last."""
    parts = [part for message in told["messages"] for part in message["parts"]]
    return [part for part in parts if part["type"].startswith("tool-")][-1]


def of(entry: RunEntry) -> Run[object]:
    """The run of an entry, which this process runs."""
    assert entry.here is not None
    return entry.here


async def first_text(entry: RunEntry) -> None:
    """Until the model has said something."""

    def is_text(record: Record) -> bool:
        return isinstance(record.event, TextDelta)

    await entry.run.records.pipe(ops.filter(is_text), ops.first())


async def while_it_waits(desk: Desk, act: Callable[[], Awaitable[object]]) -> None:
    await desk.waiting.wait()
    await act()


# AG-UI


@both
async def test_an_agent_carries_on_a_conversation_of_two_turns_with_a_tool(clients: Clients, client: str) -> None:
    async with desk_of(think("hm") + say("I wait. ") + call("wait"), "Done.", "Bye.") as desk:
        desk.gate.set()
        one = await agent(clients, client, desk.url("ag-ui"), threadId="t-1")
        first = await one.run(runId="r-1", say="go")
        assert (first["refused"], first["error"]) == (None, None)
        assert said(first) == ["I wait. ", "Done."]
        assert said(first, "tool") == ["waited"]
        second = await one.run(runId="r-2", say="bye")
        assert (second["refused"], second["error"]) == (None, None)
        assert said(second) == ["I wait. ", "Done.", "Bye."]
        assert said(second, "user") == ["go", "bye"]
        assert len({message["id"] for message in second["messages"]}) == len(second["messages"])
        # Nothing that the client sent back was taken for new.
        assert desk.heard() == ["go", "I wait. ", "Done.", "bye", "Bye."]
        assert [run.conversation.id for run in desk.runs] == ["t-1", "t-1"]


@both
async def test_an_agent_approves_a_call_with_other_arguments(clients: Clients, client: str) -> None:
    async with desk_of(say("May I?") + call("remove", path="a"), "Gone.", "Bye.") as desk:
        one = await agent(clients, client, desk.url("ag-ui"))
        asked = await one.run(runId="r-1", say="remove a")
        assert [(i["reason"], i["toolCallId"]) for i in asked["interrupts"]] == [("tool_call", "call_1_1")]
        answer = {"approved": True, "editedArgs": {"path": "b"}}
        told = await one.run(runId="r-2", answer=answer)
        assert (told["refused"], told["error"], told["interrupts"]) == (None, None, [])
        assert desk.removed == ["b"]
        assert said(told) == ["May I?", "Gone."]
        assert said(told, "tool") == ["b is gone"]
        assert said(await one.run(runId="r-3", say="bye")) == ["May I?", "Gone.", "Bye."]
        assert desk.heard() == ["remove a", "May I?", "Gone.", "bye", "Bye."]


@both
async def test_a_question_in_one_conversation_is_not_answered_from_another(clients: Clients, client: str) -> None:
    async with desk_of(call("remove", path="a"), "Gone.") as desk:
        one = await agent(clients, client, desk.url("ag-ui"), threadId="mine")
        asked = await one.run(runId="r-1", say="remove a")
        other = await agent(clients, client, desk.url("ag-ui"), threadId="theirs", pending=asked["interrupts"])
        told = await other.run(runId="r-2", answer={"approved": True})
        assert told["refused"] is not None
        assert desk.removed == []
        assert (await one.run(runId="r-2", answer={"approved": True}))["refused"] is None
        assert desk.removed == ["a"]


@both
async def test_an_agent_learns_that_its_run_was_cancelled(clients: Clients, client: str) -> None:
    async with desk_of(say("I wait. ") + call("wait")) as desk:
        one = await agent(clients, client, desk.url("ag-ui"))

        async def cancel() -> None:
            await desk.runs[0].run.cancel(reason="bored")

        told, _ = await asyncio.gather(one.run(say="go"), while_it_waits(desk, cancel))
        last = told["events"][-1]
        if client == NEWER:
            assert last["outcome"] == {"type": "cancelled"}
        else:
            assert (last["type"], last["code"]) == ("RUN_ERROR", "cancel")
        assert said(told) == ["I wait. "]


@both
async def test_an_agent_learns_that_its_run_has_failed_and_goes_on(clients: Clients, client: str) -> None:
    async with desk_of(say("half a sen") + fail("the machine is broken"), "Better.") as desk:
        one = await agent(clients, client, desk.url("ag-ui"))
        told = await one.run(say="go")
        assert "broken" in told["error"]["message"]
        told = await one.run(runId="r-2", say="again")
        assert (told["refused"], told["error"]) == (None, None)
        assert said(told)[-1] == "Better."


@both
async def test_an_agent_that_comes_late_sees_all_of_a_run_and_its_end(clients: Clients, client: str) -> None:
    async with desk_of("Hi.", say("I wait. ") + call("wait"), "Done.") as desk:
        first = desk.server.state.runs.start("hello")
        await of(first)
        entry = desk.server.state.runs.start("go", conversation=first.conversation.id)
        await desk.waiting.wait()
        query = "?protocol=1.0" if client == NEWER else ""
        address = desk.url(f"api/runs/{entry.id}/ag-ui{query}")
        one = await agent(clients, client, address, watch=True)

        async def let_go() -> None:
            await first_text(entry)
            desk.gate.set()

        told, _ = await asyncio.gather(one.run(), while_it_waits(desk, let_go))
        assert (told["refused"], told["error"]) == (None, None)
        assert said(told) == ["Hi.", "I wait. ", "Done."]
        assert said(told, "user") == ["hello", "go"]
        # Whoever comes when all is over sees the same.
        again = await (await agent(clients, client, address, watch=True)).run()
        assert again["messages"] == told["messages"]
        assert len(desk.runs) == 2


@both
async def test_an_agent_that_leaves_does_not_end_its_run(clients: Clients, client: str) -> None:
    async with desk_of(say("I wait. ") + call("wait"), "Done.") as desk:
        one = await agent(clients, client, desk.url("ag-ui"))
        _, told = await asyncio.gather(while_it_waits(desk, one.leave), one.run(say="go"))
        assert said(told) == ["I wait. "]
        [entry] = desk.runs
        assert not entry.run.done()
        desk.gate.set()
        assert (await of(entry)).text == "Done."


@both
async def test_an_agent_receives_what_was_wrong_with_its_request(clients: Clients, client: str) -> None:
    async with desk_of("Hi.", token=TOKEN) as desk:
        one = await agent(clients, client, desk.url("ag-ui"))
        told = await one.run(say="hi")
        assert "401" in told["refused"]
        assert TOKEN not in str(told)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        one = await agent(clients, client, desk.url("ag-ui"), headers=headers)
        told = await one.run()
        assert "400" in told["refused"]
        assert "send a message" in told["refused"]
        assert said(await one.run(say="hi")) == ["Hi."]


# useChat


async def test_a_chat_carries_on_a_conversation_of_two_turns_with_a_tool(clients: Clients) -> None:
    async with desk_of(think("hm") + say("I wait. ") + call("wait"), "Done.", "Bye.") as desk:
        desk.gate.set()
        one = await chat(clients, desk.url("api/chat"))
        await one.do("sendMessage", {"text": "go"})
        told = await one.do("sendMessage", {"text": "bye"})
        assert (told["status"], told["error"]) == ("ready", None)
        assert shown(told) == ["go", "hmI wait. Done.", "bye", "Bye."]
        tools = [p for p in told["messages"][1]["parts"] if p["type"] == "tool-wait"]
        assert [(p["state"], p["output"]) for p in tools] == [("output-available", "waited")]
        assert desk.heard() == ["go", "I wait. ", "Done.", "bye", "Bye."]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_chat_goes_on_by_itself_when_its_call_was_decided(clients: Clients, approved: bool) -> None:
    first = say("May I? ") + call("remove", path="a")
    async with desk_of(first, "So be it.", "Bye.") as desk:
        one = await chat(clients, desk.url("api/chat"), auto=True)
        told = await one.do("sendMessage", {"text": "remove a"})
        asked = call_of(told)
        assert asked["state"] == "approval-requested"
        answer = {"id": asked["approval"]["id"], "approved": approved, "reason": "as you like"}
        await one.do("addToolApprovalResponse", answer)
        told = await one.until()
        assert (told["status"], told["error"]) == ("ready", None)
        assert shown(told) == ["remove a", "May I? So be it."]
        state = "output-available" if approved else "output-denied"
        parts = [p for p in told["messages"][-1]["parts"] if p["type"] == "tool-remove"]
        assert [p["state"] for p in parts] == [state]
        assert desk.removed == (["a"] if approved else [])
        assert shown(await one.do("sendMessage", {"text": "bye"}))[2:] == ["bye", "Bye."]
        assert desk.heard() == ["remove a", "May I? ", "So be it.", "bye", "Bye."]


async def test_a_chat_has_an_answer_given_again(clients: Clients) -> None:
    async with desk_of("one", "two", "three", "four") as desk:
        one = await chat(clients, desk.url("api/chat"))
        await one.do("sendMessage", {"text": "a"})
        told = await one.do("sendMessage", {"text": "b"})
        assert shown(await one.do("regenerate")) == ["a", "one", "b", "three"]
        assert desk.heard() == ["a", "one", "b", "three"]
        again = {"messageId": told["messages"][1]["id"]}
        assert shown(await one.do("regenerate", again)) == ["a", "four"]
        assert desk.heard() == ["a", "four"]


async def test_a_chat_that_is_cut_comes_back_and_nothing_is_lost_or_doubled(clients: Clients) -> None:
    async with desk_of(think("hm") + say("I wait. ") + call("wait"), "Done.") as desk, line_to(desk.server.url) as line:
        one = await chat(clients, f"{line.url}api/chat")

        async def cut() -> None:
            await one.until("I wait.")
            line.cut()

        told, _ = await asyncio.gather(one.do("sendMessage", {"text": "go"}), while_it_waits(desk, cut))
        assert told["status"] == "error"
        assert shown(told) == ["go", "hmI wait. "]
        [entry] = desk.runs
        assert not entry.run.done()

        async def let_go() -> None:
            await until_watched(entry)
            desk.gate.set()

        told, _ = await asyncio.gather(one.do("resumeStream"), let_go())
        assert (told["status"], told["error"]) == ("ready", None)
        assert shown(told) == ["go", "hmI wait. Done."]
        kinds = [part["type"] for part in told["messages"][1]["parts"]]
        assert kinds.count("tool-wait") == 1
        assert len(desk.runs) == 1
        # Nothing is on any more: what is shown stays.
        assert (await one.do("resumeStream"))["messages"] == told["messages"]


async def test_a_chat_that_is_cut_after_an_approval_keeps_the_text_before_it(clients: Clients) -> None:
    first = say("May I? ") + call("remove", path="a")
    async with desk_of(first, say("I wait. ") + call("wait"), "Done.") as desk, line_to(desk.server.url) as line:
        one = await chat(clients, f"{line.url}api/chat", auto=True)
        told = await one.do("sendMessage", {"text": "remove a"})
        asked = call_of(told)

        async def cut() -> None:
            await one.until("I wait.")
            line.cut()

        answer = {"id": asked["approval"]["id"], "approved": True}
        await one.do("addToolApprovalResponse", answer)
        await while_it_waits(desk, cut)
        told = await one.until()
        assert told["status"] == "error"
        assert shown(told) == ["remove a", "May I? I wait. "]

        await until_watched(desk.runs[0], 0)  # by the connection that was cut

        async def let_go() -> None:
            await until_watched(desk.runs[0])
            desk.gate.set()

        told, _ = await asyncio.gather(one.do("resumeStream"), let_go())
        assert (told["status"], told["error"]) == ("ready", None)
        assert shown(told) == ["remove a", "May I? I wait. Done."]
        tools = [p for p in told["messages"][1]["parts"] if p["type"].startswith("tool-")]
        assert [(p["type"], p["state"]) for p in tools] == [
            ("tool-remove", "output-available"),
            ("tool-wait", "output-available"),
        ]
        assert desk.removed == ["a"]


async def test_a_chat_of_another_page_joins_in_the_middle(clients: Clients) -> None:
    async with desk_of(say("I wait. ") + call("wait"), "Done.") as desk:
        one = await chat(clients, desk.url("api/chat"))
        user = {"id": "user-1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        two = await chat(clients, desk.url("api/chat"), messages=[user])

        async def let_go() -> None:
            await until_watched(desk.runs[0], 2)
            desk.gate.set()

        async def join() -> Told:
            await desk.waiting.wait()
            return await two.do("resumeStream")

        told, joined, _ = await asyncio.gather(
            one.do("sendMessage", {"text": "go"}), join(), while_it_waits(desk, let_go)
        )
        assert shown(joined) == shown(told) == ["go", "I wait. Done."]


async def test_a_chat_that_is_stopped_ends_its_run_and_goes_on(clients: Clients) -> None:
    async with desk_of(say("I wait. ") + call("wait"), "Hello again.") as desk:
        one = await chat(clients, desk.url("api/chat"))

        async def stop() -> None:
            await one.do("stop")

        told, _ = await asyncio.gather(one.do("sendMessage", {"text": "go"}), while_it_waits(desk, stop))
        assert (told["status"], told["error"]) == ("ready", None)
        told = await one.do("sendMessage", {"text": "again"})
        assert (told["status"], told["error"]) == ("ready", None)
        assert shown(told) == ["go", "I wait. ", "again", "Hello again."]
        latest, stopped = desk.runs
        assert stopped.run.state.cause == "cancel"
        assert (await of(latest)).text == "Hello again."


async def test_a_chat_that_is_stopped_and_left_alone_ends_its_run(clients: Clients) -> None:
    async with desk_of(say("I wait. ") + call("wait"), "Done.", grace=0.1) as desk:
        one = await chat(clients, desk.url("api/chat"))

        async def stop() -> None:
            await one.do("stop")

        await asyncio.gather(one.do("sendMessage", {"text": "go"}), while_it_waits(desk, stop))
        [entry] = desk.runs
        with pytest.raises(RunCancelledError, match="its client has stopped it"):
            await of(entry)


@both
async def test_an_agent_that_aborts_ends_its_run(clients: Clients, client: str) -> None:
    async with desk_of(say("I wait. ") + call("wait"), "Hello again.") as desk:
        one = await agent(clients, client, desk.url("ag-ui"), threadId="t-1")
        await asyncio.gather(one.run(say="go"), while_it_waits(desk, one.leave))
        told = await one.run(runId="r-2", say="again")
        assert (told["refused"], told["error"]) == (None, None)
        assert said(told)[-1] == "Hello again."
        assert desk.runs[1].run.state.cause == "cancel"


async def history_of(clients: Clients, desk: Desk) -> list[Any]:
    """The messages that a page begins with when it is loaded; the client accepts them."""
    async with aiohttp.ClientSession(trust_env=False) as http, http.get(desk.url("api/chat/chat-1/messages")) as answer:
        messages = await answer.json()
    assert (await clients.ask("chat_check", messages=messages))["wrong"] is None
    return messages


async def test_a_chat_that_is_loaded_again_shows_its_messages(clients: Clients) -> None:
    replies = (think("hm", "seal") + say("I wait. ") + call("wait"), "Done.", "Bye.")
    async with desk_of(*replies) as desk:
        address = desk.url("api/chat")
        one = await chat(clients, address)
        loaded: list[Client] = []

        async def load() -> None:
            two = await chat(clients, address, messages=await history_of(clients, desk))
            loaded.append(two)

            async def let_go() -> None:
                await until_watched(desk.runs[0], 2)
                desk.gate.set()

            told, _ = await asyncio.gather(two.do("resumeStream"), let_go())
            assert (told["status"], told["error"]) == ("ready", None)

        told, _ = await asyncio.gather(one.do("sendMessage", {"text": "go"}), while_it_waits(desk, load))
        joined = await loaded[0].until()
        assert shown(joined) == shown(told) == ["go", "hmI wait. Done."]
        three = await chat(clients, address, messages=await history_of(clients, desk))
        told = await three.do("sendMessage", {"text": "bye"})
        assert shown(told) == ["go", "hmI wait. Done.", "bye", "Bye."]
        assert desk.heard() == ["go", "I wait. ", "Done.", "bye", "Bye."]


async def test_a_chat_that_is_loaded_again_shows_the_question_again(clients: Clients) -> None:
    first = say("May I? ") + call("remove", path="a")
    async with desk_of(first, "Gone.") as desk:
        address = desk.url("api/chat")
        await (await chat(clients, address)).do("sendMessage", {"text": "remove a"})
        two = await chat(clients, address, messages=await history_of(clients, desk), auto=True)
        asked = call_of(await two.until())
        assert asked["state"] == "approval-requested"
        await two.do("addToolApprovalResponse", {"id": asked["approval"]["id"], "approved": True})
        told = await two.until("Gone.")
        told = await two.until()
        assert (told["status"], told["error"]) == ("ready", None)
        assert shown(told) == ["remove a", "May I? Gone."]
        assert call_of(told)["state"] == "output-available"
        assert desk.removed == ["a"]
        last = await history_of(clients, desk)
        assert shown({"messages": last}) == ["remove a", "May I? Gone."]


async def test_a_chat_receives_what_was_wrong_with_its_request(clients: Clients) -> None:
    async with desk_of(call("wait"), token=TOKEN) as desk:
        address = desk.url("api/chat")
        told = await (await chat(clients, address)).do("sendMessage", {"text": "hi"})
        assert told["error"]["status"] == 401
        assert "Bearer" in told["error"]["message"]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        one = await chat(clients, address, headers=headers)
        two = await chat(clients, address, headers=headers)

        async def disturb() -> None:
            told = await two.do("sendMessage", {"text": "hi"})
            assert told["error"]["status"] == 409
            assert "is running" in told["error"]["message"]
            desk.gate.set()

        await asyncio.gather(one.do("sendMessage", {"text": "hi"}), while_it_waits(desk, disturb))
        told = await two.do("resumeStream")  # nothing is on
        assert (told["status"], told["error"], shown(told)) == ("ready", None, ["hi"])


async def until_watched(entry: RunEntry, number: int = 1) -> None:
    """Until so many watch a run."""

    def are(watchers: tuple[object, ...]) -> bool:
        return len(watchers) == number

    await entry.run.watchers.pipe(ops.filter(are), ops.first())


# Tools of the client


@both
async def test_an_agent_runs_its_tool_and_continues(clients: Clients, client: str) -> None:
    reply = say("Let me.") + call("paint", color="red") + call("wait")
    async with desk_of(reply, "It is red.") as desk:
        desk.gate.set()
        agent = await Client(clients, "agent").make(desk.url("ag-ui"), client=client)
        paint = {"name": "paint", "description": "Paint.", "parameters": {"type": "object"}}
        first = await agent.run(say="paint", tools=[paint])
        assert (first["refused"], first["error"], first["interrupts"]) == (None, None, [])
        if client == NEWER:
            assert first["pendingToolCallIds"] == ["call_1_1"]
        second = await agent.run(results={"call_1_1": "painted"}, tools=[paint])
        assert (second["refused"], second["error"]) == (None, None)
        roles = [m["role"] for m in second["messages"]]
        assert roles == ["user", "assistant", "tool", "tool", "assistant"]
        assert second["messages"][-1]["content"] == "It is red."


async def test_a_chat_runs_its_tool_once_and_sends_by_itself(clients: Clients) -> None:
    reply = say("Let me.") + call("paint", color="red") + call("wait")
    async with desk_of(reply, "It is red.") as desk:
        desk.gate.set()
        chat = await Client(clients, "chat").make(desk.url("api/chat"), tools={"paint": {"ok": 1}})
        await chat.do("sendMessage", {"text": "paint"})
        shown = await chat.until("It is red.")
        shown = await chat.until()
        assert (shown["error"], shown["status"], shown["ran"]) == (None, "ready", ["call_1_1"])
        states = [p.get("state") for p in shown["messages"][-1]["parts"] if p["type"] != "text"]
        assert states.count("output-available") == 2
        assert len(shown["messages"]) == 2


@before_tool_call
def finish_before(context: ToolCallContext) -> Finish:
    del context
    return Finish(final=True)


@after_tool_call
def finish_after(context: ToolResultContext) -> Finish:
    del context
    return Finish(final=True)


@pytest.mark.parametrize("hook", [finish_before, finish_after])
async def test_a_chat_sends_nothing_by_itself_when_a_hook_has_finished_the_run(clients: Clients, hook: AnyHook) -> None:
    """The last step has all its results, which the client takes for a reason to send."""
    async with desk_of(call("wait"), "It is done.", hooks=[hook]) as desk:
        desk.gate.set()
        chat = await Client(clients, "chat").make(desk.url("api/chat"), tools={"paint": {"ok": 1}})
        await chat.do("sendMessage", {"text": "paint"})
        shown = await chat.until()
        assert (shown["error"], shown["status"]) == (None, "ready")
        assert len(desk.runs) == 1
        assert call_of(shown)["state"].startswith("output-")


HOOKS: dict[str, tuple[BeforeToolCallVerdict | None, bool]] = {
    "skip": (Skip("not that colour"), False),
    "edit": (None, True),
    "pause": (Pause("may it?"), False),
    "edit and pause": (Pause("may it?"), True),
}
"""What a hook does with a call of the page, and whether it changes the arguments before."""
DECIDED: list[tuple[str, bool, str | None]] = [
    ("skip", False, None),
    ("edit", False, "blue"),
    ("pause", True, "red"),
    ("pause", False, None),
    ("edit and pause", True, "blue"),
    ("edit and pause", False, None),
]
"""The hook, whether a person approves, and the colour that the page paints."""


def colour_hook(name: str) -> AnyHook:
    verdict, edits = HOOKS[name]

    @before_tool_call(matcher="paint")
    async def decide(context: ToolCallContext) -> BeforeToolCallVerdict | None:
        await asyncio.sleep(0)  # the client has all that was sent before
        if edits:
            context.input.update(color="blue")
        return verdict

    return decide


PAINT = say("Let me.") + call("wait") + call("paint", color="red")


@pytest.mark.parametrize(("name", "approves", "color"), DECIDED)
async def test_a_chat_runs_no_call_that_a_hook_has_not_allowed(
    clients: Clients, name: str, approves: bool, color: str | None
) -> None:
    async with desk_of(PAINT, "It is done.", hooks=[colour_hook(name)]) as desk:
        desk.gate.set()
        chat = await Client(clients, "chat").make(desk.url("api/chat"), tools={"paint": {"ok": 1}})
        await chat.do("sendMessage", {"text": "paint"})
        if "pause" in name:
            shown = await chat.until()
            assert shown["inputs"] == []
            part = next(p for p in shown["messages"][-1]["parts"] if p["type"] == "tool-paint")
            assert part["state"] == "approval-requested"
            assert part["input"] == {"color": "blue" if "edit" in name else "red"}
            approval = {"id": part["approval"]["id"], "approved": approves}
            await chat.do("addToolApprovalResponse", approval)
        shown = await chat.until("It is done.")
        assert shown["inputs"] == ([] if color is None else [{"color": color}])
        parts = [p for p in shown["messages"][-1]["parts"] if p["type"] == "tool-paint"]
        ends = {"skip": "output-error"}.get(name, "output-denied")
        assert [p["state"] for p in parts] == [ends if color is None else "output-available"]


@pytest.mark.parametrize("client", [NEWER, OLDER])
@pytest.mark.parametrize(("name", "approves", "color"), DECIDED)
async def test_an_agent_runs_no_call_that_a_hook_has_not_allowed(
    clients: Clients, client: str, name: str, approves: bool, color: str | None
) -> None:
    tools = [{"name": "paint", "description": "Paint.", "parameters": {"type": "object"}}]
    async with desk_of(PAINT, "It is done.", hooks=[colour_hook(name)]) as desk:
        desk.gate.set()
        agent = await Client(clients, "agent").make(desk.url("ag-ui"), client=client)
        last = await agent.run(say="paint", tools=tools)
        made: list[Any] = last["ran"]
        if "pause" in name:
            assert ["paint", {"color": "red"}] not in made
            last = await agent.run(answer={"approved": approves}, tools=tools)
            made += last["ran"]
        if color is not None:
            last = await agent.run(results={"call_1_2": "painted"}, tools=tools)
            made += last["ran"]
        assert (last["refused"], last["error"]) == (None, None)
        assert last["messages"][-1]["content"] == "It is done."
        painted = [arguments for tool, arguments in made if tool == "paint"]
        assert painted == ([] if color is None else [{"color": color}])
