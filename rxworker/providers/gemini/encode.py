"""A conversation to the body of a generateContent request.

Roles alternate: adjacent messages of one role become one content. The results of calls are first in theirs, one for
each call and in the order of the calls; they are matched by order and name, and by id only if Gemini gave one. The
bytes of pictures and documents are in their result from Gemini 3 on; anything else, and all of it for older models,
follows after all results. System messages in the middle of a conversation are sent with the role of the user.

Gemini's own parts are sent back where they were: signatures (``thoughtSignature``), thoughts, the calls and results of
Google's tools, pictures, and parts of unknown kinds. Of another provider's answer,

- text, refusals (as text) and calls are sent, and media that have bytes or an address;
- thoughts, citations, signatures, calls of the provider's own tools and blocks of unknown kinds are left out;
- the ids of calls are left out, since Gemini matches results by order and name.

From Gemini 3 on, a step whose first call has no signature is refused. For a call from another provider, the placeholder
that Google documents is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from rxworker.messages import Json, JsonObject, Message, ToolMeta, content
from rxworker.providers.base import Options, Request, ToolChoice
from rxworker.providers.content import FAILED, arguments, check_role, split_system, user_echo
from rxworker.providers.encode_cache import Body
from rxworker.providers.fit import DYNAMIC, settings_as, with_extra
from rxworker.providers.gemini.wire import CALL, SIGNATURE, SNAKE, split
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
