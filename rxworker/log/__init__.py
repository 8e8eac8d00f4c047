"""Stored runs: logs, their entries, and who owns a run."""

from rxworker.log.base import EventLog
from rxworker.log.diff import RunDiff, diff_runs
from rxworker.log.fleet import Fleet
from rxworker.log.fold import StoredRun
from rxworker.log.kept import mark_time, time_marks
from rxworker.log.memory import MemoryLog
from rxworker.log.open import open_log
from rxworker.log.permissions import withdraw
from rxworker.log.recover import decide_running, dismiss_run, set_allowed
from rxworker.log.replay import replay
from rxworker.log.replica import Replica
from rxworker.log.sqlite import SQLiteLog
from rxworker.log.store import Codec
from rxworker.log.transfer import export_run, fork_run, import_run
from rxworker.log.values import Claim, RunInfo

__all__ = [
    # stores
    "EventLog",
    "MemoryLog",
    "SQLiteLog",
    "open_log",
    "Codec",
    # what is stored
    "RunInfo",
    "StoredRun",
    # all runs together
    "Fleet",
    # any process
    "Replica",
    # time travel
    "replay",
    "diff_runs",
    "RunDiff",
    # who owns a run
    "decide_running",
    "dismiss_run",
    "set_allowed",
    "withdraw",
    "Claim",
    # moments on charts
    "mark_time",
    "time_marks",
    # copies
    "export_run",
    "import_run",
    "fork_run",
    # errors
]
