"""The Responses protocol, of OpenAI and of the servers that are compatible with it, as a provider.

The input of a request is a row of items: messages, calls and their results each stand for themselves. The rules:

- An answer of this protocol goes back as the items that it came as, in their order and with all that they hold: ids,
  encrypted thoughts, phases, callers. What a block holds replaces what its item holds, so a text or an argument that
  was changed afterwards is sent as changed. A thought with nothing after it, as in an answer that was cut, is left out,
  since the service refuses it.
- Of another provider's answer, the texts and the calls go back. Its thoughts, its own tools' calls and
  results, and blocks of unknown kinds are left out. Ids of calls that the service does not take are changed.
- The result of a call is of the sort the call was of: that of a tool with free text has another name.
- A result has no mark for a failure; its text reports it. Pictures and documents may stand in it.
- The application's first message is the instructions; a later one is a message of its role.
- An `OpaqueBlock` of the user's is an item of its own, such as the output of a ``shell_call``.
- The protocol has no stop sequences; they are left out.
- Nothing is stored: ``extra={"store": True}`` changes that, ``extra={"include": [...]}`` adds to what comes with an
  answer, and ``None`` in its place takes it all out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec.json import encode as to_json
from msgspec.structs import replace

from rxworker.events.arguments import parse_arguments
from rxworker.messages import Json, JsonObject, Message, ToolMeta, content
from rxworker.messages.lenient_json import as_array, as_object, json_text, read_json
from rxworker.providers.background import BackgroundDecoder
from rxworker.providers.base import HttpRequest, Options, ResumableDecoder, ToolChoice
from rxworker.providers.content import (
    FAILED,
    arguments,
    data_url,
    flat,
    read_arguments,
    split_system,
    titled_text,
    user_echo,
)
from rxworker.providers.encode_cache import (
    LIFETIMES,
    Body,
    MessageEncoder,
    Part,
    array,
    cache_settings,
    set_breakpoint,
    takes_breakpoints,
)
from rxworker.providers.endpoint import host_of
from rxworker.providers.fit import MODES, effort, settings_as, with_extra
from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder, numbers
from rxworker.providers.openai_responses.item import (
    CONTENT,
    CUSTOM_CALL,
    FUNCTION_CALL,
    ITEM,
    PLACE,
    REASONING,
    SUMMARY,
    parts_of,
)
from rxworker.providers.schema import DIRECT, PROGRAMMATIC, answer_schema, strict_arguments
from rxworker.providers.service import Draft, OpenAIService
from rxworker.providers.takes import TAKES, PartEncoders, media, readable, safe_name

NAME = "openai_responses"
OUTPUT = "function_call_output"
CUSTOM_OUTPUT = "custom_tool_call_output"
SEALED = "reasoning.encrypted_content"


class InputEncoder(MessageEncoder):
    """Messages to items.

    Attributes:
        items: The encoded items so far, for `array`.
    """

    def __init__(self, *, breakpoints: bool = False) -> None:
        self.settings = (breakpoints,)
        self.breakpoints = breakpoints
        self.items: list[Part] = []
        # What the answer to a call begins with, by the call's id, which may come again.
        self._answers: dict[str, JsonObject] = {}

    def feed(self, message: Message) -> None:
        """Take the next message."""
        if message.role == "assistant":
            own = message.provider == NAME
            for block in message.content:
                if isinstance(block, content.ToolCall):
                    self._answers[block.id] = _answer(block, own)
            items = encode_answer(message.content) if own else _encode_foreign(message.content)
        elif message.role == "system":
            text = message.text
            items: list[JsonObject] = [{"role": "system", "content": text}] if text else []
        else:
            items = _encode_user(message, self._answers, breakpoints=self.breakpoints)
        if items:
            self.items += self.parts(items)


def _encode_foreign(blocks: Sequence[content.Content]) -> list[JsonObject]:
    items: list[JsonObject] = []
    for block in blocks:
        if isinstance(block, content.ToolCall):
            items.append(encode_call(replace(block, id=safe_name(block.id))))
        elif isinstance(block, content.Text | content.Refusal) and block.text:
            items.append({"role": "assistant", "content": block.text})
    return items


def _answer(call: content.ToolCall, own: bool) -> JsonObject:
    """The first fields of the answer to a call.

    If a program made the call, the answer names the program, which then continues.
    """
    if not own:
        return {"type": OUTPUT, "call_id": safe_name(call.id)}
    echo = call.echo or {}
    answer: JsonObject = {"type": CUSTOM_OUTPUT if echo.get("type") == CUSTOM_CALL else OUTPUT, "call_id": call.id}
    item = echo.get(ITEM)
    caller = item.get("caller") if isinstance(item, dict) else None
    if isinstance(caller, dict) and caller.get("type") == "program":
        answer["caller"] = caller
    return answer


def _encode_user(message: Message, answers: dict[str, JsonObject], *, breakpoints: bool) -> list[JsonObject]:
    """Results and other items first, then the user's text."""
    items: list[JsonObject] = []
    others: list[JsonObject] = []
    parts: list[JsonObject] = []
    for block in message.content:
        if isinstance(block, content.ToolResult):
            items.append(_result(block, answers.get(block.tool_use_id)))
        elif isinstance(block, content.OpaqueBlock):
            others.append(_item(block))
        elif isinstance(block, content.CachePoint):
            set_breakpoint(parts, block, wanted=breakpoints)
        else:
            parts += _parts(block)
    if others:
        items += others
    if parts:
        items.append({"role": "user", "content": flat(parts)})
    return items


