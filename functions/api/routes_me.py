"""All data that is stored about the caller: exporting it as one document, and erasing it."""

from typing import Any

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, Field

from functions.api.call import answer_json, call_of, new_router, redirect
from functions.api.documented import also, responses
from functions.api.response_limits import MAX_ANSWER, answer_size, is_large
from layover.retention.export import export
from layover.retention.export_job import ExportFacts, export_link, list_exports
from layover.retention.forget import Forgetting, forget
from layover.values.base import Time
from layover.values.page import Page

router = new_router()
_TAGS = ["me"]
_RETRY_AFTER_S = 60
"""The sweeper comes every minute."""
_Items = list[dict[str, Any]]


class PersonalData(BaseModel):
    """Everything that is stored about a user. A thread has the `messages` of all branches (`parent_id` names
    the one that each follows), `runs`, `session`, `plan`, `observations`, `iteration_log` and
    `node_memory`."""

    exported_at: Time
    user: str
    threads: _Items
    decisions: _Items = Field(
        description="Decisions about calls of runs whose records still exist, with `votes`."
    )
    profiles: _Items
    working_memory: _Items
    entries: _Items = Field(description="The entries of episodic memory, with their evidence.")
    connections: _Items = Field(description="Accounts at other services, without their tokens.")
    usage: _Items
    files: _Items = Field(description="Each has a `url` that is valid for 5 minutes.")


@router.get(
    "/me/export",
    tags=_TAGS,
    summary="Everything that is stored about the caller, as one document",
    description="What takes longer than 20 s to read is made in the background (202). Further requests get "
    "the same export while it is being made.",
    operation_id="export_me",
    responses=also(
        also(
            responses(200, PersonalData, "The document"),
            202,
            ExportFacts,
            "It takes longer than a request; `Location`: where to fetch it",
        ),
        303,
        None,
        "It is too large for an answer; `Location`: its URL, for 5 minutes",
    ),
)
def export_me() -> Response[str]:
    result = call_of(router).do(export, lambda text: answer_size(text) <= MAX_ANSWER)
    if result.job is not None:
        return _answer_later(result.job)
    if result.url is not None:
        return redirect(303, result.url)
    text = result.text or ""
    return Response(
        status_code=200,
        content_type="application/json",
        body=text,
        headers={"Cache-Control": "no-store"},
        compress=is_large(text),
    )


@router.get(
    "/me/exports",
    tags=_TAGS,
    summary="The caller's exports that are made in the background, the newest first",
    operation_id="list_exports",
    responses=responses(200, Page[ExportFacts], "All of them"),
)
def get_exports() -> Response[str]:
    return answer_json(Page(items=tuple(call_of(router).do(list_exports))))


@router.get(
    "/me/exports/<export_id>",
    tags=_TAGS,
    summary="An export that is made in the background",
    description="409: it could not be made, so ask for another.",
    operation_id="get_export",
    responses=also(
        responses(202, ExportFacts, "It is being made", (404, 409)),
        303,
        None,
        "It is ready; `Location`: the URL of the document (as of `GET /me/export`), for 5 minutes. Its files "
        "have no `url`: `GET /files/{file_id}` has one.",
    ),
)
def get_export(export_id: str) -> Response[str]:
    facts, url = call_of(router).do(export_link, export_id)
    return _answer_later(facts) if url is None else redirect(303, url)


@router.delete(
    "/me",
    tags=_TAGS,
    summary="Erase everything that is stored about the caller",
    description="From now on there is nothing to read. Data from before `until` is erased in the background, "
    "even if the process dies; later data stays. 503: this is not certain yet (the database wakes up). It "
    "will be done, so ask again to be sure.",
    operation_id="forget_me",
    responses=responses(202, Forgetting, "It is gone, and being erased"),
)
def forget_me() -> Response[str]:
    return answer_json(call_of(router).do(forget), 202)


def _answer_later(export: ExportFacts) -> Response[str]:
    headers = {
        "Location": f"/me/exports/{export.id}",
        "Retry-After": str(_RETRY_AFTER_S),
        "Cache-Control": "no-store",
    }
    return answer_json(export, 202, headers)
