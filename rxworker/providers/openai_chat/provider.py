"""The Chat Completions protocol, of OpenAI and of the many servers that are compatible with it, as a provider.

In a request, tool results are messages of their own and follow the call they answer at once. They hold text only, so
pictures and documents in them go into the user message after them. What a compatible server wants to see again
(DeepSeek's thinking, OpenRouter's details, Google's signatures) is sent back if this provider's answer carried it and
the server takes it by `dialects`, which also defines what ids of calls look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Unpack

import msgspec
from msgspec import Raw
from msgspec.json import encode as to_json
from msgspec.structs import replace

from rxworker.messages import Json, JsonObject, Message, ToolMeta, content
from rxworker.providers.base import Options, ToolChoice
from rxworker.providers.content import FAILED, arguments, data_url, flat, titled_text, user_echo, with_schema
from rxworker.providers.encode_cache import (
    Body,
    MessageEncoder,
    Part,
    array,
    cache_settings,
    set_breakpoint,
    takes_breakpoints,
)
from rxworker.providers.endpoint import host_of
from rxworker.providers.fit import MODES, effort, refused, settings_as, with_extra
from rxworker.providers.models import model_info
from rxworker.providers.openai_chat.choice import CUSTOM, DETAILS, FIELD, REASONING, REASONING_CONTENT, merge_details
from rxworker.providers.openai_chat.decode import OpenAIChatDecoder
from rxworker.providers.openai_chat.dialects import COMPATIBLE, IMAGES, OPENAI, REFUSAL, Dialect, dialect_of, for_maker
from rxworker.providers.openai_chat.wire import numbers
from rxworker.providers.origin import maker_of
from rxworker.providers.schema import answer_schema, strict_arguments
from rxworker.providers.service import Draft, OpenAIService, Settings
from rxworker.providers.takes import FORMATS, TAKES, PartEncoders, media, readable, safe_name

NAME = "openai_chat"
_TAKES = TAKES[NAME]
decode_messages = msgspec.json.Decoder(list[JsonObject]).decode


class MessagesEncoder(MessageEncoder):
    """Messages to those of the protocol.

    Args:
        dialect: The dialect of the server.
        has_tools: Whether the request has tools.
        breakpoints: Whether a cache point in a message of the user's is sent.

    Attributes:
        dialect: The same.
        breakpoints: The same.
    """

    def __init__(self, dialect: Dialect = COMPATIBLE, *, has_tools: bool = False, breakpoints: bool = False) -> None:
        self._demands_all = has_tools and dialect.demands_reasoning == "answers"
        self.settings = dialect, breakpoints, self._demands_all
        self.dialect = dialect
        self.breakpoints = breakpoints
        # The messages up to the last answer, with the results of its calls, after which others may come; and the rest.
        self._answered: list[Part] = []
        self._rest: list[Part] = []
        self._asked = 0  # how many of these were before the last answer
        self._ids: dict[str, str] = {}  # how the calls are named to the service
        self._has_results = False  # since the last answer

    def feed(self, message: Message) -> None:
        """Take the next message."""
        if message.role == "assistant":
            self._take_answer(message)
        elif message.role == "system":
            self._rest += _system(message.text)
        else:
            results: list[JsonObject] = []
            parts: list[JsonObject] = []
            for block in message.content:
                if isinstance(block, content.ToolResult):
                    if not isinstance(block.content, str):
                        block = replace(block, content=readable(block.content, self._encode))
                    results.append(_result(block, self._ids, self.dialect))
                    if isinstance(block.content, str):
                        continue
                elif isinstance(block, content.CachePoint):
                    set_breakpoint(parts, block, wanted=self.breakpoints)
                parts += self._encode(block)
            if results:
                self._has_results = True
                self._answered += self.parts(results)
            if parts:
                self._rest += self.parts([{"role": "user", "content": flat(parts)}])

    def messages(self, system: str | None, mark: JsonObject | None = None) -> Raw | tuple[Raw | JsonObject, ...]:
        """The messages so far.

        Args:
            system: The system prompt.
            mark: A cache mark for the system prompt, for the last message, and for the one with which the request
                before ended.
        """
        before = _system(system)
        parts: list[Part] = [*before, *self._answered, *self._since_results()]
        if mark is not None and parts:
            ends = {0 if before else -1, len(before) + self._asked - 1, len(parts) - 1}
            for at in ends - {-1}:
                parts[at] = _with_mark(parts[at], mark)
        return array(parts)

    def _take_answer(self, message: Message) -> None:
        own, dialect = message.provider == NAME, self.dialect
        text = refusal = ""
        calls: list[Json] = []
        images: list[Json] = []
        thinking: list[content.Thinking] = []
        for block in message.content:
            if isinstance(block, content.ToolCall):
                call_id = self._ids[block.id] = dialect.named(block.id, own)
                calls.append(_call(block, call_id, own, dialect))
            elif isinstance(block, content.Text):
                text += block.text
            elif isinstance(block, content.Refusal):
                refusal += block.text
            elif isinstance(block, content.Thinking) and own:
                thinking.append(block)
            elif isinstance(block, content.Image) and own and block.echo and IMAGES in dialect.echoes:
                images.append(block.echo)
        # Thinking alone is not an answer: the response was cut before its text began.
        if not (calls or refusal or text or images):
            return
        encoded = _text_fields(text, refusal, own and REFUSAL in dialect.echoes)
        if calls:
            encoded["tool_calls"] = calls
        if images:
            encoded[IMAGES] = images
        is_demanded = self._demands_all or (dialect.demands_reasoning != "" and bool(calls))
        if thinking or is_demanded:
            encoded |= _thinking(thinking, bool(calls), dialect, is_demanded=is_demanded)
        self._asked = len(self._answered) + len(self._rest)
        self._answered += [*self._since_results(), *self.parts([encoded])]
        self._rest.clear()
        self._has_results = False

    def _since_results(self) -> list[Part]:
        """The messages after the results of the last answer."""
        between = self.dialect.after_results
        if not (between and self._has_results and self._rest):
            return self._rest
        return [*self.parts([{"role": "assistant", "content": between}]), *self._rest]

    def _encode(self, block: object) -> list[JsonObject]:
        """The parts of a block of the user's, or of a result."""
        if isinstance(block, content.Document):
            return _document(block, self.dialect)
        if isinstance(block, content.ToolResult):
            return _of_result(block, self._encode)
        encoder = PARTS.get(type(block))
        return encoder(block) if encoder else []