def _item(block: content.OpaqueBlock) -> JsonObject:
    """The item of a user's block. A block that an answer had keeps its item beside the place of the item."""
    echo = block.echo or {}
    item = echo.get(ITEM) if PLACE in echo else None
    return item if isinstance(item, dict) else user_echo(block)


def _result(result: content.ToolResult, answer: JsonObject | None) -> JsonObject:
    output: Json = result.content if isinstance(result.content, str) else None
    if not isinstance(result.content, str):
        result = replace(result, content=readable(result.content, _parts))
        is_text = all(isinstance(block, content.Text) for block in result.content)
        output = result.text if is_text else [part for one in result.content for part in _parts(one)]
    if not output and result.is_error:
        output = FAILED
    begun = answer or {"type": OUTPUT, "call_id": safe_name(result.tool_use_id)}
    return {**begun, "output": output}


def _parts(block: object) -> list[JsonObject]:
    encoder = PARTS.get(type(block))
    return encoder(block) if encoder else []


def _text(block: content.Text | content.Refusal) -> list[JsonObject]:
    return [{"type": "input_text", "text": block.text}] if block.text else []


def _audio(block: content.Audio) -> list[JsonObject]:
    media(block, TAKES[NAME])  # raises: it takes none
    return []


def _image(block: content.Image) -> list[JsonObject]:
    block = media(block, TAKES[NAME])
    if not (block.data or block.url):
        return [{"type": "input_image", "file_id": block.file_id, "detail": "auto"}]
    return [{"type": "input_image", "image_url": data_url(block), "detail": "auto"}]


def _document(block: content.Document) -> list[JsonObject]:
    block = media(block, TAKES[NAME])
    if block.url:
        return [{"type": "input_file", "file_url": block.url}]
    if not block.data:
        return [{"type": "input_file", "file_id": block.file_id}]
    if block.media_type.startswith("text/"):
        return [{"type": "input_text", "text": titled_text(block)}]
    return [{"type": "input_file", "filename": block.title or "document", "file_data": data_url(block)}]


# What a block of the user's becomes. Blocks that are not in the table cannot be sent by a user.
PARTS: PartEncoders = {
    content.Text: _text,
    content.Refusal: _text,
    content.Image: _image,
    content.Document: _document,
    content.Audio: _audio,
}


