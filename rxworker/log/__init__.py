"""Stored runs: logs, their entries, and who owns a run."""

from rxworker.errors import (
    CommandConflictError,
    FencedError,
    LeaseHeldError,
    LogError,
    RunStatusError,
)
from rxworker.log.base import EventLog
from rxworker.log.codec import Codec
from rxworker.log.diff import MessageDiff, RunDiff, RunTotals, diff_runs
from rxworker.log.entry import Entry, entries_of, read_line, record_of, records_of, write_line
from rxworker.log.fleet import Fleet, Group, Totals
from rxworker.log.memory import MemoryLog
from rxworker.log.open import open_log
from rxworker.log.recover import dismiss_run, recover_all, set_allowed
from rxworker.log.replay import replay
from rxworker.log.replica import Replica
from rxworker.log.search import Found
from rxworker.log.sqlite import SQLiteLog
from rxworker.log.transfer import export_run, fork_run, import_run
from rxworker.log.values import Claim, Command, RunInfo, RunRow, StoredStatus
from rxworker.state.run_state import TOOL_BOUNDS

__all__ = [
    # stores
    "EventLog",
    "MemoryLog",
    "SQLiteLog",
    "open_log",
    "Codec",
    # what is stored
    "Entry",
    "entries_of",
    "record_of",
    "records_of",
    "write_line",
    "read_line",
    "RunInfo",
    "RunRow",
    "StoredStatus",
    # all runs together
    "Fleet",
    "Group",
    "Totals",
    "TOOL_BOUNDS",
    "Found",
    # any process
    "Replica",
    # time travel
    "replay",
    "diff_runs",
    "RunDiff",
    "MessageDiff",
    "RunTotals",
    # who owns a run
    "recover_all",
    "dismiss_run",
    "set_allowed",
    "Claim",
    "Command",
    # copies
    "export_run",
    "import_run",
    "fork_run",
    # errors
    "LogError",
    "FencedError",
    "LeaseHeldError",
    "RunStatusError",
    "CommandConflictError",
]
