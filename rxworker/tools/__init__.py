"""Tools: functions the model may call, what it is told of them, and how its calls are run."""

from rxworker.tools.base import Effect, Tool, ToolPolicy, policy_of
from rxworker.tools.context import Progress, ToolContext
from rxworker.tools.decorate import tool
from rxworker.tools.docstring import Docstring, parse_docstring
from rxworker.tools.function import FunctionTool
from rxworker.tools.operator import run_tools
from rxworker.tools.results import to_content
from rxworker.tools.run import Emit, Finished, run_call, run_calls
from rxworker.tools.schema import schema_of
from rxworker.tools.toolbox import Toolbox

__all__ = [
    "Docstring",
    "Effect",
    "Emit",
    "Finished",
    "FunctionTool",
    "Progress",
    "Tool",
    "ToolContext",
    "ToolPolicy",
    "Toolbox",
    "parse_docstring",
    "policy_of",
    "run_call",
    "run_calls",
    "run_tools",
    "schema_of",
    "to_content",
    "tool",
]
