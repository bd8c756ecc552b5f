"""Runs and their events."""

from dataclasses import replace
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query

from functions.api.bodies import GiveFeedback, NewMessage, NewRun
from functions.api.call import (
    Call,
    Cursor,
    FirstDay,
    IdempotencyKey,
    LastDay,
    Limit,
    ResponseBudget,
    Wait,
    answer_events,
    answer_json,
    answer_page,
    answer_run,
    call_of,
    new_router,
)
from functions.api.documented import also, or_stream, responses
from functions.api.request import preferred_wait, prefers_remembered
from functions.api.streaming import stream_events, wants_stream
from layover.plugins.fronts.protocols.sse import last_seq, named_frame
from layover.plugins.operate.actions import has_failed, redrive_run
from layover.runs import read as runs
from layover.runs.accept import (
    StartRun,
    make_message_key,
    make_request_key,
    send_message,
    start_run,
)
from layover.runs.feedback import FeedbackFilter, give_feedback, list_feedback, take_back
from layover.runs.long_polls import MAX_WAIT
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.message import InputPart
from layover.values.page import Page
from layover.values.runs.event import EventPage
from layover.values.runs.feedback import Feedback, RunFeedback
from layover.values.runs.views import Run

router = new_router()
_TAGS = ["runs"]
Accept = Annotated[
    str | None, Header(alias="Accept", description="`text/event-stream` asks for a stream.")
]
_ACCEPTED = responses(202, Run, "The run is accepted", (400, 404, 406, 409, 413, 429))


@router.post(
    "/threads/<thread_id>/runs",
    tags=_TAGS,
    summary="Start a run",
    description="With `Prefer: wait=N` (N at most 25) it waits until the run is suspended or over; with "
    "`Prefer: wait=N, remembered` also until memory has learned from a run that succeeds. With "
    "`Accept: text/event-stream` the answer is the run (`event: run`), then its events as they happen, "
    "deltas among them.",
    operation_id="start_run",
    responses=or_stream(also(_ACCEPTED, 200, Run, "The run is suspended or over")),
)
def post_run(
    thread_id: str,
    body: NewRun,
    idempotency_key: IdempotencyKey = None,
    prefer: Annotated[
        str | None, Header(alias="Prefer", description="`wait=N` seconds; `wait=N, remembered`.")
    ] = None,
    accept: Accept = None,
) -> Response[str]:
    call = call_of(router)
    request = body.request()
    if wants_stream(call, accept):
        return _stream_run(call, thread_id, request, idempotency_key)
    run = call.act(_start, thread_id, request, idempotency_key)
    wait = preferred_wait(prefer)
    if wait is None:
        return answer_run(call, run, 202)
    return _wait_for(call, run, wait, remembered=prefers_remembered(prefer))


@router.get(
    "/threads/<thread_id>/runs",
    tags=_TAGS,
    summary="A thread's runs, newest first",
    operation_id="list_runs",
    responses=responses(200, Page[Run], "A page of runs", (404,)),
)
def list_runs(thread_id: str, limit: Limit = 20, cursor: Cursor = None) -> Response[str]:
    call = call_of(router)
    return answer_page(
        call, lambda n: call.do(runs.list_runs, thread_id, n, cursor, ResponseBudget().takes), limit
    )


@router.get(
    "/runs/<run_id>",
    tags=_TAGS,
    summary="One run",
    description="Waits up to `wait` seconds until it is suspended or over.",
    operation_id="get_run",
    responses=responses(200, Run, "The run", (404,)),
)
def get_run(run_id: str, wait: Wait = 0) -> Response[str]:
    call = call_of(router)
    return answer_run(call, call.do(runs.get, run_id, wait))


@router.get(
    "/runs/<run_id>/events",
    tags=_TAGS,
    summary="A run's events after a seq",
    description="Waits up to `wait` seconds for the first. `done`: no event can follow. An event that is "
    "larger than an answer may be (6 MB) is cut as a run is, and says `truncated`. With "
    "`Accept: text/event-stream` each event is sent when it happens, until the last one; `Last-Event-ID` "
    "wins over `after`, and `ticket` (`POST /socket-tickets` with `run_id`) stands for a token.",
    operation_id="get_events",
    responses=also(
        or_stream(responses(200, EventPage, "Events in order", (404, 406))),
        204,
        None,
        "With a ticket: no event follows, and a browser that reconnects stops",
    ),
)
def get_events(
    run_id: str,
    after: Annotated[int, Query(ge=0, description="The last seq that is known; 0 if absent.")] = 0,
    wait: Wait = 0,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="The most events; 500 if absent.")
    ] = 500,
    accept: Accept = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The last seq that a stream sent.")
    ] = None,
    ticket: Annotated[
        str | None,
        Query(description="In place of a token, for a stream that a browser asks for."),
    ] = None,
) -> Response[str]:
    call = call_of(router)
    if wants_stream(call, accept):
        last_seen = last_seq(last_event_id)
        event = router.current_event.raw_event
        return stream_events(call, run_id, after if last_seen is None else last_seen, event)
    return answer_events(call, call.do(runs.events, run_id, after, limit, wait))


