"""A cache of encoded messages, for the next request with the same conversation, and how OpenAI caches one. Pure.

Each request of a tool loop has the messages of the request before it, and a few new ones after them. An encoder takes
messages one after the other and does not depend on later ones; so an encoder that is at the end of a conversation can
continue with the added messages. Its result is the same as that of a new encoder, also if the encoding of a message
depends on earlier messages.

`Remembered` keeps the encoders of the last few conversations. A conversation that begins otherwise, because it was
trimmed or is another fork, is encoded from its beginning. It keeps the tools that were sent last, too. Messages and
tools are compared by identity, since equal ones need not become the same (``1`` equals ``True``): they are values, and
what they hold is not changed once they were sent. What is kept is JSON, as bytes: to send them again is to copy them,
where objects would be walked through each time.

OpenAI caches unasked, and needs to know which requests belong together. A key (`cache_settings`) leads the requests of
a conversation to the same servers, which have its beginning. It is made of the first message, which does not change
while a conversation grows; the service adds a hash of the prompt's beginning. From GPT-5.6 on the service places a
breakpoint at the end of each request and finds it without a limit of blocks, so that a loop needs none of its own. A
`rxworker.messages.CachePoint` is one more (`set_breakpoint`), for a beginning that several conversations share: these
models find what ends at a breakpoint, and nothing shorter. See
https://developers.openai.com/api/docs/guides/prompt-caching
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Raw
from msgspec.json import encode as to_json

from rxworker.messages import Audio, CachePoint, Document, Image, Json, JsonObject, Message, ToolMeta, ToolResult
from rxworker.providers.base import Request
from rxworker.providers.content import check_role
from rxworker.providers.models import UNKNOWN, ModelInfo
from rxworker.providers.takes import hashed

HOSTS = (".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com")
"""Where OpenAI's own models answer; a compatible server may refuse fields that it does not know."""
RETENTIONS = ("in_memory", "24h")


LIFETIMES = ("30m", "12h")
"""The lifetimes from GPT-5.6 on."""


def takes_breakpoints(host: str, info: ModelInfo) -> bool:
    """Whether a model at a host takes breakpoints.

    >>> info = ModelInfo(caching="breakpoints")
    >>> takes_breakpoints("api.openai.com", info), takes_breakpoints("127.0.0.1", info)
    (True, False)
    """
    return info.caching == "breakpoints" and f".{host}".endswith(HOSTS)


def set_breakpoint(parts: list[JsonObject], point: CachePoint, *, wanted: bool) -> None:
    """Put a breakpoint on the last of some parts of a message, in its place.

    The service writes the last three of a request.

    Args:
        parts: The parts so far.
        point: The point, whose lifetime is left out if it is another provider's.
        wanted: Whether the model takes breakpoints.

    >>> parts: list[JsonObject] = [{"type": "text", "text": "long"}]
    >>> set_breakpoint(parts, CachePoint("30m"), wanted=True)
    >>> parts
    [{'type': 'text', 'text': 'long', 'prompt_cache_breakpoint': {'mode': 'explicit', 'ttl': '30m'}}]
    """
    if parts and wanted:
        mark: JsonObject = {"mode": "explicit"}
        if point.ttl in LIFETIMES:
            mark["ttl"] = point.ttl
        parts[-1] = {**parts[-1], "prompt_cache_breakpoint": mark}


def cache_settings(host: str, request: Request, ttls: tuple[str, ...], info: ModelInfo = UNKNOWN) -> JsonObject:
    """The fields of the body for ``Options(cache="auto")``; a lifetime that the model does not take is left out.

    Args:
        host: The host of the service.
        request: The request.
        ttls: The lifetimes that the protocol takes from GPT-5.6 on; earlier models have `RETENTIONS`.
        info: How the model caches; of an unknown one, such as a deployment at Azure, any lifetime is sent.

    >>> from rxworker.messages import Conversation, Message
    >>> from rxworker.providers import Options
    >>> asked = Request(Conversation((Message.user("hi"),)), (), Options(cache="auto", cache_ttl="24h"))
    >>> cache_settings("api.openai.com", asked, ("30m",))
    {'prompt_cache_key': '8f434346648f6b96df89dda901c5176b', 'prompt_cache_retention': '24h'}
    """
    options = request.options
    if options.cache != "auto" or not f".{host}".endswith(HOSTS):
        return {}
    first = next((m.text for m in request.conversation.messages if m.role != "system"), "")
    settings: JsonObject = {"prompt_cache_key": hashed(first)[:32]}
    if options.cache_ttl in RETENTIONS and info.caching != "breakpoints":
        settings["prompt_cache_retention"] = options.cache_ttl
    elif options.cache_ttl in ttls and info.caching != "automatic":
        settings["prompt_cache_options"] = {"ttl": options.cache_ttl}
    return settings


