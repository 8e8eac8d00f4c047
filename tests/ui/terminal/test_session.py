"""The session that the app shows."""

from __future__ import annotations

from rxworker import Session, Worker
from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, Message
from rxworker.testing import ScriptedModel
from rxworker.ui.terminal.session import TerminalSession

LOADED = Conversation((Message.user("Hi"), Message.assistant("Hello.")), "Be brief.")


async def say(shown: TerminalSession, text: str) -> None:
    shown.send(Message.user(text))
    async for _ in shown.follow():
        pass


async def test_a_session_is_continued_and_its_worker_stays_as_it_is() -> None:
    model = ScriptedModel(["One.", "Two."])
    worker = Worker(model, labels={"tenant": "acme"})
    given = Session(worker, LOADED, allowed=[("delete", "requires_approval")], labels={"desk": "1"})
    shown = TerminalSession(given)
    first = shown.opened.id
    await say(shown, "And?")
    shown.allow("delete", is_allowed=False)
    shown.begin_session()
    assert shown.allowed == ["delete"]
    await say(shown, "Anew.")
    labels = [info.row.labels for info in await shown.log.list()]
    shared = {"tenant": "acme", "desk": "1"}
    assert labels == [{**shared, CONVERSATION: shown.opened.id}, {**shared, CONVERSATION: first}]
    assert [request.conversation.system for request in model.requests] == ["Be brief."] * 2
    assert [len(request.conversation.messages) for request in model.requests] == [3, 1]
    await shown.close()
    assert [message.text for message in given.conversation.messages] == ["Anew.", "Two."]
    assert given.allowed == [("delete", "requires_approval")]
    assert given.labels == {"desk": "1"}
    assert (given.log, worker.log, worker.labels) == (None, None, {"tenant": "acme"})
    assert not worker.session.conversation.messages
