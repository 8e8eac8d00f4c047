"""What a hook leaves of a request is what is sent, however it came to it."""

from __future__ import annotations

import reactivex
from reactivex import Observable

from rxworker import Worker, on_message_send, tool
from rxworker.hooks import MessageSendContext
from rxworker.providers import HttpRequest, OpenAIChat
from rxworker.testing import call, openai_chat_frames, say
from rxworker.transport import Client


class Keeping:
    """Answers one by one, and keeps what was asked."""

    def __init__(self) -> None:
        replies = [call("note", text="secret"), call("note", text="more"), say("Done.")]
        self.bodies: list[bytes] = []
        self._answers = [b"".join(openai_chat_frames(reply)) for reply in replies]

    def send(self, request: HttpRequest) -> Observable[bytes]:
        self.bodies.append(request.body)
        return reactivex.of(self._answers[len(self.bodies) - 1])


@tool
async def note(text: str) -> str:
    """Note something."""
    return str(len(text))


@on_message_send
def redact(context: MessageSendContext) -> None:
    """In the third request, and in place, which is not the way to do it."""
    if sum(len(message.tool_calls) for message in context.messages) < 2:
        return
    for message in context.messages:
        for made in message.tool_calls:
            if isinstance(made.input, dict):
                made.input["text"] = "-"


async def test_what_a_hook_changes_in_place_is_sent_as_it_is_now() -> None:
    transport = Keeping()
    client = Client(OpenAIChat("m", api_key="k"), transport=transport)
    await Worker(client, tools=[note], hooks=[redact]).run("Go.")
    assert [b"secret" in body for body in transport.bodies] == [False, True, False]