# The content of an answer that has no echo.
WITHOUT_ECHO = (content.ToolResult, content.CachePoint, content.Audio)
# Kinds of blocks, as tuples: a union would be created at each use.
SPOKEN = (content.Text, content.Refusal)
NOTHING: JsonObject = {}


def encode_answer(blocks: Sequence[content.Content]) -> list[JsonObject]:
    """The items of an answer.

    >>> encode_answer([content.Text("yes")])
    [{'role': 'assistant', 'content': 'yes'}]
    """
    groups: dict[int, list[content.Content]] = {}  # by the places of their items; below 0 where there is none
    for at, block in enumerate(blocks):
        if not isinstance(block, WITHOUT_ECHO):
            place = block.echo.get(PLACE) if block.echo else None
            groups.setdefault(place if isinstance(place, int) else ~at, []).append(block)
    places = groups if min(groups, default=0) < 0 else sorted(groups)
    items = [item for place in places if (item := _encode_item(groups[place])) is not None]
    while items and items[-1].get("type") == REASONING:
        items.pop()
    return items


def encode_call(call: content.ToolCall) -> JsonObject:
    """A call by itself, without anything that came with it."""
    return {
        "type": FUNCTION_CALL,
        "call_id": call.id,
        "name": safe_name(call.name),
        "arguments": to_json(arguments(call)).decode(),
    }


def _encode_item(blocks: Sequence[content.Content]) -> JsonObject | None:
    """One item from its blocks; the last of them has it whole."""
    block = blocks[-1]
    echo: JsonObject = getattr(block, "echo", None) or NOTHING
    found = echo.get(ITEM)
    item = found if isinstance(found, dict) else None
    if isinstance(block, content.ToolCall):
        is_custom = echo.get("type") == CUSTOM_CALL
        return _custom_call(block, item or {}) if is_custom else _call(block, item)
    if isinstance(block, SPOKEN):
        return _message([b for b in blocks if isinstance(b, SPOKEN)], item)
    if isinstance(block, content.Thinking):
        return _reasoning([b for b in blocks if isinstance(b, content.Thinking)], item)
    return item if isinstance(block, content.ProviderBlock | content.Image) else None


def _message(blocks: Sequence[content.Text | content.Refusal], item: JsonObject | None) -> JsonObject | None:
    texts = [block.text for block in blocks]
    if item is None:
        whole = "".join(texts)
        return {"role": "assistant", "content": whole} if whole else None
    recorded = [text for _, text, _ in parts_of(item, CONTENT)]
    if "".join(recorded) == "".join(texts):
        return item
    changed: JsonObject = {CONTENT: [_part(block) for block in blocks if block.text]}
    return item | changed if changed[CONTENT] else None


def _part(block: content.Text | content.Refusal) -> Json:
    if isinstance(block, content.Refusal):
        return {"type": "refusal", "refusal": block.text}
    return {"type": "output_text", "text": block.text, "annotations": []}


def _reasoning(blocks: Sequence[content.Thinking], item: JsonObject | None) -> JsonObject | None:
    """A thought that never became an item has no signature, and is useless to the service."""
    if item is None:
        return None
    text = "".join(block.text for block in blocks)
    recorded = ["".join(one for _, one, _ in parts_of(item, field)) for field in (SUMMARY, CONTENT)]
    if text in ("".join(recorded), *filter(None, recorded)):
        return item
    summary: Json = [{"type": "summary_text", "text": text}]
    texts: Json = [{"type": "reasoning_text", "text": text}]
    changed: JsonObject = {SUMMARY: summary if text and recorded[0] else []}
    return item | changed | ({CONTENT: texts if text else []} if recorded[1] else {})


def _custom_call(call: content.ToolCall, item: JsonObject) -> JsonObject:
    return (item or {"type": CUSTOM_CALL}) | {
        "call_id": call.id,
        "name": safe_name(call.name),
        "input": _same(call.input, item.get("input")),
    }


