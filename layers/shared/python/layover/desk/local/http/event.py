"""HTTP requests as API Gateway HTTP API events (payload 2.0), and the function's answers back."""

import base64
import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from layover.desk.local.functions.invocation import ACCOUNT

HeaderBytes = list[tuple[bytes, bytes]]
_TEXT = re.compile(r"^(text/|application/(.*\+)?(json|xml|javascript)\b)", re.IGNORECASE)
_HEADER_NAME = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")


@dataclass(frozen=True)
class Response:
    """Status, headers and body for the client."""

    status: int
    headers: HeaderBytes
    body: bytes

    @classmethod
    def problem(
        cls, status: HTTPStatus, slug: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> "Response":
        """An RFC 9457 problem document."""
        document = {"type": slug, "title": status.phrase, "status": status, "detail": detail}
        pairs = {"content-type": "application/problem+json"} | dict(headers or {})
        return cls(status, _encode(pairs.items()), json.dumps(document).encode())

    @classmethod
    def json(cls, document: object) -> "Response":
        """A JSON document."""
        headers = [(b"content-type", b"application/json")]
        return cls(HTTPStatus.OK, headers, json.dumps(document).encode())


def http_event(scope: Mapping[str, Any], body: bytes, claims: Mapping[str, str] | None) -> Any:
    """The event of one request. `claims` are those of a verified token, None on open routes."""
    headers = _join(scope["headers"])
    cookies = headers.pop("cookie", None)
    query = scope["query_string"].decode("latin-1")
    text, is_base64 = _body_text(body, headers.get("content-type", ""))
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        # Percent-decoded, as HTTP APIs deliver it in spite of the name (Function URLs do not).
        "rawPath": scope["path"],
        "rawQueryString": query,
        "headers": headers,
        "requestContext": _context(scope, headers, claims),
        "isBase64Encoded": is_base64,
    }
    if cookies:
        event["cookies"] = [cookie.strip() for cookie in cookies.split(";")]
    if parameters := _join_query(query):
        event["queryStringParameters"] = parameters
    if body:
        event["body"] = text
    return event


def http_response(payload: bytes) -> Response:
    """Return API Gateway's answer for a function's result; raises ValueError if there is none."""
    result = json.loads(payload)
    if not isinstance(result, dict) or "statusCode" not in result:
        return Response.json(result)
    status = int(result["statusCode"])
    if not 200 <= status <= 599:
        raise ValueError(f"status {status}")
    body = result.get("body") or ""
    text = body if isinstance(body, str) else json.dumps(body)
    content = base64.b64decode(text) if result.get("isBase64Encoded") else text.encode()
    pairs = [(name, str(value)) for name, value in (result.get("headers") or {}).items()]
    pairs += [("set-cookie", cookie) for cookie in result.get("cookies") or []]
    if not any(name.lower() == "content-type" for name, _ in pairs):
        pairs.append(("content-type", "application/json"))
    return Response(status, _encode(pairs), content)


def _context(
    scope: Mapping[str, Any], headers: Mapping[str, str], claims: Mapping[str, str] | None
) -> dict[str, Any]:
    host = headers.get("host", "")
    now = time.time()
    context: dict[str, Any] = {
        "accountId": ACCOUNT,
        "apiId": "local",
        "domainName": host,
        "domainPrefix": host.split(".")[0].split(":")[0],
        "http": {
            "method": scope["method"],
            "path": scope["path"],
            "protocol": f"HTTP/{scope['http_version']}",
            "sourceIp": (scope.get("client") or ("127.0.0.1", 0))[0],
            "userAgent": headers.get("user-agent", ""),
        },
        "requestId": str(uuid.uuid4()),
        "routeKey": "$default",
        "stage": "$default",
        "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
        "timeEpoch": int(now * 1000),
    }
    if claims is not None:
        context["authorizer"] = {"jwt": {"claims": dict(claims), "scopes": None}}
    return context


def _join(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    values: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), _text(raw_value)
        separator = ";" if name == "cookie" else ","
        values[name] = f"{values[name]}{separator}{value}" if name in values else value
    return values


def _join_query(query: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, errors="replace"):
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _body_text(body: bytes, content_type: str) -> tuple[str, bool]:
    if not content_type or _TEXT.match(content_type):
        try:
            return body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode("ascii"), True


def _encode(pairs: Iterable[tuple[str, str]]) -> HeaderBytes:
    """Header bytes. The server itself handles lengths and connections."""
    ours = {"content-length", "connection", "transfer-encoding", "keep-alive"}
    return [
        (name.lower().encode(), " ".join(value.split()).encode("utf-8"))
        for name, value in pairs
        if name.lower() not in ours and _HEADER_NAME.match(name)
    ]
