"""Calls that wait, and decisions about them."""

from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import Field

from functions.api.bodies import Approve, Decisions, Deny, Extend, Resume
from functions.api.call import (
    Before,
    Cursor,
    Limit,
    answer_json,
    answer_page,
    answer_run,
    call_of,
    new_router,
)
from functions.api.documented import also, responses
from functions.api.problems import Problem, problem_of
from layover.approvals import lists
from layover.approvals.decide import DecisionOutcome, DecisionRequest, decide, decide_all
from layover.approvals.extend import extend
from layover.approvals.read import read_call
from layover.errors import InvalidRequest, LayoverError
from layover.values.base import Value, is_none
from layover.values.decision import Risk
from layover.values.page import Page
from layover.values.runs.views import (
    ApproverItem,
    AskedCall,
    OpenApproval,
    Run,
    RunGlimpse,
    VotedGlimpse,
    VotedRun,
)

router = new_router()
_TAGS = ["approvals"]
_Answer = VotedRun | Run | VotedGlimpse | RunGlimpse
_DECIDED = also(
    responses(202, _Answer, "The decision, or the vote, is recorded", (400, 404, 409, 413)),
    200,
    _Answer,
    "You had already made the same decision",
)


class DecidedItem(Value):
    """The outcome of one of several decisions."""

    run_id: str
    tool_call_id: str
    status: int = Field(description="The status of the answer that its own request would have had.")
    problem: Problem | None = Field(None, description="Why it was refused.", exclude_if=is_none)


class DecidedItems(Value):
    """The outcomes of several decisions, in the order in which they were sent."""

    items: tuple[DecidedItem, ...]


@router.get(
    "/approvals",
    tags=_TAGS,
    summary="Calls that wait for you, over all runs, oldest first",
    description="Those of your own runs that you may decide; with `as=approver`, those of all users that "
    "your groups may decide.",
    operation_id="list_approvals",
    responses=responses(
        200, Page[OpenApproval] | Page[ApproverItem], "A page of waiting calls", (404,)
    ),
)
def list_approvals(
    thread_id: Annotated[
        str | None, Query(max_length=256, description="Only of this thread.")
    ] = None,
    role: Annotated[
        Literal["owner", "approver"],
        Query(alias="as", description="The role in which you ask; owner if absent."),
    ] = "owner",
    agent: Annotated[str | None, Query(max_length=256, description="Only of its runs.")] = None,
    tool: Annotated[str | None, Query(max_length=256, description="Only of this tool.")] = None,
    owner: Annotated[
        str | None,
        Query(max_length=256, description="Only of this user's runs; with `as=approver`."),
    ] = None,
    risk: Annotated[
        Literal["low", "medium", "high"] | None,
        Query(description="Only of calls that their tool rates so."),
    ] = None,
    before: Before = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)
    if owner is not None and role == "owner":
        message = "the calls of others are listed with as=approver"
        wrong = {"loc": ["query", "owner"], "msg": message, "type": "approver_only"}
        raise InvalidRequest(message, [wrong])
    rating = None if risk is None else Risk(risk)
    only = lists.ApprovalFilter(agent, tool, owner, rating, before)
    if role == "approver":
        return answer_page(
            call, lambda n: call.act(lists.list_for_approver, n, cursor, only), limit
        )
    return answer_page(
        call, lambda n: call.act(lists.list_approvals, thread_id or None, n, cursor, only), limit
    )


@router.post(
    "/approvals/decisions",
    tags=_TAGS,
    summary="Decide up to 100 calls, each as by its own request",
    description="Each item has the status that its own request would have, and its problem if it was "
    "refused. One that is refused changes nothing for the others.",
    operation_id="decide_calls",
    responses=responses(200, DecidedItems, "The outcome of each", (400, 413)),
)
def decide_calls(body: Decisions) -> Response[str]:
    call = call_of(router)
    requests = [(item.run_id, item.tool_call_id, item.request()) for item in body.items]
    results = call.act(decide_all, requests)
    items = [
        _became(item.run_id, item.tool_call_id, result)
        for item, result in zip(body.items, results, strict=True)
    ]
    return answer_json(DecidedItems(items=tuple(items)))


def _became(run_id: str, tool_call_id: str, result: DecisionOutcome | LayoverError) -> DecidedItem:
    if isinstance(result, DecisionOutcome):
        status, problem = _status(result), None
    else:
        problem = problem_of(result)
        status = problem.status
    return DecidedItem(run_id=run_id, tool_call_id=tool_call_id, status=status, problem=problem)


@router.get(
    "/runs/<run_id>/tool-calls/<tool_call_id>",
    tags=_TAGS,
    summary="A call about which people were asked, while it waits and afterwards",
    description="For the run's owner, and for everybody who may decide it, also after somebody has. To "
    "anybody else, and of a call that asked nobody, it is 404.",
    operation_id="get_call",
    responses=responses(200, AskedCall, "The call", (404,)),
)
def get_call(run_id: str, tool_call_id: str) -> Response[str]:
    call = call_of(router)
    return answer_json(call.act(read_call, run_id, tool_call_id))


@router.post(
    "/runs/<run_id>/tool-calls/<tool_call_id>/approve",
    tags=_TAGS,
    summary="Let a call run",
    operation_id="approve_call",
    responses=_DECIDED,
)
def approve(
    run_id: str, tool_call_id: str, body: Annotated[Approve | None, Body()] = None
) -> Response[str]:
    return _decide(run_id, tool_call_id, (body or Approve()).request())


@router.post(
    "/runs/<run_id>/tool-calls/<tool_call_id>/deny",
    tags=_TAGS,
    summary="Do not let a call run, or do not answer it",
    operation_id="deny_call",
    responses=_DECIDED,
)
def deny(
    run_id: str, tool_call_id: str, body: Annotated[Deny | None, Body()] = None
) -> Response[str]:
    return _decide(run_id, tool_call_id, (body or Deny()).request())


@router.post(
    "/runs/<run_id>/tool-calls/<tool_call_id>/resume",
    tags=_TAGS,
    summary="Give a suspended call what it asked for",
    operation_id="resume_call",
    responses=_DECIDED,
)
def resume(run_id: str, tool_call_id: str, body: Resume) -> Response[str]:
    return _decide(run_id, tool_call_id, body.request())


@router.post(
    "/runs/<run_id>/tool-calls/<tool_call_id>/extend",
    tags=_TAGS,
    summary="Let a waiting call expire later",
    description="For whoever may decide it, and for operators (scope `layover/operate`).",
    operation_id="extend_call",
    responses=also(
        responses(202, Run | RunGlimpse, "The call expires then", (400, 404, 409)),
        200,
        Run | RunGlimpse,
        "It expired then already",
    ),
)
def extend_call(run_id: str, tool_call_id: str, body: Extend) -> Response[str]:
    call = call_of(router)
    run, again = call.act(extend, run_id, tool_call_id, body.expires_at, attempt=body.attempt)
    return answer_run(call, run, 200 if again else 202)


def _decide(run_id: str, tool_call_id: str, request: DecisionRequest) -> Response[str]:
    call = call_of(router)
    answer = call.act(decide, run_id, tool_call_id, request)
    return answer_run(call, answer.run, _status(answer))


def _status(outcome: DecisionOutcome) -> int:
    return 200 if outcome.again else 202
