"""`layover mcp inspect`: the tools of a server as an agent would get them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from layover.declare.tools.served import accept, plain
from layover.declare.tools.server import ToolServer, mcp
from layover.errors import DefinitionError
from layover.plugins.reach.mcp.servers import McpServers
from layover.ports.tool_servers import Endpoint
from layover.values.runs.served import ServedTool
from layover.values.text import reveal

_MAX_LINE = 100
"""Characters of a description."""


def headers_of(options: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of options `NAME=VARIABLE`, with the variables' values: a value on a command line is
    seen by everybody on the machine. Raises DefinitionError."""
    headers = {}
    for option in options:
        name, _, variable = option.partition("=")
        if not name or not variable:
            raise DefinitionError(f"--header {option!r}: write NAME=VARIABLE")
        if variable not in variables:
            raise DefinitionError(f"--header {option!r}: the variable {variable} is not set")
        headers[name] = variables[variable]
    return headers


def inspect(url: str, *, name: str | None, headers: Mapping[str, str], private: bool) -> list[str]:
    """Return what to print about a server. Raises DefinitionError for a server that no agent could have,
    ToolServerError if it does not answer."""
    server = mcp(url, name=name, headers=headers, private=private)
    endpoint = Endpoint(server.name, url, "inspect", dict(headers), private)
    raw = asyncio.run(McpServers().list_tools(endpoint))
    return [reveal(line) for line in _lines(server, raw)]


def _lines(server: ToolServer, raw: Sequence[Any]) -> Iterator[str]:
    accepted = accept(server.name, raw)
    yield f"{server.name}: {len(accepted.tools)} tools, {len(accepted.left_out)} left out"
    for tool in accepted.tools:
        yield ""
        yield f"{tool.alias}  ({_hints(server, tool)})"
        if tool.description:
            yield f"  {plain(' '.join(tool.description.split()), _MAX_LINE)}"
        yield f"  {_arguments(tool)}"
    if accepted.left_out:
        yield ""
    for each in accepted.left_out:
        yield f"left out: {each.name}: {each.reason}"


def _hints(server: ToolServer, tool: ServedTool) -> str:
    hints = {
        "read-only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent and not tool.read_only,
        "waits for a person": bool(server.approval_of(tool)),
    }
    return ", ".join(word for word, holds in hints.items() if holds) or "no hints"


def _arguments(tool: ServedTool) -> str:
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    if not isinstance(properties, dict) or not properties:
        return "no arguments"
    needed = required if isinstance(required, list) else []
    names = (name if name in needed else f"[{name}]" for name in properties)
    return plain(" ".join(names), _MAX_LINE)
