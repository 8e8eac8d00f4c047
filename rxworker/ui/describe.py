"""Short texts for what a terminal shows: messages, calls, results, arguments, usage, parts and citations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rxworker.messages import Json, JsonObject, Message, content
from rxworker.messages.usage import Usage
from rxworker.ui.clean import clean, one_line

MAX = 100
MAX_OUTLINE = 100_000
MAX_COLUMNS = 40
"""More are shown as a list."""


def describe_call(call: content.ToolCall, most: int = MAX) -> str:
    """Return a call as source code would write it.

    >>> describe_call(content.ToolCall("1", "forecast", {"city": "Kyoto", "days": 2}))
    'forecast(city="Kyoto", days=2)'
    """
    return one_line(f"{call.name}({describe_arguments(call.input)})", most)


def describe_arguments(arguments: JsonObject | str, most: int | None = None) -> str:
    """Return arguments as source code would write them.

    >>> describe_arguments({"city": "Kyoto", "days": 2})
    'city="Kyoto", days=2'
    """
    if isinstance(arguments, str):
        return one_line(arguments, most)
    return one_line(", ".join(f"{name}={_json(value)}" for name, value in arguments.items()), most)


def describe_result(result: content.ToolResult, most: int = MAX) -> str:
    """Return the result of a call in one line: its text, or what it contains if it is JSON that does not fit.

    >>> describe_result(content.ToolResult("1", "rain", name="forecast"))
    'forecast: rain'
    """
    text = result.text if result.text or isinstance(result.content, str) else "(no text)"
    if len(text) > most:
        text = outline_json(text) or text
    failed = "failed: " if result.is_error else ""
    name = f"{result.name}: " if result.name else ""
    return one_line(f"{name}{failed}{text}", most)


def describe_message(message: Message, most: int = MAX) -> str:
    """Return a message in one line.

    >>> describe_message(Message.assistant("Let me see.", content.ToolCall("1", "look", {"n": 1})))
    'assistant: Let me see. look(n=1)'
    """
    parts = [
        describe_call(part)
        if isinstance(part, content.ToolCall)
        else describe_result(part)
        if isinstance(part, content.ToolResult)
        else describe_parts([part])
        for part in message.content
    ]
    return one_line(f"{message.role}: {' '.join(filter(None, parts))}", most)


def describe_json(value: Json, most: int = MAX) -> str:
    """Return a JSON value in one line.

    >>> describe_json("two of four"), describe_json({"done": 2})
    ('two of four', '{"done":2}')
    """
    return one_line(value if isinstance(value, str) else _json(value), most)


def outline_json(text: str) -> str:
    """Return what JSON contains.

    The size and the columns of a table, the fields of an object, or the number of items of another array.

    Returns:
        The outline; empty for other text, for more than `MAX_OUTLINE` characters, and for an empty object or array.

    >>> outline_json('[{"place": "pond", "degrees": 12}, {"place": "well", "degrees": 9}]')
    '2 rows \N{MULTIPLICATION SIGN} 2 columns: place, degrees'
    >>> outline_json('{"name": "frog", "legs": [1, 2, 3, 4]}')
    'object with 2 fields: name, legs'
    """
    if len(text) > MAX_OUTLINE or not text.lstrip().startswith(("{", "[")):
        return ""
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(value, dict | list) or not value:
        return ""
    if isinstance(value, dict):
        return f"object with {plural(len(value), 'field')}: {', '.join(value)}"
    columns = _columns(value)
    if not columns:
        return f"list of {plural(len(value), 'item')}"
    size = f"{plural(len(value), 'row')} \N{MULTIPLICATION SIGN} {plural(len(columns), 'column')}"
    return f"{size}: {', '.join(columns)}"


def _columns(rows: list[Json]) -> list[str]:
    """The columns of rows that are flat objects; empty for other values."""
    columns: dict[str, None] = {}
    for row in rows:
        if not isinstance(row, dict) or any(isinstance(each, dict | list) for each in row.values()):
            return []
        columns |= dict.fromkeys(row)
        if len(columns) > MAX_COLUMNS:
            return []
    return list(columns)


def describe_usage(usage: Usage) -> str:
    """Return the tokens of a run; empty if unknown.

    >>> describe_usage(Usage(input_tokens=1200, output_tokens=34, cache_read_tokens=1000))
    '1,200 tokens in (1,000 cached), 34 out'
    """
    if usage.input_tokens is None and usage.output_tokens is None:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens or 0:,} tokens in{cached}, {usage.output_tokens or 0:,} out"


def plural(number: int, noun: str) -> str:
    """Return a number and its noun.

    >>> plural(1, "turn"), plural(2, "turn")
    ('1 turn', '2 turns')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


