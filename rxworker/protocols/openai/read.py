"""From the requests of OpenAI's clients to messages, tools and settings.

Sources: https://platform.openai.com/docs/api-reference, https://www.openresponses.org/specification. Unknown members
are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from rxworker.errors import LocalProtocolError
from rxworker.events.arguments import parse_arguments
from rxworker.messages import (
    Content,
    Conversation,
    Json,
    JsonObject,
    Message,
    OutputFormat,
    Text,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.protocols.common import FunctionCall, converted, decode_request, latest_from, media, tool_result
from rxworker.providers import Options, ToolChoice
from rxworker.tools.schema import inlined


class OpenAIRequest(Struct, frozen=True):
    """A client's request for an answer.

    Attributes:
        model: The model that it names: the name of a worker.
        conversation: The messages, without the input.
        input: The messages after the last answer, results of the client's tools included.
        system: The system prompt of the client.
        tools: The tools of the client.
        options: The settings that it gives.
        stream: Whether it wants the answer as server-sent events.
        include_usage: Whether a stream of Chat Completions ends with the usage.
        background: Whether the response continues without its client.
        previous: The id of the response that this one continues.
        repeated: The members of the request that the response repeats.
        references: The ids of items of earlier responses that it refers to, and that are not known.
    """

    model: str
    conversation: Conversation
    input: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolMeta, ...] = ()
    options: Options = Options()
    stream: bool = False
    include_usage: bool = False
    background: bool = False
    previous: str | None = None
    repeated: JsonObject = {}
    references: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of the client's tools in the input."""
        return tuple([result for message in self.input for result in message.tool_results])

    @property
    def sent(self) -> tuple[Message, ...]:
        """All messages, the input included."""
        return (*self.conversation.messages, *self.input)

    def settings(self, options: Options) -> Options:
        """A worker's settings with those of the client. A limit of tokens can only become lower."""
        limits = [n for n in (options.max_tokens, self.options.max_tokens) if n is not None]
        given = {n: v for n, v in asdict(self.options).items() if v not in (None, (), {})}
        return replace(options, **given | {"max_tokens": min(limits, default=None)})


Parts: TypeAlias = str | list[JsonObject] | None
Limit: TypeAlias = Annotated[int, Meta(ge=1)] | None
Key: TypeAlias = Annotated[str, Meta(max_length=64)]
Metadata: TypeAlias = Annotated[dict[Key, Annotated[str, Meta(max_length=512)]], Meta(max_length=16)]
"""The client's own data, within the limits of the service."""