@router.post(
    "/runs/<run_id>/messages",
    tags=_TAGS,
    summary="Send a message to a run",
    description="Its next step reads the message; a run that was about to end takes one more step. A run "
    "that waits goes on waiting.",
    operation_id="send_message",
    responses=responses(202, Run, "The run as it is now", (400, 404, 409, 413, 429)),
)
def post_message(
    run_id: str, body: NewMessage, idempotency_key: IdempotencyKey = None
) -> Response[str]:
    call = call_of(router)
    return answer_run(call, call.act(_send, run_id, body.input, idempotency_key), 202)


@router.post(
    "/runs/<run_id>/cancel",
    tags=_TAGS,
    summary="Cancel a run",
    description="A finished run does not change.",
    operation_id="cancel_run",
    responses=responses(202, Run, "The run as it is now", (404,)),
)
def cancel_run(run_id: str) -> Response[str]:
    call = call_of(router)
    return answer_run(call, call.act(runs.cancel, run_id), 202)


@router.post(
    "/runs/<run_id>/feedback",
    tags=_TAGS,
    summary="Say what you think of a run",
    description="Of a run that is over. It takes the place of what you said of the run before.",
    operation_id="give_feedback",
    responses=responses(200, Feedback, "What is kept", (400, 404, 409, 413)),
)
def post_feedback(run_id: str, body: GiveFeedback) -> Response[str]:
    call = call_of(router)
    return answer_json(call.do(give_feedback, run_id, body.score, body.comment))


@router.delete(
    "/runs/<run_id>/feedback",
    tags=_TAGS,
    summary="Take back what you said of a run",
    operation_id="delete_feedback",
    responses=responses(204, None, "The run has none any more, or had none", (404,)),
)
def delete_feedback(run_id: str) -> Response[str]:
    call_of(router).do(take_back, run_id)
    return Response(status_code=204, body="")


@router.get(
    "/feedback",
    tags=_TAGS,
    summary="What users think of their runs, the oldest first",
    description="Over all users. Only for operators, whose tokens have the scope `layover/operate`. It goes "
    "with its thread.",
    operation_id="list_feedback",
    responses=responses(200, Page[RunFeedback], "A page of feedback"),
)
def get_feedback(
    agent: Annotated[str | None, Query(description="Only of this agent's runs.")] = None,
    max_score: Annotated[
        float | None,
        Query(
            ge=-1, le=1, allow_inf_nan=False, description="Only scores that are at most so good."
        ),
    ] = None,
    since: FirstDay = None,
    until: LastDay = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)
    call.require_operator("the feedback of all users is for operators")
    only = FeedbackFilter(agent, max_score, since, until)
    return answer_page(
        call,
        lambda n: call.host.run(list_feedback(call.host.runtime(), n, cursor, only)),
        limit,
    )


@router.post(
    "/runs/<run_id>/redrive",
    tags=_TAGS,
    summary="Redrive a run in a fresh execution",
    description="A run that failed goes on after its last journaled step, as long as its thread has not gone "
    "on. Operators, whose tokens have the scope `layover/operate`, redrive runs that are not over as well, "
    "and that is a row of the audit of operations. At most once a minute for a run.",
    operation_id="redrive_run",
    responses=responses(202, Run, "The run as it is now", (404, 409, 429)),
)
def redrive_own_run(run_id: str) -> Response[str]:
    call = call_of(router)
    if not call.act(has_failed, run_id):
        call.require_operator("redriving a run that did not fail is for operators")
    return answer_run(call, call.act(redrive_run, run_id), 202)


async def _start(
    runtime: Runtime, actor: Actor, thread_id: str, request: StartRun, key: str | None
) -> Run:
    request_key = make_request_key(key, thread_id, request, runtime.clock.now()) if key else None
    return await start_run(runtime, actor, thread_id, request, request_key)


async def _send(
    runtime: Runtime, actor: Actor, run_id: str, content: str | list[InputPart], key: str | None
) -> Run:
    request_key = make_message_key(key, run_id, content, runtime.clock.now()) if key else None
    return await send_message(runtime, actor, run_id, content, request_key)


def _stream_run(call: Call, thread_id: str, request: StartRun, key: str | None) -> Response[str]:
    run = call.act(_start, thread_id, replace(request, stream=True), key)
    first = named_frame("run", run.model_dump_json())
    return stream_events(call, run.id, 0, router.current_event.raw_event, first)


def _wait_for(call: Call, run: Run, wait: int, *, remembered: bool) -> Response[str]:
    # Accepting the run may have taken seconds, but a caller that asked to wait 25 has to learn the run's id.
    wait_s = min(wait, int(MAX_WAIT), int(call.left_s))
    spare = call.left_s - wait_s if remembered else 0.0
    run = call.do(runs.get, run.id, wait_s)
    status = 200 if run.status.settled else 202
    preference = f"wait={wait_s}"
    if remembered and call.do(runs.wait_remembered, run, max(0.0, call.left_s - spare)):
        preference += ", remembered"
    return answer_run(call, run, status, {"Preference-Applied": preference})