E = TypeVar("E", bound="MessageEncoder")

MAX = 8
MAX_BYTES = 512 * 1024

MEDIA = frozenset({Audio, Document, Image})

Part: TypeAlias = bytes | JsonObject
"""One or more members of an array as JSON, or one member that is not encoded yet."""

Body: TypeAlias = dict[str, Json | Raw | tuple[Raw | JsonObject, ...]]
"""The body of a request; what was kept of the last one stands in it as the JSON that it is."""


class MessageEncoder(ABC):
    """Encodes the messages of one conversation, in order.

    Attributes:
        settings: What it encodes for. One with the same settings encodes the same messages alike.
        lasting: Whether it may outlive the request: it holds no pictures and no documents.
    """

    settings: tuple[object, ...] = ()
    lasting = True
    _fed = 0

    def feed_new(self, messages: Sequence[Message]) -> None:
        """Take what is new of the messages, which begin with those that it took before."""
        for message in messages[self._fed :]:
            check_role(message)
            if _has_media(message):
                self.lasting = False
            self.feed(message)
        self._fed = len(messages)

    @abstractmethod
    def feed(self, message: Message) -> None:
        """Take the next message."""

    def parts(self, encoded: Sequence[JsonObject]) -> list[Part]:
        """Some members of an array, at least one, for `array`.

        They become JSON at once if the encoder may be kept. If not, they stay objects until the whole request is
        encoded, so that the bytes of images are not copied one more time for each step.
        """
        return [to_json(encoded)[1:-1]] if self.lasting else [*encoded]


class Remembered(Generic[E]):
    """The encoders of the last few conversations, each with the messages that it took.

    There are at most `MAX`, of requests of at most `MAX_BYTES`. A caller that takes an encoder has it alone until it
    is put back, so several threads may encode at once. A copy is empty.

    Args:
        tool: Encodes a tool.
    """

    def __init__(self, tool: Callable[[ToolMeta], JsonObject]) -> None:
        self._kept: OrderedDict[int, tuple[tuple[Message, ...], E]] = OrderedDict()
        self._tool = tool
        self._tools: tuple[tuple[ToolMeta, ...], Raw] = (), Raw(b"[]")

    def __reduce__(self) -> tuple[type[Remembered[E]], tuple[Callable[[ToolMeta], JsonObject]]]:
        return type(self), (self._tool,)

    def tools(self, tools: Sequence[ToolMeta]) -> Raw:
        """The JSON of the tools."""
        taken, encoded = self._tools
        if len(taken) != len(tools) or not all(map(is_, taken, tools)):
            encoded = Raw(to_json([self._tool(tool) for tool in tools]))
            self._tools = tuple(tools), encoded
        return encoded

    def encode(self, messages: tuple[Message, ...], new: E, encode: Callable[[E], Body]) -> bytes:
        """The JSON of a request, made by the encoder that took the beginning of its messages, else by the new one.

        Args:
            messages: The messages of the request.
            new: A new encoder.
            encode: Makes the body of the request, by an encoder.
        """
        encoder = self.take(messages)
        if encoder is None or encoder.settings != new.settings:
            encoder = new
        body = to_json(encode(encoder))
        self.keep(messages, encoder, len(body))
        return body

    def take(self, messages: tuple[Message, ...]) -> E | None:
        """The encoder that took the beginning of these messages, if it was kept."""
        kept = self._kept.pop(id(messages[0]), None) if messages else None
        if kept is None:
            return None
        taken, encoder = kept
        # What `taken` holds cannot be gone, so that no other message has the same identity.
        same = len(taken) <= len(messages) and all(map(is_, taken, messages))
        return encoder if same else None

    def keep(self, messages: tuple[Message, ...], encoder: E, size: int) -> None:
        """Put an encoder back, or a new one.

        Args:
            messages: The messages that it has encoded.
            encoder: It.
            size: How many bytes the request has.
        """
        if messages and encoder.lasting and size <= MAX_BYTES:
            self._kept[id(messages[0])] = messages, encoder
            if len(self._kept) > MAX:
                self._kept.popitem(last=False)


def _has_media(message: Message) -> bool:
    for block in message.content:
        if type(block) is ToolResult:
            if type(block.content) is not str:
                return True
        elif type(block) in MEDIA:
            return True
    return False


def array(parts: Sequence[Part]) -> Raw | tuple[Raw | JsonObject, ...]:
    """An array of what `MessageEncoder.parts` returned.

    >>> to_json(array([b"1,2", b"3"])), to_json(array([b"1,2", {"a": 3}]))
    (b'[1,2,3]', b'[1,2,{"a":3}]')
    """
    if {*map(type, parts)} <= {bytes}:
        encoded: Sequence[Any] = parts
        return Raw(b"[%b]" % b",".join(encoded))
    return tuple(Raw(part) if isinstance(part, bytes) else part for part in parts)