class _Function(Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class _ChatMessage(Struct, frozen=True):
    role: str
    content: Parts = None
    tool_calls: tuple[FunctionCall, ...] | None = None
    tool_call_id: str = ""


class _Request(Struct, frozen=True, kw_only=True):
    """The members that the requests of both APIs have."""

    model: str
    stream: bool | None = None
    tools: tuple[JsonObject, ...] | None = None
    tool_choice: str | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None


class _StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class _Completion(_Request, frozen=True):
    messages: tuple[_ChatMessage, ...]
    stream_options: _StreamOptions | None = None
    n: int | None = None
    max_tokens: Limit = None
    max_completion_tokens: Limit = None
    stop: str | tuple[str, ...] | None = None
    response_format: JsonObject | None = None
    reasoning_effort: str | None = None


def read_completion_request(data: bytes) -> OpenAIRequest:
    """Read a request of Chat Completions.

    Raises:
        LocalProtocolError: It is not one, or requires something that is not supported.

    >>> read_completion_request(b'{"model":"desk","messages":[{"role":"user","content":"hi"}]}').input[0].text
    'hi'
    """
    given = decode_request(data, _Completion, "request of Chat Completions")
    if given.n not in (None, 1):
        raise LocalProtocolError("n: a worker gives one answer")
    collector = _Collector()
    for message in given.messages:
        _add_chat(message, collector)
    stop = (given.stop,) if isinstance(given.stop, str) else given.stop or ()
    kept = given.response_format or {}
    output = _output(kept.get("json_schema") if kept.get("type") == "json_schema" else None)
    options = _options(given, given.max_completion_tokens or given.max_tokens, output, given.reasoning_effort, stop)
    tools = [_tool(n, tool, tool.get("function")) for n, tool in enumerate(given.tools or ())]
    include_usage = given.stream_options is not None and given.stream_options.include_usage
    return replace(collector.request(given, options, tools), include_usage=include_usage)


def _options(
    given: _Request, limit: int | None, output: OutputFormat | None, effort: str | None, stop: tuple[str, ...] = ()
) -> Options:
    return Options(
        max_tokens=limit,
        temperature=given.temperature,
        stop_sequences=stop,
        tool_choice=_choice(given.tool_choice),
        parallel_tool_calls=given.parallel_tool_calls,
        thinking=effort,
        output=output,
    )


def _tool(place: int, tool: JsonObject, function: object) -> ToolMeta:
    """The tool at a place of a request, of which a member, or all of it, describes the function."""
    if tool.get("type") != "function":
        kind = str(tool.get("type"))[:40]
        raise LocalProtocolError(f"tools[{place}]: {kind!r} is not supported, only functions are")
    read = converted(function, _Function, f"tools[{place}]")
    schema = inlined(read.parameters or {"type": "object", "properties": {}})
    return ToolMeta(read.name, read.description or "", schema, strict=bool(read.strict))


def _choice(given: str | JsonObject | None) -> ToolChoice | None:
    if given is None:
        return None
    if isinstance(given, str):
        if given not in ("auto", "none", "required"):
            raise LocalProtocolError(f"tool_choice: {given!r} is not supported")
        return ToolChoice(given)
    match given:
        case {"type": "function", "name": str(name)} | {"type": "function", "function": {"name": str(name)}}:
            return ToolChoice("tool", name)
        case _:
            raise LocalProtocolError("tool_choice: give auto, none, required, or a function by its name")


class _Schema(Struct, frozen=True):
    schema: JsonObject
    name: str = "output"


def _output(given: object) -> OutputFormat | None:
    """The format of an answer, from the member that has the schema."""
    if given is None:
        return None
    schema = converted(given, _Schema, "a format of type json_schema needs its schema")
    return OutputFormat(inlined(schema.schema), schema.name)


def _add_chat(message: _ChatMessage, collector: _Collector) -> None:
    match message.role:
        case "system" | "developer" | "user":
            collector.add(message.role, _content(message.content))
        case "assistant":
            calls = [each.call for each in message.tool_calls or ()]
            collector.add("assistant", [*_content(message.content), *calls])
        case "tool":
            collector.add_result(message.tool_call_id, _content(message.content))
        case role:
            raise LocalProtocolError(f"a message has the role {role!r}, which is not supported")


def _content(given: Parts) -> list[Content]:
    """The content of a message of either API."""
    if isinstance(given, str):
        given = [{"type": "text", "text": given}]
    content: list[Content] = []
    for part in given or ():
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)} | {
                "type": "refusal",
                "refusal": str(text),
            }:
                if text:  # clients send empty ones, which providers refuse
                    content.append(Text(text))
            case {"type": "image_url", "image_url": {"url": str(url)}} | {
                "type": "image_url" | "input_image",
                "image_url": str(url),
            }:
                content.append(media("image/png" if url.startswith("http") else "", url=url))
            case {"type": "file", "file": {"file_data": str(data), **more}}:
                content.append(media("", url=data, title=str(more.get("filename", "")) or None))
            case {"type": "input_file", "file_data": str(data), **more}:
                content.append(media("", url=data, title=str(more.get("filename", "")) or None))
            case {"type": "input_file", "file_url": str(url)}:
                content.append(media("application/pdf", url=url))
            case _:
                raise LocalProtocolError(f"content of type {str(part.get('type'))[:40]!r} is not supported")
    return content


# Responses


class _Reasoning(Struct, frozen=True):
    effort: str | None = None


class _TextFormat(Struct, frozen=True):
    format: JsonObject | None = None


class _Item(Struct, frozen=True):
    type: str = "message"
    id: str | None = None
    role: str = ""
    content: Parts = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: Parts = None


class _Response(_Request, frozen=True):
    input: str | tuple[_Item, ...] = ()
    instructions: str | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    max_output_tokens: Limit = None
    text: _TextFormat | None = None
    reasoning: _Reasoning | None = None
    metadata: Metadata | None = None
    store: bool | None = None


