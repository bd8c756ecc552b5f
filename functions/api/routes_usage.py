"""The caller's usage."""

from aws_lambda_powertools.event_handler import Response

from functions.api.call import Cursor, FirstDay, LastDay, Limit, answer_page, call_of, new_router
from functions.api.documented import responses
from layover.metering.usage import list_usage
from layover.values.page import Page
from layover.values.runs.usage import DayUsage

router = new_router()


@router.get(
    "/usage",
    tags=["usage"],
    summary="What the caller spent, by UTC day, agent, model and kind, the newest day first",
    description="`run`: steps of runs, stored when the run is over. `background`: the cost of memory models "
    "and embedders. A sub-agent's rows have its own name as `agent`.",
    operation_id="list_usage",
    responses=responses(200, Page[DayUsage], "A page of sums"),
)
def get_usage(
    since: FirstDay = None, until: LastDay = None, limit: Limit = 20, cursor: Cursor = None
) -> Response[str]:
    call = call_of(router)
    return answer_page(call, lambda n: call.do(list_usage, since, until, n, cursor), limit)
