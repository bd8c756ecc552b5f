"""Guards of the one-machine system: programs of this machine may call it, web pages in its browsers may
not."""

import re
from collections.abc import Iterable

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts of this machine: requests to them cross no network."""

LOCAL_HEADER = "X-Layover-Local"
"""Header that `/_local/*` requires, with the value `1`. A page of another origin cannot send it unasked."""
_HOST = re.compile(
    r"^(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\[\]:]+))(?::\d{1,5})?$", re.IGNORECASE
)
_JSON = re.compile(r"^application/json[ \t]*(;|$)", re.IGNORECASE)


def is_loopback(hosts: Iterable[str]) -> bool:
    """True if a request's `Host` headers name this machine, with any port. A page under another name that
    leads here (DNS rebinding) does not, nor does a request without the header or with two."""
    headers = list(hosts)
    match = _HOST.match(headers[0].strip()) if len(headers) == 1 else None
    return match is not None and (match["six"] or match["name"]).lower() in LOOPBACK


def is_local(values: Iterable[str]) -> bool:
    """True if a request's `X-Layover-Local` headers are `1`."""
    return list(values) == ["1"]


def is_json(content_types: Iterable[str]) -> bool:
    """Return whether a body is declared as JSON. A page may send another site any text without a preflight,
    but not JSON."""
    types = list(content_types)
    return len(types) == 1 and _JSON.match(types[0]) is not None
