from __future__ import annotations

import msgspec
import pytest

from rxworker.errors import LocalProtocolError
from rxworker.messages import Conversation, Message, Thinking, ToolCall, from_json, to_json

SAID = Conversation(
    (Message.user("hi"), Message("assistant", (Thinking("hm", "sealed", {"id": "1"}), ToolCall("a", "look", {})))),
    "Be brief.",
)


def test_it_has_a_version_and_comes_back_as_it_was() -> None:
    data = to_json(SAID)
    assert msgspec.json.decode(data)["version"] == 1
    assert from_json(data) == from_json(data.decode()) == SAID


def test_a_newer_version_is_refused_and_both_are_named() -> None:
    data = b'{"version":7,"conversation":{"messages":"something that is not known yet"}}'
    with pytest.raises(LocalProtocolError, match=r"version 7, .* up to version 1"):
        from_json(data)


def test_an_unknown_kind_of_content_is_refused_by_name_and_place() -> None:
    data = to_json(SAID).replace(b'"type":"thinking"', b'"type":"hologram"')
    with pytest.raises(LocalProtocolError, match=r"hologram.*messages\[1\]\.content\[0\]"):
        from_json(data)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"version":"1"}', b'{"version":1}', b'{"version":0}', b"\xff", "\ud83d"]
)
def test_what_is_not_a_conversation_is_refused(data: bytes | str) -> None:
    with pytest.raises(LocalProtocolError, match="conversation"):
        from_json(data)


@pytest.mark.parametrize("text", ["\ud83d", "half of a pair: \udc4d"])
def test_what_is_not_json_cannot_be_kept(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="is not JSON"):
        to_json(Conversation((Message.user(text),)))
