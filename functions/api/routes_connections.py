"""The caller's accounts at other services, with which agents work in the caller's name. Few deployments have
some: a request of such a kind loads what it needs."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from functions.api.bodies import Connect, Consented
from functions.api.call import answer_json, call_of, new_router
from functions.api.documented import responses
from layover.values.base import Value
from layover.values.grant import ConnectionView

router = new_router()
_TAGS = ["me"]


class Connections(Value):
    """The connections of all agents, and those that the caller has granted before."""

    items: tuple[ConnectionView, ...]


class ConsentPage(Value):
    """The page at which the caller consents."""

    connection: str
    authorize_url: str = Field(description="It is the caller's only, works once, and for an hour.")
    scopes: tuple[str, ...]


@router.get(
    "/me/connections",
    tags=_TAGS,
    summary="Accounts of the caller at other services, with which agents may work",
    operation_id="list_connections",
    responses=responses(200, Connections, "All of them, by name"),
)
def get_connections() -> Response[str]:
    from layover.plugins.reach.connections.consent import list_connections

    items = call_of(router).do(list_connections)
    return answer_json(Connections(items=tuple(items)), headers={"Cache-Control": "no-store"})


@router.post(
    "/me/connections/<name>",
    tags=_TAGS,
    summary="Ask for the page at which the caller consents",
    description="The service sends the caller back to the page of the connection, `/connected/{name}`, "
    "which sends `POST /me/consents`.",
    operation_id="connect",
    responses=responses(200, ConsentPage, "Where to send the caller's browser", (404, 429)),
)
def connect(name: str, body: Annotated[Connect | None, Body()] = None) -> Response[str]:
    from layover.plugins.reach.connections.consent import ask_for_consent

    page = call_of(router).do(ask_for_consent, name, body.proof_hash if body else None)
    return answer_json(ConsentPage(**page), headers={"Cache-Control": "no-store"})


@router.delete(
    "/me/connections/<name>",
    tags=_TAGS,
    summary="Disconnect an account",
    description="Its tokens are forgotten, and the service is told: later, for a day, if it is away.",
    operation_id="disconnect",
    responses=responses(200, ConnectionView, "It is disconnected", (404,)),
)
def disconnect(name: str) -> Response[str]:
    from layover.plugins.reach.connections.leaving import disconnect_account

    return answer_json(call_of(router).do(disconnect_account, name))


@router.post(
    "/me/consents",
    tags=_TAGS,
    summary="Bring back the caller's consent from a service",
    description="Calls that waited for the connection go on, in all of the caller's runs. 404: the caller "
    "was not asked for it, or it is over. 409: the service did not take it, or it came back from another "
    "service or to another browser, so ask again.",
    operation_id="bring_consent",
    responses=responses(200, ConnectionView, "The account is connected", (400, 404, 409, 413)),
)
def post_consent(body: Annotated[Consented, Body()]) -> Response[str]:
    from layover.plugins.reach.connections.bring import bring_consent

    return answer_json(call_of(router).act(bring_consent, body.code, body.state, body.arrival))