def _system(text: str | None) -> list[bytes]:
    return [to_json({"role": "system", "content": text})] if text else []


def _with_mark(part: Part, mark: JsonObject) -> Part:
    """Messages, of which the last has a cache mark at the end of its content, if it has some.

    What was kept of them is not changed.
    """
    messages = decode_messages(b"[%b]" % part) if isinstance(part, bytes) else [part]
    given = messages[-1].get("content")
    blocks: Json = [{"type": "text", "text": given}] if isinstance(given, str) else given
    last = blocks[-1] if isinstance(blocks, list) and given else None
    if not isinstance(blocks, list) or not isinstance(last, dict):
        return part
    marked: JsonObject = {**messages[-1], "content": [*blocks[:-1], {**last, "cache_control": mark}]}
    return to_json([*messages[:-1], marked])[1:-1] if isinstance(part, bytes) else marked


def _text_fields(text: str, refusal: str, apart: bool) -> JsonObject:
    """A message of the model, with its refusal separate or as text."""
    if refusal and apart:
        return {"role": "assistant", "content": text or None, REFUSAL: refusal}
    return {"role": "assistant", "content": text + refusal or None}


def _thinking(blocks: Iterable[content.Thinking], called: bool, dialect: Dialect, *, is_demanded: bool) -> JsonObject:
    texts: dict[str, str] = {}
    details: list[JsonObject] = []
    encoded: JsonObject = {}
    for block in blocks:
        echo = block.echo or {}
        field = echo.get(FIELD)
        if isinstance(field, str):
            texts[field] = texts.get(field, "") + block.text
        if isinstance(kept := echo.get(DETAILS), list):
            details += [detail for detail in kept if isinstance(detail, dict)]
    if called or is_demanded:  # it goes back under the name that it came by
        encoded |= {field: text for field, text in texts.items() if field in dialect.echoes}
    if is_demanded:
        encoded[REASONING_CONTENT] = texts.get(REASONING_CONTENT) or texts.get(REASONING) or dialect.no_reasoning
    if details and DETAILS in dialect.echoes:
        encoded[DETAILS] = merge_details(details)
    return encoded


