"""Tickets for WebSockets."""

from aws_lambda_powertools.event_handler import Response

from api.call import answer_json, call_of, new_router
from api.documented import answers
from api.request import token_expires_at
from layover.sockets import subscriptions as sockets
from layover.values.socket import SocketTicket

router = new_router()


@router.post(
    "/socket-tickets",
    tags=["runs"],
    summary="A ticket for one WebSocket",
    description="Connect to `url` within a minute; the ticket is in it, and opens one connection. Then send "
    '`{"action": "subscribe", "run_id": ..., "after": 0}` for each run to follow: what comes are the '
    "run's events after that seq, then each new one, a frame each. `unsubscribe` and `ping` are the other "
    "actions. An event of more than 128 KB comes as its `seq`, `run_id`, `type` and `at` with "
    '`"too_large": true`: fetch it with `GET /runs/{id}/events`. What cannot be done is answered with '
    '`{"error": PROBLEM}`. When the connection is closed, get a new ticket and subscribe after the last '
    "seq that came: nothing is missed.",
    operation_id="create_socket_ticket",
    responses=answers(201, SocketTicket, "The ticket", 404),
)
def create_socket_ticket() -> Response[str]:
    expires_at = token_expires_at(router.current_event.raw_event)
    ticket = call_of(router).do(sockets.make_ticket, expires_at)
    return answer_json(ticket, 201, {"Cache-Control": "no-store"})
