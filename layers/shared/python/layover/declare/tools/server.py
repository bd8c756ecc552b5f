"""`mcp`: the tools of an MCP server in an agent's list (docs/guides/mcp.md)."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from layover.declare.blocking import call_author
from layover.declare.option_names import named_options
from layover.declare.schemas import checks
from layover.declare.tools.approval import Approval
from layover.declare.tools.options import takes
from layover.declare.tools.tool import AnyTool
from layover.values.runs.served import ServedTool

_GENERIC = frozenset({"mcp", "api", "www", "server", "tools"})
_MAX_NAME = 24
_NAME = re.compile(rf"[a-zA-Z][a-zA-Z0-9-]{{0,{_MAX_NAME - 1}}}")
_HEADER = re.compile(r"[a-zA-Z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_TIMEOUT = 60

Headers = Mapping[str, str] | Callable[[Any], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Headers of requests, or a function of the context (`RunContext`, or `ToolContext` at a call), plain or
async."""


@dataclass(frozen=True)
class ListedTool:
    """A tool of a server, as `mcp(approve=...)` gets it. All of it is what the server says about itself.

    Attributes:
        name: The server's own name of it.
        description: What the model reads about it.
        read_only: True if the server says that it changes nothing.
        destructive: True if the server says that it may overwrite or delete.
        idempotent: True if the server says that the same call twice is like once, or that it is read-only.

    Example:
        ```python
        from layover import ListedTool, mcp


        def approve(tool: ListedTool) -> bool:
            return not tool.read_only or tool.name == "read_salaries"


        server = mcp("https://mcp.example.com/mcp", approve=approve)
        assert server.approve(ListedTool(name="read_salaries", read_only=True))
        ```
    """

    name: str
    description: str = ""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


Approve = Callable[[ListedTool], bool | Approval]


@dataclass(frozen=True, eq=False)
class ToolServer:
    """A server whose tools an agent has. `mcp` makes it. It is its own only item: `[*mcp(...)]` and
    `[mcp(...)]` are the same list."""

    url: str
    name: str
    headers: Headers | None = field(default=None, repr=False)
    connection: str | None = None
    approve: Approve | None = None
    include: tuple[str, ...] | None = None
    timeout: timedelta | None = None
    trusted: bool = False
    private: bool = False
    elicitation: bool = False
    change: Callable[[AnyTool], AnyTool] | None = field(default=None, repr=False)
    """Changes each tool that a run gets of it: stubs of evaluations do."""

    def __iter__(self) -> Iterator["ToolServer"]:
        yield self

    async def headers_for(self, ctx: Any) -> dict[str, str]:
        """Return the headers of a request for this run or call. Raises what the author's function raises, and
        TypeError if it returns no headers."""
        headers = self.headers
        if callable(headers):
            headers = await call_author(headers, ctx)
        if not _are_headers(headers or {}):
            raise TypeError(
                f"headers of the server {self.name} must be a dict of ASCII texts by name"
            )
        return dict(headers or {})

    def wants(self, name: str) -> bool:
        """Return whether the agent is to have the tool of this name."""
        return self.include is None or name in self.include

    def missing_in(self, tools: Iterable[ServedTool]) -> list[str]:
        """Return the names that the agent includes and no tool has."""
        names = {tool.name for tool in tools}
        return [name for name in self.include or () if name not in names]

    def approval_of(self, tool: ServedTool) -> bool | Approval:
        """Return the rule for calls of the tool: the author's, else a person for all that is not said to be
        read-only. Raises what the author's function raises, and TypeError if it returns no rule."""
        if self.approve is None:
            return not tool.read_only
        listed = ListedTool(
            name=tool.name,
            description=tool.description,
            read_only=tool.read_only,
            destructive=tool.destructive,
            idempotent=tool.idempotent,
        )
        rule = self.approve(listed)
        if not isinstance(rule, bool | Approval):
            raise TypeError(
                f"approve of the server {self.name} must return a bool or an Approval, not "
                f"{type(rule).__name__}"
            )
        return rule

    def as_facts(self) -> dict[str, Any]:
        """Return what belongs to an agent's definition: no credentials."""
        return {
            "server": self.name,
            "url": self.url,
            **({"include": sorted(self.include)} if self.include is not None else {}),
            **({"approve": "by a rule"} if self.approve is not None else {}),
            **({"trusted": True} if self.trusted else {}),
            **({"connection": self.connection} if self.connection is not None else {}),
            **({"elicitation": True} if self.elicitation else {}),
        }


