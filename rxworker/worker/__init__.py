"""The worker, its sessions, which keep the conversations, and their runs; and the loop of turns."""

from rxworker.messages.input import Input
from rxworker.turn.call_tools import call_tools
from rxworker.turn.compact import Compact
from rxworker.turn.context import StageName, Turn, TurnStage
from rxworker.decisions import Decision, Decisions
from rxworker.worker.inputs import run_inputs
from rxworker.turn.limits import Budget
from rxworker.run.loop import repeat_turns
from rxworker.resume.paused import load_paused, save_paused
from rxworker.turn.permit import call_scope, permit, revise
from rxworker.worker.queue import QueuedWorker, recover_all, submit, work
from rxworker.turn.respond import respond
from rxworker.worker.session import session_of
from rxworker.run.stream import RunStream
from rxworker.turn.stages import decide, prepare

__all__ = [
    # running
    "session_of",
    "Input",
    "Budget",
    "Compact",
    "RunStream",
    "run_inputs",
    # the result of a run
    # decisions about pending calls
    "Decision",
    "Decisions",
    "load_paused",
    "save_paused",
    # a queue of runs
    "recover_all",
    "submit",
    "work",
    "QueuedWorker",
    # a worker as a tool
    # a turn, and the loop of turns
    "Turn",
    "TurnStage",
    "StageName",
    "prepare",
    "respond",
    "call_tools",
    "permit",
    "revise",
    "call_scope",
    "decide",
    "repeat_turns",
]
