"""A request: its JSON body, and its token's expiry."""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from functions.api.auth import claims_of
from functions.api.problems import MalformedBody, Unauthenticated
from layover.errors import SEND_LESS, InvalidRequest, NotFound, TooLarge
from layover.keys import can_be_id
from layover.values.base import strict_json

MAX_BODY = 5 * 1024 * 1024
"""Bytes (docs/reference/http-api.md#limits); a Lambda event holds 6 MB, base64 included."""
NO_PATH = "there is no such path"
_NO_TEXT = "\x00"
"""Stands for bytes that are not UTF-8. It is not JSON either."""
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])', re.IGNORECASE)

_REMEMBERED_PREFERENCE = re.compile(r"(?:^|[,;\s])remembered\s*(?:$|[,;])", re.IGNORECASE)

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""Version 00 of W3C Trace Context, which later versions have to be readable as."""


def prepare_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with its body as text. Raises NotFound (absurd paths). `parse_json` reports
    errors in a body, for routes that take one."""
    if not can_be_id(str(event.get("rawPath") or "/")):
        raise NotFound(NO_PATH)
    # Every body is JSON, whatever the client calls it: `curl -d` says that it is a form.
    headers = {k: v for k, v in (event.get("headers") or {}).items() if k.lower() != "content-type"}
    return {**event, "headers": headers, "body": _text(event), "isBase64Encoded": False}


def token_expires_at(event: Mapping[str, Any]) -> datetime | None:
    """Return the verified token's expiry; None if it has none. Raises Unauthenticated if the claim is not a
    time."""
    claim = claims_of(event).get("exp")
    if claim is None:
        return None
    try:
        # The authorizer passes every claim on as text.
        return datetime.fromtimestamp(float(claim), UTC)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise Unauthenticated("the token's `exp` is not a time") from error


def parse_json(text: str) -> dict[str, Any]:
    """Return a JSON object. Raises TooLarge, MalformedBody if the text is not JSON, InvalidRequest if it is
    another value, or has a key twice: readers of JSON do not agree on which of the two counts."""
    if len(text) > MAX_BODY or len(text.encode("utf-8", "surrogatepass")) > MAX_BODY:
        raise TooLarge(f"the body is larger than {MAX_BODY} bytes: {SEND_LESS}")
    doubled: list[_Doubled] = []

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        doubled.append(_Doubled(value, _first_doubled(pairs)))
        return doubled[-1]

    try:
        value = strict_json(text, make_object)
    except (ValueError, RecursionError) as error:
        raise MalformedBody("the body is not valid JSON") from error
    if not isinstance(value, dict):
        wrong = {"loc": ["body"], "msg": "has to be an object", "type": "dict_type"}
        raise InvalidRequest("the body has to be a JSON object", [wrong])
    if doubled:
        path = ["body", *_path_to(value, doubled[0]), doubled[0].key]
        message = "the key stands twice in its object"
        twice = {"loc": path, "msg": message, "type": "duplicate_key"}
        raise InvalidRequest("an object of the body has a key twice", [twice])
    return value


class _Doubled(dict[str, Any]):
    """An object that was sent with a key twice."""

    def __init__(self, value: Mapping[str, Any], key: str) -> None:
        super().__init__(value)
        self.key = key


def _first_doubled(pairs: Sequence[tuple[str, Any]]) -> str:
    counts = Counter(name for name, _ in pairs)
    return next(name for name, count in counts.items() if count > 1)


def _path_to(value: Any, target: Any) -> list[str | int]:
    """Return the path from a value to a part of it. Empty for the value itself, and for a part that the later
    one of two equal keys has replaced."""
    rest: list[tuple[Any, list[str | int]]] = [(value, [])]
    while rest:
        part, path = rest.pop()
        if part is target:
            return path
        parts = part.items() if isinstance(part, dict) else enumerate(part)
        rest += [(each, [*path, at]) for at, each in parts if isinstance(each, dict | list)]
    return []


def preferred_wait(prefer: str | None) -> int | None:
    """Return the seconds of `Prefer: wait=N` (RFC 7240), read leniently; None if it has none."""
    match = _WAIT.search(prefer or "")
    return int(match[1]) if match else None


def prefers_remembered(prefer: str | None) -> bool:
    """Return whether `Prefer` asks to wait for memory's work as well."""
    return _REMEMBERED_PREFERENCE.search(prefer or "") is not None


def traceparent(headers: Mapping[str, str]) -> str | None:
    """Return the caller's trace context; None if it has none, or one that is not well-formed: then the header
    counts as absent, as W3C wants it."""
    # A REST API passes names on as the client wrote them.
    texts = (str(value) for name, value in headers.items() if name.lower() == "traceparent")
    match = _TRACEPARENT.fullmatch(next(texts, "").strip())
    return match[0] if match else None


def host_of(event: Mapping[str, Any]) -> str:
    """Return the name of the host that the request was sent to; empty if the event does not tell it."""
    return str((event.get("requestContext") or {}).get("domainName") or "")


def content_type(event: Mapping[str, Any]) -> str:
    """Return the media type of the request's body in lower case, without parameters; empty if it has none."""
    headers = {k.lower(): str(v) for k, v in (event.get("headers") or {}).items()}
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def takes_gzip(event: Mapping[str, Any]) -> bool:
    """Return whether the client reads gzip, by the framework's rule."""
    headers = {k.lower(): v for k, v in (event.get("headers") or {}).items()}
    return "gzip" in headers.get("accept-encoding", "")


def _text(event: Mapping[str, Any]) -> str | None:
    body = event.get("body")
    if not body:
        return None
    if not event.get("isBase64Encoded"):
        return str(body)
    try:
        return base64.b64decode(body, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return _NO_TEXT
