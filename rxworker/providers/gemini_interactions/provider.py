"""The Interactions protocol of Google, as a provider: at the developer API, or in a project at Vertex AI.

The input of a request is a row of steps: the user's inputs, the model's outputs, thoughts, calls and their results each
stand for themselves. The rules:

- An answer of this protocol goes back as the steps that it came as: thoughts with their signatures, which the service
  requires unchanged, calls and results of Google's tools, pictures, and steps of unknown kinds. What a block holds
  replaces what its step holds, so a text or an argument that was changed afterwards is sent as changed.
- Of another provider's answer, the texts and the calls go back, and media that have bytes or an address. Its thoughts,
  its own tools' calls and results, and blocks of unknown kinds are left out.
- Pictures, documents and recordings stand in the result of a call. Documents of text are sent as texts, which the
  protocol has no documents for.
- A system message in the middle of a conversation is sent with the role of the user.
- An `OpaqueBlock` of the user's is a content, such as a ``video``, or else a step of its own.
- An answer that the service cut at the limit of one request (``requires_continuation``) is not sent: its token is, and
  the service goes on with it. Where it stores the interaction, it takes the token with the name of that and without the
  input alone.
- Nothing is stored: ``extra={"store": True}`` changes that.

See https://ai.google.dev/api/interactions-api
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject, Message, ToolMeta, content
from rxworker.messages.lenient_json import as_array, as_object
from rxworker.providers.background import BackgroundDecoder
from rxworker.providers.base import HttpRequest, Options, Request, ResumableDecoder, ToolChoice
from rxworker.providers.content import FAILED, arguments, check_role, plain_text, split_system, user_echo
from rxworker.providers.encode_cache import Body
from rxworker.providers.fit import DYNAMIC, effort, settings_as, with_extra
from rxworker.providers.gemini.provider import GoogleService
from rxworker.providers.gemini_interactions.decode import OWNER, TOKEN, GeminiInteractionsDecoder
from rxworker.providers.gemini_interactions.step import CONTENT, JOINS, STEP
from rxworker.providers.gemini_interactions.wire import CALL, OUTPUT, THOUGHT, numbers
from rxworker.providers.takes import TAKES, Media, media, readable, safe_name

NAME = "gemini_interactions"
_TAKES = TAKES[NAME]
INPUT, RESULT = "user_input", "function_result"
# The contents of an input or an output, and the media types that have one of their own.
CONTENTS = ("text", "image", "audio", "document", "video")
MEDIA = ("image", "audio", "video")


def encode(model: str, request: Request) -> Body:
    """The body.

    Args:
        model: The name of the model.
        request: The conversation so far, the tools that the model may call, and the settings. The protocol has no
            switch for parallel calls, so that one does nothing.

    Raises:
        ConfigurationError: A tool requires something that the protocol does not have.
        LocalProtocolError: A picture or document has neither bytes nor an address.
    """
    tools, options = request.tools, request.options
    system, messages = split_system(request.conversation)
    asked, cut = _before_cut(messages)
    steps: list[Json] = [*encode_steps(asked)]
    stored = options.extra.get("background") is True  # the service keeps what runs without its connection
    body: Body = {"model": model, "input": steps, "stream": True, "store": stored}
    if TOKEN in cut:
        body[TOKEN] = cut[TOKEN]
    if system:
        body["system_instruction"] = system
    if tools:
        body["tools"] = [encode_tool(tool) for tool in tools]
    generation = encode_generation(options, bool(tools or options.extra.get("tools")))
    if generation:
        body["generation_config"] = generation
    if options.output is not None:
        schema: JsonObject = {"mime_type": "application/json", "schema": options.output.schema}
        body["response_format"] = {"type": "text", **schema}
    body = with_extra(body, options.extra)
    if cut.get(OWNER) and body.get("store"):  # the service has the input
        body["previous_interaction_id"] = cut[OWNER]
        del body["input"]
    return body


def _before_cut(messages: Sequence[Message]) -> tuple[Sequence[Message], JsonObject]:
    """The messages before answers that the service cut and will continue, and the echo of the last of these."""
    cut: JsonObject = {}
    while messages and messages[-1].provider == NAME:
        echo = messages[-1].echo or {}
        if not isinstance(echo.get(TOKEN), str):
            break
        cut, messages = cut or echo, messages[:-1]
    return messages, cut


def encode_steps(messages: Sequence[Message]) -> list[JsonObject]:
    """The messages as steps, none of them empty."""
    names: dict[str, str] = {}  # of the calls so far, by their ids
    steps: list[JsonObject] = []
    for message in messages:
        check_role(message)
        if message.role != "assistant":
            steps += _user_steps(message.content, names)
            continue
        own = message.provider == NAME
        for block in message.content:
            if isinstance(block, content.ToolCall):
                names[block.id] = safe_name(block.name, _TAKES.names)
            _add_block(block, own, steps)
    return steps


def _user_steps(blocks: Sequence[content.Content], names: dict[str, str]) -> list[JsonObject]:
    """Results and other steps first, then the user's input."""
    steps: list[JsonObject] = []
    contents: list[Json] = []
    for block in blocks:
        if isinstance(block, content.ToolResult):
            steps.append(encode_result(block, names.get(block.tool_use_id, "")))
        elif isinstance(block, content.OpaqueBlock):
            echo = user_echo(block)
            (contents if echo["type"] in CONTENTS else steps).append(echo)
        else:
            contents += _contents(block)
    if contents:
        steps.append({"type": INPUT, "content": contents})
    return steps


