"""The settings of a request in the Messages protocol, and cache control.

A cache mark is on the block before a `CachePoint`. Thinking cannot carry a mark, so it goes to the block before. A
point with only the tools and the system text before it marks these. Anthropic accepts four marks in a request, over
tools, system text and messages in this order; of more points the last ones count, since each covers what the earlier
ones would have covered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Raw
from msgspec.json import encode as to_json
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.messages import CachePoint, Conversation, Json, JsonObject, Thinking, ToolMeta
from rxworker.messages.lenient_json import as_object, objects_in, word
from rxworker.providers.base import AUTO, Options, ToolChoice
from rxworker.providers.content import split_system
from rxworker.providers.encode_cache import Body
from rxworker.providers.fit import SAMPLING, refused
from rxworker.providers.models import ADAPTIVE
from rxworker.providers.schema import PROGRAMMATIC, held_arguments
from rxworker.providers.service import Draft

BETWEEN_TOOLS = "between_tools"
TOOLSET = "toolset_name"
"""The member with the toolset of a call, which its result must repeat."""
_TOOLSET = re.compile(r"[a-z]+_toolset_\d{8}")
# anthropic 2.14: types/beta/beta_computer_toolset_configs_param.py. Each is offered to the model unless it is turned
# off.
_COMPUTER = (
    "cursor_position double_click hold_key key left_click left_click_drag left_mouse_down left_mouse_up "
    "middle_click mouse_move right_click screenshot scroll triple_click type wait zoom"
)
MEMBERS = {"computer_toolset_20260801": _COMPUTER.split()}


def toolset_of(tool: ToolMeta) -> str | None:
    """The type of the toolset of Anthropic's that a tool is a member of."""
    kind = tool.native.get("type") if tool.native else None
    return kind if isinstance(kind, str) and _TOOLSET.fullmatch(kind) else None


def with_toolsets(tools: Sequence[ToolMeta]) -> Sequence[ToolMeta]:
    """The tools, with one in place of all members of a toolset, which turns off the members that are not among them.

    Raises:
        ConfigurationError: A tool is not a member of its toolset, or has a setting that no member has.
    """
    members: dict[str, list[ToolMeta]] = {}
    for tool in tools:
        if tool.native and (kind := toolset_of(tool)):
            members.setdefault(kind, []).append(tool)
    merged: list[ToolMeta] = []
    for tool in tools if members else ():
        kind = toolset_of(tool)
        if kind is None:
            merged.append(tool)
        elif group := members.pop(kind, None):
            merged.append(_toolset(kind, group))
    return merged or tools


def _toolset(kind: str, members: Sequence[ToolMeta]) -> ToolMeta:
    known, names = MEMBERS.get(kind, ()), {tool.name for tool in members}
    configs: JsonObject = {name: {"enabled": False} for name in known if name not in names}
    native: JsonObject = {}
    for tool in members:
        if known and tool.name not in known:
            raise ConfigurationError(
                f"tool {tool.name!r} is not a member of {kind}: give it the name of one of {', '.join(known)}"
            )
        if tool.strict or tool.defer_loading or tool.allowed_callers or tool.input_examples:
            raise ConfigurationError(
                f"tool {tool.name!r} is a member of {kind}, and takes neither strict, defer_loading, allowed_callers "
                "nor input_examples: leave them out"
            )
        native |= tool.native or {}
        configs |= as_object(native.pop("configs", None))
    if configs:
        native["configs"] = configs
    marks = [tool.cache_control for tool in members if tool.cache_control]
    return ToolMeta(kind, "", {}, cache_control=marks[-1] if marks else None, native=native)


