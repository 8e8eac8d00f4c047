"""What the values of other libraries are here. Pure; nothing of these libraries is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from rxworker.errors import ToolError
from rxworker.messages import JsonObject, StopKind, StopReason
from rxworker.messages.content import ResultContent
from rxworker.messages.usage import Usage
from rxworker.tools.custom_types import to_json_value
from rxworker.tools.results import to_content

STOPS = {
    "stop": StopKind.END_TURN,
    "end_turn": StopKind.END_TURN,
    "completed": StopKind.END_TURN,
    "tool_call": StopKind.TOOL_USE,
    "tool_calls": StopKind.TOOL_USE,
    "tool_use": StopKind.TOOL_USE,
    "length": StopKind.MAX_TOKENS,
    "max_tokens": StopKind.MAX_TOKENS,
    "max_output_tokens": StopKind.MAX_TOKENS,
    "stop_sequence": StopKind.STOP_SEQUENCE,
    "content_filter": StopKind.CONTENT_FILTER,
    "refusal": StopKind.REFUSAL,
    "incomplete": StopKind.INCOMPLETE,
}


def stop_of(word: object) -> StopReason | None:
    """Why a response ended, by the word of a library; ``None`` where it has none.

    >>> stop_of("LENGTH")
    StopReason(kind=<StopKind.MAX_TOKENS: 'MaxTokens'>, raw='LENGTH', detail=None)
    """
    if not isinstance(word, str) or not word:
        return None
    return StopReason(STOPS.get(word.lower(), StopKind.OTHER), word)


def member(value: object, path: str) -> object:
    """A member of a member of an object, or of a dict; ``None`` where one is missing.

    >>> member({"message": StopReason(StopKind.OTHER, "odd")}, "message.raw")
    'odd'
    """
    for name in path.split("."):
        try:
            found = (
                cast("dict[str, object]", value).get(name) if isinstance(value, dict) else getattr(value, name, None)
            )
        except Exception:  # of a property
            return None
        value = found
    return value


def members(value: object, path: str) -> list[object]:
    """The items of a member that is a list; none where it is missing."""
    return items(member(value, path))


def items(value: object) -> list[object]:
    """The items of a list; none of anything else."""
    return [*cast("Iterable[object]", value)] if isinstance(value, list | tuple) else []


def text(value: object) -> str:
    """A text; empty for anything else."""
    return value if isinstance(value, str) else ""


def called(value: object, name: str) -> list[object]:
    """The items that a method without arguments returns; none where it is missing or raises.

    >>> called(StopReason, "mro")[0] is StopReason, called(StopReason, "clear")
    (True, [])
    """
    method = getattr(value, name, None)
    try:
        return items(method() if callable(method) else None)
    except Exception:
        return []


def count(value: object) -> int | None:
    """A number of tokens; ``None``: not known."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def usage_of(
    value: object,
    given: str,
    made: str,
    *,
    cache_read: str = "",
    cache_creation: str = "",
    cache_creation_1h: str = "",
    reasoning: str = "",
) -> Usage | None:
    """The tokens of a response, by the paths of the members that count them; ``None`` if none does.

    A part of the input or the output that is 0 is unknown: most libraries have 0 where a provider reports nothing.

    >>> usage_of({"prompt": 10, "completion": 2, "details": {"cached": 4}}, "prompt", "completion",
    ...     cache_read="details.cached")
    Usage(input_tokens=10, output_tokens=2, cache_read_tokens=4)
    """
    whole, written = count(member(value, given)), count(member(value, made))
    if whole is None and written is None:
        return None
    paths = (cache_read, cache_creation, reasoning, cache_creation_1h)
    read, created, thought, hour = [count(member(value, path)) or None for path in paths]
    return Usage(whole, written, read, created, thought, cache_creation_1h_tokens=hour)


def content_of(value: object) -> ResultContent:
    """The content of a tool result.

    >>> content_of({"celsius": 21}), content_of(Ellipsis)
    ('{"celsius":21}', 'Ellipsis')
    """
    try:
        return to_content(value, "")
    except ToolError:
        return str(value)


def json_of(value: object) -> JsonObject:
    """The members of a value as JSON; one that has no such form is its text."""
    named = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    return {str(name): _plain(each) for name, each in named.items()}


def _plain(value: object) -> JsonObject:
    try:
        return cast("JsonObject", to_json_value(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return cast("JsonObject", str(value))
