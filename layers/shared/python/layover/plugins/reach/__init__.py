"""Tools elsewhere: servers of MCP, and the accounts of users there."""
