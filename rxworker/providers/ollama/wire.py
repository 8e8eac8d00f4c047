"""The JSON of Ollama's lines.

A line holds one of these, and nothing else: a field that is not named here, or holds something else, makes the line one
for `rxworker.providers.malformed`, which reports it. Decoded JSON has no cycles, so the garbage collector need not
watch these Structs.

How an answer of Ollama ends.

Its stop reason, its usage (on the last line, beside durations in nanoseconds), and its error, a sentence without a
code.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.failure import Failure
from rxworker.providers.failure import read_failure as read_any
from rxworker.providers.finish_reasons import stop_kind
from rxworker.providers.usage import numbers_in


def read_stop(raw: str | None, *, called: bool, malformed: bool = False) -> StopReason | None:
    """The normal form.

    Args:
        raw: The reason; old servers send none.
        called: Whether a tool was called, of which Ollama has no word of its own.
        malformed: Whether there was a call that names no tool.

    >>> read_stop("stop", called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if raw is None:
        return StopReason(StopKind.TOOL_USE) if called else None
    return StopReason(stop_kind(raw, called=called, malformed=malformed), raw)


NUMBERS = (
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)


def read_usage(line: WireLine) -> Usage | None:
    """The usage that a line reports; ``None`` if it reports none.

    >>> read_usage(WireLine(done=True, eval_count=2)).raw
    {'eval_count': 2}
    """
    raw: JsonObject = {name: number for name in NUMBERS if (number := getattr(line, name)) is not None}
    if not raw:
        return None
    return Usage(line.prompt_eval_count, line.eval_count, raw=raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as they were sent. Ollama does not report caches."""
    return numbers_in(raw, "prompt_eval_count", "eval_count")


def read_failure(raw: Json) -> Failure:
    """The failure of a line. What nothing is known of is the server's, since the request had been accepted.

    >>> read_failure({"error": "an error was encountered while running the model"}).kind
    'server'
    """
    failure = read_any(raw) or Failure("the server gave no reason")
    return failure if failure.kind != "unknown" else replace(failure, kind="server")


class WireMessage(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The next part of the answer.

    Attributes:
        thinking: The thinking of the model. Older models write it into the content, between tags, where it stays.
        tool_calls: Whole calls, kept as they came.
        images: Pictures; old servers send ``null``.
    """

    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[JsonObject] | None = None
    images: Json = None


class WireLine(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One line.

    Attributes:
        done: Whether it is the last.
        done_reason: Why; old servers do not send it.
        error: The error, on a line of its own.
        prompt_eval_count: Tokens read; left out by old servers when the prompt was in their cache.
        eval_count: Tokens written.
        remote_model: The name of the model that answers, if the server forwards the request.
    """

    model: str | None = None
    created_at: str | None = None
    message: WireMessage | None = None
    done: bool = False
    done_reason: str | None = None
    error: Json = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    logprobs: Json = None
    remote_model: str | None = None
    remote_host: str | None = None


decode_line = msgspec.json.Decoder(WireLine).decode
