"""Guards of the one-machine system: programs of this machine may call it, web pages in its browsers may
not."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts of this machine: requests to them cross no network."""

LOCAL_HEADER = "X-Layover-Local"
"""Header that `/_local/*` requires, with the value `1`. A page of another origin cannot send it unasked."""
_OF_PAGES = frozenset({"origin", "sec-fetch-site"})
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


def is_from_page(names: Iterable[str]) -> bool:
    """Return whether a request with headers of these names, in lower case, comes from a browser. A page
    cannot leave both out: a browser adds `Origin` to whatever changes something or may be read, and
    `Sec-Fetch-Site` to everything that it sends to this machine."""
    return not _OF_PAGES.isdisjoint(names)


class Refusal(NamedTuple):
    """The answer to a request that a port for programs refuses."""

    status: HTTPStatus
    detail: str


def refusal_of(headers: Mapping[str, str], port: int) -> Refusal | None:
    """Return the reason why a port for programs refuses a request with these headers (names in lower case,
    two of a name joined by a comma); None if it may be answered. `port`: where it listens, on 127.0.0.1."""
    if headers.get("host", "").lower() not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        detail = f"this system answers only its own machine: ask for 127.0.0.1:{port}"
        return Refusal(HTTPStatus.MISDIRECTED_REQUEST, detail)
    if is_from_page(headers):
        return Refusal(HTTPStatus.FORBIDDEN, "this port answers programs, and no web page")
    return None


def is_local(values: Iterable[str]) -> bool:
    """True if a request's `X-Layover-Local` headers are `1`."""
    return list(values) == ["1"]


def is_json(content_types: Iterable[str]) -> bool:
    """Return whether a body is declared as JSON. A page may send another site any text without a preflight,
    but not JSON."""
    types = list(content_types)
    return len(types) == 1 and _JSON.match(types[0]) is not None
