"""Tools for testing programs that use rxworker, as public as the library.

A scripted model and a server that replays answers over real HTTP, a linter for streams of events, the rules of a
stream (`rxworker.testing.conformance`), and marbles.
"""

from typing import TYPE_CHECKING

from rxworker.lazy import getter
from rxworker.testing.conformance import check_balanced, checked_records, ensure_balanced, lint
from rxworker.testing.hooks import (
    NEVER,
    HookStub,
    abort_context,
    call_context,
    end_context,
    raise_from_watchers,
    result_context,
    send_context,
)
from rxworker.testing.marbles import Marbles, play
from rxworker.testing.reply import Call, Reply, call, cut, fail, say, stall, think
from rxworker.testing.scripted import RequestChangedError, Script, ScriptedModel, ScriptExhaustedError
from rxworker.testing.wire.anthropic import anthropic_frames
from rxworker.testing.wire.gemini import gemini_frames
from rxworker.testing.wire.ollama import ollama_frames
from rxworker.testing.wire.openai_chat import openai_chat_frames
from rxworker.testing.wire.openai_responses import openai_responses_frames

if TYPE_CHECKING:
    from rxworker.testing.server import ReplayServer, ServedResponse

# What imports aiohttp.
__getattr__ = getter(__name__, dict.fromkeys(("ReplayServer", "ServedResponse"), "rxworker.testing.server"))

__all__ = [
    # what a model answers
    "Reply",
    "Call",
    "Script",
    "ScriptExhaustedError",
    "ScriptedModel",
    "RequestChangedError",
    "call",
    "cut",
    "fail",
    "say",
    "stall",
    "think",
    # a server that replays
    "ReplayServer",
    "ServedResponse",
    "anthropic_frames",
    "gemini_frames",
    "ollama_frames",
    "openai_chat_frames",
    "openai_responses_frames",
    # hooks
    "HookStub",
    "NEVER",
    "send_context",
    "call_context",
    "result_context",
    "end_context",
    "abort_context",
    # watchers
    "raise_from_watchers",
    # marbles
    "Marbles",
    "play",
    # the linter
    "lint",
    "checked_records",
    "check_balanced",
    "ensure_balanced",
]
