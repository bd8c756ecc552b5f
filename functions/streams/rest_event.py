"""Events of a REST API as those of an HTTP API (payload 2.0), which the routes read."""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from layover.values.deployment.access import TICKETED


def http_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event in the shape of an HTTP API's; an event that already has it is unchanged. Ticketed
    paths lose their prefix."""
    if event.get("version") == "2.0":
        return dict(event)
    path = str(event["path"]).removeprefix(TICKETED)
    headers = {name.lower(): ",".join(values) for name, values in _many(event, "Headers").items()}
    query = _many(event, "QueryStringParameters")
    request_context = event["requestContext"]
    context: dict[str, Any] = {
        "requestId": request_context["requestId"],
        "domainName": request_context.get("domainName", ""),
        "http": {"method": event["httpMethod"], "path": path},
    }
    claims = (request_context.get("authorizer") or {}).get("claims")
    if claims:
        context["authorizer"] = {"jwt": {"claims": _claims(claims, headers)}}
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": urlencode(query, doseq=True),
        "queryStringParameters": {name: ",".join(values) for name, values in query.items()},
        "headers": headers,
        "requestContext": context,
        "body": event.get("body"),
        "isBase64Encoded": bool(event.get("isBase64Encoded")),
    }


def _many(event: Mapping[str, Any], name: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = event.get(f"multiValue{name}") or {}
    return values


def _claims(claims: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the claims that the authorizer has verified. It writes times as English dates: `exp` is read
    from the token itself."""
    _, _, token = headers.get("authorization", "").rpartition(" ")
    try:
        payload = token.split(".")[1]
        read = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return {**claims, "exp": read["exp"]} if read["sub"] == claims["sub"] else dict(claims)
    except (ValueError, LookupError, TypeError, RecursionError):
        return dict(claims)
