"""The figures to read, as tables of Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import metadata

from cells import ALL, Row
from targets import Figure

PACKAGES = ("rxworker", "reactivex", "aiohttp", "msgspec", "uvloop")
TITLES = {"anthropic": "Anthropic", "chat": "Chat", "responses": "Responses", "gemini": "Gemini", "ollama": "Ollama"}


def target_table(figures: Sequence[Figure]) -> list[str]:
    """What has to be reached and what was: a row for each target, a column for each protocol."""
    apis = _apis(figures)
    head = ["what", "at most", *(TITLES[api] for api in apis), "met"]
    lines = [_line(head), "|---|---:|" + "---:|" * len(apis) + "---|"]
    for what, of_row in _by_row(figures):
        limit, unit = of_row[0].limit, of_row[0].unit
        at_most = "" if limit is None else f"{'+' if unit else ''}{limit:g} {unit}".rstrip()
        others = {f.limit for f in of_row if f.limit is not None and f.limit != limit}
        at_most += "".join(f" ({other:g} for Gemini and Ollama)" for other in sorted(others))
        lines.append(_line([what, at_most, *_in_columns(of_row, apis), _verdict(of_row)]))
    return lines


def peer_table(figures: Sequence[Figure]) -> list[str]:
    """What others cost, in floors."""
    apis = _apis(figures)
    lines = [_line(["client", *(TITLES[api] for api in apis)]), "|---|" + "---:|" * len(apis)]
    return lines + [_line([w, *_in_columns(row, apis)]) for w, row in _by_row(figures)]


def _apis(figures: Sequence[Figure]) -> list[str]:
    return [api for api in ALL if any(figure.api == api for figure in figures)]


def _by_row(figures: Sequence[Figure]) -> list[tuple[str, list[Figure]]]:
    names = dict.fromkeys(figure.what for figure in figures)
    return [(name, [figure for figure in figures if figure.what == name]) for name in names]


def _in_columns(figures: Sequence[Figure], apis: Sequence[str]) -> list[str]:
    """By the protocol; what has nothing to do with one stands in the first column."""
    by_api = {figure.api or apis[0] if apis else "": figure for figure in figures}
    return [shown(by_api[api]) if api in by_api else "" for api in apis]


def shown(figure: Figure) -> str:
    """The median, and between what the rounds were."""
    return f"{figure.median:g} ({figure.least:g} to {figure.most:g})"


def _verdict(figures: Sequence[Figure]) -> str:
    if figures[0].limit is None:
        return ""
    missed = [TITLES.get(figure.api or "", "it is over") for figure in figures if not figure.is_met]
    return f"no: {', '.join(missed)}" if missed else "yes"


def cell_table(rows: Sequence[Row]) -> list[str]:
    """What each cell cost in microseconds."""
    head = ["cell", "api", "deltas", "per", "floor µs", "rxworker µs", "x floor", "from - to", "MB"]
    lines = [_line(head), "|---|---|---:|---|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {row.name} | {row.api} | {row.n} | {row.per} | {row.floor_us:.2f} | {row.us:.2f} "
        f"| {row.ratio:.2f} | {row.least:.2f} - {row.most:.2f} | {row.memory_mb:.1f} |"
        for row in rows
    ]
    return lines


def growth_lines(rows: Sequence[Row]) -> list[str]:
    """A delta of a stream ten times as long, in deltas of the shorter one: 1 where the cost is linear."""
    by_name = {(row.name, row.api, row.n): row for row in rows}
    return [
        f"{name}, {api}: a delta of {n} costs {row.us / short.us:.2f} of a delta of {n // 10}"
        for (name, api, n), row in by_name.items()
        if (short := by_name.get((name, api, n // 10))) is not None
    ]


def versions() -> str:
    """Of Python and of what is measured."""
    found = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def _line(words: Iterable[str]) -> str:
    return f"| {' | '.join(words)} |"


__all__ = ["TITLES", "cell_table", "growth_lines", "peer_table", "shown", "target_table", "versions"]
