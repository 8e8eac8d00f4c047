"""One turn, the loop around it, the run that people watch, and the worker that keeps the conversation."""

from rxworker.worker.limits import Limits
from rxworker.worker.loop import repeat_turns
from rxworker.worker.result import Finished, Paused, RunResult
from rxworker.worker.run import Run
from rxworker.worker.worker import Input, Worker

__all__ = [
    # running
    "Worker",
    "Input",
    "Limits",
    "Run",
    # what a run comes to
    "RunResult",
    "Finished",
    "Paused",
    # the loop
    "repeat_turns",
]