def read_response_request(data: bytes, items: Mapping[str, JsonObject] = {}) -> OpenAIRequest:
    """Read a request of Responses.

    Args:
        data: The body.
        items: Items of earlier responses by their ids, which the request may refer to.

    Raises:
        LocalProtocolError: It is not one, or requires something that is not supported.

    >>> read_response_request(b'{"model":"desk","input":"hi"}').input[0].text
    'hi'
    """
    given = decode_request(data, _Response, "request of Responses")
    if given.background and given.store is False:
        raise LocalProtocolError("background: a response in the background has to be stored")
    collector = _Collector()
    if given.instructions:
        collector.add("system", [Text(given.instructions)])
    text_or_items = given.input
    is_text = isinstance(text_or_items, str)
    input_items = (_Item(role="user", content=text_or_items),) if is_text else text_or_items
    references: list[str] = []
    for item in input_items:
        name = item.id or ""
        if item.type != "item_reference":
            _add_item(item, collector)
        elif name in items:
            _add_item(msgspec.convert(items[name], _Item), collector)
        else:
            references.append(name)
    kept = (given.text.format if given.text else None) or {}
    output = _output(kept if kept.get("type") == "json_schema" else None)
    options = _options(given, given.max_output_tokens, output, given.reasoning.effort if given.reasoning else None)
    return replace(
        collector.request(given, options, [_tool(n, tool, tool) for n, tool in enumerate(given.tools or ())]),
        background=bool(given.background),
        previous=given.previous_response_id,
        repeated=_repeated(given, options.tool_choice),
        references=tuple(references),
    )


def _repeated(given: _Response, choice: ToolChoice | None) -> JsonObject:
    """The fields of the request that the response repeats: only small values, since they are stored with the run."""
    named: Json = None
    if choice is not None and choice.mode == "tool":
        named = {"type": "function", "name": choice.name}
    values: JsonObject = {
        "background": given.background,
        "max_output_tokens": given.max_output_tokens,
        "metadata": None if given.metadata is None else dict[str, Json](given.metadata),
        "parallel_tool_calls": given.parallel_tool_calls,
        "previous_response_id": given.previous_response_id,
        "reasoning": given.reasoning and {"effort": given.reasoning.effort, "summary": None},
        "store": given.store,
        "temperature": given.temperature,
        "tool_choice": named or given.tool_choice,
    }
    return {name: value for name, value in values.items() if value is not None}


def _add_item(item: _Item, collector: _Collector) -> None:
    match item.type:
        case "message" if item.role in ("system", "developer", "user", "assistant"):
            collector.add(item.role, _content(item.content))
        case "function_call":
            collector.add("assistant", [ToolCall(item.call_id, item.name, parse_arguments(item.arguments))])
        case "function_call_output":
            collector.add_result(item.call_id, _content(item.output))
        case "reasoning" | "mcp_call":
            pass  # output of this server: a worker remembers it with previous_response_id
        case kind:
            raise LocalProtocolError(f"input of type {kind[:40]!r} is not supported")


class _Collector:
    """Collects the messages of a request; adjacent ones of one role become one."""

    def __init__(self) -> None:
        self._messages: list[tuple[Literal["user", "assistant"], list[Content]]] = []
        self._system: list[str] = []

    def add(self, role: str, content: list[Content]) -> None:
        """Add content of a role; that of the system joins the system prompt."""
        known = "user" if role == "user" else "assistant"
        if role in ("system", "developer"):
            self._system.append("".join(c.text for c in content if isinstance(c, Text)))
        elif content and self._messages and self._messages[-1][0] == known:
            self._messages[-1][1].extend(content)
        elif content:
            self._messages.append((known, content))

    def add_result(self, call_id: str, content: list[Content]) -> None:
        """Add the result of a tool."""
        if not call_id:
            raise LocalProtocolError("the result of a tool needs the id of its call")
        self.add("user", [tool_result(call_id, content)])

    def request(self, given: _Request, options: Options, tools: Iterable[ToolMeta]) -> OpenAIRequest:
        """The request."""
        messages = [Message(role, tuple(content)) for role, content in self._messages]
        last = latest_from(messages)
        return OpenAIRequest(
            given.model,
            Conversation(tuple(messages[:last])),
            tuple(messages[last:]),
            "\n\n".join(filter(None, self._system)),
            tuple(tools),
            options,
            bool(given.stream),
        )
