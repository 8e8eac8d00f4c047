"""What binds a paused call to the arguments that were shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from rxworker.errors import LocalProtocolError
from rxworker.messages import ToolCall


def seal_of(call: ToolCall) -> str:
    """A digest of a call: its id, its name and its exact arguments.

    >>> seal_of(ToolCall("1", "look", {"at": "a"})) == seal_of(ToolCall("1", "look", {"at": "b"}))
    False
    """
    # Not with msgspec: a model may write half a character, which UTF-8 cannot say.
    text = json.dumps([call.id, call.name, call.input], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_sealed(calls: Sequence[ToolCall], seals: Sequence[str]) -> None:
    """Refuse calls that are other ones than those that were shown to whoever decided.

    Raises:
        LocalProtocolError: One is; the message names it.
    """
    if len(calls) != len(seals):
        raise LocalProtocolError(f"{len(seals)} calls were paused, and {len(calls)} are to go on")
    for call, seal in zip(calls, seals, strict=True):
        if seal_of(call) != seal:
            raise LocalProtocolError(
                f"the call {call.id!r} of {call.name} was changed since the run paused: what was approved may not be what "
                "would run; give other arguments with decisions={call.id: Approve(input={...})}"
            )


__all__ = ["check_sealed", "seal_of"]
