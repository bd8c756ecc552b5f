"""Access to the API: paths without a token, and the scopes of the others."""

import re

from layover.values.base import Value

DOCS = "/docs"
DISCOVERY = "/.well-known/layover"
"""The path at which a client learns how to sign in."""
CONNECTED = "/connected"
"""The beginning of the pages to which services send users back, after they have consented or not."""
CONNECTED_PAGE = f"{CONNECTED}/{{connection}}"
MCP = "/mcp"
"""The path of the agents as tools of MCP clients."""
PROTECTED_RESOURCE = f"/.well-known/oauth-protected-resource{MCP}"
"""The path at which an MCP client learns where tokens come from (RFC 9728)."""
CONSOLE_FILES = "/console/{version}/{file}"
"""The route of the files that the console's page loads."""
OPEN_PATHS = frozenset(
    {"/", "/healthz", CONNECTED_PAGE, DOCS, "/openapi.json", DISCOVERY, PROTECTED_RESOURCE}
)
"""Paths that need no token, besides the console's files and links that decide. The gateway in front lets no
other path through without one."""
SLACK = "/channels/slack"
"""The path to which Slack sends what people press. Its requests are signed."""
OPEN_POSTS = frozenset({SLACK})
"""Paths to which anybody may post without a token, because something else says who asks."""
_PAGE_PART = re.compile(r"/console/[^/]+/[^/]+|/connected/[^/]+")
DECIDE = "/decide/{token}"
"""The route of the links that decide one call. The link is the secret, so the path is in no log."""
DECIDE_METHODS = ("GET", "POST")
_DECIDE = re.compile(r"/decide/.+", re.DOTALL)
"""Whatever stands behind it is a link, or not found: no text is answered in another way than the others."""
TICKETED_ROUTE = "/runs/{run_id}/events"
"""The one stream that a ticket may open instead of a token."""
STREAM_ROUTES = (
    ("GET", TICKETED_ROUTE),
    ("POST", "/threads/{thread_id}/runs"),
)
"""Routes that stream to a client that accepts `text/event-stream`."""
CHAT_ROUTES = (
    ("POST", "/chat/{agent}"),
    ("GET", "/chat/{agent}/{chat_id}/stream"),
    ("POST", "/ag-ui/{agent}"),
)
"""Routes that always stream."""
TICKETED = "/ticketed"
"""The prefix of the path of a stream at `stream_url` that a ticket opens: the gateway there lets it pass
without a token."""
OPERATORS, AUDITORS, READERS = "layover-operators", "layover-auditors", "layover-readers"
"""The groups of a stack's own users whose members operate it, read its audit, and read what runs say."""
RESOURCE_HEADER = "X-Layover-Resource"
"""The end user for whom a backend asks."""


def is_open(path: str) -> bool:
    """Return whether a path needs no token."""
    is_part = _PAGE_PART.fullmatch(path) is not None or is_decision(path)
    return path in OPEN_PATHS | OPEN_POSTS or is_part


def is_decision(path: str) -> bool:
    """Return whether a path is a link that decides a call, or looks like one."""
    return _DECIDE.fullmatch(path) is not None


class Actor(Value):
    """The caller: the subject of a verified token, and the end user that a backend names."""

    sub: str
    on_behalf_of: str | None = None
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    in_process: bool = False
    """True if the caller runs the agent in their own process, and decides every call."""
    traceparent: str | None = None
    """The W3C trace context of the caller's request: traces of the runs that it starts have a link to it."""

    @property
    def owner(self) -> str:
        """The owner of the data that the request is about."""
        return self.on_behalf_of or self.sub


class Access(Value):
    """The scopes that tokens need, and the issuer from which users get them (`issuer` None: on one
    machine)."""

    scope: str = "layover/use"
    """The scope of every request. ID tokens have no scopes, so they are refused."""
    act_as_scope: str = "layover/act-as"
    """The scope of a backend's own token that names an end user."""
    operate_scope: str = "layover/operate"
    """The scope of an operator, who may list, cancel, redrive and deny all users' runs, and list their
    feedback."""
    audit_scope: str = "layover/audit"
    """The scope of an auditor, who may read all users' decisions, and what operators did."""
    read_content_scope: str = "layover/read-content"
    """The scope with which an operator may also read what all users' runs say."""
    groups_claim: str = "cognito:groups"
    """The claim that names the caller's groups."""
    operate_group: str | None = None
    """The group whose members are operators as well; None: only the scope makes one."""
    audit_group: str | None = None
    """The group whose members are auditors as well; None: only the scope makes one."""
    read_content_group: str | None = None
    """The group whose members have `read_content_scope` as well; None: only the scope gives it."""
    issuer: str | None = None
    client_id: str | None = None
    """The public client that people sign in with."""
    stream_url: str | None = None
    """Base URL of the streamed responses, under the same paths; None: this one."""
    login_scope: str | None = None
    """The scopes that a client asks for when a person signs in, besides `openid`, where the issuer has other
    names for them than its tokens; None: `scope`."""

    def scopes_of(self, scopes: frozenset[str], groups: frozenset[str]) -> frozenset[str]:
        """Return the scopes of a token, with those that its groups give. A group never gives `scope` or
        `act_as_scope`: a token without them stays refused."""
        by_group = (
            (self.operate_group, self.operate_scope),
            (self.audit_group, self.audit_scope),
            (self.read_content_group, self.read_content_scope),
        )
        return scopes | {scope for group, scope in by_group if group and group in groups}
