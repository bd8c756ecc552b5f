"""All users' runs, for operators."""

import json
from collections.abc import Iterable
from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field

from functions.api.bodies import EraseUser, OperateOnWithReason, RedriveFailed, RedriveRuns, StopAll
from functions.api.call import (
    Call,
    Cursor,
    Limit,
    Moment,
    answer_json,
    answer_page,
    answer_text,
    call_of,
    new_router,
)
from functions.api.documented import responses
from functions.api.problems import Problem, problem_of
from functions.api.response_limits import limit_response
from layover.errors import LayoverError
from layover.plugins.operate.actions import act_on, read_prompt, read_run, redrive_failed
from layover.plugins.operate.lists import list_runs, summarise
from layover.ports import RunFilter
from layover.retention.forget import Forgetting
from layover.values.base import Value, is_none
from layover.values.page import Page
from layover.values.runs.operated import (
    OperatedLimits,
    OperatedPrompt,
    OperatedRun,
    OperatedSummary,
    OperatedTimeline,
)
from layover.values.runs.operations import OperationKind, Switch
from layover.values.runs.status import Status

router = new_router()
_TAGS = ["operate"]
_WHY = "the runs of all users are for operators"
_CONTENT = "what runs say is for those who may read it"
Since = Annotated[
    Moment | None,
    Query(description="Only of those accepted at this time, `2026-01-31T12:00:00Z`, or later."),
]
Until = Annotated[Moment | None, Query(description="Only of those accepted before this time.")]


class OperatedItem(Value):
    """The outcome for one of several runs."""

    id: str
    status: int = Field(description="The status of the answer that its own request would have had.")
    problem: Problem | None = Field(None, description="Why it was refused.", exclude_if=is_none)


class OperatedItems(Value):
    """The outcomes for several runs, in the order in which they were sent."""

    items: tuple[OperatedItem, ...]


_ITEMS = responses(200, OperatedItems, "The outcome for each", (400, 413))