MAX_PART = 80


def describe_parts(parts: Iterable[content.Content]) -> str:
    """Return the text of the parts, with one line for each part that is not text.

    >>> print(describe_parts([content.Text("Look:"), content.Image("image/png", data="AAAA" * 500)]))
    Look:
    [picture, image/png, 1.5 kB]
    """
    lines: list[str] = []
    for part in parts:
        text = part.text if isinstance(part, content.Text | content.Refusal) else describe_part(part)
        if text:
            lines.append(text)
    return clean("\n".join(lines))


def describe_part(part: content.Content) -> str:
    """Return one line for a part that is not text; empty if it has no content to show.

    >>> describe_part(content.Document(title="Report", url="https://example.org/r.pdf"))
    '[document Report, application/pdf, https://example.org/r.pdf]'
    """
    match part:
        case content.Image(media_type=kind, data=data, url=url):
            return _bracketed("picture", kind, _size(data), url or "")
        case content.Document(media_type=kind, data=data, url=url, title=title):
            return _bracketed(f"document {title or ''}".strip(), kind, _size(data), url or "")
        case content.Audio(media_type=kind, data=data):
            return _bracketed("recording", kind, _size(data))
        case content.OpaqueBlock(kind=kind):
            return _bracketed("unknown content", kind)
        case _:
            return ""


def _bracketed(*text: str) -> str:
    return f"[{one_line(', '.join(each for each in text if each), MAX_PART)}]"


def _size(data: str | None) -> str:
    """The decoded size of base64 data."""
    if not data:
        return ""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"{size} B" if size < 1000 else f"{size / 1000:,.1f} kB"


SOURCE_TITLES = ("title", "document_title", "filename")
PLACES = ("url", "uri", "file_id")
DEEPEST = 5
MAX_SOURCE = 120


def describe_sources(citation: JsonObject) -> list[str]:
    """Return the titles and addresses in a citation; if there are none, its quote or its type.

    >>> describe_sources({"type": "url_citation", "url": "https://a.org", "title": "A"})
    ['A, https://a.org']
    >>> web = [{"web": {"uri": "https://a.org"}}, {"web": {"uri": "https://b.org", "title": "B"}}]
    >>> describe_sources({"groundingMetadata": {"groundingChunks": web}})
    ['https://a.org', 'B, https://b.org']
    >>> describe_sources({"type": "char_location", "cited_text": "Frogs hop."})
    ['"Frogs hop."']
    """
    if found := list(dict.fromkeys(_named(citation, DEEPEST))):
        return found
    if quote := _first(citation, ("cited_text", "text")):
        return [one_line(f'"{quote}"', MAX_SOURCE)]
    kind = citation.get("type") or next(iter(citation), "a source")
    return [one_line(str(kind), MAX_SOURCE)]


def _named(value: Json, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, dict):
        text = ", ".join(each for each in (_first(value, SOURCE_TITLES), _first(value, PLACES)) if each)
        if text:
            yield one_line(text, MAX_SOURCE)
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _named(each, depth - 1)


def _first(value: JsonObject, names: tuple[str, ...]) -> str:
    texts = (value.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")
