"""The JSON of Ollama's lines.

A line holds one of these, and nothing else: a field that is not named here, or holds something else, makes the line one
for `rxworker.providers.malformed`, which reports it. Decoded JSON has no cycles, so the garbage collector need not
watch these Structs.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from rxworker.messages import JsonObject


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
    images: Any = None


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
    error: Any = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    logprobs: Any = None
    remote_model: str | None = None
    remote_host: str | None = None


decode_line = msgspec.json.Decoder(WireLine).decode
