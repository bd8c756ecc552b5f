"""Descriptions of answers for OpenAPI."""

from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse

from functions.api.problems import CONTENT_TYPE
from layover.plugins.fronts.protocols.sse import CONTENT_TYPE as STREAM

_STREAM: Any = {STREAM: {"schema": {"type": "string"}}}
_PROBLEM: Any = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def responses(
    status: int, model: Any, what: str, problems: Collection[int] = ()
) -> dict[int, OpenAPIResponse]:
    """Return the response of a route (no body for model None), and the problems with which it may answer."""
    content: Any = {"application/json": {"model": model}} if model is not None else {}
    documented: dict[int, OpenAPIResponse] = {status: {"description": what, "content": content}}
    for code in sorted({401, 403, 422, 500, 503, *problems}):
        documented[code] = {"description": HTTPStatus(code).phrase, "content": _PROBLEM}
    return documented


def open_response(model: Any, what: str) -> dict[int, OpenAPIResponse]:
    """Return the only response of a route that needs neither a token nor anything else."""
    return {200: {"description": what, "content": {"application/json": {"model": model}}}}


def also(
    documented: dict[int, OpenAPIResponse], status: int, model: Any, what: str
) -> dict[int, OpenAPIResponse]:
    """Return the responses with one more good one."""
    content: Any = {"application/json": {"model": model}} if model is not None else {}
    return {**documented, status: {"description": what, "content": content}}


def stream_responses(what: str, problems: Collection[int] = ()) -> dict[int, OpenAPIResponse]:
    """Return the response of a route that streams, and the problems with which it may answer."""
    return {**responses(200, None, what, problems), 200: {"description": what, "content": _STREAM}}


def or_stream(documented: dict[int, OpenAPIResponse]) -> dict[int, OpenAPIResponse]:
    """Add a stream of server-sent events to the good answer."""
    good: Any = documented[200]
    good["content"] = {**good["content"], **_STREAM}
    return {**documented, 200: good}
