"""MCP servers, by the client of the package `mcp`."""