def _call(call: content.ToolCall, item: JsonObject | None) -> JsonObject:
    if item is None:
        return encode_call(call)
    # The text that the model wrote, spaces and all, as long as its value is the same.
    text = item.get("arguments")
    if isinstance(text, str) and text.strip() == "null":  # which not every server accepts
        text = "{}"
        item = item | {"arguments": text}
    is_same = isinstance(text, str) and parse_arguments(text) == call.input
    named = item.get("type"), item.get("call_id"), item.get("name")
    if is_same and named == (FUNCTION_CALL, call.id, safe_name(call.name)):
        return item
    sent = text if is_same else _same(arguments(call), text)
    return item | {"type": FUNCTION_CALL, "call_id": call.id, "name": safe_name(call.name), "arguments": sent}


def _same(value: JsonObject | str, text: Json) -> str:
    """The text, if it stands for the value; else the value as text."""
    if isinstance(text, str) and (value == text or value == read_arguments(text)):
        return text
    return json_text(value)


def encode_options(options: Options, tools: Sequence[ToolMeta]) -> Body:
    """The fields of the body that define the form of the answer.

    Args:
        options: Settings.
        tools: The tools that the model may call in addition to those in ``options.extra``.
    """
    body: Body = {**settings_as(options, max_tokens="max_output_tokens", temperature="temperature")}
    is_choice = bool(tools or options.extra.get("tools"))
    if is_choice and options.tool_choice is not None:
        body["tool_choice"] = _tool_choice(options.tool_choice, tools)
    if is_choice and options.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = options.parallel_tool_calls
    if options.thinking is not None:
        body["reasoning"] = {"effort": effort(options.thinking)}
    if options.compact_at is not None:  # openai 3.57: responses/response_create_params.py
        body["context_management"] = [{"type": "compaction", "compact_threshold": options.compact_at}]
    if options.output is not None:
        body["text"] = {"format": {"type": "json_schema", **answer_schema(options.output)}}
    return body


def encode_tool(tool: ToolMeta) -> JsonObject:
    """A tool as the model sees it.

    Raises:
        ConfigurationError: It is strict, and the model cannot be held to its schema.
    """
    encoded: JsonObject
    if tool.format is not None:
        form: JsonObject = {"type": "text"} if isinstance(tool.format, str) else msgspec.to_builtins(tool.format)
        encoded = {"type": "custom", "name": tool.name, "format": form}
    else:
        encoded = {
            "type": "function",
            "name": tool.name,
            "parameters": strict_arguments(tool.input_schema, tool.name) if tool.strict else tool.input_schema,
            # Sent in any case: without it, the service would make all arguments required.
            "strict": tool.strict,
        }
    if tool.description:
        encoded["description"] = tool.description
    if tool.defer_loading:
        encoded["defer_loading"] = True
    if tool.allowed_callers:
        callers = [DIRECT if one == DIRECT else PROGRAMMATIC for one in tool.allowed_callers]
        encoded["allowed_callers"] = [*dict.fromkeys(callers)]
    return encoded


def _tool_choice(choice: ToolChoice, tools: Sequence[ToolMeta]) -> Json:
    if choice.mode == "tool":
        is_custom = any(tool.name == choice.name and tool.format for tool in tools)
        return {"type": "custom" if is_custom else "function", "name": choice.name}
    return MODES[choice.mode]


