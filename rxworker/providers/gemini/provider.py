"""The generateContent protocol of Google, at the developer API or in a project at Vertex AI.

`GoogleService` is the base of Google's protocols.

In a request, roles alternate: adjacent messages of one role become one content. The results of calls are first in
theirs, one for each call and in the order of the calls; they are matched by order and name, and by id only if Gemini
gave one. The bytes of pictures and documents are in their result from Gemini 3 on; anything else, and all of it for
older models, follows after all results. System messages in the middle of a conversation are sent with the role of the
user.

Gemini's own parts are sent back where they were: signatures (``thoughtSignature``), thoughts, the calls and results of
Google's tools, pictures, and parts of unknown kinds. Of another provider's answer,

- text, refusals (as text) and calls are sent, and media that have bytes or an address;
- thoughts, citations, signatures, calls of the provider's own tools and blocks of unknown kinds are left out;
- the ids of calls are left out, since Gemini matches results by order and name.

From Gemini 3 on, a step whose first call has no signature is refused. For a call from another provider, the placeholder
that Google documents is sent.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias, Unpack, get_args
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject, Message, ToolMeta, content
from rxworker.providers.base import Options, Request, ToolChoice
from rxworker.providers.content import FAILED, arguments, check_role, split_system, user_echo
from rxworker.providers.encode_cache import Body
from rxworker.providers.endpoint import base_address, bearer, endpoint, read_key, resource, vertex_place
from rxworker.providers.fit import DYNAMIC, settings_as, with_extra
from rxworker.providers.gemini.decode import GeminiDecoder
from rxworker.providers.gemini.wire import CALL, SIGNATURE, SNAKE, numbers, split
from rxworker.providers.service import ApiKey, Service, Settings
from rxworker.providers.takes import TAKES, Media, PartEncoders, media, readable, safe_name

Part: TypeAlias = tuple[int, JsonObject]  # with its place among the parts of its content
UNKNOWN = 1 << 30  # results of no call come last
# What may stand in the answer to a call: https://ai.google.dev/gemini-api/docs/function-calling
NESTED = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


class Calls:
    """The calls of a conversation, as far as it has been encoded.

    >>> calls = Calls()
    >>> calls.encode(content.ToolCall("call_1", "look", {}, {"thoughtSignature": "AAAA"}), own=True)
    {'thoughtSignature': 'AAAA', 'functionCall': {'id': 'call_1', 'name': 'look', 'args': {}}}
    >>> calls.answer(content.ToolResult("call_1", "blue"))
    (0, {'functionResponse': {'id': 'call_1', 'name': 'look', 'response': {'output': 'blue'}}})
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str, str]] = {}  # the number, the name and Gemini's id, if it gave one
        self._count = 0

    def encode(self, call: content.ToolCall, own: bool) -> JsonObject:
        """The part that calls; only Gemini's own calls have signatures, and ids that it knows."""
        tool_id = call.id if own and not content.is_made(call.id) else ""
        name = safe_name(call.name, TAKES[NAME].names)
        self._known[call.id] = self._count, name, tool_id
        self._count += 1
        function: JsonObject = {"id": tool_id} if tool_id else {}
        function |= {"name": name, "args": arguments(call)}
        echo: JsonObject = call.echo if own and call.echo else {}
        part: JsonObject = {CALL: function}
        return echo | part

    def answer(self, result: content.ToolResult, parts: Sequence[JsonObject] = ()) -> Part:
        """The part that answers a call: an object with the output or the error. Results keep the order of the calls.

        Args:
            result: The result.
            parts: Its pictures and documents, for models that take them there.
        """
        unknown = UNKNOWN, safe_name(result.name or "unknown", TAKES[NAME].names), ""
        place, name, tool_id = self._known.get(result.tool_use_id, unknown)
        response: JsonObject = {"id": tool_id} if tool_id else {}
        response |= {"name": name, "response": _response(result)}
        if parts:
            response["parts"] = [*parts]
        return place, {"functionResponse": response}


