"""Agents as tools of clients of the Model Context Protocol."""

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, ConfigDict, Field, Strict

from functions.api.bodies import Whole
from functions.api.call import Call, answer_json, call_of, new_router
from functions.api.documented import also, responses
from functions.api.problems import ForeignOrigin
from functions.api.request import host_of
from layover.errors import NotFound
from layover.values.base import Value, is_none
from layover.values.deployment.access import MCP, PROTECTED_RESOURCE

router = new_router()
# Neither null nor a fraction: MCP allows no such ids.
_Id = Annotated[int, Strict(), Whole] | Annotated[str, Strict(), Field(max_length=256)]


class McpMessage(BaseModel):
    """A message of JSON-RPC 2.0. Without an `id` it is a notification, which is passed over."""

    model_config = ConfigDict(extra="ignore")

    jsonrpc: Literal["2.0"]
    id: Annotated[_Id, Field(description="The client's own, which the answer repeats.")] = ""
    method: Annotated[str, Strict(), Field(max_length=256)]
    params: dict[str, Any] = Field(default_factory=dict)


class McpError(Value):
    """An error of JSON-RPC."""

    code: int
    message: str = Field(description="What is wrong.")
    data: Any = Field(None, exclude_if=is_none)


class McpAnswer(Value):
    """The answer to a message that has an id: one of the two."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: int | str | None = Field(None, description="Null: of a message that has none.")
    result: dict[str, Any] | None = Field(
        None, description="What the method answers.", exclude_if=is_none
    )
    error: McpError | None = Field(None, exclude_if=is_none)


class ProtectedResource(Value):
    """RFC 9728: where a client gets tokens for `POST /mcp`."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...]
    bearer_methods_supported: tuple[str, ...] = ("header",)
    resource_name: str = "Layover"


_ANSWERS: dict[int, Any] = also(
    responses(200, McpAnswer, "The answer", (400, 404, 405, 413)),
    202,
    None,
    "A notification, which is passed over",
)
for _status in (400, 404):
    # The error that HTTP has a status for, as JSON-RPC has it.
    _ANSWERS[_status]["content"] = {
        **_ANSWERS[_status]["content"],
        "application/json": {"model": McpAnswer},
    }


_RESOURCE: Any = {
    status: each
    for status, each in responses(
        200, ProtectedResource, "The source of tokens, and their scopes", (404,)
    ).items()
    if status in (200, 404)
}


@router.post(
    MCP,
    tags=["mcp"],
    summary="Agents as tools of an MCP client",
    description="The Model Context Protocol over streamable HTTP, in its versions 2025-06-18, 2025-11-25 and "
    "2026-07-28 (header `MCP-Protocol-Version`), without sessions and streams: one message a request, and "
    "one JSON answer. Each agent is a tool that takes `message` and `thread_id`. A call waits 20 s for its "
    "run; `get_run` goes on waiting. A run that waits for a person says where they decide.",
    operation_id="mcp",
    responses=_ANSWERS,
)
def post_mcp(body: McpMessage) -> Response[str]:
    # Most processes never need it.
    from functions.api import mcp_server

    call, event = call_of(router), router.current_event.raw_event
    headers = {name.lower(): str(value) for name, value in (event.get("headers") or {}).items()}
    own = _own_url(call, host_of(event))
    _check_origin(call, headers.get("origin"), own)
    request = mcp_server.Request(call, body.method, body.params, headers, own)
    if "id" not in body.model_fields_set:
        refused = mcp_server.unserved(request)
        return answer_json(McpAnswer(error=refused), 400) if refused else Response(202, body="")
    status, answered = mcp_server.answer(request)
    return answer_json(McpAnswer(id=body.id, **answered), status)


@router.get(
    PROTECTED_RESOURCE,
    tags=["meta"],
    summary="Where MCP clients get tokens",
    description="RFC 9728, for `POST /mcp`. 404 on one machine, where `Bearer dev:NAME` stands for a token.",
    operation_id="protected_resource",
    responses=_RESOURCE,
    openapi_extensions={"security": []},
)
def get_protected_resource() -> Response[str]:
    call = call_of(router)
    access = call.access
    own = _own_url(call, host_of(router.current_event.raw_event))
    if access.issuer is None or own is None:
        raise NotFound("there is no such path")
    return answer_json(
        ProtectedResource(
            resource=f"{own}{MCP}",
            authorization_servers=(access.issuer,),
            scopes_supported=tuple((access.login_scope or access.scope).split()),
        )
    )


def _own_url(call: Call, host: str) -> str | None:
    """Return the URL of this API, which is the console's; None if the request does not tell it."""
    scheme = "http" if call.access.issuer is None else "https"
    return f"{scheme}://{host}" if host else None


def _check_origin(call: Call, origin: str | None, own: str | None) -> None:
    """Raise ForeignOrigin for a page that may not call the API: the protocol wants it of each server. On one
    machine, the door has checked it."""
    if origin is None or call.access.issuer is None:
        return
    if origin not in (own, *call.host.runtime().settings.origins):
        raise ForeignOrigin("this page may not call the API: name its origin in `origins`")
