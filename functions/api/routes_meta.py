"""Health, documentation, and the list of agents."""

from typing import Any, Literal

from aws_lambda_powertools.event_handler import ApiGatewayResolver, Response
from pydantic import BaseModel

from functions.api.caching import cache_once
from functions.api.call import Cursor, Limit, answer_json, call_of, new_router
from functions.api.documented import open_response, responses
from layover.errors import NotFound
from layover.threads.agents import AgentInfo, list_agents
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.deployment.access import DISCOVERY, Access
from layover.values.page import Page

router = new_router()
_OPEN: dict[str, Any] = {"security": []}
_HTML = "text/html; charset=utf-8"
_CURSOR = "agents"


class Health(BaseModel):
    """The function's sign of life."""

    status: Literal["ok"] = "ok"


@router.get(
    "/healthz",
    tags=["meta"],
    summary="Whether the API answers",
    operation_id="health",
    responses=open_response(Health, "It answers"),
    openapi_extensions=_OPEN,
)
def health() -> Response[str]:
    return answer_json(Health())


@router.get(
    DISCOVERY,
    tags=["meta"],
    summary="How to sign in",
    description="`issuer` null: one machine, where `Bearer dev:NAME` stands for a verified token of NAME.",
    operation_id="discovery",
    responses=open_response(Access, "The source of tokens, and what they need"),
    openapi_extensions=_OPEN,
)
def discovery() -> Response[str]:
    return answer_json(call_of(router).host.runtime().settings.access)


@router.get("/openapi.json", include_in_schema=False)
def openapi() -> Response[str]:
    from functions.api.openapi import document

    return cache_once(router, "application/json", document(_app()))


@router.get("/docs", include_in_schema=False)
def docs() -> Response[str]:
    if not call_of(router).host.runtime().settings.docs:
        raise NotFound("there is no such path")
    from functions.api.openapi import docs_page

    return cache_once(router, _HTML, docs_page(_app()))


@router.get(
    "/agents",
    tags=["agents"],
    summary="The agents that answer here",
    operation_id="list_agents",
    responses=responses(200, Page[AgentInfo], "A page of agents"),
)
def get_agents(limit: Limit = 20, cursor: Cursor = None) -> Response[str]:
    after = decode_cursor_field(_CURSOR, cursor)
    agents = call_of(router).do(list_agents)
    rest = [a for a in agents if after is None or a.name > after]
    more = encode_cursor(_CURSOR, rest[limit - 1].name) if len(rest) > limit else None
    return answer_json(Page[AgentInfo](items=tuple(rest[:limit]), next_cursor=more))


def _app() -> ApiGatewayResolver:
    """Return the app that these routes are part of, which is the one that the document describes."""
    app = router.api_resolver
    assert isinstance(app, ApiGatewayResolver)
    return app
