"""A small MCP server: over standard input and output, or over HTTP at the port that is given."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def serve() -> MCPServer:
    """The server, with a tool for each thing that can happen."""
    server = MCPServer("small")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool(structured_output=False)
    async def picture() -> list[Any]:
        """Show a picture."""
        return ["Look:", Image(data=PIXEL, format="png")]

    @server.tool()
    async def fail() -> str:
        """Fail."""
        raise ToolError("the station is closed")

    @server.tool()
    async def count(to: int, context: Context) -> int:
        """Count."""
        for number in range(to):
            await context.report_progress(number + 1, to)
        return to

    stopped = asyncio.Event()

    @server.tool()
    async def wait(context: Context) -> str:
        """Wait for ever."""
        await context.report_progress(0)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    @server.tool()
    async def hear() -> str:
        """Wait until the other one has stopped."""
        await stopped.wait()
        return "it has stopped"

    @server.tool()
    async def leave() -> str:
        """End the whole server."""
        os._exit(3)

    @server.tool(name="odd name.with/signs")
    async def odd() -> str:
        return os.environ.get("SMALL_SERVER_SAYS", "nothing")

    return server


def main() -> None:
    """Serve until nobody is there any more."""
    if len(sys.argv) > 1:
        serve().run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        serve().run()


if __name__ == "__main__":
    main()
