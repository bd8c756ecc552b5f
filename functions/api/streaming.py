"""Streamed answers: the requests for one, and its pieces."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from aws_lambda_powertools.event_handler import Response

from functions.api.auth import claims_of
from functions.api.call import Call, Host
from functions.api.problems import NotAcceptable, Unauthenticated
from functions.api.request import host_of, token_expires_at
from layover.plugins.fronts.chat.answers import Translation, answer
from layover.plugins.fronts.protocols import sse
from layover.records.runs import MAX_SEQ, meta_of
from layover.runs.follow import follow, waits_for_person, with_heartbeat
from layover.runs.places import check_place_to_stream
from layover.runtime import Runtime
from layover.sockets.subscriptions import check_stream_ticket
from layover.values.deployment.access import TICKETED
from layover.values.runs.event import LoggedEvent
from layover.values.socket import Ticket

_EVENTS = re.compile(r"/runs/([^/]+)/events")
PASSED_OVER = "X-Layover-Passed-Over"
_MAX_HEADER = 500
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def wants_stream(call: Call, accept: str | None) -> bool:
    """Return whether the answer is to be a stream. Raises NotAcceptable if this function cannot stream and
    the client accepts nothing else."""
    accepted = [part.partition(";")[0].strip().lower() for part in (accept or "").split(",")]
    if sse.CONTENT_TYPE not in accepted:
        return False
    if call.streams:
        return True
    if not {"application/json", "application/*", "*/*"}.isdisjoint(accepted):
        return False
    raise NotAcceptable(call.access.stream_url)


def stream_events(
    call: Call, run_id: str, after: int, event: Mapping[str, Any], first: bytes = b""
) -> Response[str]:
    """Answer with a run's events as server-sent events, at most until the caller's token expires. Raises
    NotFound."""
    call.do(meta_of, run_id)
    if not claims_of(event) and call.do(_is_over, run_id, after):
        # A browser reconnects to a stream that ended, unless the answer tells it not to.
        return Response(status_code=204, body="")
    runtime, owner = call.host.runtime(), call.actor.owner
    until = call.ends_at or token_expires_at(event)
    looks = follow(runtime, owner, run_id, after, until, returns=True)
    waits = partial(waits_for_person, runtime, owner, run_id)
    return answer_stream(call, sse.event_frames(looks, first, waits))


def stream_answer(
    call: Call,
    run_id: str,
    translation: Translation,
    event: Mapping[str, Any],
    after: int = 0,
    headers: Mapping[str, str] | None = None,
    closing: Callable[[], Awaitable[bytes]] | None = None,
    opening: Callable[[LoggedEvent], Awaitable[bytes]] | None = None,
) -> Response[str]:
    """Answer with a run's events in the words of a protocol. `closing`, `opening`: as `answer`."""
    runtime, until = call.host.runtime(), token_expires_at(event)
    pieces = answer(
        runtime,
        call.actor.owner,
        run_id,
        translation=translation,
        after=after,
        until=until,
        closing=closing,
        opening=opening,
    )
    return answer_stream(call, pieces, headers)


def chat_caller(call: Call) -> Call:
    """Return the call. Raises NotAcceptable if this function cannot stream."""
    if not call.streams:
        raise NotAcceptable(call.access.stream_url)
    return call


def check_place(call: Call) -> None:
    """Raise LimitReached for a caller whose answer would end at once, before anything begins that nobody
    could follow."""
    call.do(check_place_to_stream)


def passed_over_header(names: Sequence[str]) -> dict[str, str]:
    """Return the header that names what of a request nothing reads."""
    text = ", ".join(names)[:_MAX_HEADER]
    return (
        {PASSED_OVER: text.encode("ascii", "replace").decode()}
        if text.isprintable() and text
        else {}
    )


def answer_stream(
    call: Call, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str] | None = None
) -> Response[str]:
    """Answer with the pieces as they arrive, and heartbeats between them."""
    call.pieces = with_heartbeat(pieces, sse.HEARTBEAT)
    return Response(
        status_code=200,
        content_type=sse.CONTENT_TYPE,
        body="",
        headers={**_HEADERS, **(headers or {})},
    )


async def _is_over(runtime: Runtime, owner: str, run_id: str, after: int) -> bool:
    page = await runtime.journal.events.page(owner, run_id, min(after, MAX_SEQ), 1)
    return page.done and not page.items


def stream_base(call: Call, event: Mapping[str, Any]) -> str:
    """Return the base URL of streams that a ticket opens: paths there begin with a run."""
    elsewhere = call.access.stream_url
    if elsewhere is not None:
        return f"{elsewhere}{TICKETED}"
    # On one machine: the host name that this request used.
    return f"http://{host_of(event)}"


def shared_with(event: Mapping[str, Any], host: Host) -> dict[str, str]:
    """Return headers that let a page of another origin read the answer. For a REST API, the function has to
    set them."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    origin = headers.get("origin")
    if origin not in host.runtime().settings.origins:
        return {}
    # Most processes meet no page of another origin.
    from layover.values.deployment.pages import READ

    readable = {"Access-Control-Expose-Headers": ", ".join(READ)}
    return {"Access-Control-Allow-Origin": str(origin), "Vary": "Origin", **readable}


def ticketed(event: Mapping[str, Any], path: str, host: Host) -> Ticket | None:
    """Return the ticket of a request for a run's events that has no token, because an `EventSource` cannot
    send one; None if the request names no ticket. Raises Unauthenticated if the ticket is not valid for this
    run."""
    text = (event.get("queryStringParameters") or {}).get("ticket")
    events_of = _EVENTS.fullmatch(path)
    if claims_of(event) or not text or events_of is None:
        return None

    async def check() -> Ticket | None:
        return await check_stream_ticket(host.runtime(), events_of[1], str(text))

    ticket = host.run(check())
    if ticket is None:
        raise Unauthenticated("the ticket is not valid (any more): make another one")
    return ticket
