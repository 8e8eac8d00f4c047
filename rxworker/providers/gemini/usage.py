"""How Gemini counts tokens: cached input is part of the prompt, thoughts and what tools read stand beside the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from rxworker.messages import Counts, Json, JsonObject, Usage

PROMPT = "promptTokenCount"
TOOL_PROMPT = "toolUsePromptTokenCount"
CANDIDATES = "candidatesTokenCount"
THOUGHTS = "thoughtsTokenCount"
CACHED = "cachedContentTokenCount"


def merge_usage(raw: JsonObject, news: JsonObject) -> JsonObject:
    """The numbers so far with the news over them; what is absent or null in the news stays."""
    return raw | {key: value for key, value in news.items() if value is not None}


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}).total_tokens
    10
    """
    get = raw.get
    thoughts = _int(get(THOUGHTS))
    return Usage(
        input_tokens=_sum(_int(get(PROMPT)), _int(get(TOOL_PROMPT))),
        output_tokens=_sum(_int(get(CANDIDATES)), thoughts),
        cache_read_tokens=_int(get(CACHED)),
        reasoning_tokens=thoughts,
        raw=raw,
    )


class Totals(Sequence[Usage]):
    """Running totals that came together; a `Usage` is made of each when somebody looks.

    Args:
        raw: The provider's numbers.
        names: Which of them change.
        columns: What each of these came to, from first to last.

    >>> totals = Totals({"promptTokenCount": 5}, ("candidatesTokenCount",), [[1, 2]])
    >>> totals[-1]
    Usage(input_tokens=5, output_tokens=2, raw={'promptTokenCount': 5, 'candidatesTokenCount': 2})
    """

    __slots__ = ("_columns", "_names", "_raw")

    def __init__(self, raw: JsonObject, names: tuple[str, ...], columns: list[list[int]]) -> None:
        self._raw = raw
        self._names = names
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, place: int, /) -> Usage: ...
    @overload
    def __getitem__(self, place: slice, /) -> Totals: ...
    def __getitem__(self, place: int | slice, /) -> Usage | Totals:
        if isinstance(place, slice):
            return Totals(self._raw, self._names, [column[place] for column in self._columns])
        return self._usage([column[place] for column in self._columns])

    def __iter__(self) -> Iterator[Usage]:
        return map(self._usage, zip(*self._columns, strict=True))

    def _usage(self, totals: Iterable[int]) -> Usage:
        return read_usage(self._raw | dict(zip(self._names, totals, strict=True)))


def count(usage: Usage) -> Counts:
    """The four numbers as they were sent: the output is without thoughts."""
    raw = usage.raw or {}
    return Counts(_int(raw.get(PROMPT)), _int(raw.get(CANDIDATES)), _int(raw.get(CACHED)))


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _int(value: Json) -> int | None:
    return value if type(value) is int else None


__all__ = ["Totals", "count", "merge_usage", "read_usage"]
