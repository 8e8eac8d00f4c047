"""Messages with images and documents, and messages in place of earlier ones."""

from __future__ import annotations

import pytest
from msgspec import convert

from rxworker.messages import Document, Image, Text
from rxworker.protocols.socket import Branch, RunSummary
from rxworker.testing import call

from .conftest import OpenDesk

IMAGE = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
DOCUMENT = {"type": "document", "media_type": "application/pdf", "data": "JVBERi0=", "title": "a.pdf"}


async def test_a_message_has_images_and_documents(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two")
    run = await desk.begin([IMAGE, DOCUMENT, {"type": "text", "text": "What is it?"}])  # pyright: ignore[reportArgumentType]
    assert run["title"] == "What is it?"
    await desk.ended(run["id"])
    [said, _] = desk.sessions[0].conversation.messages
    assert said.content == (
        Image("image/png", "iVBORw0KGgo="),
        Document("application/pdf", "JVBERi0=", title="a.pdf"),
        Text("What is it?"),
    )
    bare = await desk.begin([IMAGE, DOCUMENT])  # pyright: ignore[reportArgumentType]
    assert bare["title"] == (await desk.ended(bare["id"]))["title"] == "image, a.pdf"


@pytest.mark.parametrize(
    "body",
    [
        [],
        [{"type": "text", "text": " "}],
        [{"type": "tool_call", "id": "1", "name": "a", "input": {}}],
        [{"type": "image", "data": 5}],
        {"type": "text"},
    ],
)
async def test_what_is_not_a_message_is_refused(open_desk: OpenDesk, body: object) -> None:
    desk = await open_desk("one")
    status, told = await desk.post("api/runs", {"input": body})
    assert status == 400
    assert told["error"]["message"]


async def test_a_message_takes_the_place_of_an_earlier_one(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "one", "two", "three", "four")
    desk.release.set()
    first = await desk.begin("a")
    await desk.ended(first["id"])
    second = await desk.begin("b", conversation=first["conversation"])
    await desk.ended(second["id"])
    edits = {"run": second["id"], "message": 1, "text": "b"}
    status, other = await desk.post("api/runs", {"input": "B", "edits": edits})
    assert status == 201
    await desk.ended(other["id"])
    assert other["conversation"] != second["conversation"]
    assert other["title"] == "B"
    # each conversation has a model of its own, which begins with the first reply
    texts = [m.text for m in desk.sessions[-1].conversation.messages]
    assert texts == ["a", "", "", "one", "B", "", "", "one"]
    edits = {"run": second["id"], "message": 0, "text": "a"}
    _, third = await desk.post("api/runs", {"input": "A", "edits": edits})
    await desk.ended(third["id"])
    assert next(m.text for m in desk.sessions[-1].conversation.messages) == "A"
    assert [m.text for m in desk.sessions[0].conversation.messages][-2:] == ["b", "two"]


async def test_branches_name_the_conversation_that_had_the_message_first(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", "two", "three", "four", "five")

    async def begin(sent: str, conversation: str | None = None, /, **edits: object) -> RunSummary:
        body = {"input": sent, "conversation": conversation, **({"edits": edits} if edits else {})}
        status, answer = await desk.post("api/runs", body)
        assert status == 201
        await desk.ended(answer["id"])
        return convert(answer, RunSummary)

    root = await begin("a")
    last = await begin("b", root.conversation)
    assert (root.branch, last.branch) == (None, None)
    second = await begin("B", run=last.id, message=1, text="b")
    assert second.branch == Branch(root.conversation, 1)
    more = await begin("c", second.conversation)
    assert more.branch == second.branch
    for edited, message, text, place in [
        (more, 0, "a", Branch(root.conversation, 0)),  # a copy of the first message
        (more, 1, "B", Branch(root.conversation, 1)),  # the one that replaces another
        (more, 2, "c", Branch(second.conversation, 2)),  # one of its own
    ]:
        again = await begin("new", run=edited.id, message=message, text=text)
        assert again.branch == place
        twice = await begin("newer", run=again.id, message=message, text="new")
        assert twice.branch == place


async def test_a_message_that_is_not_there_is_not_edited(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    run = await desk.begin("a")
    await desk.ended(run["id"])
    for number, text in ((0, "b"), (1, "a"), (-1, "a")):
        edits = {"run": run["id"], "message": number, "text": text}
        status, told = await desk.post("api/runs", {"input": "B", "edits": edits})
        assert (status, told["error"]["code"]) == (409, "no_message")
    status, told = await desk.post("api/runs", {"input": "B", "edits": {"run": "no", "message": 0, "text": "a"}})
    assert (status, told["error"]["code"]) == (404, "no_run")
