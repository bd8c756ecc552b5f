"""Front ends: runs and threads in the words of the AI SDK, AG-UI and MCP."""
