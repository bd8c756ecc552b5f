"""Tools of servers outside, as tools of a run (docs/guides/mcp.md). The rest of the engine sees tools."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layover.declare.agent import Agent
from layover.declare.connection import check_servers
from layover.declare.context import Retry, RunContext, ToolContext
from layover.declare.tools.json_schema_signature import json_schema_signature
from layover.declare.tools.options import options_of
from layover.declare.tools.served import accept, plain
from layover.declare.tools.server import ToolServer
from layover.declare.tools.tool import AnyTool, Tool
from layover.declare.tools.tool import tool as make_tool
from layover.declare.tools.untrusted import as_untrusted
from layover.engine.isolation import isolate
from layover.engine.tools.elicitation import Exchange
from layover.errors import DefinitionError, RetryableError, RunFailed
from layover.ports.tool_servers import (
    Endpoint,
    ServerAsks,
    ToolServerError,
)
from layover.runtime import Runtime
from layover.values.runs.served import ServedTool, ServedTools
from layover.values.text import sanitise

logger = logging.getLogger("layover")

LIST_ATTEMPTS = 2
MAX_EVENTS = 50
"""Notices of progress and lines of a log that one call may add to the run's events."""
_UNAUTHORIZED = 401
_HEADER = "authorization"
_MAX_NOTICE = 500
"""Characters of a notice."""


@dataclass(frozen=True)
class ServerTools:
    """The tools that a run has of its servers, and what it pins of them."""

    tools: tuple[AnyTool, ...] = ()
    pinned: tuple[ServedTools, ...] = ()


async def server_tools(
    runtime: Runtime,
    agent: Agent,
    servers: Sequence[ToolServer],
    ctx: RunContext,
    pinned: Sequence[ServedTools] | None,
    others: Iterable[str],
    *,
    asks: bool = True,
) -> ServerTools:
    """Return the tools of the servers: those that the run pinned, else those that the servers list now.
    `others`: names of the agent's other tools. A server that the agent got since the run began has none.
    `asks`: servers that waited for an account are asked again. Raises RunFailed if a server cannot be
    asked."""
    if not servers:
        return ServerTools()
    _check_connections(agent, servers, ctx)

    async def list_of(server: ToolServer) -> ServedTools:
        before = None if pinned is None else _pinned_of(server, pinned)
        if before is not None and not (before.waits and asks):
            return before
        return await _listed(runtime, agent, server, ctx, before)

    # Side by side: the run waits for the slowest, and not for the sum.
    lists = await asyncio.gather(*map(list_of, servers))
    names = set(others)
    tools: list[AnyTool] = []
    for server, listed in zip(servers, lists, strict=True):
        if listed.connects and (connect := _connecting_tool(server)).name not in names:
            names.add(connect.name)
            tools.append(connect)
        for served in (each for each in listed.tools if server.wants(each.name)):
            try:
                tool = _tool(runtime, server, served)
            except Exception as error:  # the author's rule may raise anything
                message = f"approve of the server {server.name} failed for {served.name!r}: {error}"
                kind = type(error).__name__
                raise RunFailed(message, type=kind, is_internal=True, run_id=ctx.run_id) from error
            if tool is not None and tool.name not in names:
                names.add(tool.name)
                tools.append(tool if server.change is None else server.change(tool))
    return ServerTools(tuple(tools), tuple(lists))


def _pinned_of(server: ToolServer, pinned: Sequence[ServedTools]) -> ServedTools:
    """Return what the run pinned of a server; an empty list, if the agent got it later."""
    own = (each for each in pinned if each.server == server.name)
    return next(own, ServedTools(server=server.name))


def _check_connections(agent: Agent, servers: Sequence[ToolServer], ctx: RunContext) -> None:
    try:
        check_servers(f"agent {agent.name!r}: ", servers, agent.connections)
    except DefinitionError as error:
        raise RunFailed(error.message, type="DefinitionError", run_id=ctx.run_id) from error


async def _listed(
    runtime: Runtime,
    agent: Agent,
    server: ToolServer,
    ctx: RunContext,
    before: ServedTools | None = None,
) -> ServedTools:
    """Return what the server lists now, or that it waits for an account of the run's user. `before`: what the
    run pinned of a server that waited."""
    connects = before is not None and before.connects
    try:
        raw = await _ask_for_list(runtime, agent, server, ctx)
        if raw is None:
            return ServedTools(server=server.name, waits=True, connects=True)
    except RetryableError:
        raise
    except Exception as error:
        # A run that began without them would look as if the agent never had them.
        message = f"the tools of the server {server.name} of agent {ctx.agent_name!r} could not be listed: "
        reason = error if isinstance(error, DefinitionError | ToolServerError | TypeError) else ""
        raise RunFailed(
            f"{message}{reason or type(error).__name__}", type="ToolServerError", run_id=ctx.run_id
        ) from error
    accepted = accept(server.name, raw, server.wants)
    missing = server.missing_in(accepted.tools)
    if missing:
        # The author's own words, and not the server's.
        logger.warning(
            "a server has no such tools, which its agent includes: %s",
            ", ".join(missing),
            extra={"run_id": ctx.run_id, "server": server.name},
        )
    if accepted.left_out:
        logger.warning(
            "tools of a server are left out",
            extra={"run_id": ctx.run_id, "server": server.name, "count": len(accepted.left_out)},
        )
    return ServedTools(server=server.name, tools=accepted.tools, connects=connects)


