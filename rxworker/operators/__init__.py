"""Verbs for streams of events, one family a file. Each composes with reactivex's own in any ``pipe``."""

from rxworker.events.arguments import assemble_arguments, parse_arguments
from rxworker.operators.commit import committed, live
from rxworker.operators.decode import decode
from rxworker.operators.fail import error_to_exception, fail_on_error
from rxworker.operators.gauges import combine_gauges
from rxworker.operators.group import Block, group_blocks
from rxworker.operators.hold_back import hold_back
from rxworker.operators.json import ToolInput, tool_inputs
from rxworker.operators.lineage import Link, Place, lineage
from rxworker.operators.merge import merge_deltas
from rxworker.operators.order import map_in_order
from rxworker.operators.pace import coalesce
from rxworker.operators.partial import partial_json, partial_values
from rxworker.operators.rate import percentile, rate
from rxworker.operators.reader import JsonReader
from rxworker.operators.records import events
from rxworker.operators.retry import retry_before_first
from rxworker.operators.route import split_meta
from rxworker.operators.runs import merge_runs
from rxworker.operators.scope import fold_scope, scan_scope
from rxworker.operators.select import only, reject
from rxworker.operators.spans import Mark, Span, spans
from rxworker.operators.stage import Sink, Source, Stage, connect, stage
from rxworker.operators.text import text_deltas, thinking_deltas
from rxworker.operators.time_out import time_out
from rxworker.operators.types import Operator, Step
from rxworker.operators.units import lines, sentences
from rxworker.operators.usage import UsageChange, usage_changes
from rxworker.operators.window import fold_sliding, sliding
from rxworker.operators.window_view import Window

__all__ = [
    # choosing
    "events",
    "only",
    "reject",
    "split_meta",
    "text_deltas",
    "thinking_deltas",
    # text in whole units, and text that is checked before it passes
    "hold_back",
    "lines",
    "sentences",
    # blocks
    "Block",
    "fold_scope",
    "group_blocks",
    "scan_scope",
    # JSON as it arrives: the arguments of tool calls, the text of an answer
    "JsonReader",
    "ToolInput",
    "assemble_arguments",
    "parse_arguments",
    "partial_json",
    "partial_values",
    "tool_inputs",
    # from bytes to events, from events to errors
    "decode",
    "error_to_exception",
    "fail_on_error",
    # what may be taken back, and what may not
    "committed",
    "live",
    # time and order
    "coalesce",
    "map_in_order",
    "merge_deltas",
    "retry_before_first",
    "time_out",
    # several runs
    "Link",
    "Mark",
    "Place",
    "Span",
    "UsageChange",
    "combine_gauges",
    "lineage",
    "merge_runs",
    "spans",
    "usage_changes",
    # the last seconds
    "Window",
    "fold_sliding",
    "percentile",
    "rate",
    "sliding",
    # writing fast operators
    "Operator",
    "Sink",
    "Source",
    "Stage",
    "Step",
    "connect",
    "stage",
]
