"""What the values of other libraries are here. Pure; nothing of these libraries is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct

from rxworker.errors import ToolError
from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.content import ResultContent
from rxworker.messages.custom_types import to_json_value
from rxworker.messages.json import is_list, is_object
from rxworker.messages.usage import Usage
from rxworker.tools.results import to_content


class _Words(Struct, frozen=True, forbid_unknown_fields=True):
    """How libraries call the reasons for which a response ended, and the numbers of its tokens: paths of members."""

    stops: dict[StopKind, list[str]]
    tokens: dict[str, list[str]]


_WORDS = msgspec.json.decode(Path(__file__).with_name("words.json").read_bytes(), type=_Words)
STOPS: Final = {word: kind for kind, words in _WORDS.stops.items() for word in words}


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
            found = value.get(name) if is_object(value) else getattr(value, name, None)
        except Exception:  # of a property
            return None
        value = found
    return value


def json_member(value: object, path: str) -> Json:
    """A member of JSON; ``None`` where it is missing."""
    return cast("Json", member(value, path))


def members(value: object, path: str) -> list[object]:
    """The items of a member that is a list; none where it is missing."""
    return items(member(value, path))


def items(value: object) -> list[object]:
    """The items of a list; none of anything else."""
    return [*value] if is_list(value) else []


def text(value: object, path: str = "") -> str:
    """A text, or that of a member; empty for anything else."""
    found = member(value, path) if path else value
    return found if isinstance(found, str) else ""


def object_of(value: object) -> JsonObject:
    """A value of JSON that is an object; an empty one for anything else."""
    return value if is_object(value) else {}


def decoded(value: object) -> object:
    """The value of a text that is JSON; anything else as it is.

    >>> decoded('{"a": 1}'), decoded("a"), decoded(None)
    ({'a': 1}, 'a', None)
    """
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def kind_of(block: object) -> str:
    """The type of a block: of JSON, or of a class.

    >>> kind_of({"type": "text"}), kind_of(type("ToolUseBlock", (), {})())
    ('text', 'tool_use')
    """
    named = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(block).__name__).lower().removesuffix("_block")
    return text(block, "type") or named


def text_of(value: object, between: str = "") -> str:
    """A text, or the texts of the blocks of a content.

    >>> text_of([{"type": "text", "text": "Hello"}]), text_of("Hello"), text_of(None)
    ('Hello', 'Hello', '')
    """
    return text(value) or between.join([text(each, "text") for each in items(value)])


def count(value: object, path: str = "") -> int | None:
    """A number of tokens, or that of a member; ``None``: not known."""
    found = member(value, path) if path else value
    return int(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def usage_of(value: object, *, is_exact: bool = False) -> Usage | None:
    """The tokens of a response, by the names that libraries have for them; ``None`` if none is known.

    Args:
        value: What has them.
        is_exact: Whether a part of the input or the output that is 0 is reported. Most libraries have 0 where a
            provider reports nothing: it is unknown then.

    >>> usage_of({"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}})
    Usage(input_tokens=10, output_tokens=2, cache_read_tokens=4)
    """
    paths = _WORDS.tokens.values()
    found = [next((n for path in each if (n := count(value, path)) is not None), None) for each in paths]
    if found[:2] == [None, None]:
        return None
    read, created, hour, thought = [n if n or is_exact else None for n in found[2:]]
    return Usage(found[0], found[1], read, created, thought, cache_creation_1h_tokens=hour)


def sum_of(usages: Iterable[Usage | None]) -> Usage | None:
    """The tokens of several responses, as far as they are known."""
    known = [*filter(None, usages)]
    return sum(known[1:], known[0]) if known else None


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
