"""Ollama's own chat protocol, as a provider. ``OLLAMA_HOST`` is read in the forms that Ollama's own clients accept.

The protocol has few fields, so parts of a conversation are converted or left out by these rules:

- A message is text, with pictures beside it. The texts of a user message are joined by line ends, and refusals
  are sent as texts. Pictures that a model made are left out.
- Pictures are sent as bytes. Of a picture with only a web address, the address is sent as text.
- A document of text is inserted into the text, and so is the address of any other. A document of other bytes is
  refused.
- Tool results are messages of their own. They follow their calls, in the order of the calls, and name the
  tool, since older servers match them by nothing else. A failure is part of the text of its result.
- Thinking is sent back if it is Ollama's own. The model's template decides which of it the model sees.
- A call's id is sent back if Ollama gave it. Other ids mean nothing to Ollama.
- Calls of the providers' own tools, citations, signatures and blocks of unknown kinds are left out.
- A choice of tools is expressed by offering no tool, or one; that some tool must be called, or that several may be
  called at once, cannot be expressed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from rxworker.errors import LocalProtocolError
from rxworker.framing import NdjsonDecoder
from rxworker.messages import Conversation, Json, JsonObject, Message, ToolMeta, content
from rxworker.providers.base import AUTO, Request
from rxworker.providers.content import FAILED, arguments, check_role, titled_text
from rxworker.providers.encode_cache import Body
from rxworker.providers.endpoint import base_address, endpoint, host_of, read_key
from rxworker.providers.fit import OFF, settings_as, with_extra
from rxworker.providers.models import ADAPTIVE
from rxworker.providers.ollama.decode import OllamaDecoder, numbers
from rxworker.providers.service import Service
from rxworker.providers.takes import TAKES, media, readable

# The values for other words than Ollama's own efforts (low, medium, high).
THINK: dict[str, bool | str] = {
    **dict.fromkeys(OFF, False),
    **dict.fromkeys(("on", "enabled", ADAPTIVE), True),
    "minimal": "low",
    "xhigh": "high",
}


def encode_think(thinking: int | str | None) -> JsonObject:
    """Whether the model thinks, or how hard. A budget in tokens only enables it."""
    if thinking is None:
        return {}
    if isinstance(thinking, str):
        return {"think": THINK.get(thinking, thinking)}
    return {"think": thinking > 0}


def _tool(tool: ToolMeta) -> JsonObject:
    function: JsonObject = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


NAME = "ollama"


def encode(model: str, request: Request) -> Body:
    """The body.

    Args:
        model: The name of the model.
        request: The conversation so far, the tools that the model may call, and the settings.

    Raises:
        ConfigurationError: A tool requires something that the protocol does not have.
        LocalProtocolError: The conversation has content that the protocol does not have.
    """
    options, choice = request.options, request.options.tool_choice or AUTO
    body: Body = {
        "model": model,
        "messages": list(encode_messages(request.conversation)),
        "stream": True,
        **encode_think(options.thinking),
    }
    # Ollama has no word for a choice, so the choice is made by what is offered.
    offered = [_tool(tool) for tool in request.tools if choice.mode != "none" and choice.name in (None, tool.name)]
    if offered:
        body["tools"] = [*offered]
    settings = settings_as(options, max_tokens="num_predict", temperature="temperature", stop_sequences="stop")
    if settings:
        body["options"] = settings
    if options.output is not None:
        body["format"] = options.output.schema
    # A schema is one value, which is not merged with another.
    return with_extra(body, options.extra, whole=("format",))


def encode_messages(conversation: Conversation) -> list[JsonObject]:
    """The messages."""
    encoded: list[JsonObject] = []
    if conversation.system:
        encoded.append({"role": "system", "content": conversation.system})
    turn: Message | None = None  # the message whose calls the results answer
    answers: list[Message] = []
    for message in conversation.messages:
        check_role(message)
        if message.role == "assistant":
            encoded += _answered(turn, answers)
            turn, answers = message, []
        else:
            answers.append(message)
    return [*encoded, *_answered(turn, answers)]


def _answered(turn: Message | None, answers: Sequence[Message]) -> Iterator[JsonObject]:
    """The answer of the model, the results of its calls in their order, and the other messages after it."""
    calls = turn.tool_calls if turn else ()
    place = {call.id: number for number, call in enumerate(calls)}
    own = turn is not None and turn.provider == NAME

    def order(result: content.ToolResult) -> int:
        return place.get(result.tool_use_id, len(place))

    if turn and (encoded := _assistant(turn, own)):
        yield encoded
    results = [result for message in answers for result in message.tool_results]
    names = {call.id: call.name for call in calls}
    for result in sorted(results, key=order):
        yield _result(result, names.get(result.tool_use_id, ""), own)
    for message in answers:
        if fields := _text_and_images(message.content):
            yield {"role": message.role, **fields}


def _assistant(message: Message, own: bool) -> JsonObject | None:
    words = [block.text for block in message.content if isinstance(block, content.Text | content.Refusal)]
    encoded: JsonObject = {"role": "assistant", "content": "".join(words)}
    thinking = [block.text for block in message.content if isinstance(block, content.Thinking)]
    if own and any(thinking):
        encoded["thinking"] = "".join(thinking)
    if message.tool_calls:
        encoded["tool_calls"] = [_call(call, own) for call in message.tool_calls]
    # Thinking alone is not an answer: the response was cut before its text began.
    return encoded if encoded["content"] or message.tool_calls else None


def _call(call: content.ToolCall, own: bool) -> JsonObject:
    echo: JsonObject = dict(call.echo) if own and call.echo else {}
    kept = echo.pop("function", None)
    function: JsonObject = kept if isinstance(kept, dict) else {}
    encoded: JsonObject = {**echo, "function": {**function, "name": call.name, "arguments": arguments(call)}}
    if own and not content.is_made(call.id):
        encoded["id"] = call.id
    return encoded


def _result(result: content.ToolResult, name: str, own: bool) -> JsonObject:
    blocks = readable(result.content, lambda block: _text_and_images((block,)))
    encoded: JsonObject = {"role": "tool", "content": "", **_text_and_images(blocks)}
    if not encoded["content"] and result.is_error:
        encoded["content"] = FAILED
    if name or result.name:
        encoded["tool_name"] = name or result.name
    if own and not content.is_made(result.tool_use_id):
        encoded["tool_call_id"] = result.tool_use_id
    return encoded


def _text_and_images(blocks: Iterable[object]) -> JsonObject:
    """Text and pictures; nothing for nothing."""
    texts: list[str] = []
    images: list[Json] = []
    for block in blocks:
        if isinstance(block, content.OpaqueBlock):
            raise LocalProtocolError(
                f"Ollama has no block of kind {block.kind!r}; leave the block out, or send its text as Text"
            )
        if isinstance(block, content.Image) and (data := media(block, TAKES[NAME]).data):
            images.append(data)
        elif text := _words(block):
            texts.append(text)
    encoded: JsonObject = {"content": "\n".join(texts)} if texts or images else {}
    return {**encoded, "images": images} if images else encoded


def _words(block: object) -> str:
    match block:
        case content.Text() | content.Refusal():
            return block.text
        case content.Image():
            return f"picture: {block.url}"
        case content.Document(url=str(url)):
            return f"{block.title or 'document'}: {url}"
        case content.Document() | content.Audio():
            media(block, TAKES[NAME])
            return titled_text(block) if isinstance(block, content.Document) else ""
        case _:
            return ""


PATH = "/api/chat"
PORT = "11434"

# What a server listens on is where a client on the same machine finds it, once it names this machine.
HERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


@lru_cache(maxsize=64)  # used for each request, and always the same
def chat_address(host: str) -> str:
    """The address of the chat endpoint.

    Args:
        host: A host, ``host:port``, ``:port`` or an address. Without a scheme and a port it means port 11434.

    Raises:
        ConfigurationError: It is none of these.

    >>> chat_address("box"), chat_address(":8000")
    ('http://box:11434/api/chat', 'http://127.0.0.1:8000/api/chat')
    >>> chat_address("https://ollama.com/api")
    'https://ollama.com/api/chat'
    """
    scheme, mark, rest = host.rpartition("://")
    at, slash, path = rest.partition("/")
    if not mark and at.count(":") > 1 and not at.startswith("["):
        at = f"[{at}]"  # IPv6
    name, colon, port = at.rpartition(":")
    if not (colon and port.isdecimal()):
        name, port = at, ""
    if not mark:
        scheme, name, port = "http", name or "127.0.0.1", port or PORT
    url = f"{scheme}://{HERE.get(name, name)}{port and ':'}{port}{slash}{path}"
    # The address of the API as a whole, as it is often written.
    return endpoint(re.sub(r"/api/?$", "", url), PATH, root="")


HOST = "OLLAMA_HOST"
# The first is what Ollama sends; proxies rename it. An error that comes as JSON with status 200 is a line too.
STREAMS = ("application/x-ndjson", "application/ndjson", "application/json")


class Ollama(Service):
    """A model that Ollama runs, on this machine or in its cloud.

    Args:
        model: The name of the model, for example ``qwen3``.
        base_url: Where the server is: an address, ``host``, or ``host:port``; without one, ``OLLAMA_HOST``, or else
            this machine.
        api_key: The key, which only the cloud needs; without one, the environment variable ``OLLAMA_API_KEY`` is read
            for each request. A function or a coroutine function that returns it is called for each request.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Ollama("qwen3", base_url="box:8000")
    >>> provider.request(Conversation(), (), Options()).url
    'http://box:8000/api/chat'
    """

    name = NAME
    _encode = staticmethod(encode)
    _variable = "OLLAMA_API_KEY"
    _accept = STREAMS
    _framing = NdjsonDecoder
    _frame_decoder = OllamaDecoder
    _numbers = staticmethod(numbers)

    def _check_base(self, base_url: str) -> None:
        chat_address(base_url)

    def _url(self) -> str:
        return chat_address(base_address(self._base_url, HOST, "http://localhost:11434"))

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        key = read_key(given, self._variable, needed=host_of(url) == "ollama.com")
        return {"authorization": f"Bearer {key}"} if key else {}

    @property
    def structures_beside_tools(self) -> bool:
        """Never: its grammar of the answer leaves no calls."""
        return False
