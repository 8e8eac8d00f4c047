"""A small MCP server: over standard input and output, or over HTTP at a free port, which it prints."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp.server.mcpserver.resources import FunctionResource
from mcp.types import AudioContent, EmbeddedResource, TextResourceContents, ToolAnnotations

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

    @server.resource("note:///tides", mime_type="text/plain", description="Of today.")
    def tides() -> str:
        return "11:20"

    @server.resource("note:///chart", mime_type="application/pdf")
    def chart() -> bytes:
        return b"%PDF-"

    @server.resource("note:///horn", mime_type="audio/wav")
    def horn() -> bytes:
        return b"RIFF"

    @server.resource("note:///harbour/{name}{?day}")
    def harbour(name: str, day: str = "today") -> str:
        """A harbour."""
        return f"{name} on {day}"

    @server.tool()
    async def publish() -> str:
        """Add a resource."""
        server.add_resource(FunctionResource.from_function(lambda: "news", "note:///news", "news"))
        return "published"

    @server.prompt()
    def sail(harbour: str, days: str = "1") -> list[Message]:
        """Plan a trip."""
        text = TextResourceContents(uri="note:///tides", text="11:20")
        return [
            UserMessage(f"From {harbour}, {days} days. When?"),
            UserMessage(EmbeddedResource(resource=text)),
            AssistantMessage("At high tide."),
            UserMessage(AudioContent(data="UklGRg==", mime_type="audio/wav")),
        ]

    return server


def main() -> None:
    """Serve until nobody is there any more."""
    if len(sys.argv) > 1:
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(serve().streamable_http_app(), log_config=None)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(config).run([listener])
    else:
        serve().run()


if __name__ == "__main__":
    main()
