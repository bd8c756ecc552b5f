"""Threads and their messages."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from functions.api.bodies import NewThread, ThreadPatch
from functions.api.call import Cursor, Limit, answer_json, answer_page, call_of, new_router
from functions.api.documented import also, responses
from layover.threads import threads
from layover.threads.imports import import_thread
from layover.threads.messages import list_messages
from layover.values.message import Message
from layover.values.page import Page
from layover.values.thread import Thread

router = new_router()
_TAGS = ["threads"]


@router.post(
    "/threads",
    tags=_TAGS,
    summary="Make a thread, empty or with a conversation of another system",
    description="The import of a conversation is repeatable: 200, if the thread is there already. More "
    "messages than one request takes are further requests, each with its `offset`.",
    operation_id="create_thread",
    responses=also(
        responses(201, Thread, "The new thread", (400, 409, 413)),
        200,
        Thread,
        "The thread that was there, with the messages",
    ),
)
def create_thread(body: NewThread) -> Response[str]:
    call = call_of(router)
    if body.is_import:
        outcome = call.do(import_thread, body.request())
        thread, status = outcome.thread, 201 if outcome.is_new else 200
    else:
        thread = call.do(threads.create, body.agent, body.title, body.metadata)
        status = 201
    return answer_json(thread, status, {"Location": f"/threads/{thread.id}"})


@router.get(
    "/threads",
    tags=_TAGS,
    summary="List threads, newest first",
    operation_id="list_threads",
    responses=responses(200, Page[Thread], "A page of threads"),
)
def list_threads(limit: Limit = 20, cursor: Cursor = None) -> Response[str]:
    call = call_of(router)
    return answer_page(call, lambda n: call.do(threads.list_threads, n, cursor), limit)


@router.get(
    "/threads/<thread_id>",
    tags=_TAGS,
    summary="One thread",
    operation_id="get_thread",
    responses=responses(200, Thread, "The thread", (404,)),
)
def get_thread(thread_id: str) -> Response[str]:
    return answer_json(call_of(router).do(threads.get, thread_id))


@router.patch(
    "/threads/<thread_id>",
    tags=_TAGS,
    summary="Replace a thread's title or metadata",
    operation_id="edit_thread",
    responses=responses(200, Thread, "The changed thread", (400, 404, 413)),
)
def edit_thread(thread_id: str, body: ThreadPatch) -> Response[str]:
    return answer_json(call_of(router).do(threads.edit, thread_id, **body.changes()))


@router.delete(
    "/threads/<thread_id>",
    tags=_TAGS,
    summary="Delete a thread with everything that belongs to it",
    operation_id="delete_thread",
    responses=responses(204, None, "It is gone, and its active run is cancelled", (404,)),
)
def delete_thread(
    thread_id: str,
    forget_profile: Annotated[
        bool,
        Query(
            description="With it goes the profile that its agent keeps of the caller, whole: facts do not "
            "say which thread taught them."
        ),
    ] = False,
) -> Response[str]:
    call_of(router).do(threads.delete, thread_id, forget_profile=forget_profile)
    return Response(status_code=204, body="")


@router.get(
    "/threads/<thread_id>/messages",
    tags=_TAGS,
    summary="A thread's messages, oldest first",
    description="Of the current branch, including an unfinished run's messages. A message that is larger "
    "than an answer may be (6 MB) is cut as a run is, and says `truncated`.",
    operation_id="list_messages",
    responses=responses(200, Page[Message], "A page of messages", (404,)),
)
def get_messages(
    thread_id: str,
    branch: Annotated[str | None, Query(description="The last message of the branch.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)
    return answer_page(
        call, lambda n: call.do(list_messages, thread_id, branch or None, n, cursor), limit
    )
