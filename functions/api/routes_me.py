"""All data that is stored about the caller: exporting it as one document, and erasing it."""

from typing import Any

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, Field

from functions.api.call import answer_json, call_of, new_router
from functions.api.documented import also, responses
from functions.api.response_limits import MAX_ANSWER, answer_size, is_large
from layover.retention.export import export
from layover.retention.forget import Forgetting, forget
from layover.values.base import Time

router = new_router()
_TAGS = ["me"]
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
    usage: _Items
    files: _Items = Field(description="Each has a `url` that is valid for 5 minutes.")


@router.get(
    "/me/export",
    tags=_TAGS,
    summary="Everything that is stored about the caller, as one document",
    operation_id="export_me",
    responses=also(
        responses(200, PersonalData, "The document"),
        303,
        None,
        "It is too large for an answer; `Location`: its URL, for 5 minutes",
    ),
)
def export_me() -> Response[str]:
    result = call_of(router).do(export, _fits)
    if result.url is None:
        text = result.text or ""
        return Response(
            status_code=200,
            content_type="application/json",
            body=text,
            headers={"Cache-Control": "no-store"},
            compress=is_large(text),
        )
    headers: dict[str, Any] = {
        "Location": result.url,
        "Cache-Control": "no-store",
        # The signature in the URL is a credential.
        "Referrer-Policy": "no-referrer",
    }
    return Response(status_code=303, content_type="text/plain", body="", headers=headers)


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


def _fits(text: str) -> bool:
    """Return whether the document fits into a function's answer."""
    return answer_size(text) <= MAX_ANSWER