@named_options(lambda *_, **__: "mcp")
def mcp(
    url: str,
    *,
    name: str | None = None,
    headers: Headers | None = None,
    connection: str | None = None,
    approve: Approve | None = None,
    include: Sequence[str] | None = None,
    timeout: float | timedelta | None = _TIMEOUT,
    trusted: bool = False,
    private: bool = False,
    elicitation: bool = False,
) -> ToolServer:
    """Return the tools of an MCP server for `Agent(tools=[*mcp(...)])`, over streamable HTTP.

    A run asks the server once for its tools, before its first step, and keeps that list to its end. The
    package `layover[mcp]` has the client.

    Args:
        url: The server's address, `https://...`.
        name: What the names of its tools begin with, in front of a `_`: a letter and up to 23 letters, digits
            or `-`. None: a word of the address.
        headers: Headers of each request, such as credentials: a dict, or a function of the context, plain or
            async, which is called for each list and each call. None: none.
        connection: The name of one of the agent's connections: requests have a token of the run's user, or of
            the deployment, as `Authorization: Bearer`. None: none.
        approve: A function of a `ListedTool` that returns whether a person has to approve its calls, or an
            `Approval` that says who. None: a person approves all calls but those of tools that the server
            calls read-only.
        include: The server's names of the tools that the agent gets; None: all.
        timeout: Seconds or a timedelta that a call may take; a longer one is a tool error. None: no limit.
        trusted: True: results go to the model as they are, and its tools are `trusted` as in `@tool`. False
            (default): results are marked as a third party's data, whose instructions are not to be followed.
        private: True: the server may be at an address inside a network or on this machine, and plain HTTP is
            allowed. False (default): such addresses are refused.
        elicitation: True: the server may ask the run's user for data in the middle of a call, which waits for
            them and is made again with the answer. False (default): a server that asks gets nothing.

    Raises:
        DefinitionError: If the server could not be asked as declared.

    Example:
        ```python
        from layover import Agent, mcp

        issues = mcp(
            "https://mcp.example.com/mcp",
            headers=lambda ctx: {"Authorization": f"Bearer {ctx.metadata['token']}"},
            include=["search_issues", "create_issue"],
        )
        clerk = Agent("clerk", tools=[*issues])
        assert clerk.servers == (issues,)
        assert issues.name == "example"
        ```
    """
    what = "mcp: "
    host = _host_of(what, url, private)
    if name is None:
        name = _word_of(host)
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        expected = f"a letter and up to {_MAX_NAME - 1} letters, digits or '-'"
        raise checks.fail(f"{what}name", expected, name)
    _check_headers(what, headers)
    if connection is not None:
        checks.name(f"{what}connection", connection)
    if approve is not None and not (callable(approve) and takes(approve, 1)):
        raise checks.fail(f"{what}approve", "a function of a tool (ListedTool)", approve)
    if include is not None and (
        isinstance(include, str)
        or not isinstance(include, Iterable)
        or not all(isinstance(each, str) for each in include)
    ):
        raise checks.fail(f"{what}include", "a list of names of tools", include)
    checks.flag(f"{what}trusted", trusted)
    checks.flag(f"{what}private", private)
    checks.flag(f"{what}elicitation", elicitation)
    return ToolServer(
        url=url,
        name=name,
        headers=headers,
        connection=connection,
        approve=approve,
        include=None if include is None else tuple(include),
        timeout=checks.duration(f"{what}timeout", timeout),
        trusted=trusted,
        private=private,
        elicitation=elicitation,
    )


def _host_of(what: str, url: Any, private: bool) -> str:
    expected = "an address like https://mcp.example.com/mcp"
    if not isinstance(url, str):
        raise checks.fail(f"{what}url", expected, url)
    try:
        parts = urlsplit(url)
        host, user = parts.hostname, parts.username
        _ = parts.port
    except ValueError:
        raise checks.fail(f"{what}url", expected, url) from None
    if user is not None:
        # Not shown: it has a password in it.
        raise checks.fail(f"{what}url", "an address without credentials: use headers=", str)
    if parts.scheme not in ("https", "http") or not host:
        raise checks.fail(f"{what}url", expected, url)
    if parts.scheme == "http" and not private:
        raise checks.fail(f"{what}url", "https", url, hint=": plain HTTP needs private=True")
    return host


def _word_of(host: str) -> str:
    """Return a word for a server: that before the end of its host's name, unless it says nothing."""
    labels = [label for label in host.split(".")[:-1] if label not in _GENERIC]
    word = re.sub(r"[^a-zA-Z0-9-]", "-", labels[-1] if labels else host)[:_MAX_NAME]
    return word if _NAME.fullmatch(word) and word != host else "mcp"


def _check_headers(what: str, headers: Any) -> None:
    if headers is not None and not callable(headers) and not _are_headers(headers):
        # The value is not shown: it may be a credential.
        raise checks.fail(
            f"{what}headers", "a dict of ASCII texts by name, or a function", type(headers)
        )
    if callable(headers) and not takes(headers, 1):
        raise checks.fail(f"{what}headers", "a function of the context", headers)


def _are_headers(headers: Any) -> bool:
    return isinstance(headers, Mapping) and all(
        isinstance(k, str) and _HEADER.fullmatch(k) and isinstance(v, str) and _VALUE.fullmatch(v)
        for k, v in headers.items()
    )
