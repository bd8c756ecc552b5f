"""What agents remember: profiles, and what a thread carries beside its messages."""

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Discriminator, Field, Tag

from api.bodies import Body
from api.call import answer_json, call_of, new_router
from api.documented import answers
from layover.services import notes
from layover.services.notes import Profile
from layover.services.thread_memory import ThreadMemory, thread_memory

router = new_router()
_TAGS = ["memory"]

AgentName = Annotated[str, Query(description="Whose profile of the caller.")]


def _shape(value: Any) -> str:
    return "fields" if isinstance(value, dict) else "text"


class NewProfile(Body):
    """A profile, whole."""

    profile: Annotated[
        Annotated[str, Tag("text")] | Annotated[dict[str, Any], Tag("fields")],
        Discriminator(_shape),
    ] = Field(description="Facts by name, or a text; up to 64 KiB of JSON.")


@router.get(
    "/memory/profile",
    tags=_TAGS,
    summary="What an agent remembers of the caller",
    description="`{}` and no time where it remembers nothing.",
    operation_id="get_profile",
    responses=answers(200, Profile, "The profile"),
)
def get_profile(agent: AgentName) -> Response[str]:
    return answer_json(call_of(router).do(notes.get_profile, agent))


@router.put(
    "/memory/profile",
    tags=_TAGS,
    summary="Replace what an agent remembers of the caller",
    operation_id="put_profile",
    responses=answers(200, Profile, "The profile as it is now", 400, 413),
)
def put_profile(agent: AgentName, body: NewProfile) -> Response[str]:
    return answer_json(call_of(router).do(notes.put_profile, agent, body.profile))


@router.delete(
    "/memory/profile",
    tags=_TAGS,
    summary="Forget what an agent remembers of the caller",
    operation_id="delete_profile",
    responses=answers(204, None, "It is forgotten, or there was nothing"),
)
def delete_profile(agent: AgentName) -> Response[str]:
    call_of(router).do(notes.delete_profile, agent)
    return Response(status_code=204, body="")


@router.get(
    "/threads/<thread_id>/memory",
    tags=_TAGS,
    summary="What the thread's next turn would start from",
    operation_id="get_thread_memory",
    responses=answers(200, ThreadMemory, "The thread's memory", 404),
)
def get_thread_memory(thread_id: str) -> Response[str]:
    return answer_json(call_of(router).do(thread_memory, thread_id))