def _call(call: content.ToolCall, call_id: str, own: bool, dialect: Dialect) -> JsonObject:
    text = to_json(arguments(call)).decode()
    encoded: JsonObject = {
        "id": call_id,
        "type": "function",
        "function": {"name": safe_name(call.name), "arguments": text},
    }
    if not own or not call.echo:
        return encoded
    if call.echo.get("type") == CUSTOM:
        given = call.input if isinstance(call.input, str) else text
        return {"id": call_id, "type": CUSTOM, CUSTOM: {"name": safe_name(call.name), "input": given}}
    return {field: value for field, value in call.echo.items() if field in dialect.echoes} | encoded


def _result(result: content.ToolResult, ids: Mapping[str, str], dialect: Dialect) -> JsonObject:
    text = result.text
    if not text and result.is_error:
        text = FAILED
    elif not text and result.content:
        text = "The result is in the next message."
    call_id = ids.get(result.tool_use_id) or dialect.named(result.tool_use_id, own=True)
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _text(block: content.Text | content.Refusal) -> list[JsonObject]:
    return [{"type": "text", "text": block.text}] if block.text else []


def _audio(block: content.Audio) -> list[JsonObject]:
    block = media(block, _TAKES)
    return [{"type": "input_audio", "input_audio": {"data": block.data, "format": FORMATS[block.media_type]}}]


def _image(block: content.Image) -> list[JsonObject]:
    return [{"type": "image_url", "image_url": {"url": data_url(media(block, _TAKES))}}]


def _document(block: content.Document, dialect: Dialect) -> list[JsonObject]:
    title = block.title or "document"
    if block.url:  # the protocol has no document by its address
        return [{"type": "text", "text": f"{title}: {block.url}"}]
    block = media(block, _TAKES, dialect.documents)
    if not block.data:
        return [{"type": "file", "file": {"file_id": block.file_id}}]
    if block.media_type.startswith("text/"):
        return [{"type": "text", "text": titled_text(block)}]
    if form := dialect.document_part:
        return [{"type": form, form: data_url(block), "document_name": title}]
    return [{"type": "file", "file": {"filename": title, "file_data": data_url(block)}}]


def _opaque(block: content.OpaqueBlock) -> list[JsonObject]:
    return [user_echo(block)]


def _of_result(block: content.ToolResult, encode: Callable[[object], list[JsonObject]]) -> list[JsonObject]:
    """The media of a result, after a line that names its call."""
    if isinstance(block.content, str):
        return []
    shown = [p for one in block.content if not isinstance(one, content.Text) for p in encode(one)]
    return [{"type": "text", "text": f"From the result of call {block.tool_use_id}:"}, *shown] if shown else []


def encode_tool(tool: ToolMeta) -> JsonObject:
    """A tool as the model sees it. Calls of tools with free text are not streamed, so it is a function with one string.

    Raises:
        ConfigurationError: The tool is strict, and the model cannot be held to its schema.
    """
    schema = strict_arguments(tool.input_schema, tool.name) if tool.strict else tool.input_schema
    function: JsonObject = {"name": tool.name, "parameters": schema}
    if tool.description:
        function["description"] = tool.description
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> Json:
    if choice.mode == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return MODES[choice.mode]


# What a block of the user's becomes. Blocks that are not in the table cannot be sent by a user.
PARTS: PartEncoders = {
    content.Text: _text,
    content.Image: _image,
    content.Audio: _audio,
    content.OpaqueBlock: _opaque,
    content.Refusal: _text,
}


