"""Verbs for streams of events, one family a file. Each composes with reactivex's own in any ``pipe``."""

from rxworker.operators.arguments import assemble_arguments, parse_arguments
from rxworker.operators.decode import decode
from rxworker.operators.fail import error_to_exception, fail_on_error
from rxworker.operators.group import Block, group_blocks
from rxworker.operators.json import ToolInput, tool_inputs
from rxworker.operators.merge import merge_deltas
from rxworker.operators.order import map_in_order
from rxworker.operators.pace import coalesce
from rxworker.operators.records import events
from rxworker.operators.retry import retry_before_first
from rxworker.operators.route import split_meta
from rxworker.operators.scope import fold_scope, scan_scope
from rxworker.operators.select import only, reject
from rxworker.operators.stage import Sink, Source, Stage, connect, stage
from rxworker.operators.text import text_deltas, thinking_deltas
from rxworker.operators.time_out import time_out
from rxworker.operators.types import Operator, Step

__all__ = [
    # blocks
    "Block",
    # shapes
    "Operator",
    # writing fast operators
    "Sink",
    "Source",
    "Stage",
    "Step",
    # the arguments of tool calls
    "ToolInput",
    "assemble_arguments",
    # time
    "coalesce",
    "connect",
    # from bytes to events, from events to errors
    "decode",
    "error_to_exception",
    # choosing
    "events",
    "fail_on_error",
    "fold_scope",
    "group_blocks",
    "map_in_order",
    "merge_deltas",
    "only",
    "parse_arguments",
    "reject",
    "retry_before_first",
    "scan_scope",
    "split_meta",
    "stage",
    "text_deltas",
    "thinking_deltas",
    "time_out",
    "tool_inputs",
]
