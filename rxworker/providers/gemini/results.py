"""Calls and their results in a request: matched by order and name, and by id only where Gemini gave one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from rxworker.messages import Audio, Document, Image, JsonObject, ToolCall, ToolResult
from rxworker.providers.content import arguments
from rxworker.providers.gemini.call import CALL
from rxworker.providers.ids import is_made

UNKNOWN = 1 << 30  # results of no call come last
# What may stand in the answer to a call: https://ai.google.dev/gemini-api/docs/function-calling
NESTED = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


class Asked(Struct, frozen=True):
    """A call that stands before its result.

    Attributes:
        number: Its place among the calls of the conversation.
        name: The tool's name.
        id: Gemini's id; empty where it gave none.
    """

    number: int
    name: str
    id: str = ""


class Calls:
    """The calls of a conversation, as far as it has been encoded.

    >>> calls = Calls()
    >>> calls.ask(ToolCall("call_1", "look", {}, {"thoughtSignature": "AAAA"}), own=True)
    {'thoughtSignature': 'AAAA', 'functionCall': {'id': 'call_1', 'name': 'look', 'args': {}}}
    >>> calls.answer(ToolResult("call_1", "blue"))["functionResponse"]
    {'id': 'call_1', 'name': 'look', 'response': {'output': 'blue'}}
    """

    def __init__(self) -> None:
        self._asked: dict[str, Asked] = {}
        self._count = 0

    def ask(self, call: ToolCall, own: bool) -> JsonObject:
        """The part that calls; only Gemini's own calls have seals, and ids that it knows."""
        tool_id = call.id if own and not is_made(call.id) else ""
        self._asked[call.id] = Asked(self._count, call.name, tool_id)
        self._count += 1
        function: JsonObject = {"id": tool_id} if tool_id else {}
        function |= {"name": call.name, "args": arguments(call)}
        echo: JsonObject = call.echo if own and call.echo else {}
        asking: JsonObject = {CALL: function}
        return echo | asking

    def place(self, result: ToolResult) -> int:
        """Where a result belongs among the results: results keep the order of the calls."""
        asked = self._asked.get(result.tool_use_id)
        return asked.number if asked else UNKNOWN

    def answer(self, result: ToolResult, parts: Sequence[JsonObject] = ()) -> JsonObject:
        """The part that answers a call: an object with the output or the error.

        Args:
            result: The result.
            parts: Its pictures and documents, for models that take them there.
        """
        asked = self._asked.get(result.tool_use_id) or Asked(UNKNOWN, result.name or "unknown")
        response: JsonObject = {"id": asked.id} if asked.id else {}
        response |= {"name": asked.name, "response": _response(result)}
        if parts:
            response["parts"] = [*parts]
        return {"functionResponse": response}


def nested(result: ToolResult) -> list[JsonObject]:
    """What of a result stands in its answer, as models take it from Gemini 3 on: bytes of the types that Google names.

    >>> nested(ToolResult("1", (Image(data="AA"), Image(url="https://h/i.png"))))
    [{'inlineData': {'mimeType': 'image/png', 'data': 'AA'}}]
    """
    return [
        {"inlineData": {"mimeType": block.media_type, **_named(block), "data": block.data}}
        for block in _media_of(result)
        if _is_nested(block)
    ]


def shown(
    result: ToolResult,
    encode: Callable[[Image | Document | Audio], list[JsonObject]],
    *,
    since_3: bool,
) -> list[JsonObject]:
    """What of a result is no text and not in its answer: parts that stand behind the results, after a line that says whose they are."""
    media = [block for block in _media_of(result) if not (since_3 and _is_nested(block))]
    if not media:
        return []
    label: JsonObject = {"text": f"From the result of {result.name or 'the call'}:"}
    return [label, *(part for block in media for part in encode(block))]


def _media_of(result: ToolResult) -> list[Image | Document | Audio]:
    blocks = () if isinstance(result.content, str) else result.content
    return [block for block in blocks if isinstance(block, Image | Document | Audio)]


def _is_nested(block: Image | Document | Audio) -> bool:
    if isinstance(block, Audio):
        return False
    return bool(block.data) and not block.url and block.media_type in NESTED


def _named(block: Image | Document | Audio) -> JsonObject:
    title = block.title if isinstance(block, Document) else None
    return {"displayName": title} if title else {}


def _response(result: ToolResult) -> JsonObject:
    if result.is_error:
        return {"error": result.text or "The tool failed and gave no reason."}
    if result.content and not result.text:
        return {"output": "The result is in the parts that follow."}
    return {"output": result.text}


__all__ = ["Asked", "Calls", "nested", "shown"]
