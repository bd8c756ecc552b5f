"""Chats of the AI SDK (`useChat`): a request is the SDK's, an answer its UI message stream."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, ConfigDict, Field, Strict

from functions.api.call import Cursor, IdempotencyKey, answer_page, call_of, new_router
from functions.api.documented import also, responses, stream_responses
from functions.api.streaming import chat_caller, check_place, passed_over_header, stream_answer
from functions.api.user_messages import ui_message
from layover.approvals.decide import DecisionRequest, Verdict
from layover.errors import InvalidRequest
from layover.plugins.fronts.chat.history import chat_messages
from layover.plugins.fronts.chat.parts import ClientMessage
from layover.plugins.fronts.chat.pieces import Pieces, step_to_show
from layover.plugins.fronts.chat.start import ChatTurn, decide_all, edit, regenerate, say
from layover.plugins.fronts.chat.threads import chat_thread, find_thread
from layover.plugins.fronts.protocols import sse
from layover.plugins.fronts.protocols.ui_history import StoredUiMessage
from layover.plugins.fronts.protocols.ui_messages import (
    DONE,
    HEADERS,
    Approval,
    UiMessage,
    approval_of,
    passed_over_chunks,
    run_of_answer,
)
from layover.records.runs import meta_of
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.page import Page
from layover.values.runs.event import LoggedEvent
from layover.values.runs.run import Status

router = new_router()
_TAGS = ["chat"]
_RESPONDED = "approval-responded"


class UiMessageIn(BaseModel):
    """A message as the AI SDK keeps it. Only the last one is read."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]] = Field(default_factory=list)


class ChatRequest(BaseModel):
    """A request of `DefaultChatTransport`; an application's own fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str, Field(min_length=1, max_length=200, pattern="^[^/]+$")]
    messages: list[UiMessageIn] = Field(default_factory=list)
    trigger: Annotated[str, Strict()] = "submit-message"
    message_id: str | None = Field(None, alias="messageId")

    @property
    def last(self) -> UiMessageIn | None:
        """The message that is read. A page answers approvals in the one that `messageId` names, even if
        questions follow it."""
        answers = (m for m in self.messages if m.role == "assistant" and m.id == self.message_id)
        responded = next(answers, None) if self.trigger == "submit-message" else None
        return responded or (self.messages[-1] if self.messages else None)


@router.post(
    "/chat/<agent>",
    tags=_TAGS,
    summary="Answer a chat of the AI SDK",
    description="The UI message stream for `useChat` with `DefaultChatTransport`. `id` is a thread's, or "
    "one of the client's own, which is bound to one thread and this agent; an agent that was handed the "
    "conversation answers in its place. Only the last message is read, so send no other: a user's is the "
    "input, an assistant's has answers to approvals. A user's message that was sent before, by its id, gets "
    "the run that answers it; with `messageId` it takes the place of an earlier one, on a branch.",
    operation_id="chat",
    responses=stream_responses("The UI message stream", (400, 404, 406, 409, 413, 429)),
)
def post_chat(
    agent: str, body: ChatRequest, idempotency_key: IdempotencyKey = None
) -> Response[str]:
    call = chat_caller(call_of(router))
    check_place(call)
    message = _message(body)
    begin = call.act(_begin, agent, body, message, idempotency_key)
    passed_over = message.passed_over if message else ()
    translation = UiFrames(begin.message, passed_over)
    event = router.current_event.raw_event
    headers = {**HEADERS, **passed_over_header(passed_over)}
    return stream_answer(
        call, begin.message.run_id, translation, event=event, after=begin.after, headers=headers
    )


@router.get(
    "/chat/<agent>/<chat_id>/stream",
    tags=_TAGS,
    summary="Go on with an answer after a reload",
    description="The answer that is being written, from its beginning, or the one that waits for a person, "
    "with what it asks; 204 where nothing runs, or where what waits has others' messages behind it. Of an "
    "answer that others' messages interrupt, the part behind them.",
    operation_id="resume_chat",
    responses=also(
        stream_responses("The UI message stream", (404, 406, 409, 429)), 204, None, "Nothing runs"
    ),
)
def get_chat_stream(agent: str, chat_id: str) -> Response[str]:
    call = chat_caller(call_of(router))
    message = call.do(_running, agent, chat_id)
    if message is None:
        return Response(status_code=204, body="")
    check_place(call)
    runtime, owner, frames = call.host.runtime(), call.actor.owner, UiFrames(message)
    pieces = Pieces(runtime, owner, message.run_id, message.first_step)

    async def opening(event: LoggedEvent) -> bytes:
        step = await pieces.begins(event)
        return b"" if step is None else frames.go_on_as(step)

    raw_event = router.current_event.raw_event
    return stream_answer(call, message.run_id, frames, raw_event, headers=HEADERS, opening=opening)


@router.get(
    "/chat/<agent>/<chat_id>/messages",
    tags=_TAGS,
    summary="A chat's messages, for a page that is loaded",
    description="The newest messages of the current branch, oldest first, as the AI SDK keeps them; "
    "`next_cursor` leads to those before them. A user's message has the id that its client gave it, an "
    "answer its run's; what a run says behind others' messages has its own id. Answers that are not "
    "over are as far as they are, with the calls that wait for a person.",
    operation_id="list_chat_messages",
    responses=responses(200, Page[StoredUiMessage], "A page of messages", (404, 409)),
)
def get_chat_messages(
    agent: str,
    chat_id: str,
    limit: Annotated[
        int, Query(ge=1, le=100, description="How many messages at most; 100 if absent.")
    ] = 100,
    cursor: Cursor = None,
) -> Response[str]:
    call = call_of(router)
    return answer_page(call, lambda n: call.do(chat_messages, agent, chat_id, n, cursor), limit)


class UiFrames:
    """A `UiMessage` as server-sent events."""

    def __init__(self, message: UiMessage, passed_over: Sequence[str] = ()) -> None:
        self._message = message
        self._passed_over = passed_over

    @property
    def waits(self) -> bool:
        """True if the run waits for a person and no part of it is working."""
        return self._message.view.waits

    def begin(self) -> bytes:
        """The `start` chunk, and what of the request nothing reads."""
        return sse.data_frames([self._message.begin(), *passed_over_chunks(self._passed_over)])

    def go_on_as(self, step: int) -> bytes:
        """Return the `start` chunk of the message that begins with this step."""
        return sse.data_frames([self._message.go_on_as(step)])

    def go_on(self) -> bytes:
        """Return nothing, because the client knows what it was shown."""
        return b""

    def frames(self, event: LoggedEvent) -> bytes:
        """Return the chunks of one event."""
        return sse.data_frames(self._message.chunks(event))

    def rest(self) -> bytes:
        """Return the end, for now."""
        return sse.data_frames(self._message.rest()) + self.end()

    def end(self) -> bytes:
        """Return the end of the stream."""
        return sse.data_frame(DONE)

    def break_off(self, message: str) -> bytes:
        """Return the error, and the end of the stream."""
        return sse.data_frames(self._message.break_off(message)) + self.end()


def _message(body: ChatRequest) -> ClientMessage | None:
    """Return the user's message that the request ends with."""
    last = body.last
    return ui_message(last.id, last.parts) if last is not None and last.role == "user" else None


