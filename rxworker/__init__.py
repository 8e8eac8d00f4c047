"""Language model responses as observables, and a turn loop that any number of watchers can follow.

>>> from rxworker import Worker, tool
>>> from rxworker.testing import ScriptedModel, call, say
>>> @tool
... def add(a: int, b: int) -> int:
...     return a + b
>>> worker = Worker(ScriptedModel([call("add", a=1, b=2), say("It is 3.")]), tools=[add])
>>> worker.run_sync("What is 1 + 2?").text
'It is 3.'
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from rxworker.lazy import getter, modules_of

if TYPE_CHECKING:
    from rxworker.decisions import Answer, Approve, ApproveAlways, Deny
    from rxworker.hooks.decorate import after_tool_call, before_tool_call, hook, on_abort, on_message_send, on_turn_end
    from rxworker.run.run import Run
    from rxworker.tools.function import tool
    from rxworker.turn.limits import Limits
    from rxworker.turn.result import Finished, Paused, RunResult
    from rxworker.worker.nested import worker_tool
    from rxworker.worker.session import Session, Worker

__version__ = "0.2.0"

# The public names, by module. They are imported when they are used first, so that `rxworker.state` needs nothing but
# msgspec.
_NAMES = {
    "rxworker.hooks.decorate": "after_tool_call before_tool_call hook on_abort on_message_send on_turn_end",
    "rxworker.tools.function": "tool",
    "rxworker.decisions": "Answer Approve ApproveAlways Deny",
    "rxworker.turn.limits": "Limits",
    "rxworker.worker.nested": "worker_tool",
    "rxworker.turn.result": "Finished Paused RunResult",
    "rxworker.run.run": "Run",
    "rxworker.worker.session": "Session Worker",
}
_MODULE_OF = modules_of(_NAMES)

# Where else a name may be: the package that a program imports it from.
_PACKAGES = (
    "operators providers testing tools hooks log boards panels messages events transport worker ui.web protocols state "
    "errors"
)


def _missing(name: str) -> Exception:
    from importlib.util import find_spec

    text = f"module 'rxworker' has no attribute {name!r}"
    if name.startswith("_") or find_spec(f"rxworker.{name}"):
        return AttributeError(text)
    import difflib  # after a mistake only

    places = {known: f"from rxworker import {known}" for known in _MODULE_OF}
    for package in _PACKAGES.split():
        module = importlib.import_module(f"rxworker.{package}")
        for known in getattr(module, "__all__", ()) or [n for n in vars(module) if n[-5:] == "Error"]:
            places.setdefault(known, f"from rxworker.{package} import {known}")
    for known in ("PostgresLog", "NatsLog"):  # their extras may be missing
        places[known] = f"from rxworker.log.{known.removesuffix('Log').lower()} import {known}"
    lower = {known.lower(): known for known in places}
    for close in difflib.get_close_matches(name.lower(), lower, 1, 0.75):
        text += f"; did you mean: {places.get(name) or places[lower[close]]}"
    # Python replaces an AttributeError in an import by an error of its own, without the hint.
    is_import = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    return (ImportError if is_import and "; " in text else AttributeError)(text)


__getattr__ = getter(__name__, _MODULE_OF, _missing)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})


__all__ = [
    # running
    "Finished",
    "Limits",
    "Paused",
    "Run",
    "RunResult",
    "Session",
    "Worker",
    # deciding about what waits
    "Answer",
    "Approve",
    "ApproveAlways",
    "Deny",
    # tools and hooks
    "after_tool_call",
    "before_tool_call",
    "hook",
    "on_abort",
    "on_message_send",
    "on_turn_end",
    "tool",
    "worker_tool",
]
