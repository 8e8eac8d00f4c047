"""The worker, its sessions, which keep the conversations, and their runs; and the loop of turns."""

from rxworker.worker.arguments import Input
from rxworker.worker.call_tools import call_tools
from rxworker.worker.context import StageName, Turn, TurnStage
from rxworker.worker.decisions import Answer, Approve, Decision, Decisions, Deny
from rxworker.worker.inputs import WhenBusy, run_inputs
from rxworker.worker.limits import Budget, Limits
from rxworker.worker.loop import repeat_turns
from rxworker.worker.nested import MakeWorker, WorkerTool, worker_tool
from rxworker.worker.paused import load_paused, save_paused
from rxworker.worker.permit import permit
from rxworker.worker.queue import QueuedWorker, submit, work
from rxworker.worker.respond import respond
from rxworker.worker.result import Finished, Paused, RunResult
from rxworker.worker.run import Run, Tracing
from rxworker.worker.session import Session, session_of
from rxworker.worker.stream import RunStream
from rxworker.worker.turn import decide, prepare
from rxworker.worker.worker import Worker

__all__ = [
    # running
    "Worker",
    "Session",
    "session_of",
    "Input",
    "Limits",
    "Budget",
    "Run",
    "RunStream",
    "Tracing",
    "WhenBusy",
    "run_inputs",
    # the result of a run
    "RunResult",
    "Finished",
    "Paused",
    # decisions about pending calls
    "Approve",
    "Deny",
    "Answer",
    "Decision",
    "Decisions",
    "load_paused",
    "save_paused",
    # a queue of runs
    "submit",
    "work",
    "QueuedWorker",
    # a worker as a tool
    "worker_tool",
    "WorkerTool",
    "MakeWorker",
    # a turn, and the loop of turns
    "Turn",
    "TurnStage",
    "StageName",
    "prepare",
    "respond",
    "call_tools",
    "permit",
    "decide",
    "repeat_turns",
]