@dataclass(frozen=True)
class _Answer:
    """An answer. `after`: the seq after which its events are sent."""

    message: UiMessage
    after: int = 0


async def _begin(
    runtime: Runtime,
    actor: Actor,
    agent: str,
    body: ChatRequest,
    message: ClientMessage | None,
    key: str | None,
) -> _Answer:
    if body.trigger == "regenerate-message":
        head = await chat_thread(runtime, actor.owner, agent, body.id)
        chat = ChatTurn(runtime, actor, head, key)
        run_id = await regenerate(chat, body.message_id, message)
        again, step = run_of_answer(body.message_id or "")
        if again != run_id:
            step = await step_to_show(runtime, head, run_id, message.id) if message else 1
        return _Answer(UiMessage(run_id, head.id, step))
    last = body.last
    if body.trigger != "submit-message" or last is None:
        raise _invalid("a chat is asked by a message", "trigger")
    if message is None:
        decisions = list(_decisions(last.parts)) if last.role == "assistant" else []
        if not decisions:
            raise _invalid(
                "an assistant's message answers approvals, or a user's comes last", "parts"
            )
        head = await chat_thread(runtime, actor.owner, agent, body.id)
        run_id, after = await decide_all(ChatTurn(runtime, actor, head), decisions)
        # The client goes on with the message that has the call, wherever it is.
        is_known = run_of_answer(last.id)[0] == run_id
        return _Answer(UiMessage(run_id, head.id, id=last.id if is_known else None), after)
    head = await chat_thread(runtime, actor.owner, agent, body.id)
    chat = ChatTurn(runtime, actor, head, key)
    if body.message_id is not None:
        run_id = await edit(chat, message, body.message_id)
    else:
        run_id = await say(chat, message)
    step = await step_to_show(runtime, head, run_id, message.id)
    return _Answer(UiMessage(run_id, head.id, step))


async def _running(runtime: Runtime, owner: str, agent: str, chat_id: str) -> UiMessage | None:
    """Return the answer that is under way, as far as it begins with what others have not spoken behind."""
    head = await find_thread(runtime, owner, agent, chat_id)
    if head is None:
        return None
    # A run that was set aside is at work again once its calls are decided, before it has its thread back.
    for run_id in (head.active_run, *reversed(head.waiting_runs)):
        meta = await meta_of(runtime, owner, run_id) if run_id is not None else None
        if meta is None or meta.status.over:
            continue
        if run_id == head.active_run or meta.shown_status is not Status.SUSPENDED:
            step = await step_to_show(runtime, head, meta.id)
            return UiMessage(meta.id, head.id, step)
    return None


def _decisions(parts: Iterable[dict[str, Any]]) -> Iterable[tuple[Approval, DecisionRequest]]:
    """Yield a person's decisions. No other field of a part is trusted, since the page made its `input`."""
    for part in parts:
        answer = part.get("approval")
        if part.get("state") != _RESPONDED or not isinstance(answer, dict):
            continue
        approval = approval_of(str(answer.get("id")))
        if approval is None or not isinstance(answer.get("approved"), bool):
            raise _invalid("there was no such approval", "approval")
        verdict = Verdict.APPROVE if answer["approved"] else Verdict.DENY
        reason = answer.get("reason")
        text = reason if isinstance(reason, str) and reason else None
        yield approval, DecisionRequest(verdict, reason=text, attempt=approval.attempt)


def _invalid(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(
        message, [{"loc": ["body", field], "msg": message, "type": "value_error"}]
    )