def encode_tool(tool: ToolMeta, code: str | None = None) -> JsonObject:
    """A tool as the model sees it.

    Args:
        tool: The tool.
        code: The type of the request's code execution tool, which is what Anthropic calls a programmatic caller.

    Raises:
        ConfigurationError: The tool requires something that the protocol does not have.
    """
    encoded: JsonObject
    if tool.native is not None:
        # https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview: the service has the schema of these
        encoded = {**tool.native}
        if toolset_of(tool) is None:
            encoded["name"] = tool.name
    else:
        schema = held_arguments(tool.input_schema, tool.name) if tool.strict else tool.input_schema
        encoded = {"name": tool.name, "input_schema": schema}
        if tool.description:
            encoded["description"] = tool.description
    if tool.strict:
        encoded["strict"] = True
    if tool.defer_loading:
        encoded["defer_loading"] = True
    if tool.allowed_callers:
        encoded["allowed_callers"] = [_caller(one, code, tool) for one in tool.allowed_callers]
    if tool.input_examples:
        encoded["input_examples"] = [*tool.input_examples]
    if tool.cache_control is not None:
        if tool.defer_loading:
            raise ConfigurationError(
                f"tool {tool.name!r} has both defer_loading and cache_control, which Anthropic refuses: put the mark "
                "on a tool that is loaded at once"
            )
        encoded["cache_control"] = cache_control(tool.cache_control.ttl)
    return encoded


def _caller(caller: str, code: str | None, tool: ToolMeta) -> str:
    if caller != PROGRAMMATIC:
        return caller
    if code is None:
        raise ConfigurationError(
            f"tool {tool.name!r} may be called by code, and the request has no code execution tool: add one with "
            'Options(extra={"tools": [{"type": "code_execution_20260120", "name": "code_execution"}]})'
        )
    return code


def code_tool(extra: JsonObject) -> str | None:
    """The type of the code execution tool among the extra tools, if there is one.

    >>> code_tool({"tools": [{"type": "code_execution_20260120", "name": "code_execution"}]})
    'code_execution_20260120'
    """
    for tool in objects_in(extra["tools"]) if "tools" in extra else ():
        kind = word(tool.get("type"))
        if kind.startswith("code_execution_"):
            return kind
    return None


def encode_choice(choice: ToolChoice | None, parallel: bool | None) -> JsonObject:
    """Whether the model must call a tool, and how many at once."""
    choice = choice or AUTO
    encoded: JsonObject = {"type": choice.mode}
    if choice.mode == "tool":
        encoded["name"] = choice.name
    if parallel is not None and choice.mode != "none":
        encoded["disable_parallel_tool_use"] = not parallel
    return encoded


def limit_of(options: Options, default: int) -> int:
    """The maximum of tokens to write.

    Raises:
        ConfigurationError: The thinking budget leaves no room for the answer.
    """
    budget = options.thinking if isinstance(options.thinking, int) else 0
    if options.max_tokens is None:
        return default + budget  # the budget counts against the limit, the answer keeps its room
    if 0 < options.max_tokens <= budget:
        raise ConfigurationError(
            f"thinking={budget} must be less than max_tokens={options.max_tokens}: the budget is a "
            "part of what may be written"
        )
    return options.max_tokens


