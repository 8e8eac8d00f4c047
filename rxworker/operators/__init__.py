"""Verbs for streams of events, one family a file. Each composes with reactivex's own in any ``pipe``."""

from rxworker.operators.commit import committed, live
from rxworker.operators.decode import decode
from rxworker.operators.gauges import UsageChange, combine_gauges, percentile, rate, usage_changes
from rxworker.operators.group import Block, fold_scope, group_blocks, scan_scope
from rxworker.operators.hold_back import hold_back
from rxworker.operators.json import ToolInput, partial_json, partial_values, tool_calls, tool_inputs
from rxworker.operators.mask import mask
from rxworker.operators.order import map_async, quorum
from rxworker.operators.pace import coalesce, merge_deltas, throttle
from rxworker.operators.recovery import error_to_exception, fail_on_error, retry_before_first, time_out
from rxworker.operators.runs import Records, join_runs, merge_runs, results
from rxworker.operators.select import events, only, records_of, reject, split_meta
from rxworker.operators.spans import Link, Span, lineage, spans
from rxworker.operators.text import lines, sentences, text_deltas, text_so_far, think_tags, thinking_deltas
from rxworker.operators.window import Window, fold_sliding, session_windows, sliding

__all__ = [
    # choosing
    "events",
    "only",
    "records_of",
    "reject",
    "split_meta",
    "text_deltas",
    "thinking_deltas",
    # text in whole units, and text that is checked before it passes
    "hold_back",
    "lines",
    "mask",
    "sentences",
    "text_so_far",
    "think_tags",
    # blocks
    "Block",
    "fold_scope",
    "group_blocks",
    "scan_scope",
    # JSON as it arrives: the arguments of tool calls, the text of an answer
    "ToolInput",
    "partial_json",
    "partial_values",
    "tool_calls",
    "tool_inputs",
    # from bytes to events, from events to errors
    "decode",
    "error_to_exception",
    "fail_on_error",
    # what may be retracted, and what may not
    "committed",
    "live",
    # time and order
    "coalesce",
    "map_async",
    "merge_deltas",
    "quorum",
    "retry_before_first",
    "session_windows",
    "throttle",
    "time_out",
    # several runs
    "Link",
    "Records",
    "Span",
    "UsageChange",
    "combine_gauges",
    "join_runs",
    "lineage",
    "merge_runs",
    "results",
    "spans",
    "usage_changes",
    # the last seconds
    "Window",
    "fold_sliding",
    "percentile",
    "rate",
    "sliding",
    # writing fast operators
]