def encode_result(result: content.ToolResult, name: str) -> JsonObject:
    """The step that answers a call.

    >>> encode_result(content.ToolResult("1", "no", is_error=True), "look")
    {'type': 'function_result', 'call_id': '1', 'name': 'look', 'result': 'no', 'is_error': True}
    """
    step: JsonObject = {"type": RESULT, "call_id": result.tool_use_id}
    if name or result.name:
        step["name"] = name or safe_name(result.name, _TAKES.names)
    if isinstance(result.content, str) or not result.content:
        reason = FAILED if result.is_error else ""
        step["result"] = result.text or reason
    else:
        step["result"] = [part for block in readable(result.content, _contents) for part in _contents(block)]
    if result.is_error:
        step["is_error"] = True
    return step


def _contents(block: content.Content) -> list[JsonObject]:
    """The contents that a block becomes; none where it is neither a text nor media."""
    if isinstance(block, content.Text | content.Refusal):
        return [{"type": "text", "text": block.text}] if block.text else []
    if not isinstance(block, Media):
        return []
    block = media(block, _TAKES)
    title = block.title if isinstance(block, content.Document) else None
    named: list[JsonObject] = [{"type": "text", "text": f"{title}:"}] if title else []
    if isinstance(block, content.Document) and block.data and block.media_type == "text/plain":
        return [*named, {"type": "text", "text": plain_text(block)}]
    main = block.media_type.partition("/")[0]
    encoded: JsonObject = {"type": main if main in MEDIA else "document", "mime_type": block.media_type}
    uri = None if isinstance(block, content.Audio) else block.url or (None if block.data else block.file_id)
    return [*named, encoded | ({"uri": uri} if uri else {"data": block.data})]


def _add_block(block: content.Content, own: bool, steps: list[JsonObject]) -> None:
    """Add a block of an answer, to the step of the block before it or as a step of its own."""
    echo: JsonObject = (getattr(block, "echo", None) or {}) if own else {}
    kept = as_object(echo.get(STEP))
    if isinstance(block, content.ToolCall):
        call: JsonObject = {"id": block.id, "name": safe_name(block.name, _TAKES.names), "arguments": arguments(block)}
        steps.append({"type": CALL, **kept, **call})
    elif isinstance(block, content.Thinking):
        if own:
            steps.append({"type": THOUGHT, **_thought(block), **kept})
    elif CONTENT in echo or isinstance(block, content.Text | content.Refusal | content.Image | content.Document):
        contents = _output(block, echo, own)
        if contents and JOINS in echo and steps and steps[-1]["type"] == OUTPUT:
            steps[-1] = {**steps[-1], **kept, "content": [*as_array(steps[-1]["content"]), *contents]}
        elif contents:
            steps.append({"type": OUTPUT, **kept, "content": [*contents]})
    elif kept and isinstance(block, content.ProviderBlock):
        steps.append(kept)


def _thought(block: content.Thinking) -> JsonObject:
    thought: JsonObject = {}
    if block.text:
        thought["summary"] = [{"type": "text", "text": block.text}]
    if block.signature:
        thought["signature"] = block.signature
    return thought


def _output(block: content.Content, echo: JsonObject, own: bool) -> list[JsonObject]:
    """The contents of an output that a block becomes."""
    if isinstance(found := echo.get(CONTENT), dict):
        return [found]
    if isinstance(block, content.Text) and own and block.citations and block.text:
        return [{"type": "text", "text": block.text, "annotations": [*block.citations]}]
    if isinstance(block, content.Image | content.Document) and not (block.data or block.url):
        return []  # what another provider made and keeps
    return _contents(block)


def encode_tool(tool: ToolMeta) -> JsonObject:
    """A tool as the model sees it.

    >>> encode_tool(ToolMeta("now", "", {"type": "object"}))
    {'type': 'function', 'name': 'now', 'parameters': {'type': 'object'}}
    """
    encoded: JsonObject = {"type": "function", "name": tool.name}
    if tool.description:
        encoded["description"] = tool.description
    encoded["parameters"] = tool.input_schema
    if tool.defer_loading:
        encoded["defer_loading"] = True
    return encoded


