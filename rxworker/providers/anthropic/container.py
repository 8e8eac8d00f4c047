"""The container in which the code of Anthropic's code execution tool runs.

Theory of operation. A response in which code ran names its container and when it expires. Code may call the client's
tools: then the response ends in the middle of the code, and the request with the results has to name the container. It
also has to hold the call of the code execution tool, whose result comes in a later response, and the user may send
nothing but results until then
(https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling).

A call of one of Anthropic's tools beside one of the client's waits, too: it is run when the results are returned.

So a call of Anthropic's own tools is sent back if its result is in the conversation, or if it is pending: only results
follow it, and its container, if it has one, is the one that is sent. Any other one is taken out, because Anthropic
refuses it; a call that its code made is then sent as one that the model made. So the conversation stays valid when the
container has expired (for example after an approval that took long) and when the user writes in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from rxworker.messages import JsonObject

CONTAINER = "container"
OWN_CALLS = ("server_tool_use", "mcp_tool_use")
CALLS = ("tool_use", *OWN_CALLS)
RESULT = "tool_result"
CALLER = "caller"

EncodedMessage: TypeAlias = tuple[str, list[JsonObject]]
"""A message: its role and its blocks."""


def valid_id(echo: JsonObject, now: float) -> str | None:
    """The id of the container that a message names, if it has not expired.

    Args:
        echo: The echo of the message.
        now: Seconds since the epoch.

    >>> echo = {"container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}}
    >>> valid_id(echo, now=0.0), valid_id(echo, now=2e9)
    ('container_1', None)
    """
    container = echo.get(CONTAINER)
    if not isinstance(container, dict):
        return None
    name = container_id(echo)
    try:
        expires = datetime.fromisoformat(str(container.get("expires_at"))).timestamp()
    except ValueError:  # it has no time; the service knows
        return name
    return name if expires > now else None


def container_id(holder: Mapping[str, object] | None) -> str | None:
    """The id of a container, from the echo of a message or the body of a request.

    >>> container_id({"container": "container_1"}), container_id({"container": {"id": "container_1"}}), container_id({})
    ('container_1', 'container_1', None)
    """
    match (holder or {}).get(CONTAINER):
        case str(name) | {"id": str(name)}:
            return name
        case _:
            return None


def container_extra(extra: JsonObject, container: str | None) -> JsonObject:
    """The application's fields, with our container added to what they contain of one, such as its skills.

    >>> container_extra({"container": {"skills": []}}, "container_1")
    {'container': {'id': 'container_1', 'skills': []}}
    """
    theirs = extra.get(CONTAINER)
    if container is None or not isinstance(theirs, dict):
        return extra
    return {**extra, CONTAINER: {"id": container, **theirs}}


class OwnCalls(Struct, eq=False):
    """The calls of Anthropic's own tools in a conversation, as far as it has been encoded."""

    _has_any: bool = False
    _known: set[str] = set()  # those that are sent, in messages that do not change any more
    # The container of each call: that of its message, as far as that is known.
    _containers: dict[str, str | None] = {}

    def add(self, blocks: Sequence[JsonObject], container: str | None) -> None:
        """Take the blocks of an answer, and the id of its container."""
        for block in blocks:
            if block["type"] in OWN_CALLS:
                self._containers[str(block.get("id"))] = container
            self._has_any = self._has_any or block["type"] in OWN_CALLS or _is_own_result(block)

    def is_open(self, messages: Sequence[EncodedMessage]) -> bool:
        """Whether what comes later decides what is sent of these messages: a call of theirs may still be answered."""
        if not self._has_any:
            return False
        answered, spoken = _answered(messages), _speech(messages)
        return any(
            block["type"] in OWN_CALLS and str(block.get("id")) not in answered
            for role, blocks in messages[spoken + 1 :]
            if role == "assistant"
            for block in blocks
        )

    def settle(self, messages: Sequence[EncodedMessage], container: str | None) -> None:
        """Take out of the answers what Anthropic refuses. In the last message every call may stay.

        Args:
            messages: The messages. Their lists of blocks are changed in place; if they are not open, this is for good.
            container: The id of the container that is sent.
        """
        if not self._has_any:
            return
        answered, spoken = _answered(messages), _speech(messages)
        is_open = self.is_open(messages)
        known = set(self._known)
        for place, (role, blocks) in enumerate(messages):
            if role != "assistant":
                continue
            is_last = place == len(messages) - 1
            may_wait = place > spoken and any(block["type"] == "tool_use" for block in blocks)
            calls = [str(block.get("id")) for block in blocks if block["type"] in OWN_CALLS]
            known |= {
                name for name in calls if name in answered or is_last or (may_wait and self._is_in(name, container))
            }
            blocks[:] = [_settled(block, known) for block in blocks if not _is_lost(block, known)]
        if not is_open:
            self._known = known

    def _is_in(self, name: str, container: str | None) -> bool:
        return self._containers.get(name) in (None, container)


def _is_own_result(block: JsonObject) -> bool:
    return str(block["type"]).endswith("_tool_result")


def _answered(messages: Sequence[EncodedMessage]) -> set[str]:
    """The calls whose results are among these messages."""
    answers = [block for role, blocks in messages if role == "assistant" for block in blocks]
    return {str(block.get("tool_use_id")) for block in answers if _is_own_result(block)}


def _speech(messages: Sequence[EncodedMessage]) -> int:
    """The place of the last message in which the user sends more than results, or -1."""
    for place in range(len(messages) - 1, -1, -1):
        role, blocks = messages[place]
        if role == "user" and any(block["type"] != RESULT for block in blocks):
            return place
    return -1


def _is_lost(block: JsonObject, known: set[str]) -> bool:
    """Whether it is a call that is not sent, or the result of one."""
    if block["type"] in OWN_CALLS:
        return str(block.get("id")) not in known
    return _is_own_result(block) and block.get("tool_use_id") not in known


def _settled(block: JsonObject, known: set[str]) -> JsonObject:
    """The block without a caller that is not sent."""
    caller = block.get(CALLER) if block["type"] in CALLS else None
    if not isinstance(caller, dict) or "tool_id" not in caller or caller["tool_id"] in known:
        return block
    return {key: value for key, value in block.items() if key != CALLER}