class OpenAIChat(OpenAIService):
    """A model that speaks the Chat Completions protocol.

    Args:
        model: The name of the model, for example ``gpt-5.4-mini``.
        api_key: The key; without one, the environment variable ``OPENAI_API_KEY`` is read for each request. A server of
            your own (``base_url``) needs none. A function or a coroutine function that returns it is called for each
            request.
        base_url: Where the service is, for example ``http://127.0.0.1:11434``; without one, ``OPENAI_BASE_URL``, or
            else OpenAI. A query, such as Azure's ``?api-version=...``, is kept.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` or ``api-key`` among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
        dialect: The requirements of the server; without one, those of its host, as far as it is known.

    Raises:
        ConfigurationError: The ``base_url`` is not an address, or a header cannot be sent.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> OpenAIChat("llama3.2", base_url="http://127.0.0.1:11434").request(Conversation(), (), Options()).url
    'http://127.0.0.1:11434/v1/chat/completions'
    """

    name = NAME
    _path = "/chat/completions"
    _encode_tool = staticmethod(encode_tool)
    _frame_decoder = OpenAIChatDecoder
    _numbers = staticmethod(numbers)

    def __init__(self, model: str, *, dialect: Dialect | None = None, **settings: Unpack[Settings]) -> None:
        super().__init__(model, **settings)
        self._dialect = dialect

    @property
    def dialect(self) -> Dialect:
        """The requirements of the server, as far as they are known."""
        return self._dialect_at(self._address or self._url())

    def _dialect_at(self, url: str) -> Dialect:
        return self._dialect or for_maker(dialect_of(url), maker_of(self.model))

    @property
    def structures_beside_tools(self) -> bool:
        """See `Service`."""
        return super().structures_beside_tools and self.dialect.schemas_beside_tools

    def _settled(self, request: Draft) -> Options:
        info, options = request.info, request.options
        if self._info is None and model_info(self.model).vendor != info.vendor:
            return options  # the host alone shows too little
        if options.stop_sequences and not info.stops:
            raise refused(self.model, "takes no stop_sequences: leave them out")
        # What other hosts make of such a request is their own matter.
        is_own = dialect_of(request.url) is OPENAI
        if not (is_own and request.tools) or info.chat_tools == "always":
            return options
        if info.off is None:
            raise refused(self.model, "takes no tools by Chat Completions: use OpenAIResponses")
        if options.thinking not in (None, 0):
            raise refused(
                self.model, "takes no tools with thinking by Chat Completions: use OpenAIResponses, or thinking=0"
            )
        needs_off = info.chat_tools == "without thinking" and "reasoning_effort" not in options.extra
        return replace(options, thinking=0) if needs_off else options

    def _body(self, request: Draft) -> bytes:
        dialect = self._dialect_at(request.url)
        info, host = self._cached, host_of(request.url)
        marks = info.caching == "marks" and info.vendor in dialect.cache_marks
        new = MessagesEncoder(dialect, has_tools=bool(request.tools), breakpoints=takes_breakpoints(host, info))
        caching = cache_settings(host, request, ("30m",), info)
        fields = partial(self._fields, request, caching, marks)
        return self._remembered.encode(request.conversation.messages, new, fields)

    def _fields(self, request: Draft, caching: JsonObject, marks: bool, encoder: MessagesEncoder) -> Body:
        """The body, with the fields for OpenAI's cache, and with marks of what may be cached where a server takes them.

        The encoder has taken the beginning of the conversation, or is new.
        """
        conversation, tools, options = request.conversation, request.tools, request.options
        dialect = encoder.dialect
        encoder.feed_new(conversation.messages)
        system = conversation.system
        if options.output is not None and not dialect.has_schemas:
            system = with_schema(system, options.output.schema)
        mark: JsonObject | None = None
        if marks and options.cache == "auto":
            mark = {"type": "ephemeral"}
            if options.cache_ttl:
                mark["ttl"] = options.cache_ttl
        body: Body = {"model": self.model, "messages": encoder.messages(system, mark), "stream": True}
        if dialect.usage_option:
            body["stream_options"] = {"include_usage": True}
        body |= dict.fromkeys(dialect.flags, True)
        if tools:
            body |= dict.fromkeys(dialect.tool_flags, True)
            is_changed = "tools" in options.extra
            body["tools"] = [encode_tool(tool) for tool in tools] if is_changed else self._remembered.tools(tools)
            if options.tool_choice is not None:
                body["tool_choice"] = _tool_choice(options.tool_choice)
            if options.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = options.parallel_tool_calls
        body |= settings_as(options, max_tokens=dialect.limit, stop_sequences="stop", temperature="temperature")
        body |= caching
        if options.thinking == 0 and dialect.switch:
            body["thinking"] = {"type": "disabled"}
        elif options.thinking is not None:
            body["reasoning_effort"] = effort(options.thinking)
        if options.output is not None:
            body["response_format"] = (
                {"type": "json_schema", "json_schema": answer_schema(options.output)}
                if dialect.has_schemas
                else {"type": "json_object"}
            )
        return with_extra(body, options.extra) if options.extra else body
