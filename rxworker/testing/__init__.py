"""Tools for testing programs that use rxworker, as public as the library.

A scripted model and a server that replays answers over real HTTP, a linter for streams of events, and marbles.
"""

from rxworker.testing.answer import GARBAGE, Answer, Faults
from rxworker.testing.lint import Linter, check_balanced, ensure_balanced, lint
from rxworker.testing.marbles import DISPOSED, FAILURE, SUBSCRIBED, Marbles, parse
from rxworker.testing.reply import Call, Reply, call, cut, fail, say, stall, think
from rxworker.testing.reply_events import reply_events
from rxworker.testing.script import Script, ScriptExhaustedError
from rxworker.testing.scripted import ScriptedModel
from rxworker.testing.server import ReplayServer
from rxworker.testing.traffic import Received
from rxworker.testing.wire import anthropic_frames, openai_chat_frames

__all__ = [
    # marbles
    "DISPOSED",
    "FAILURE",
    # a server that replays
    "GARBAGE",
    "SUBSCRIBED",
    "Answer",
    # what a model answers
    "Call",
    "Faults",
    # the linter
    "Linter",
    "Marbles",
    "Received",
    "ReplayServer",
    "Reply",
    "Script",
    "ScriptExhaustedError",
    "ScriptedModel",
    "anthropic_frames",
    "call",
    "check_balanced",
    "cut",
    "ensure_balanced",
    "fail",
    "lint",
    "openai_chat_frames",
    "parse",
    "reply_events",
    "say",
    "stall",
    "think",
]
