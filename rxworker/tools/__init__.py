"""Tools: functions that the model may call, their descriptions, and how calls are run."""

from rxworker.tools.base import ClientTool, Done, NotDone, Progress, SharedState, Tool, ToolContext, ToolPolicy, Unknown
from rxworker.tools.calls import FinishedCall, PendingCall
from rxworker.tools.function import FunctionTool
from rxworker.tools.mcp import McpClient, mcp_client, mcp_tools
from rxworker.tools.reports import FileEdit, Plan, PlanStep, update_plan
from rxworker.tools.run import run_tools
from rxworker.tools.toolbox import DescribedTool, Toolbox

__all__ = [
    # making tools
    "Tool",
    "DescribedTool",
    "FunctionTool",
    "ClientTool",
    "ToolPolicy",
    # whether a call of a process that has ended had its effect
    "Done",
    "NotDone",
    "Unknown",
    # tools, resources and prompts of MCP servers
    "mcp_tools",
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
    "update_plan",
    # running tools
    "Toolbox",
    "run_tools",
    "FinishedCall",
    "PendingCall",
    # what a tool is made of
]
