"""What a request with a large image takes in memory."""

from __future__ import annotations

import tracemalloc

import pytest

from rxworker.messages import Conversation, Image, Message, Text, ToolCall, ToolResult
from rxworker.providers import PROVIDERS, Options

DATA = "iVBORw0KGgoA" + "A" * 5_000_000  # begins as a PNG does
# The buffer of the JSON encoder grows by half. The two protocols of OpenAI have the data in a `data:` URL besides.
MAX = {"openai_chat": 2.6, "openai_responses": 2.6}
CONVERSATIONS = {
    "user": (Message.user("look", Image(data=DATA)), Message.assistant("ok"), Message.user("more")),
    "result": (
        Message.user("look"),
        Message.assistant(ToolCall("a", "look", {})),
        Message.user(ToolResult("a", (Text("see"), Image(data=DATA)))),
    ),
}


@pytest.mark.parametrize("where", CONVERSATIONS)
@pytest.mark.parametrize("name", PROVIDERS)
def test_a_large_image_is_copied_as_little_as_the_protocol_allows(name: str, where: str) -> None:
    provider = PROVIDERS[name]("m", api_key="k")
    conversation = Conversation(CONVERSATIONS[where])
    for _ in range(2):  # the first turn, and one like all later ones
        tracemalloc.start()
        try:
            request = provider.request(conversation, (), Options())
            peak = tracemalloc.get_traced_memory()[1]
            sent = len(request.body)
            del request
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert sent > len(DATA)
        assert peak < MAX.get(name, 1.6) * len(DATA)
        assert kept < 0.1 * len(DATA)
