"""API Gateway's WebSocket routes: one service call each. A frame tells the client of failures."""

import base64
import json
import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from functions.api.problems import answer_error, has_problem_title, internal_error, wrong_fields
from functions.api.request import parse_json
from layover.errors import LayoverError, LimitReached
from layover.runtime import Runtime
from layover.sockets import subscriptions as sockets

logger = logging.getLogger("layover")


async def answer(runtime: Runtime, event: Mapping[str, Any]) -> int:
    """Return the status for API Gateway. Only that of `$connect` reaches the client."""
    context = event["requestContext"]
    connection_id = str(context["connectionId"])
    match context["routeKey"]:
        case "$connect":
            # The ticket is a credential and goes nowhere else.
            ticket = (event.get("queryStringParameters") or {}).get("ticket") or ""
            try:
                return 200 if await sockets.connect(runtime, connection_id, ticket) else 401
            except LimitReached:
                return 429
        case "$disconnect":
            await sockets.disconnect(runtime, connection_id)
        case _:
            await _act(runtime, connection_id, event, str(context.get("requestId", "")))
    return 200


async def _act(
    runtime: Runtime, connection_id: str, event: Mapping[str, Any], request_id: str
) -> None:
    try:
        await sockets.receive(runtime, connection_id, _request(event))
    except Exception as error:
        await sockets.tell(runtime, connection_id, {"error": _problem(error, request_id)})


def _request(event: Mapping[str, Any]) -> sockets.Request:
    text = str(event.get("body") or "")
    if event.get("isBase64Encoded"):
        text = base64.b64decode(text).decode("utf-8", "replace")
    try:
        return sockets.REQUEST.validate_python(parse_json(text))
    except ValidationError as error:
        raise wrong_fields([dict(e) for e in error.errors()]) from error


def _problem(error: Exception, request_id: str) -> Any:
    if isinstance(error, LayoverError) and has_problem_title(error):
        return json.loads(str(answer_error(error).body))
    # The error's text is left out, because it may be a user's.
    extra = {"request_id": request_id, "error": type(error).__name__}
    logger.error("a socket's request failed", extra=extra)
    return json.loads(str(internal_error(request_id).body))