def media_of(result: content.ToolResult, *, since_3: bool) -> tuple[list[JsonObject], list[JsonObject]]:
    """The media of a result that are sent inside its answer, and the parts after all results.

    Inside are bytes of the types that Google names, for models from Gemini 3 on. A line before the others names their
    call.

    >>> seen = content.Image(data="iVBORw0KGgo="), content.Image(url="https://h/i.png")
    >>> media_of(content.ToolResult("1", seen), since_3=True)[0]
    [{'inlineData': {'mimeType': 'image/png', 'data': 'iVBORw0KGgo='}}]
    """
    within: list[JsonObject] = []
    after: list[JsonObject] = []
    for block in () if isinstance(result.content, str) else result.content:
        if isinstance(block, content.Text):
            continue
        block = media(block, TAKES[NAME])
        is_nested = not isinstance(block, content.Audio) and block.data and not block.url and block.media_type in NESTED
        if since_3 and is_nested:
            title = block.title if isinstance(block, content.Document) else None
            inline: JsonObject = {"mimeType": block.media_type, "data": block.data}
            if title:
                inline["displayName"] = title
            within.append({"inlineData": inline})
        else:
            after += _media(block)
    label: JsonObject = {"text": f"From the result of {result.name or 'the call'}:"}
    return within, [label, *after] if after else []


def _response(result: content.ToolResult) -> JsonObject:
    if result.is_error:
        return {"error": result.text or FAILED}
    if result.content and not result.text:
        return {"output": "The result is in the parts that follow."}
    return {"output": result.text}


NAME = "gemini"

_SINCE_3 = re.compile(r"gemini-([3-9]|\d\d)")
_AFTER = UNKNOWN + 1  # where parts stand that answer no call


def encode(model: str, request: Request) -> Body:
    """The body.

    Args:
        model: The name of the model; the body depends on it.
        request: The conversation so far, the tools that the model may call, and the settings. Gemini has no switch for
            parallel calls, so that one does nothing.

    Raises:
        ConfigurationError: A tool requires something that the protocol does not have.
        LocalProtocolError: A picture or document has neither bytes nor an address.
    """
    tools, options = request.tools, request.options
    system, messages = split_system(request.conversation)
    since_3 = bool(_SINCE_3.search(model))
    body: Body = {"contents": list(encode_contents(messages, since_3))}
    if system:
        body["systemInstruction"] = {"role": "user", "parts": [{"text": system}]}
    if tools:
        body["tools"] = encode_tools(tools)
        if options.tool_choice is not None:
            body["toolConfig"] = encode_choice(options.tool_choice)
    if generation := encode_generation(options, since_3):
        body["generationConfig"] = generation
    return with_extra(body, options.extra)


def encode_contents(messages: Sequence[Message], since_3: bool = False) -> list[JsonObject]:
    """The messages, roles alternating, none of them empty.

    Args:
        messages: In order, without the instructions.
        since_3: Whether the model is Gemini 3 or later. It refuses a step whose first call has no seal, and takes
            pictures and documents within the result of a call.
    """
    calls = Calls()
    encoded: list[tuple[str, list[Part]]] = []
    for message in messages:
        check_role(message)
        role = "model" if message.role == "assistant" else "user"
        if role == "user":
            parts = _user_parts(message, calls, since_3)
        else:
            parts = _model_parts(message, calls)
            if since_3:
                _seal_first_call(parts)
        if parts and encoded and encoded[-1][0] == role:
            encoded[-1][1].extend(parts)
        elif parts:
            encoded.append((role, parts))
    return [{"role": role, "parts": [part for _, part in sorted(parts, key=itemgetter(0))]} for role, parts in encoded]


def _seal_first_call(parts: list[Part]) -> None:
    first = next((part for _, part in parts if CALL in part), None)
    if first is not None and SNAKE not in first:
        first.setdefault(SIGNATURE, "skip_thought_signature_validator")


def _user_parts(message: Message, calls: Calls, since_3: bool) -> list[Part]:
    parts: list[Part] = []
    for block in message.content:
        if isinstance(block, content.ToolResult):
            if not isinstance(block.content, str):
                block = replace(block, content=readable(block.content, _media))
            within, after = media_of(block, since_3=since_3)
            parts.append(calls.answer(block, within))
            parts += [(_AFTER, part) for part in after]
        elif type(block) in USER:
            parts += [(_AFTER, part) for part in USER[type(block)](block)]
    return parts


def _model_parts(message: Message, calls: Calls) -> list[Part]:
    own = message.provider == NAME
    parts: list[Part] = []
    for block in message.content:
        if isinstance(block, content.ToolCall):
            parts.append((0, calls.encode(block, own)))
        elif type(block) in MODEL:
            parts += [(0, part) for part in MODEL[type(block)](block, own)]
    return parts


