"""Records of decisions, for auditors."""

from aws_lambda_powertools.event_handler import Response

from functions.api.call import Cursor, FirstDay, LastDay, Limit, answer_page, call_of, new_router
from functions.api.documented import responses
from layover.approvals.lists import list_decisions
from layover.values.page import Page
from layover.values.runs.audit import AuditRow

router = new_router()


@router.get(
    "/audit/decisions",
    tags=["audit"],
    summary="Votes and decisions over all users, the oldest first",
    description="Needs a separate scope (`layover/audit`). Rows outlive runs, threads and users.",
    operation_id="list_decisions",
    responses=responses(200, Page[AuditRow], "A page of decisions"),
)
def get_decisions(
    since: FirstDay = None, until: LastDay = None, limit: Limit = 20, cursor: Cursor = None
) -> Response[str]:
    call = call_of(router)
    call.require(call.access.audit_scope, "the audit is an auditor's")
    return answer_page(
        call,
        lambda n: call.host.run(list_decisions(call.host.runtime(), since, until, n, cursor)),
        limit,
    )
