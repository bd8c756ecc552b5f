"""Agents' memory: profiles, entries, and a thread's state apart from its messages."""

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Discriminator, Field, Tag

from functions.api.bodies import AGENT_NAME, Body, Moment
from functions.api.bodies import AgentName as BodyAgent
from functions.api.call import Cursor, Limit, answer_json, answer_page, call_of, new_router
from functions.api.documented import also, responses
from layover.metering.allowance import may_embed
from layover.plugins.memory.learns import entries, imports
from layover.plugins.memory.learns import profiles as notes
from layover.plugins.memory.learns.entries import Entry
from layover.plugins.memory.learns.profiles import Profile
from layover.plugins.memory.reads.thread_memory import ThreadMemory, thread_memory
from layover.runtime import Runtime
from layover.values.page import Page

router = new_router()
_TAGS = ["memory"]

AgentName = Annotated[
    str, Query(pattern=AGENT_NAME, description="The agent whose profile of the caller is meant.")
]
EntriesOf = Annotated[str, Query(pattern=AGENT_NAME, description="The agent that remembers them.")]
Superseded = Annotated[
    bool,
    Query(description="Whether to list what was superseded, too; not together with `query`."),
]
SearchText = Annotated[str | None, Query(description="What to look for.", max_length=2000)]


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
    description="`{}` and no time if it remembers nothing.",
    operation_id="get_profile",
    responses=responses(200, Profile, "The profile"),
)
def get_profile(agent: AgentName) -> Response[str]:
    return answer_json(call_of(router).do(notes.get_profile, agent))


@router.put(
    "/memory/profile",
    tags=_TAGS,
    summary="Replace what an agent remembers of the caller",
    operation_id="put_profile",
    responses=responses(200, Profile, "The new profile", (400, 413)),
)
def put_profile(agent: AgentName, body: NewProfile) -> Response[str]:
    return answer_json(call_of(router).do(notes.put_profile, agent, body.profile))


@router.delete(
    "/memory/profile",
    tags=_TAGS,
    summary="Forget what an agent remembers of the caller",
    operation_id="delete_profile",
    responses=responses(204, None, "It is forgotten, or there was nothing"),
)
def delete_profile(agent: AgentName) -> Response[str]:
    call_of(router).do(notes.delete_profile, agent)
    return Response(status_code=204, body="")


@router.get(
    "/memory/entries",
    tags=_TAGS,
    summary="What an agent learned about the caller's matters from past turns",
    description="Newest first; with a query, the best matches first, with their scores. Superseded entries "
    "are listed on request, and name the entry that took their place.",
    operation_id="list_entries",
    responses=responses(200, Page[Entry], "A page of entries"),
)
def list_entries(
    agent: EntriesOf,
    query: SearchText = None,
    superseded: Superseded = False,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)

    def page_of(limit: int) -> Page[Entry]:
        return call.do(entries.list_entries, agent, query, limit, cursor, superseded=superseded)

    return answer_page(call, page_of, limit)


class NewEntry(Body):
    """A fact that another system knows of the caller."""

    agent: BodyAgent
    content: Annotated[
        str,
        Field(
            json_schema_extra={"minLength": 1, "maxLength": imports.MAX_IMPORTED},
            description="The fact, as a sentence.",
        ),
    ]
    evidence: Annotated[
        str | None,
        Field(
            json_schema_extra={"maxLength": imports.MAX_IMPORTED},
            description="The words that say it. Without them the entry is unverified.",
        ),
    ] = None
    said_at: Annotated[
        Moment | None,
        Field(description="When it was said, from 1970 until now; now if absent."),
    ] = None


@router.post(
    "/memory/entries",
    tags=_TAGS,
    summary="Import an entry that another system knows",
    description="Repeatable: the same content is stored once. 200, with the entry that stands already, if "
    "the agent remembers the same, or something newer against it.",
    operation_id="import_entry",
    responses=also(
        responses(201, Entry, "The new entry", (400, 413)),
        200,
        Entry,
        "The entry that stands already",
    ),
)
def import_entry(body: NewEntry) -> Response[str]:
    imported = call_of(router).do(_import_entry, body)
    return answer_json(imported.entry, 201 if imported.is_new else 200)


async def _import_entry(runtime: Runtime, owner: str, body: NewEntry) -> imports.ImportedEntry:
    embeds = await may_embed(runtime, owner)
    return await imports.import_entry(
        runtime,
        owner,
        body.agent,
        content=body.content,
        evidence=body.evidence,
        said_at=body.said_at,
        embeds=embeds,
    )


class Correction(Body):
    """A corrected entry."""

    content: Annotated[
        str, Field(json_schema_extra={"minLength": 1, "maxLength": entries.MAX_CORRECTION})
    ]


@router.patch(
    "/memory/entries/<entry_id>",
    tags=_TAGS,
    summary="Correct an entry: the caller's words become its content and its evidence",
    operation_id="correct_entry",
    responses=responses(200, Entry, "The corrected entry", (400, 404, 409)),
)
def correct_entry(entry_id: str, body: Correction) -> Response[str]:
    return answer_json(call_of(router).do(entries.correct_entry, entry_id, body.content))


@router.post(
    "/memory/entries/<entry_id>/restore",
    tags=_TAGS,
    summary="Take back that an entry was superseded",
    description="Repeatable. What took its place stands, too: whichever is wrong may be deleted.",
    operation_id="restore_entry",
    responses=responses(200, Entry, "The entry, which stands again", (404,)),
)
def restore_entry(entry_id: str) -> Response[str]:
    return answer_json(call_of(router).do(entries.restore_entry, entry_id))


@router.delete(
    "/memory/entries/<entry_id>",
    tags=_TAGS,
    summary="Forget an entry, with what it superseded",
    operation_id="delete_entry",
    responses=responses(204, None, "It is forgotten", (404,)),
)
def delete_entry(entry_id: str) -> Response[str]:
    call_of(router).do(entries.delete_entry, entry_id)
    return Response(status_code=204, body="")


@router.get(
    "/threads/<thread_id>/memory",
    tags=_TAGS,
    summary="The memory from which the thread's next turn would start",
    operation_id="get_thread_memory",
    responses=responses(200, ThreadMemory, "The thread's memory", (404,)),
)
def get_thread_memory(thread_id: str) -> Response[str]:
    return answer_json(call_of(router).do(thread_memory, thread_id))
