"""The worker, its sessions, which keep the conversations, and their runs; and the loop of turns."""

from rxworker.decisions import Decision, Decisions
from rxworker.messages.message import Input
from rxworker.resume.paused import load_paused, save_paused
from rxworker.run.loop import repeat_turns
from rxworker.run.stream import RunStream
from rxworker.turn.call_tools import call_tools
from rxworker.turn.compact import Compact
from rxworker.turn.context import StageName, Turn, TurnStage
from rxworker.turn.limits import Budget
from rxworker.turn.permit import call_scope, permit, revise
from rxworker.turn.respond import respond
from rxworker.turn.stages import decide, prepare
from rxworker.worker.checks import hook_check, model_check
from rxworker.worker.inputs import run_inputs
from rxworker.worker.queue import QueuedWorker, recover_all, submit, work
from rxworker.worker.session import session_of

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
    # checks of text
    "hook_check",
    "model_check",
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
