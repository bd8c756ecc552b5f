"""Calls that wait, and decisions about them."""

from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from functions.api.bodies import Approve, Deny, Resume
from functions.api.call import Cursor, Limit, answer_page, answer_run, call_of, new_router
from functions.api.documented import also, responses
from layover.approvals import lists
from layover.approvals.decide import DecisionRequest, decide
from layover.values.page import Page
from layover.values.runs.views import (
    ApproverItem,
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
    responses(202, _Answer, "The decision, or the vote, is recorded", 400, 404, 409, 413),
    200,
    _Answer,
    "You had already made the same decision",
)


@router.get(
    "/approvals",
    tags=_TAGS,
    summary="Calls that wait for you, over all runs, oldest first",
    description="Those of your own runs that you may decide; with `as=approver`, those of all users that "
    "your groups may decide.",
    operation_id="list_approvals",
    responses=responses(
        200, Page[OpenApproval] | Page[ApproverItem], "A page of waiting calls", 404
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
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)
    if role == "approver":
        return answer_page(call, lambda n: call.act(lists.list_for_approver, n, cursor), limit)
    return answer_page(
        call, lambda n: call.act(lists.list_approvals, thread_id or None, n, cursor), limit
    )


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
    summary="Do not let a call run",
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


def _decide(run_id: str, tool_call_id: str, request: DecisionRequest) -> Response[str]:
    call = call_of(router)
    answer = call.act(decide, run_id, tool_call_id, request)
    return answer_run(call, answer.run, 200 if answer.again else 202)