class OpenAIResponses(OpenAIService):
    """A model that speaks the Responses protocol.

    The requests let the service store nothing, and include its encrypted reasoning in the response, so that the next
    request can send it back. Reasoning in readable text is sent for ``extra={"reasoning": {"summary": "auto"}}``.

    With ``extra={"background": True}`` the response goes on at the service, and is stored there, when the connection is
    cut: a client then goes on with the events that have not come. Disposing the stream cancels the response.

    Args:
        model: The name of the model, for example ``gpt-5.4``.
        api_key: The key; without one, the environment variable ``OPENAI_API_KEY`` is read for each request. A server of
            your own (``base_url``) needs none. A function or a coroutine function that returns it is called for each
            request.
        base_url: Where the service is, for example ``http://127.0.0.1:8080``; without one, ``OPENAI_BASE_URL``, or else
            OpenAI. A query, such as Azure's ``?api-version=...``, is kept.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` or ``api-key`` among them no key is looked for.

    Raises:
        ConfigurationError: The ``base_url`` is not an address, or a header cannot be sent.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> OpenAIResponses("gpt-5.4", api_key="sk-secret").request(Conversation(), (), Options()).url
    'https://api.openai.com/v1/responses'
    """

    name = NAME
    _path = "/responses"
    _has_background = True
    _compacting_hosts = ("openai.com", "azure.com")
    _encode_tool = staticmethod(encode_tool)
    _frame_decoder = OpenAIResponsesDecoder
    _numbers = staticmethod(numbers)

    def _body(self, request: Draft) -> bytes:
        host, info = host_of(request.url), self._cached
        caching = cache_settings(host, request, LIFETIMES, info)
        new = InputEncoder(breakpoints=takes_breakpoints(host, info))
        return self._remembered.encode(request.conversation.messages, new, partial(self._fields, request, caching))

    def _fields(self, request: Draft, caching: JsonObject, encoder: InputEncoder) -> Body:
        """The body, with the fields for OpenAI's cache. The encoder has taken its beginning, or is new."""
        tools, options = request.tools, request.options
        system, messages = split_system(request.conversation)
        encoder.feed_new(messages)
        body: Body = {"model": self.model, "input": array(encoder.items), "stream": True}
        if system:
            body["instructions"] = system
        if tools:
            is_changed = "tools" in options.extra
            body["tools"] = [encode_tool(tool) for tool in tools] if is_changed else self._remembered.tools(tools)
        body |= encode_options(options, tools) | caching
        # Nothing is kept by the service, so that what it thought must come with the answer, sealed.
        body["store"] = False
        # A model that cannot think refuses a request for sealed reasoning.
        thinks = request.info.efforts != ()
        if thinks:
            body["include"] = [SEALED]
        if not options.extra:
            return body
        if options.extra.get("background") is True:
            body["store"] = True  # the service refuses a response in the background that it may not keep
        extra = options.extra
        is_stored = body["store"] is True or extra.get("store") is True
        if isinstance(extra.get("include"), list | tuple) and not is_stored:
            # Without the sealed reasoning the next request could not be sent, since nothing is stored.
            ours = [SEALED] if thinks else []
            more: Json = [*ours, *(one for one in as_array(extra["include"]) if one not in ours)]
            extra = {**extra, "include": more}
        # ``None`` takes these out for every model, also for one that is not sent them.
        return {k: v for k, v in with_extra(body, extra).items() if v is not None or k not in ("store", "include")}

    def background_decoder(self, cursor: str = "") -> ResumableDecoder:
        """The same, for a response that goes on without its connection (``extra={"background": True}``).

        See `BackgroundProvider`.
        """
        return ResponsesBackgroundDecoder(cursor)


class ResponsesBackgroundDecoder(BackgroundDecoder):
    r"""See `BackgroundDecoder`. The events have numbers.

    See https://developers.openai.com/api/docs/guides/background

    A response that another process has begun is requested after its event 0, which has nothing but the name of the
    response.

    Args:
        cursor: See `BackgroundDecoder`.

    >>> decoder = ResponsesBackgroundDecoder()
    >>> data = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}\n\n'
    >>> len(decoder.feed(data)), decoder.feed(data)
    (1, [])
    >>> decoder.resume(HttpRequest("https://api.openai.com/v1/responses", {}, b"{}")).url
    'https://api.openai.com/v1/responses/resp_1?stream=true&starting_after=0'
    """

    def __init__(self, cursor: str = "") -> None:
        super().__init__(OpenAIResponsesDecoder(), cursor)

    def _query(self, sent: HttpRequest) -> list[tuple[str, str]] | None:
        if self._last is None and not self._cursor:
            return None
        include = as_array(as_object(read_json(sent.body)).get("include"))
        included = [("include[]", str(one)) for one in include]
        return [("stream", "true"), ("starting_after", str(self._last or 0)), *included]
