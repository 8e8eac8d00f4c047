"""What the app itself says."""

from __future__ import annotations

from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.session import Standing
from rxworker.worker import Worker

PLACES: dict[Standing, str] = {
    "ready": "Say something. Enter sends, Ctrl-J begins a new line.",
    "answering": "Say something to the run that is on.",
    "pausing": "It will pause at the next safe moment.",
    "cancelling": "Cancelling. Ctrl-C again leaves at once.",
    "paused": "Paused. Ctrl-R goes on; what you say goes with it.",
}
"""What stands in the empty input."""
DECIDE = "A call waits for you: Ctrl-R decides."


def greeting(worker: Worker) -> str:
    """What stands where nothing was said yet.

    >>> from rxworker.testing import ScriptedModel
    >>> print(greeting(Worker(ScriptedModel([]))).splitlines()[0])
    Say something to begin.
    """
    tools = ", ".join(one_line(tool.meta.name) for tool in worker.tools) or "none"
    hooks = ", ".join(one_line(name) for name, _ in worker.hooks.list()) or "none"
    told = f"Say something to begin.\n\ntools  {tools}\nhooks  {hooks}\n\nF1 shows all keys."
    return clean(told)


__all__ = ["DECIDE", "PLACES", "greeting"]