@router.get(
    "/operate/runs",
    tags=_TAGS,
    summary="All users' runs, newest first",
    description="Without words of anybody. Only for operators, whose tokens have the scope "
    "`layover/operate`. A page may be short, and still have a next one.",
    operation_id="list_all_runs",
    responses=responses(200, Page[OperatedRun], "A page of runs"),
)
def get_runs(
    status: Annotated[
        Literal["queued", "running", "suspended", "success", "failed", "cancelled"] | None,
        Query(description="Only of those in this state."),
    ] = None,
    agent: Annotated[
        str | None, Query(max_length=256, description="Only of this agent's runs.")
    ] = None,
    owner: Annotated[
        str | None, Query(max_length=256, description="Only of this user's runs.")
    ] = None,
    error: Annotated[
        str | None, Query(max_length=256, description="Only of failures of this type.")
    ] = None,
    since: Since = None,
    until: Until = None,
    definition: Annotated[
        str | None,
        Query(max_length=128, description="Only of runs that go by this definition's hash."),
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = _operator()
    state = None if status is None else Status(status)
    only = RunFilter(state, agent, owner, error=error, since=since, until=until)
    return answer_page(
        call,
        lambda n: call.host.run(list_runs(call.host.runtime(), only, n, cursor, definition)),
        limit,
    )


@router.get(
    "/operate/runs/<run_id>",
    tags=_TAGS,
    summary="Any user's run, step by step",
    description="Without words of anybody. `content=true` adds what messages, arguments and results say: "
    "that needs the scope `layover/read-content` as well, and leaves a row in the audit of operations.",
    operation_id="get_any_run",
    responses=responses(200, OperatedTimeline, "The run", (404,)),
)
def get_run(
    run_id: str,
    content: Annotated[bool, Query(description="Also what the run says; false if absent.")] = False,
) -> Response[str]:
    call = _operator()
    if content:
        call.require(call.access.read_content_scope, _CONTENT)
    timeline, run = call.act(read_run, run_id, with_content=content)
    if run is None:
        return answer_json(timeline)
    # Cut as its owner's answer would be: with the timeline it might not fit.
    text, _ = limit_response(run, takes_gzip=False)
    return answer_text(
        json.dumps({**json.loads(timeline.model_dump_json()), "content": json.loads(text)})
    )


@router.get(
    "/operate/runs/<run_id>/steps/<number>",
    tags=_TAGS,
    summary="What the model of a step was sent",
    description="Made again from what the run pinned, its journal and its thread, before hooks change it. "
    "Only for operators (`layover/operate`) who have `layover/read-content` as well; it leaves a row in the "
    "audit of operations.",
    operation_id="get_any_prompt",
    responses=responses(200, OperatedPrompt, "The prompt, or why there is none", (404,)),
)
def get_prompt(run_id: str, number: int) -> Response[str]:
    call = _operator()
    call.require(call.access.read_content_scope, _CONTENT)
    text, _ = limit_response(call.act(read_prompt, run_id, number), takes_gzip=False)
    return answer_text(text)


@router.get(
    "/operate/summary",
    tags=_TAGS,
    summary="What runs, what waits, what failed and what it cost",
    description="Only for operators, whose tokens have the scope `layover/operate`.",
    operation_id="summarise_runs",
    responses=responses(200, OperatedSummary, "Counts over all users"),
)
def get_summary(
    since: Annotated[
        Moment | None,
        Query(description="Counts of runs that are over begin here; a day ago if absent."),
    ] = None,
) -> Response[str]:
    call = _operator()
    return answer_json(call.host.run(summarise(call.host.runtime(), since)))


@router.post(
    "/operate/runs/cancel",
    tags=_TAGS,
    summary="Cancel up to 100 runs of any users",
    description="Only for operators (`layover/operate`). Each is a row of the audit of operations.",
    operation_id="cancel_any_runs",
    responses=_ITEMS,
)
def cancel_runs(body: OperateOnWithReason) -> Response[str]:
    return _act(OperationKind.CANCEL, body.ids, body.reason)


@router.post(
    "/operate/runs/redrive",
    tags=_TAGS,
    summary="Redrive up to 1,000 runs of any users",
    description="Only for operators (`layover/operate`). Each goes on after its last journaled step in a "
    "fresh execution, at most once a minute, and is a row of the audit of operations. With `error`, those "
    "are redriven that failed so, the newest first.",
    operation_id="redrive_any_runs",
    responses=_ITEMS,
)
def redrive_runs(body: RedriveRuns | RedriveFailed) -> Response[str]:
    if isinstance(body, RedriveRuns):
        return _act(OperationKind.REDRIVE, body.ids, body.reason)
    only = RunFilter(Status.FAILED, error=body.error, since=body.since, until=body.until)
    results = _operator().act(redrive_failed, only, body.reason)
    return _answer_items(results.items())


@router.post(
    "/operate/runs/deny",
    tags=_TAGS,
    summary="Deny all waiting calls of up to 100 runs of any users",
    description="Only for operators (`layover/operate`), who need no other right. The decisions are the "
    "operator's in the audit of decisions; each run is a row of the audit of operations.",
    operation_id="deny_any_runs",
    responses=_ITEMS,
)
def deny_runs(body: OperateOnWithReason) -> Response[str]:
    return _act(OperationKind.DENY, body.ids, body.reason)


@router.get(
    "/operate/switch",
    tags=_TAGS,
    summary="Whether everything is stopped, by whom, why and since when",
    description="Only for operators, whose tokens have the scope `layover/operate`.",
    operation_id="get_switch",
    responses=responses(200, Switch, "How the switch stands"),
)
def get_switch() -> Response[str]:
    call = _operator()
    return answer_json(call.host.run(call.host.runtime().journal.operations.switch()))


@router.put(
    "/operate/switch",
    tags=_TAGS,
    summary="Stop everything",
    description="Only for operators (`layover/operate`), as a row of the audit of operations. No run is "
    "accepted (503, `stopped`) and, within 5 seconds, no model is asked; runs under way wait. Where "
    "everything is stopped already, nothing changes.",
    operation_id="stop_everything",
    responses=responses(200, Switch, "How the switch stands", (400, 413)),
)
def put_switch(body: StopAll) -> Response[str]:
    from layover.plugins.operate.deployment import stop

    return answer_json(_operator().act(stop, body.reason))


@router.delete(
    "/operate/switch",
    tags=_TAGS,
    summary="Let everything go on",
    description="Only for operators (`layover/operate`), as a row of the audit of operations. Runs that "
    "waited go on within a minute.",
    operation_id="start_everything",
    responses=responses(200, Switch, "How the switch stands"),
)
def delete_switch() -> Response[str]:
    from layover.plugins.operate.deployment import start

    return answer_json(_operator().act(start))


@router.post(
    "/operate/users/erase",
    tags=_TAGS,
    summary="Erase everything that is stored about a user",
    description="Only for operators (`layover/operate`), as a row of the audit of operations, which keeps "
    "the user's id. As `DELETE /me` of that user, with the same answer for one of whom nothing is stored. "
    "503: this is not certain yet (the database wakes up). It will be done: ask again to be sure.",
    operation_id="erase_user",
    responses=responses(202, Forgetting, "It is gone, and being erased", (400, 413)),
)
def post_erasure(body: EraseUser) -> Response[str]:
    from layover.plugins.operate.deployment import erase_user

    return answer_json(_operator().act(erase_user, body.user, body.reason), 202)


@router.get(
    "/operate/limits",
    tags=_TAGS,
    summary="What each user may spend, and what one has used of today",
    description="Only for operators, whose tokens have the scope `layover/operate`.",
    operation_id="get_limits",
    responses=responses(200, OperatedLimits, "The limits"),
)
def get_limits(
    owner: Annotated[
        str | None, Query(max_length=256, description="Whose use of today to add.")
    ] = None,
) -> Response[str]:
    from layover.plugins.operate.deployment import read_limits

    call = _operator()
    return answer_json(call.host.run(read_limits(call.host.runtime(), owner)))


def _operator() -> Call:
    """Return the request of an operator. Raises Forbidden."""
    call = call_of(router)
    call.require_operator(_WHY)
    return call


def _act(kind: OperationKind, ids: list[str], reason: str | None) -> Response[str]:
    results = _operator().act(act_on, kind, ids, reason)
    return _answer_items(zip(ids, results, strict=True))


def _answer_items(outcomes: Iterable[tuple[str, LayoverError | None]]) -> Response[str]:
    items = []
    for id, error in outcomes:
        problem = None if error is None else problem_of(error)
        items.append(
            OperatedItem(id=id, status=problem.status if problem else 202, problem=problem)
        )
    return answer_json(OperatedItems(items=tuple(items)))