def encode_choice(choice: ToolChoice) -> Json:
    """Whether the model must call a tool.

    >>> encode_choice(ToolChoice("tool", "look"))
    {'allowed_tools': {'mode': 'any', 'tools': ['look']}}
    """
    if choice.mode == "tool":
        return {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    return choice.mode


def encode_generation(options: Options, has_tools: bool) -> JsonObject:
    """The limits, the randomness, the thinking, and whether a tool must be called."""
    encoded = settings_as(
        options, max_tokens="max_output_tokens", temperature="temperature", stop_sequences="stop_sequences"
    )
    if options.thinking is not None:
        encoded |= encode_thinking(options.thinking)
    if has_tools and options.tool_choice is not None:
        encoded["tool_choice"] = encode_choice(options.tool_choice)
    return encoded


def encode_thinking(thinking: int | str) -> JsonObject:
    """How hard the model thinks; its thoughts are then reported in summaries.

    The protocol has levels alone: a budget becomes the level of its size, and ``adaptive`` leaves it to the model.

    Raises:
        ConfigurationError: The model has no level for no thinking.

    >>> encode_thinking("high"), encode_thinking(2_048)["thinking_level"]
    ({'thinking_level': 'high', 'thinking_summaries': 'auto'}, 'low')
    """
    if thinking == 0:
        raise ConfigurationError("GeminiInteractions cannot turn thinking off: use thinking='low', or Gemini")
    summaries: JsonObject = {"thinking_summaries": "auto"}
    return summaries if thinking in DYNAMIC else {"thinking_level": effort(thinking), **summaries}


REVISION = "2026-05-20"
"""The form of requests and events: the first that has steps.

See https://ai.google.dev/gemini-api/docs/interactions-breaking-changes-may-2026
"""


class GeminiInteractions(GoogleService):
    """Gemini, by Google's Interactions protocol.

    The requests let the service store nothing, and hold the whole conversation with the signatures of the model's
    thoughts; ``extra={"store": True}`` changes the first. An agent is ``extra={"agent": "...", "model": None}``.

    With ``extra={"background": True}`` the response goes on at the service, and is stored there, when the connection is
    cut: a client then goes on with the events that have not come. Disposing the stream cancels the response.

    A ``project``, a ``location`` or an ``access_token`` means Vertex AI; without any of them it is the developer API.

    Args:
        model: The name of the model, for example ``gemini-3.8-flash``.
        api_key: As for `Gemini`.
        base_url: As for `Gemini`.
        project: As for `Gemini`.
        location: As for `Gemini`.
        address: As for `Gemini`.
        headers: As for `Gemini`. ``api-revision`` is the form of requests and events.
        info: As for `Gemini`.
        access_token: As for `Gemini`.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = GeminiInteractions("gemini-3.8-flash", api_key="AIza-secret")
    >>> provider.request(Conversation(), (), Options()).url
    'https://generativelanguage.googleapis.com/v1beta/interactions'
    """

    name = NAME
    _encode = staticmethod(encode)
    _has_background = True
    _own_headers: ClassVar[Mapping[str, str]] = {"api-revision": REVISION}
    _roots = ("/v1beta", "/v1beta1")
    _frame_decoder = GeminiInteractionsDecoder
    _numbers = staticmethod(numbers)

    def _path(self, place: str) -> str:
        return f"{place}/interactions"

    def background_decoder(self, cursor: str = "") -> ResumableDecoder:
        """The same, for a response that goes on without its connection (``extra={"background": True}``).

        Args:
            cursor: The id of a response that another process has begun: ``resume`` then gives the request for all of
                its events.
        """
        return InteractionsBackgroundDecoder(cursor)


class InteractionsBackgroundDecoder(BackgroundDecoder):
    r"""See `BackgroundDecoder`.

    The events have names (``event_id``), and all events are requested of an interaction that has no step yet.

    Args:
        cursor: See `BackgroundDecoder`.

    See https://ai.google.dev/gemini-api/docs/background-execution

    >>> decoder = InteractionsBackgroundDecoder()
    >>> data = b'data: {"event_type":"interaction.created","event_id":"e1","interaction":{"id":"v1_a"}}\n\n'
    >>> len(decoder.feed(data)), decoder.feed(data)
    (1, [])
    >>> decoder.resume(HttpRequest("https://h/v1beta/interactions", {}, b"{}")).url
    'https://h/v1beta/interactions/v1_a?stream=true&last_event_id=e1'
    """

    def __init__(self, cursor: str = "") -> None:
        self._interaction = GeminiInteractionsDecoder(outlives_errors=True)
        super().__init__(self._interaction, cursor)

    def _query(self, sent: HttpRequest) -> list[tuple[str, str]] | None:
        del sent
        if self._last is not None:
            return [("stream", "true"), ("last_event_id", str(self._last))]
        return None if self._interaction.steps else [("stream", "true")]