def encode_compaction(tokens: int) -> JsonObject:
    """The edit with which the service shortens the conversation.

    See anthropic 2.14: types/beta/beta_compact_20260112_edit_param.py.

    Raises:
        ConfigurationError: The service does not compact from so few tokens on.

    >>> encode_compaction(100_000)
    {'edits': [{'type': 'compact_20260112', 'trigger': {'type': 'input_tokens', 'value': 100000}}]}
    """
    if tokens < LEAST_TO_COMPACT:
        raise ConfigurationError(
            f"compact_at={tokens}: Anthropic compacts from {LEAST_TO_COMPACT} tokens up "
            "(https://platform.claude.com/docs/en/build-with-claude/compaction)"
        )
    return {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": tokens}}]}


def encode_thinking(thinking: int | str) -> JsonObject:
    """How hard the model thinks: the fields of the body for it.

    Args:
        thinking: The amount, as the model takes it.
    """
    if thinking == 0:
        return {"thinking": {"type": "disabled"}}
    if thinking == BETWEEN_TOOLS:  # the least that Claude Sonnet 5.5 takes
        return {"thinking": {"type": thinking}}
    if isinstance(thinking, int):
        return {"thinking": {"type": "enabled", "budget_tokens": thinking}}
    # Since Claude Opus 4.7 the text is left out unless the request requires it.
    body: JsonObject = {"thinking": {"type": ADAPTIVE, "display": "summarized"}}
    if thinking != ADAPTIVE:
        body["output_config"] = {"effort": thinking}
    return body


BETAS = "anthropic-beta"
BINDING: JsonObject = {"type": ADAPTIVE, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BINDING_BETA = "thinking-binding-controls-2026-08-01"
COMPACT_BETA = "compact-2026-01-12"


VERSIONS: dict[str, tuple[str, ...]] = {"2026-10-21": SAMPLING, "2023-06-01": ()}
"""The versions of the API, the newest first, and the members that each refuses, whatever their value. As of 2026-11-29.

https://platform.claude.com/docs/en/api/versioning; nothing else of what it has changed concerns what is sent here.
"""


def at_version(model: str, options: Options, version: str) -> Options:
    """The settings as a version of the API takes them; one that is not in the table is read as the one before it.

    Args:
        model: The name of the model, for errors.
        options: The settings.
        version: The value of the header ``anthropic-version``.

    Raises:
        ConfigurationError: The version has no such setting, and the value is not the default.

    >>> at_version("claude-haiku-4-5", Options(temperature=1.0), "2026-10-21").temperature is None
    True
    """
    gone = next((members for known, members in VERSIONS.items() if version >= known), ())
    given = {"temperature": options.temperature, **options.extra}
    for name in gone:
        if given.get(name) not in (None, 1):
            raise refused(model, f"takes no {name} with anthropic-version {version}: leave it out")
    if not any(name in given for name in gone):
        return options
    extra = {name: value for name, value in options.extra.items() if name not in gone}
    return replace(options, temperature=None, extra=extra)


def with_beta(options: Options, given: str | None, beta: str) -> Options:
    """The settings with one more beta in the header, once.

    >>> with_beta(Options(headers={"Anthropic-Beta": "a, b"}), None, "c").headers
    {'anthropic-beta': 'a,b,c'}
    """
    headers = {name.lower(): value for name, value in options.headers.items()}
    betas = [name for one in headers.get(BETAS, given or "").split(",") if (name := one.strip())]
    return replace(options, headers={**headers, BETAS: ",".join(dict.fromkeys([*betas, beta]))})


def with_binding(request: Draft, given: str | None) -> Options:
    """The settings that leave out thinking where what is before it has changed, instead of a refusal of the request.

    A hook, a compaction or a new tool changes what is before the thinking of an earlier answer. The models whose
    thinking is bound to it refuse such a request by default:
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks

    Args:
        request: The conversation so far, the tools, and the settings as the model takes them.
        given: The value that every request has in the header ``anthropic-beta``.
    """
    options = request.options
    if not request.info.bound:
        return options
    theirs = options.extra.get("thinking", {})
    has_thinking = any(
        isinstance(block, Thinking) and (block.signature or block.echo)
        for message in reversed(request.conversation.messages)
        for block in message.content
    )
    # What does not think adaptively has no such setting.
    if not has_thinking or options.thinking in (0, BETWEEN_TOOLS) or not isinstance(theirs, dict):
        return options
    if theirs.get("type", ADAPTIVE) != ADAPTIVE:
        return options
    bound = replace(options, extra={**options.extra, "thinking": {**BINDING, **theirs}})
    return with_beta(bound, given, BINDING_BETA)


MAX_MARKS = 4
LEAST_TO_COMPACT = 50_000
THOUGHTS = ("thinking", "redacted_thinking")


def cache_control(ttl: str | None = None) -> JsonObject:
    """The mark.

    >>> cache_control("1h")
    {'type': 'ephemeral', 'ttl': '1h'}
    """
    return {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}


def mark_last(blocks: list[JsonObject], end: int, mark: JsonObject) -> None:
    """Put the mark on the last of the first so many blocks that can carry one.

    The block itself, which may be an echo, stays as it is.
    """
    for at in range(end - 1, -1, -1):
        if blocks[at].get("type") not in THOUGHTS:  # which carry no mark
            blocks[at] = {**blocks[at], "cache_control": mark}
            return


def leading_point(conversation: Conversation) -> tuple[CachePoint | None, str]:
    """The last point before anything but the application's words at the start, if any, and system text before it."""
    point, before = None, conversation
    for place, message in enumerate(conversation.messages):
        for at, block in enumerate(message.content):
            if isinstance(block, CachePoint):
                head = replace(message, content=message.content[:at])
                point = block
                before = replace(conversation, messages=(*conversation.messages[:place], head))
            elif message.role != "system":
                return point, split_system(before)[0] if point else ""
    return point, split_system(before)[0] if point else ""


LIFETIMES = {None: 0, "5m": 0, "1h": 1}


def longest(*ttls: str | None) -> str | None:
    """The longest of some lifetimes; one that is not known counts as the shortest.

    >>> longest(None, "1h", "5m"), longest(None, None)
    ('1h', None)
    """
    return max(ttls, key=lambda ttl: LIFETIMES.get(ttl, 0), default=None)


def mark_prefix(
    body: Body,
    parts: Sequence[str],
    point: CachePoint | None,
    ttl: str | None = None,
    *,
    head: str = "",
    most_of_tools: int = MAX_MARKS,
) -> tuple[Body, int]:
    """The body with marks on its last tool and its system text, as requested.

    Anthropic refuses a mark before one with a longer lifetime, so each gets at least the lifetime of those after it.

    Args:
        body: The body of the request.
        parts: ``tools``, ``system``, or both.
        point: One before the first message, which marks the system text before it, or the tools where there is none.
        ttl: The longest lifetime of the marks of the messages, or that of the options.
        head: The system text before the point.
        most_of_tools: How many marks the tools may have.

    Returns:
        The body, and how many marks are left for the messages.
    """
    ttl = longest(ttl, point.ttl) if point else ttl
    system, tools = body.get("system"), body.get("tools")
    marked: Body = {}
    if isinstance(system, str) and system:
        head = head if point and system.startswith(head) else ""
        if "system" in parts or head:
            marked["system"] = _texts(system, head, cache_control(ttl), "system" in parts)
    texts = marked.get("system", system)
    count = _count(texts) if isinstance(texts, list) else 0
    if isinstance(tools, Raw):  # none of them has a mark
        if "tools" in parts:
            marked["tools"] = Raw(b'%b,"cache_control":%b}]' % (bytes(tools)[:-2], to_json(cache_control(ttl))))
            count += 1
        return body | marked, MAX_MARKS - count
    listed = tools if isinstance(tools, list) else []
    if listed and ("tools" in parts or (point and not head)):
        listed = marked["tools"] = _with_mark(listed, cache_control(ttl))
    if _count(listed):
        listed = marked["tools"] = _with_last_marks(listed, min(most_of_tools, MAX_MARKS - count), ttl)
    return body | marked, MAX_MARKS - count - _count(listed)


def _texts(system: str, head: str, mark: JsonObject, is_marked: bool) -> list[Json]:
    """The system text with a mark on its head, and on its end as requested."""
    rest = system[len(head) :]
    texts: list[Json] = [{"type": "text", "text": head, "cache_control": mark}] if head else []
    if rest.strip():
        end: JsonObject = {"type": "text", "text": rest}
        texts.append({**end, "cache_control": mark} if is_marked else end)
    return texts


def _with_mark(tools: list[Json], mark: JsonObject) -> list[Json]:
    """The tools with a mark on the last one that the model sees at once: one that is found later cannot carry it."""
    for place in range(len(tools) - 1, -1, -1):
        tool = tools[place]
        if isinstance(tool, dict) and not tool.get("defer_loading"):
            return [*tools[:place], {"cache_control": mark, **tool}, *tools[place + 1 :]]
    return tools


def _with_last_marks(tools: list[Json], most: int, ttl: str | None) -> list[Json]:
    """The tools with their last marks, which hold what the earlier ones would mark, and live at least so long."""
    kept: list[Json] = []
    for tool in reversed(tools):
        if isinstance(tool, dict) and isinstance(mark := tool.get("cache_control"), dict):
            others: JsonObject = {key: value for key, value in tool.items() if key != "cache_control"}
            if most > 0:
                others["cache_control"] = cache_control(longest(word(mark.get("ttl")), ttl)) if ttl else mark
            tool = others
            most -= 1
        kept.append(tool)
    return kept[::-1]


def _count(blocks: list[Json]) -> int:
    """How many of some tools or blocks have a mark."""
    return sum("cache_control" in block for block in objects_in(blocks))
