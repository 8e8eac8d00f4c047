"""A request as its service and its model take it: its tools, its settings, and what an application adds to it. Pure.

One tool that a service refuses would make it refuse each request. So before a request is encoded, the schema of a tool
is changed to what `takes` allows: variants at its top become one object with the members of all, and a name that is not
allowed becomes one that is. Calls in the conversation get the names that are sent, and `OwnNames` gives those of a
response the tools' own again. A tool checks its arguments by its own schema, so what that refuses is still refused.

An amount of thinking is sent in the form that the model has for it: a budget becomes an effort by its size, and an
effort a budget. A setting for which the model has no form is refused before the request is sent.

What an application puts into ``Options.extra`` is sent as it is, but for the sampling parameters (`with_extra`). Its
rules, at every depth:

- An object is merged with an object key by key; the application's values replace ours.
- An object of another ``type`` replaces ours as a whole, since the members of one type mean nothing in another.
- A JSON schema is one value: it replaces ours as a whole.
- ``None`` removes a field that rxworker sets.
- Tools are added to those of the request. One with the same name is merged with it, so that no name is sent twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.events import BlockAbort, BlockStart, BlockStop, InputJsonDelta, InputValueDelta, Opaque, ResponseEvent
from rxworker.events.arguments import whole_arguments
from rxworker.events.block import ToolUseMetadata
from rxworker.messages import Content, Conversation, Grammar, Json, JsonObject, Message, ToolCall, ToolMeta, ToolResult
from rxworker.messages.lenient_json import as_array, as_object, json_text, objects_in
from rxworker.providers.base import HttpRequest, Options, Renamed, ResponseDecoder, resumable
from rxworker.providers.encode_cache import Body
from rxworker.providers.models import ADAPTIVE, ModelInfo, nearest_effort
from rxworker.providers.schema import DIRECT
from rxworker.providers.takes import NO_MEMBERS, VARIANTS, Takes, other_name

DECLARATIONS = "functionDeclarations"
SCHEMAS = frozenset({"schema", "input_schema", "parameters", "parametersJsonSchema", "responseJsonSchema"})

# OpenAI's words for a choice of tools.
MODES = {"auto": "auto", "none": "none", "any": "required"}
# The effort for a budget in tokens: the budget is less than the first number.
EFFORTS = ((1, "none"), (4_096, "low"), (16_384, "medium"))


def effort(thinking: int | str) -> str:
    """The effort that OpenAI's protocols have for an amount of thinking.

    >>> effort("low"), effort(1_024), effort(100_000)
    ('low', 'low', 'high')
    """
    if isinstance(thinking, str):
        return thinking
    return next((word for most, word in EFFORTS if thinking < most), "high")


def settings_as(options: Options, **names: str) -> JsonObject:
    """The settings that are set, under the names that a protocol has for them.

    >>> settings_as(Options(max_tokens=5), max_tokens="maxOutputTokens", temperature="temperature")
    {'maxOutputTokens': 5}
    """
    given: JsonObject = {}
    for setting, name in names.items():
        value = getattr(options, setting)
        if value is not None and value != ():
            given[name] = value
    return given


def with_extra(body: Body, extra: JsonObject, whole: Collection[str] = ()) -> Body:
    """The body with the fields of the application over ours.

    Args:
        body: Our fields.
        extra: The application's fields.
        whole: Fields of the body that are one value and are not merged.

    >>> with_extra({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "d": None, "e": 5})
    {'a': {'b': 4, 'c': 2}, 'e': 5}
    """
    merged: Body = dict(body)
    for key, theirs in extra.items():
        ours = body.get(key)
        if key == "tools" and isinstance(ours, list) and isinstance(theirs, list | tuple):
            merged[key] = merged_tools(ours, theirs)
        elif key in whole and theirs is not None:
            merged[key] = theirs
        else:
            _put(merged, key, theirs)
    return merged


def merged(ours: JsonObject, theirs: JsonObject) -> JsonObject:
    """Two objects as one; see the rules above.

    >>> merged({"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"})
    {'type': 'disabled'}
    """
    if "type" in ours and theirs.get("type", ours["type"]) != ours["type"]:
        return theirs
    made = dict(ours)
    for key, value in theirs.items():
        _put(made, key, value)
    return made


def merged_tools(ours: list[Json], theirs: Collection[Json]) -> list[Json]:
    """Our tools and the application's, each name once.

    A tool that stands in a namespace of the application's (OpenAI) is sent there alone.
    """
    made: list[Json] = [*ours]
    for tool in theirs:
        place = _place(made, tool)
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            made.append({**tool, "tools": [_taken(made, member) for member in as_array(tool.get("tools"))]})
        elif place is None:
            made.append(tool)
        else:
            made[place] = _over(made[place], tool)
    return made


def name_of(tool: Json) -> str | None:
    """The name of a tool, wherever its protocol puts it; Gemini has one tool of all functions.

    >>> name_of({"type": "function", "function": {"name": "look"}}), name_of({"type": "web_search"})
    ('look', None)
    """
    if not isinstance(tool, dict):
        return None
    if DECLARATIONS in tool:
        return DECLARATIONS
    function = tool.get("function")
    name = (function if isinstance(function, dict) else tool).get("name")
    return name if isinstance(name, str) else None


def _put(body: dict[str, Any], key: str, theirs: Json) -> None:
    ours: Json = body.get(key)
    if theirs is None and ours is not None:
        del body[key]
    elif key == DECLARATIONS and isinstance(ours, list) and isinstance(theirs, list | tuple):
        body[key] = merged_tools(ours, theirs)
    elif key not in SCHEMAS and isinstance(ours, dict) and isinstance(theirs, dict):
        body[key] = merged(ours, theirs)
    else:
        body[key] = theirs


def _over(ours: Json, theirs: Json) -> Json:
    return merged(ours, theirs) if isinstance(ours, dict) and isinstance(theirs, dict) else theirs


def _place(tools: list[Json], tool: Json) -> int | None:
    name = name_of(tool)
    if name is None:
        return None
    return next((place for place, one in enumerate(tools) if name_of(one) == name), None)


def _taken(tools: list[Json], tool: Json) -> Json:
    """The tool merged with that of its name, which is taken out of the others."""
    place = _place(tools, tool)
    return tool if place is None else _over(tools.pop(place), tool)


OFF = ("off", "none", "disabled")
DYNAMIC = (ADAPTIVE, "dynamic", "auto")
SAMPLING = ("temperature", "top_p", "top_k")
# The budget for an effort; `effort` gives the same effort for it.
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}


def fitted(model: str, info: ModelInfo, options: Options, room: int | None = None) -> Options:
    """The settings as the model takes them.

    Args:
        model: The model's name, for errors.
        info: What the model takes.
        options: The settings as they were given.
        room: The maximum of tokens that the provider sends where none is given. A budget that becomes an effort counts
            on top of it.

    Raises:
        ConfigurationError: The model does not take a setting; the message names what it takes.

    >>> from rxworker.providers.models import model_info
    >>> fitted("claude-opus-4-8", model_info("claude-opus-4-8"), Options(thinking=8_000)).thinking
    'medium'
    >>> fitted("claude-opus-4-8", model_info("claude-opus-4-8"), Options(temperature=0.2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: 'claude-opus-4-8' takes no temperature: leave it out ...
    More: rxworker docs providers-and-keys
    """
    changed: dict[str, Any] = {}
    thinking = options.thinking
    if thinking is not None:
        thinking = _thinking(model, info, thinking)
    if isinstance(options.thinking, str) and isinstance(thinking, int) and options.max_tokens:
        thinking = min(thinking, options.max_tokens // 2)  # the other half is for the answer
        if 0 < thinking < (info.budget or 0) or (thinking == 0 and options.thinking not in OFF):
            least = 2 * (info.budget or 1)
            raise refused(model, f"needs max_tokens={least} or more to think")
    if thinking != options.thinking:
        changed["thinking"] = thinking
        budget = options.thinking
        if isinstance(budget, int) and options.max_tokens is None and room is not None:
            # An effort counts against the limit as its budget would have.
            most = room + budget
            changed["max_tokens"] = min(most, info.output or most)
    given = {"temperature": options.temperature} if options.temperature is not None else {}
    given |= options.extra
    if info.sampling == "never" or (info.sampling != "always" and _thinks(info, options.thinking)):
        for name in SAMPLING:
            if given.get(name) not in (None, 1):  # the default, which every model takes
                unless = "" if info.sampling == "never" else " unless thinking=0"
                raise refused(model, f"takes no {name}{unless}: leave it out")
        if info.sampling == "never" and options.temperature is not None:
            changed["temperature"] = None
    if info.output is not None and (options.max_tokens or 0) > info.output:
        raise refused(model, f"writes at most {info.output} tokens: lower max_tokens")
    choice = options.tool_choice
    if info.forced != "always" and choice is not None and choice.mode in ("any", "tool"):
        if info.forced == "never":
            raise refused(model, "cannot be forced to call a tool: use ToolChoice('auto')")
        if _thinks(info, options.thinking):
            off = "thinking=0" if info.off is not None else "another model"
            raise refused(model, f"cannot be forced to call a tool while it thinks: use {off}, or ToolChoice('auto')")
    if not info.together and given.get("temperature") is not None and given.get("top_p") is not None:
        raise refused(model, "takes temperature or top_p, not both: leave one of them out")
    if info.structured is False and options.output is not None:
        raise refused(model, "cannot be held to a schema: leave output out, and describe the form")
    return replace(options, **changed) if changed else options


def _thinking(model: str, info: ModelInfo, thinking: int | str) -> int | str | None:
    """The amount of thinking, in a form that the model takes."""
    efforts = info.efforts
    words = [word for word in efforts or () if word != ADAPTIVE]
    if thinking == 0 or thinking in OFF:
        if info.off is None:
            least = f"thinking={words[0]!r}" if words else f"thinking={info.budget}"
            raise refused(model, f"always thinks: leave thinking out, or use {least}")
        return None if info.off == "" else info.off
    if isinstance(thinking, int):
        if info.budget is not None and thinking >= info.budget:
            return thinking
        if info.budget is not None:
            raise refused(model, f"takes a thinking budget from {info.budget} tokens up")
        word = nearest_effort(effort(thinking), words)
        if efforts is None or word is not None:
            return word or thinking
    elif efforts is None or thinking in efforts:
        return thinking
    elif thinking in DYNAMIC and ADAPTIVE in efforts:
        return ADAPTIVE
    elif info.budget is not None and thinking in BUDGETS:
        return BUDGETS[thinking]
    if not (words or info.budget):
        what = "always thinks as it decides" if info.off is None else "does not think"
        raise refused(model, f"{what}: leave thinking out")
    taken = [f"thinking={word!r}" for word in efforts or ()]
    taken += [f"a budget, such as thinking={BUDGETS['low']}"] if info.budget else []
    raise refused(model, f"does not take thinking={thinking!r}: use {' or '.join(taken)}")


def _thinks(info: ModelInfo, thinking: int | str | None) -> bool:
    """Whether the model thinks with this amount."""
    return not info.idle if thinking is None else not (thinking == 0 or thinking in OFF)


def refused(model: str, what: str) -> ConfigurationError:
    """The error for a setting that the model does not take."""
    hint = "if that has changed, pass info=ModelInfo(...) to the provider"
    return ConfigurationError(f"{model!r} {what} ({hint})")


# Where the tools of an application have their names.
_HOLDERS = (DECLARATIONS, "function", "tools")


class FittedTools(Struct, frozen=True):
    """Tools as a service takes them.

    Attributes:
        tools: The tools.
        sent: The names that are sent, by the tool's own name; of those alone that have others.
        own: Their own names, by the name that is sent.
    """

    tools: tuple[ToolMeta, ...] = ()
    sent: Mapping[str, Renamed] = {}
    own: Mapping[str, Renamed] = {}

    def rename(self, conversation: Conversation, options: Options) -> tuple[Conversation, Options]:
        """The conversation, the choice of a tool and the tools of the application with the names that are sent."""
        choice = options.tool_choice
        if choice is not None and (other := self.sent.get(choice.name or "")):
            options = replace(options, tool_choice=replace(choice, name=other.name))
        if "tools" in options.extra:
            options = replace(options, extra={**options.extra, "tools": self._named(options.extra["tools"])})
        return replace(conversation, messages=tuple(map(self._message, conversation.messages))), options

    def _named(self, tools: Json) -> Json:
        if isinstance(tools, list | tuple):
            return [*map(self._named, tools)]
        if not isinstance(tools, dict):
            return tools
        named = {key: self._named(value) for key, value in tools.items() if key in _HOLDERS}
        other = self.sent.get(str(tools.get("name")))
        return {**tools, **named, "name": other.name} if other else {**tools, **named}

    def _message(self, message: Message) -> Message:
        content = tuple(map(self._block, message.content))
        return message if all(map(is_, content, message.content)) else replace(message, content=content)

    def _block(self, block: Content) -> Content:
        if not (isinstance(block, ToolCall | ToolResult) and block.name in self.sent):
            return block
        other = self.sent[block.name]
        if isinstance(block, ToolCall) and isinstance(block.input, dict):
            return replace(block, name=other.name, input=_under(other.keys, block.input))
        return replace(block, name=other.name)


def fit_tools(tools: Sequence[ToolMeta], takes: Takes) -> FittedTools:
    """The tools as the service takes them; one that it takes is returned unchanged.

    Raises:
        ConfigurationError: A tool requires something that the service does not have.

    >>> from rxworker.providers.takes import TAKES
    >>> either: JsonObject = {"anyOf": [{"properties": {"$id": {}}}, {"properties": {"name": {}}}]}
    >>> fit_tools([ToolMeta("find", "", either)], TAKES["anthropic"]).tools[0].input_schema
    {'type': 'object', 'properties': {'_id': {'title': '$id'}, 'name': {}}}
    """
    names = _other_names([tool.name for tool in tools], takes.names)
    fitted: list[ToolMeta] = []
    sent: dict[str, Renamed] = {}
    own: dict[str, Renamed] = {}
    for tool in tools:
        _check(tool, takes)
        name, keys = names.get(tool.name, tool.name), dict[str, str]()
        fitted.append(tool if tool.native is not None else _fitted(tool, takes, name, keys))
        if keys or name != tool.name:
            sent[tool.name] = Renamed(name, keys)
            own[name] = Renamed(tool.name, {other: key for key, other in keys.items()})
    return FittedTools(tuple(fitted), sent, own)


def _check(tool: ToolMeta, takes: Takes) -> None:
    """Raise for a tool that requires something that the service does not have."""
    if isinstance(tool.format, Grammar) and not takes.grammars:
        reason = (
            f"has a grammar, and {takes.name} cannot hold the model to one: use OpenAIResponses, or give the tool "
            "format='text' and check the text in it"
        )
    elif tool.native is not None and not takes.native:
        reason = (
            f"is defined by Anthropic ({tool.native.get('type')}), and {takes.name} does not know it: use Anthropic, "
            "or leave out native=, so that the model is given the description and the schema of the function"
        )
    elif tool.allowed_callers and DIRECT not in tool.allowed_callers and not takes.code:
        reason = (
            f"has allowed_callers={tool.allowed_callers}, and {takes.name} has no code that calls tools: add 'direct', "
            "or use Anthropic or OpenAIResponses"
        )
    else:
        return
    raise ConfigurationError(f"tool {tool.name!r} {reason}")


def _other_names(names: Collection[str], allowed: re.Pattern[str] | None) -> dict[str, str]:
    """Names that are allowed, for those that are not; each is unlike any other."""
    others: dict[str, str] = {}
    for name in names:
        if allowed is not None and not allowed.fullmatch(name):
            others[name] = other_name(name, allowed, (*names, *others.values()))
    return others


def _fitted(tool: ToolMeta, takes: Takes, name: str, keys: dict[str, str]) -> ToolMeta:
    """A tool under a name, with the schema and the description that are sent; adds the other names of its arguments."""
    given, text = tool.input_schema, tool.description
    schema: JsonObject = given if takes.not_at_top.isdisjoint(given) else _merged(given)
    properties = as_object(schema.get("properties"))
    is_odd = schema.get("type", "object") != "object" or schema.get("properties", properties) is not properties
    if is_odd or any(member not in schema for member in takes.at_top):
        schema = {"type": "object", **schema, "properties": properties}
        schema["type"] = "object"
    keys |= _other_names(properties, takes.properties)
    if keys:  # the model reads the own name of an argument as its title
        titled: JsonObject = {
            key: {**part, "title": key} for key, part in properties.items() if key in keys and isinstance(part, dict)
        }
        schema = {**schema, "properties": _under(keys, properties | titled)}
        if needed := as_array(schema.get("required")):
            schema["required"] = [keys.get(str(key), key) for key in needed]
    if takes.description is not None and len(text) > takes.description:  # the rest stands where there is no limit
        text = (text[: takes.description].rsplit(maxsplit=1) or [""])[0]
        rest = (tool.description[len(text) :].strip(), schema.get("description"))
        schema = {**schema, "description": "\n\n".join(str(part) for part in rest if part)}
    if schema is given and name == tool.name:
        return tool
    examples = tuple(_under(keys, example) for example in tool.input_examples)
    return replace(tool, name=name, input_schema=schema, description=text, input_examples=examples)


def _merged(schema: JsonObject) -> JsonObject:
    """An object in place of its variants: with the members of all, of which it requires those that all require."""
    merged = {key: value for key, value in schema.items() if key not in VARIANTS and key not in NO_MEMBERS}
    properties, required = {**as_object(merged.get("properties"))}, dict.fromkeys(as_array(merged.get("required")))
    for keyword in VARIANTS:
        variants = [_merged(part) for part in objects_in(schema.get(keyword))]
        found: dict[str, list[Json]] = {}
        for variant in variants:
            for name, part in as_object(variant.get("properties")).items():
                if part not in found.setdefault(name, []):
                    found[name].append(part)
        for name, unlike in found.items():
            properties.setdefault(name, unlike[0] if len(unlike) == 1 else {"anyOf": unlike})
        needed = [as_array(variant.get("required")) for variant in variants]
        in_all = (name for each in needed for name in each if keyword == "allOf" or all(name in one for one in needed))
        required |= dict.fromkeys(in_all)
    if properties:
        merged["properties"] = properties
    if required:
        merged["required"] = [*required]
    return merged


def _under(keys: Mapping[str, str], members: JsonObject) -> JsonObject:
    """An object under other names."""
    return {keys.get(key, key): value for key, value in members.items()}


class OwnNames:
    """A decoder of the responses to a request that was fitted, which gives calls of tools their own names.

    The arguments of a call with other names are emitted when they are whole.

    Args:
        make: Makes the decoder of the service.
        own: The tools' own names, by the name that was sent.
        notes: Of what the request was sent without, emitted after the first event.
    """

    def __init__(
        self, make: Callable[[], ResponseDecoder], own: Mapping[str, Renamed], notes: Sequence[Opaque] = ()
    ) -> None:
        self._decoder = make()
        self._own = own
        self._notes = notes
        self._held: dict[int, list[InputJsonDelta | InputValueDelta]] = {}

    def feed(self, data: bytes, /) -> Sequence[ResponseEvent]:
        """Take the next bytes; return what they completed."""
        return [*self._named(self._decoder.feed(data))]

    def finish(self) -> Sequence[ResponseEvent]:
        """The bytes ended."""
        return [*self._named(self._decoder.finish())]

    def resume(self, sent: HttpRequest) -> HttpRequest | None:
        """See `ResumableDecoder`."""
        return resumable(self._decoder).resume(sent)

    def cancel(self, sent: HttpRequest) -> HttpRequest | None:
        """See `ResumableDecoder`."""
        return resumable(self._decoder).cancel(sent)

    def _named(self, events: Iterable[ResponseEvent]) -> Iterator[ResponseEvent]:
        for event in self._with_notes(events):
            if isinstance(event, InputJsonDelta | InputValueDelta) and event.index in self._held:
                self._held[event.index].append(event)
                continue
            held = self._held.pop(event.index, None) if isinstance(event, BlockStop | BlockAbort) else None
            call = event.metadata if isinstance(event, BlockStart | BlockStop) else None
            own = self._own.get(call.name) if isinstance(call, ToolUseMetadata) else None
            if held and isinstance(event, BlockStop):
                arguments = whole_arguments(held)
                if own and isinstance(arguments, dict):
                    arguments = _under(own.keys, arguments)
                yield InputJsonDelta(event.index, json_text(arguments))
            if own is None or not isinstance(call, ToolUseMetadata):
                yield event
                continue
            if isinstance(event, BlockStart) and own.keys:
                self._held[event.index] = []
            yield replace(event, metadata=replace(call, name=own.name))

    def _with_notes(self, events: Iterable[ResponseEvent]) -> Iterator[ResponseEvent]:
        for event in events:
            yield event
            yield from self._notes
            self._notes = ()
