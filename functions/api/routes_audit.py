"""What was decided, for auditors."""

from datetime import date
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BeforeValidator

from api.call import Cursor, Limit, answer_page, call_of, new_router
from api.documented import answers
from layover.approvals.audit import list_decisions
from layover.values.page import Page
from layover.values.runs.audit import AuditRow

router = new_router()


def _written_out(value: object) -> object:
    """Pydantic would take a number for seconds since 1970."""
    if isinstance(value, str) and value.isdigit():
        raise ValueError("a day is written as 2026-01-31")
    return value


Day = Annotated[date, BeforeValidator(_written_out)]


@router.get(
    "/audit/decisions",
    tags=["audit"],
    summary="Votes and decisions over all users, the oldest first",
    description="For whoever holds a scope for it (`layover/audit`). Rows outlive runs, threads and users.",
    operation_id="list_decisions",
    responses=answers(200, Page[AuditRow], "A page of decisions"),
)
def get_decisions(
    since: Annotated[
        Day | None, Query(alias="from", description="The first UTC day, `2026-01-31`.")
    ] = None,
    until: Annotated[Day | None, Query(alias="to", description="The last UTC day.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)
    call.require(call.access.audit_scope, "the audit is an auditor's")
    return answer_page(
        call,
        lambda n: call.host.run(list_decisions(call.host.runtime(), since, until, n, cursor)),
        limit,
    )
