"""A request's address and its bytes."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from layover.adapters.http.connection import Target

_PORTS = {"https": 443, "http": 80}
_PRINTABLE = r"(?:[!-~](?:[ -~]*[!-~])?)?"
_VALUE = re.compile(_PRINTABLE)
_VALUES = re.compile(f"(?:\n{_PRINTABLE})*")
"""Values of headers, one behind the other: one call tells of all whether they may be sent."""
_PATH_MARKS = "/%:@!$&'()*+,;=~"


class InvalidURL(ValueError):
    """No request can be sent there."""


class InvalidHeader(ValueError):
    """A header that no request may have. The message has its name, never its value."""


class Url(NamedTuple):
    """`host`: as in the header; `path`: encoded, with the query; `user`: `NAME:PASSWORD`, or empty."""

    target: Target
    scheme: str
    host: str
    path: str
    user: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


@lru_cache(64)
def join_url(base: str, path: str) -> Url:
    """The path behind the base URL's own; a query of the base stays (some gateways want a version). Raises
    InvalidURL."""
    try:
        parts = urlsplit(base)
        port = parts.port
    except ValueError as error:
        raise InvalidURL(str(error)) from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidURL("it does not begin with http:// or https:// and a host")
    usual_port = _PORTS[parts.scheme]
    name = f"[{parts.hostname}]" if ":" in parts.hostname else _ascii(parts.hostname)
    host = name if port in (None, usual_port) else f"{name}:{port}"
    user = parts.netloc.rpartition("@")[0]
    own = quote(parts.path.rstrip("/"), safe=_PATH_MARKS)
    query = f"?{quote(parts.query, safe=_PATH_MARKS + '?')}" if parts.query else ""
    target = Target(name.strip("[]"), port or usual_port, parts.scheme == "https")
    return Url(target, parts.scheme, host, own + path + query, user)


def encode_request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of a request; `path`: encoded. Raises InvalidHeader."""
    values = "\n".join(["", *headers.values()])
    if not _VALUES.fullmatch(values) or values.count("\n") != len(headers):
        raise InvalidHeader(next(n for n, v in headers.items() if not _VALUE.fullmatch(v)))
    lines = [
        f"{method} {path} HTTP/1.1",
        *[f"{name}: {value}" for name, value in headers.items()],
        f"content-length: {len(body)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError as error:
        raise InvalidURL(f"no such host can be: {error}") from error