def _text(block: content.Text | content.Refusal) -> list[JsonObject]:
    return [{"text": block.text}] if block.text else []


def _media(block: Media) -> list[JsonObject]:
    block = media(block, TAKES[NAME])
    title: list[JsonObject] = []
    if isinstance(block, content.Document) and block.title:
        title = [{"text": f"{block.title}:"}]
    uri = None
    if not isinstance(block, content.Audio):
        uri = block.url or (None if block.data else block.file_id)
    if uri:
        return [*title, {"fileData": {"mimeType": block.media_type, "fileUri": uri}}]
    return [*title, {"inlineData": {"mimeType": block.media_type, "data": block.data}}]


def _opaque(block: content.OpaqueBlock) -> list[JsonObject]:
    return [user_echo(block, "")]  # a part has no type


def _own_text(block: content.Text | content.Refusal, own: bool) -> list[JsonObject]:
    return list(split(block.text, block.echo if own else None))


def _thought(block: content.Thinking, own: bool) -> list[JsonObject]:
    return [part | {"thought": True} for part in split(block.text, block.echo)] if own else []


def _made(block: content.Image | content.Document, own: bool) -> list[JsonObject]:
    if own and block.echo:
        return [block.echo]
    return _media(block) if block.data or block.url else []


def _echoed(block: content.ProviderBlock, own: bool) -> list[JsonObject]:
    return [block.echo] if own and block.echo else []


# What a block becomes, by who speaks. Blocks that are not in the table cannot be sent in that role.
USER: PartEncoders = {
    content.Text: _text,
    content.Refusal: _text,
    **dict.fromkeys(get_args(Media), _media),
    content.OpaqueBlock: _opaque,
}
MODEL: dict[type, Callable[[Any, bool], list[JsonObject]]] = {
    content.Text: _own_text,
    content.Refusal: _own_text,
    content.Thinking: _thought,
    content.Image: _made,
    content.Document: _made,
    **dict.fromkeys(get_args(content.ProviderBlock), _echoed),
}


MODES = {"auto": "AUTO", "none": "NONE", "any": "ANY", "tool": "ANY"}


def encode_tools(tools: Sequence[ToolMeta]) -> list[Json]:
    """The tools as the model sees them: one list of functions.

    The schema goes as JSON schema. The older field ``parameters`` takes only a part of it, in words of its own.
    """
    functions: list[Json] = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema}
        for tool in tools
    ]
    return [{"functionDeclarations": functions}]


def encode_choice(choice: ToolChoice) -> JsonObject:
    """Whether the model must call a tool.

    >>> encode_choice(ToolChoice("tool", "look"))
    {'functionCallingConfig': {'mode': 'ANY', 'allowedFunctionNames': ['look']}}
    """
    config: JsonObject = {"mode": MODES[choice.mode]}
    if choice.mode == "tool" and choice.name:
        config["allowedFunctionNames"] = [choice.name]
    return {"functionCallingConfig": config}


def encode_generation(options: Options, since_3: bool = False) -> JsonObject:
    """The limits, the randomness, the thinking, and what the answer must look like.

    Args:
        options: Settings.
        since_3: Whether the model is Gemini 3 or later.
    """
    encoded = settings_as(
        options, max_tokens="maxOutputTokens", temperature="temperature", stop_sequences="stopSequences"
    )
    if options.thinking is not None:
        encoded["thinkingConfig"] = encode_thinking(options.thinking, since_3)
    if options.output is not None:
        encoded["responseMimeType"] = "application/json"
        encoded["responseJsonSchema"] = options.output.schema
    return encoded


def encode_thinking(thinking: int | str, since_3: bool = False) -> JsonObject:
    """How hard the model thinks; its thoughts are then reported in summaries.

    A number is a budget in tokens, a word is a level, and ``adaptive`` leaves it to the model.

    Args:
        thinking: The amount, as the model takes it.
        since_3: Whether the model is Gemini 3 or later, which has no budget that leaves it to the model.

    >>> encode_thinking("high"), encode_thinking(0)
    ({'includeThoughts': True, 'thinkingLevel': 'high'}, {'thinkingBudget': 0})
    """
    if thinking == 0:
        return {"thinkingBudget": 0}
    if isinstance(thinking, int):
        return {"includeThoughts": True, "thinkingBudget": thinking}
    if thinking in DYNAMIC:
        return {"includeThoughts": True, **({} if since_3 else {"thinkingBudget": -1})}
    return {"includeThoughts": True, "thinkingLevel": thinking}