async def _ask_for_list(
    runtime: Runtime, agent: Agent, server: ToolServer, ctx: RunContext
) -> list[Any] | None:
    """Return the list; None if the run's user has not connected the account that the server needs."""
    rejected: str | None = None
    for attempt in range(1, LIST_ATTEMPTS + 1):
        token = None
        if server.connection is not None:
            connection = next(c for c in agent.connections if c.name == server.connection)
            token = await runtime.accounts.token(connection, ctx.resource_id, rejected)
            if token is None:
                return None
        endpoint = await isolate(_endpoint(server, ctx, token))
        try:
            return await runtime.tool_servers.list_tools(endpoint)
        except ToolServerError as error:
            rejected = token if error.status == _UNAUTHORIZED else None
            if attempt == LIST_ATTEMPTS or not (error.retryable or rejected):
                raise
    raise AssertionError


async def _endpoint(server: ToolServer, ctx: Any, token: str | None) -> Endpoint:
    headers = await server.headers_for(ctx)
    if token is not None:
        headers = {name: value for name, value in headers.items() if name.lower() != _HEADER}
        headers[_HEADER] = f"Bearer {token}"
    return Endpoint(
        server.name,
        server.url,
        ctx.run_id,
        headers=headers,
        private=server.private,
        elicitation=server.elicitation,
    )


def _connecting_tool(server: ToolServer) -> AnyTool:
    """Return the tool by which a model has its user connect the account that a server needs."""

    async def connect(ctx: ToolContext) -> str:
        await ctx.token(server.connection or "")
        return (
            f"The account is connected. The tools of {server.name} are there from the next step on."
        )

    decorate = make_tool(
        name=f"connect_{server.name}",
        description=(
            f"Connect the user's {server.connection} account. The tools of {server.name} need it, and are "
            "there once it is connected. Call it if the user wants something that they could do."
        ),
        idempotent=True,
        trusted=True,
    )
    return decorate(connect)


def _tool(runtime: Runtime, server: ToolServer, served: ServedTool) -> AnyTool | None:
    """Return the tool; None if this release takes no such schema any more."""

    async def call(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return await _call(runtime, server, served, arguments, ctx)

    try:
        signature = json_schema_signature(call, served.alias, served.parameters)
    except (DefinitionError, RecursionError):
        return None
    raw_options: dict[str, Any] = {
        "needs_approval": server.approval_of(served),
        "idempotent": served.idempotent,
        "timeout": server.timeout,
        "trusted": server.trusted,
        "risk": "high" if served.destructive else None,
        "strict": False,
    }
    if not server.trusted:
        raw_options["to_model_output"] = lambda value: _mark(served.alias, value)
    tool = Tool(
        call,
        name=served.alias,
        description=served.description,
        # Always as one dict: a stranger's argument may have any name.
        signature=replace(signature, whole="arguments"),
        options=options_of(served.alias, signature, raw_options),
    )
    tool.server = server.name
    return tool


def _mark(alias: str, value: Any) -> str:
    from layover.declare.tools.parts import as_words

    return as_untrusted(alias, as_words(value))


async def _call(
    runtime: Runtime,
    server: ToolServer,
    served: ServedTool,
    arguments: dict[str, Any],
    ctx: ToolContext,
) -> Any:
    """Return the result of a call. One that certainly did not reach the server, or that may be repeated, is
    sent a second time."""
    exchange = Exchange.of(ctx.resume)
    if exchange.open:
        return exchange.ask()
    notices = _Notices(server, ctx)
    rejected: str | None = None
    for is_last in (False, True):
        token = await _token_of(server, ctx, rejected)
        endpoint = await _endpoint(server, ctx, token)
        try:
            reply = await runtime.tool_servers.call(
                endpoint, served.name, arguments, notices.add, exchange.answers
            )
            if isinstance(reply, ServerAsks):
                return exchange.asks(server, reply, may_repeat=served.idempotent)
            answer = reply
            break
        except ToolServerError as error:
            if error.status == _UNAUTHORIZED and token is not None and not is_last:
                # Nothing has happened: it has not let the call in.
                rejected = token
                continue
            is_in_doubt = error.sent and not served.idempotent
            if is_last or is_in_doubt or not error.retryable:
                doubt = "; the call may or may not have taken effect" if is_in_doubt else ""
                message = f"the server {server.name}: {error.message}{doubt}"
                raise _failure(server, served, message, error.words) from error
    from layover.engine.tools.server_parts import parts_of

    return await parts_of(answer, ctx)


def _failure(server: ToolServer, served: ServedTool, message: str, words: str) -> Exception:
    """Return the error of a call: our message, and the server's words, if it said some."""
    if not words:
        return ToolServerError(message)
    text = f"{message}: {sanitise(words)}"
    return Retry(text if server.trusted else as_untrusted(served.alias, text))


async def _token_of(server: ToolServer, ctx: ToolContext, rejected: str | None) -> str | None:
    """Return a token of the server's connection, another one than what it rejected; None: it has none."""
    if server.connection is None:
        return None
    return await ctx.token(server.connection, rejected=rejected)


class _Notices:
    """Notices of a server while a call runs, as events of the run."""

    def __init__(self, server: ToolServer, ctx: ToolContext) -> None:
        self._server = server.name
        self._ctx = ctx
        self._left = MAX_EVENTS

    def add(self, notice: dict[str, Any]) -> None:
        """Add an event, unless the call has added many."""
        if self._left == 0:
            return
        self._left -= 1
        message = notice.get("message")
        if isinstance(message, str):
            notice = {**notice, "message": plain(message, _MAX_NOTICE)}
        self._ctx.emit({"mcp": self._server, **notice})
