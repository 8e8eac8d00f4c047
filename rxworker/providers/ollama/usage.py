"""How Ollama counts tokens: on the last line, beside the durations in nanoseconds."""

from __future__ import annotations

from rxworker.messages import Counts, Json, JsonObject, Usage
from rxworker.providers.ollama.wire import WireLine

NUMBERS = (
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)


def read_usage(line: WireLine) -> Usage | None:
    """The usage that a line tells, ``None`` where it tells none.

    >>> read_usage(WireLine(done=True, eval_count=2)).raw
    {'eval_count': 2}
    """
    raw: JsonObject = {
        name: number for name in NUMBERS if (number := getattr(line, name)) is not None
    }
    if not raw:
        return None
    return Usage(line.prompt_eval_count, line.eval_count, raw=raw)


def count(usage: Usage) -> Counts:
    """The numbers as they were sent. Ollama tells nothing of caches."""
    raw = usage.raw or {}
    return Counts(_int(raw.get("prompt_eval_count")), _int(raw.get("eval_count")))


def _int(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


__all__ = ["count", "read_usage"]
