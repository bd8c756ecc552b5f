"""Tickets for WebSockets, and for the events of a run."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from functions.api.bodies import NewTicket
from functions.api.call import answer_json, call_of, new_router
from functions.api.documented import responses
from functions.api.request import token_expires_at
from functions.api.streaming import stream_base
from layover.sockets import subscriptions as sockets
from layover.values.socket import SocketTicket

router = new_router()


@router.post(
    "/socket-tickets",
    tags=["runs"],
    summary="A ticket for one WebSocket",
    description="Connect to `url` within a minute; it has the ticket, which opens one connection. Then send "
    '`{"action": "subscribe", "run_id": ..., "after": 0}` for each run to follow: what comes are the '
    "run's events after that seq, then each new one, a frame each. `unsubscribe` and `ping` are the other "
    "actions. An event of more than 128 KB comes as its `seq`, `run_id`, `type` and `at` with "
    '`"too_large": true`: fetch it with `GET /runs/{id}/events`. A request that fails is answered with '
    '`{"error": PROBLEM}`. When the connection is closed, get a new ticket and subscribe after the last '
    "seq that came: nothing is missed. With `run_id` the ticket is for a browser's `EventSource` instead: "
    "`url` streams that run's events, for an hour, any number of times.",
    operation_id="create_socket_ticket",
    responses=responses(201, SocketTicket, "The ticket", (400, 404, 413)),
)
def create_socket_ticket(body: Annotated[NewTicket | None, Body()] = None) -> Response[str]:
    call, event = call_of(router), router.current_event.raw_event
    expires_at = token_expires_at(event)
    if body is None or body.run_id is None:
        ticket = call.do(sockets.make_ticket, expires_at)
    else:
        base = stream_base(call, event)
        ticket = call.do(sockets.make_stream_ticket, body.run_id, expires_at, base)
    return answer_json(ticket, 201, {"Cache-Control": "no-store"})