DEVELOPER = "https://generativelanguage.googleapis.com"


@lru_cache(maxsize=64)  # used for each request, and always the same
def google_url(base_url: str, path: str, root: str, parameter: str = "") -> str:
    """The address of one call.

    Raises:
        ConfigurationError: The base address is not one, or holds a key.
    """
    given = dict(parse_qsl(urlsplit(base_url).query))
    if "key" in given:
        raise ConfigurationError("the base_url holds a key; pass it as api_key=... instead")
    url = endpoint(base_url, path, root, root)
    if not parameter or parameter.partition("=")[0] in given:
        return url
    return f"{url}{'&' if '?' in url else '?'}{parameter}"


OTHER_KEY = "GOOGLE_API_KEY"
BASE = "GOOGLE_GEMINI_BASE_URL"


class GoogleService(Service):
    """The base of Google's protocols: the place, and the key or the token."""

    _variable = "GEMINI_API_KEY"
    _key_headers = ("authorization", "x-goog-api-key")
    _shown = ("base_url", "address", "project", "location")
    _vendors = ("gemini",)
    _roots: tuple[str, str]  # of the addresses at the developer API, and at Vertex AI
    _parameter = ""  # of the addresses

    def __init__(
        self,
        model: str,
        *,
        project: str | None = None,
        location: str | None = None,
        access_token: ApiKey | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        api_key = settings.get("api_key")
        super().__init__(model, **settings | {"api_key": access_token or api_key})
        self._project = project
        self._location = location
        self._has_key = bool(api_key and not access_token)
        self._at_vertex = bool(project or location or access_token)

    def _check_base(self, base_url: str) -> None:
        google_url(base_url, self._path(""), self._roots[0])

    @abstractmethod
    def _path(self, place: str) -> str:
        """The path of the requests, in the place of a project at Vertex AI, or at the developer API."""

    @property
    def _variables(self) -> tuple[str, ...]:
        return (*(("access_token=...",) if self._at_vertex else ()), self._variable, OTHER_KEY)

    def _url(self) -> str:
        base, place, root = base_address(self._base_url, BASE, DEVELOPER), "", self._roots[0]
        if self._at_vertex:
            (base, place), root = vertex_place(self._base_url, self._project, self._location), self._roots[1]
        return google_url(base, self._path(place), root, self._parameter)

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        if self._at_vertex and not self._has_key:
            return bearer(given, self._base_url)
        variable = self._variable
        if os.environ.get(OTHER_KEY) and not os.environ.get(variable):
            variable = OTHER_KEY
        key = read_key(given, variable, needed=url.startswith(DEVELOPER + "/"))
        return {"x-goog-api-key": key} if key else {}


class Gemini(GoogleService):
    """Gemini, by Google's generateContent protocol.

    A ``project``, a ``location`` or an ``access_token`` means Vertex AI; without any of them it is the developer API.

    Args:
        model: The name of the model, for example ``gemini-3.8-flash``.
        api_key: The key; without one, the environment variable ``GEMINI_API_KEY`` or else ``GOOGLE_API_KEY`` is read
            for each request. A server of your own (``base_url``) needs none.
        base_url: Where the service is, instead of Google's address; for the developer API also in
            ``GOOGLE_GEMINI_BASE_URL``.
        project: The project at Vertex AI; without one, ``GOOGLE_CLOUD_PROJECT``.
        location: Its region; without one, ``GOOGLE_CLOUD_LOCATION``, or else ``global``.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` or ``x-goog-api-key`` among them no key is looked
            for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
        access_token: The token for Vertex AI, or a function or a coroutine function that returns one and is called for
            each request, since tokens expire within the hour.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Gemini("gemini-3.8-flash", api_key="AIza-secret")
    >>> provider
    Gemini('gemini-3.8-flash')
    >>> provider.request(Conversation(), (), Options()).url.rpartition("/")[2]
    'gemini-3.8-flash:streamGenerateContent?alt=sse'
    """

    name = NAME
    _encode = staticmethod(encode)
    _frame_decoder = GeminiDecoder
    _numbers = staticmethod(numbers)
    _roots = ("/v1beta", "/v1")
    _parameter = "alt=sse"  # server-sent events instead of one JSON array

    def _path(self, place: str) -> str:
        return (
            f"{place}/{resource(self.model, 'publishers/google/models/' if place else 'models/')}:streamGenerateContent"
        )
