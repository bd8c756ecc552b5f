"""Records of decisions and of what operators did, for auditors."""

from collections.abc import Callable, Coroutine
from datetime import date
from typing import Any

from aws_lambda_powertools.event_handler import Response

from functions.api.call import Cursor, FirstDay, LastDay, Limit, answer_page, call_of, new_router
from functions.api.documented import responses
from layover.approvals.lists import list_decisions
from layover.plugins.operate.lists import list_operations
from layover.values.page import Page
from layover.values.runs.audit import AuditRow
from layover.values.runs.operations import OperationRow

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
    return _answer_rows(list_decisions, since, until, limit, cursor)


@router.get(
    "/audit/operations",
    tags=["audit"],
    summary="What operators did to runs of all users, the oldest first",
    description="Needs a separate scope (`layover/audit`). Rows outlive runs, threads and users.",
    operation_id="list_operations",
    responses=responses(200, Page[OperationRow], "A page of actions"),
)
def get_operations(
    since: FirstDay = None, until: LastDay = None, limit: Limit = 20, cursor: Cursor = None
) -> Response[str]:
    return _answer_rows(list_operations, since, until, limit, cursor)


def _answer_rows(
    list_rows: Callable[..., Coroutine[Any, Any, Page[Any]]],
    since: date | None,
    until: date | None,
    limit: int,
    cursor: str | None,
) -> Response[str]:
    """Answer an auditor with a page of rows. Raises Forbidden for anyone else."""
    call = call_of(router)
    call.require(call.access.audit_scope, "the audit is an auditor's")
    return answer_page(
        call,
        lambda n: call.host.run(list_rows(call.host.runtime(), since, until, n, cursor)),
        limit,
    )
