"""What programs speak to: editors, MCP clients, ASGI servers, OpenTelemetry, tables and log collectors."""
