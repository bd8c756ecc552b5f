"""Answers that change only with a release."""

import hashlib
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router

FRESH_S = 300
"""Seconds for which a client keeps a response that is the same for all. After that it asks for changes."""


def cache_once(
    router: Router,
    content_type: str,
    text: str,
    *,
    lifetime: str = f"max-age={FRESH_S}",
    headers: dict[str, str] | None = None,
) -> Response[str]:
    """Answer with a text that is the same for all callers, or without the text if the client already has it.
    `lifetime`: the value of `Cache-Control`."""
    tag = f'W/"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
    response_headers: dict[str, Any] = {
        "ETag": tag,
        "Cache-Control": f"public, {lifetime}",
        "Vary": "Accept-Encoding",
        **(headers or {}),
    }
    client_tags = router.current_event.headers.get("if-none-match", "")
    if tag.removeprefix("W/") in (one.strip().removeprefix("W/") for one in client_tags.split(",")):
        return Response(status_code=304, body="", headers=response_headers)
    return Response(
        status_code=200,
        content_type=content_type,
        body=text,
        headers=response_headers,
        compress=True,
    )
