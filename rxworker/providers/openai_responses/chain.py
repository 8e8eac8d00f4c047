"""A request and its response over a WebSocket: which items of the next request the service already has. Pure.

A service that is connected keeps the last response of a socket in memory, also with ``store: false``. The next request
names it (``previous_response_id``) and has only what came since. Everything else is sent with each request, since a
response hands on its items alone. A request is continued only if what it begins with equals, item for item, what was
sent and received; any other is sent whole. See https://developers.openai.com/api/docs/guides/websocket-mode
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, field

from rxworker.errors import LocalProtocolError
from rxworker.messages import Json
from rxworker.messages.lenient_json import as_array

# Members of a request over HTTP that a socket does not have.
NOT_OF_A_SOCKET = ("stream", "background")
# Members with which a request continues something of the program's own.
OWN_CONTEXT = ("previous_response_id", "conversation")
COMPLETED = ("response.completed", "response.incomplete")


class Creation(Struct, frozen=True):
    """A request for a response over a socket.

    Attributes:
        members: Its members besides the input.
        items: The items of its input.
    """

    members: dict[str, Raw]
    items: tuple[Raw, ...]

    @classmethod
    def read(cls, body: bytes) -> Creation:
        """A request for HTTP as one for a socket.

        Raises:
            LocalProtocolError: It is not a request of the Responses protocol.

        >>> Creation.read(b'{"model": "m", "input": [{"a":1}], "stream": true}').event()
        b'{"type":"response.create","model":"m","input":[{"a":1}]}'
        """
        try:
            members = _members(body)
            items = _items(members.pop("input"))
        except (msgspec.DecodeError, KeyError) as error:
            message = "a WebSocket carries requests of OpenAIResponses, whose input is a list of items"
            raise LocalProtocolError(message) from error
        for name in NOT_OF_A_SOCKET:
            members.pop(name, None)
        return cls(members, items)

    @property
    def is_warm_up(self) -> bool:
        """Whether it only prepares the next request (``"generate": false``)."""
        return self.members.get("generate") == Raw(b"false")

    def event(self, held: Held | None = None) -> bytes:
        """The event that requests the response.

        The whole input, or what is new after a response that the service holds.
        """
        if held is None:
            return _event(self.members, self.items)
        named = {"previous_response_id": Raw(msgspec.json.encode(held.response_id))}
        return _event(self.members | named, self.items[len(held.sent.items) + len(held.output) :])

    def continues(self, held: Held) -> bool:
        """Whether the input begins with what the service holds, and the rest can be sent after it."""
        sent, before = held.sent, len(held.sent.items)
        if any(name in one.members for one in (sent, self) for name in OWN_CONTEXT):
            return False
        received = self.items[before : before + len(held.output)]
        return (
            self.members.get("model") == sent.members.get("model")
            and self.items[:before] == sent.items
            and [_json(item) for item in received] == held.output
        )


class Held(Struct, frozen=True):
    """What the service holds after a response.

    Attributes:
        sent: The request, whole.
        response_id: The name of the response.
        output: Its items.
    """

    sent: Creation
    response_id: str
    output: list[Json]


class Response(Struct, gc=False):
    """The name of a response, its items, and its failure."""

    id: Json = None
    output: Json = None
    error: Json = None


class ServerEvent(Struct, gc=False):
    """What a socket needs to know of an event of the service.

    Attributes:
        type: Its type.
        output_index: The place of an item.
        item: The item.
        response: The response.
        error: The failure, if it is not all of the event.
        own_code: The code of a failure that is all of the event.
        status: The HTTP status of a request that is refused.
        headers: What would be the headers of that response.
    """

    type: Json = ""
    output_index: Json = None
    item: Json = None
    response: Response | None = None
    error: Json = None
    own_code: Json = field(default=None, name="code")
    status: Json = None
    headers: Json = None

    @property
    def code(self) -> Json:
        """The service's code for the failure of a request or a response."""
        error = self.error if self.response is None else self.response.error
        return error.get("code") if isinstance(error, dict) else self.own_code


def read_event(data: bytes) -> ServerEvent:
    """An event; an empty one for anything else, which the decoder of the response reports.

    >>> read_event(b'{"type":"response.created"}').type, read_event(b"[").type
    ('response.created', '')
    """
    try:
        return _server_event(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ServerEvent()


class Output:
    """Follows the events of one response, for what the service holds after it.

    Args:
        sent: The request.
    """

    def __init__(self, sent: Creation) -> None:
        self._sent = sent
        self._items: dict[int, Json] = {}

    def take(self, event: ServerEvent) -> Held | None:
        """Take an event; return what the service holds if it is the last one of a response that can be continued."""
        if event.type == "response.output_item.done" and isinstance(event.output_index, int):
            self._items[event.output_index] = event.item
        if event.type not in COMPLETED:
            return None
        response = event.response or Response()
        items = [self._items[place] for place in sorted(self._items)]
        output = items or [*as_array(response.output)]
        return Held(self._sent, response.id, output) if response.id and isinstance(response.id, str) else None


_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(tuple[Raw, ...]).decode
_json = msgspec.json.Decoder().decode
_server_event = msgspec.json.Decoder(ServerEvent).decode


def _event(members: dict[str, Raw], items: Sequence[Raw]) -> bytes:
    return msgspec.json.encode({"type": "response.create", **members, "input": items})


__all__ = ["Creation", "Held", "Output", "ServerEvent", "read_event"]
