"""Workers as the tools of an MCP server, for clients such as Claude Desktop, editors and other agents.

``pip install "/path/to/the/checkout[mcp]"``.
"""

from importlib.util import find_spec

from rxworker.errors import ConfigurationError

if find_spec("mcp") is None:
    raise ConfigurationError("an MCP server needs the package mcp: pip install '/path/to/the/checkout[mcp]'")

from rxworker.adapters.mcp.calls import McpWorker
from rxworker.adapters.mcp.server import McpServer

__all__ = ["McpServer", "McpWorker"]
