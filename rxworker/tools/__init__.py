"""Tools: functions that the model may call, their descriptions, and how calls are run."""

from rxworker.tools.base import (
    ClientTool,
    Done,
    Effect,
    NotDone,
    Reconcile,
    Tool,
    ToolPolicy,
    Unknown,
    policy_of,
    reconcile_of,
)
from rxworker.tools.context import Progress, ToolContext
from rxworker.tools.decorate import tool
from rxworker.tools.described import DescribedTool, ToolLike
from rxworker.tools.function import FunctionTool
from rxworker.tools.invocation import CallScope, Emit, Forwarder
from rxworker.tools.mcp import McpClient, McpTool, mcp_client, mcp_tools
from rxworker.tools.operator import run_tools
from rxworker.tools.reports import FileEdit, Plan, PlanStep, Report, read_report, update_plan
from rxworker.tools.results import ErrorFormatter, to_content
from rxworker.tools.run import EarlyCalls, FinishedCall, run_call, run_calls
from rxworker.tools.schema import schema_of
from rxworker.tools.shared_state import SharedState
from rxworker.tools.signature import Docstring, parse_docstring
from rxworker.tools.toolbox import Toolbox

__all__ = [
    # making tools
    "tool",
    "Tool",
    "DescribedTool",
    "ToolLike",
    "FunctionTool",
    "ClientTool",
    "ToolPolicy",
    "Effect",
    "policy_of",
    # whether a call of a process that has ended had its effect
    "Reconcile",
    "Done",
    "NotDone",
    "Unknown",
    "reconcile_of",
    # tools, resources and prompts of MCP servers
    "mcp_tools",
    "McpTool",
    "mcp_client",
    "McpClient",
    # the context of a running tool, and its progress
    "ToolContext",
    "Progress",
    "SharedState",
    # progress that user interfaces draw
    "FileEdit",
    "Plan",
    "PlanStep",
    "Report",
    "read_report",
    "update_plan",
    # running tools
    "Toolbox",
    "FinishedCall",
    "Emit",
    "run_call",
    "run_calls",
    "run_tools",
    "EarlyCalls",
    "ErrorFormatter",
    "Forwarder",
    "CallScope",
    # what a tool is made of
    "Docstring",
    "parse_docstring",
    "schema_of",
    "to_content",
]
