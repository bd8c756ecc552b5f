"""AG-UI: a request is a RunAgentInput, an answer its events."""

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, ConfigDict, Field

from functions.api.call import IdempotencyKey, call_of, new_router
from functions.api.documented import stream_responses
from functions.api.streaming import chat_caller, check_place, passed_over_header, stream_answer
from functions.api.user_messages import ag_ui_message
from layover.approvals.decide import DecisionRequest, Verdict
from layover.errors import InvalidRequest, LayoverError
from layover.plugins.fronts.chat.answers import seq_before_message
from layover.plugins.fronts.chat.parts import ClientMessage
from layover.plugins.fronts.chat.pieces import is_sent_to
from layover.plugins.fronts.chat.start import ChatTurn, decide_all, say_or_retry, waits_for_input
from layover.plugins.fronts.chat.threads import chat_thread
from layover.plugins.fronts.protocols import sse
from layover.plugins.fronts.protocols.ag_ui import AgUiRun, state_snapshot
from layover.plugins.fronts.protocols.ui_messages import Approval, approval_of
from layover.plugins.memory.reads.thread_memory import thread_memory
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.event import LoggedEvent

router = new_router()
_ID = Field(min_length=1, max_length=200, pattern="^[^/]+$")


class AgUiMessage(BaseModel):
    """A message of the client's. Only the last one is read."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    role: str
    content: str | list[dict[str, Any]] | None = None


class Resumed(BaseModel):
    """A person's answer to an interrupt."""

    model_config = ConfigDict(extra="ignore")

    interrupt_id: Annotated[str, Field(alias="interruptId")]
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class ClientContext(BaseModel):
    """A client's word about itself. The model reads it, as data."""

    model_config = ConfigDict(extra="ignore")

    description: str = ""
    value: Any = None


class RunAgentInput(BaseModel):
    """An AG-UI client's request. Its state, its tools and `forwardedProps` are passed over, and named in the
    answer."""

    model_config = ConfigDict(extra="ignore")

    thread_id: Annotated[str, _ID, Field(alias="threadId")]
    run_id: Annotated[str, _ID, Field(alias="runId")]
    messages: list[AgUiMessage] = Field(default_factory=list)
    resume: list[Resumed] | None = None
    context: list[ClientContext] | None = None
    state: Any = None
    tools: Any = None
    forwarded_props: Any = Field(None, alias="forwardedProps")

    @property
    def passed_over(self) -> tuple[str, ...]:
        """Names of what it has and nothing reads."""
        unread = {"state": self.state, "tools": self.tools, "forwardedProps": self.forwarded_props}
        return tuple(name for name, value in unread.items() if value)


@router.post(
    "/ag-ui/<agent>",
    tags=["chat"],
    summary="Run an agent for an AG-UI client",
    description="AG-UI 1.0. `threadId` is a thread's id or the client's own, which is bound to one thread "
    "and this agent; an agent that was handed the conversation answers in its place. Only the last message "
    "is read, so send no other. It is the input: one that was sent before, by its id, gets the run that "
    "answers it. The model reads `context` as data. `resume` answers the interrupts of a run that waits, "
    "also of one that others' messages follow.",
    operation_id="ag_ui",
    responses=stream_responses("AG-UI's events", (400, 404, 406, 409, 413, 429)),
)
def post_ag_ui(
    agent: str, body: RunAgentInput, idempotency_key: IdempotencyKey = None
) -> Response[str]:
    call = chat_caller(call_of(router))
    check_place(call)
    message = _message(body)
    run_id, thread_id, after = call.act(_begin, agent, body, message, idempotency_key)
    passed_over = (*body.passed_over, *(message.passed_over if message else ()))
    frames = AgUiFrames(AgUiRun(body.thread_id, body.run_id, run_id, passed_over))
    runtime, owner = call.host.runtime(), call.actor.owner
    return stream_answer(
        call,
        run_id,
        frames,
        event=router.current_event.raw_event,
        after=after,
        headers=passed_over_header(passed_over),
        closing=lambda: _state(runtime, owner, thread_id),
    )


class AgUiFrames:
    """An `AgUiRun` as server-sent events."""

    def __init__(self, run: AgUiRun) -> None:
        self._run = run

    @property
    def waits(self) -> bool:
        """True if the run waits for a person and no part of it is working."""
        return self._run.view.waits

    def begin(self) -> bytes:
        """`RUN_STARTED`, and what of the request nothing reads."""
        return sse.data_frames(self._run.begin())

    def go_on(self) -> bytes:
        """Return the step in which the run waited."""
        return sse.data_frames(self._run.go_on())

    def frames(self, event: LoggedEvent) -> bytes:
        """Return an event's frames."""
        return sse.data_frames(self._run.events(event))

    def rest(self) -> bytes:
        """Return `RUN_FINISHED` with interrupts."""
        return sse.data_frames(self._run.rest())

    def end(self) -> bytes:
        """Return nothing, because the last event says that it is the last."""
        return b""

    def break_off(self, message: str) -> bytes:
        """Return `RUN_ERROR`."""
        return sse.data_frames(self._run.break_off(message))


def _message(body: RunAgentInput) -> ClientMessage | None:
    """Return the user's message that the request ends with. An answer to interrupts has none."""
    last = body.messages[-1] if body.messages else None
    if body.resume or last is None or last.role != "user":
        return None
    context = [item.model_dump(mode="json") for item in body.context or ()]
    return ag_ui_message(last.id, last.content, context)


async def _begin(
    runtime: Runtime,
    actor: Actor,
    agent: str,
    body: RunAgentInput,
    message: ClientMessage | None,
    key: str | None,
) -> tuple[str, str, int]:
    """Return the run, its thread, and the seq after which the answer begins."""
    head = await chat_thread(runtime, actor.owner, agent, body.thread_id)
    if body.resume:
        decisions = [await _decision(runtime, actor.owner, each) for each in body.resume]
        run_id, after = await decide_all(ChatTurn(runtime, actor, head), decisions)
        return run_id, head.id, after
    if message is None:
        raise _invalid("the last message has to be a user's, or `resume` answers what waits")
    chat = ChatTurn(runtime, actor, head, key)
    run_id = await say_or_retry(chat, message)
    if await is_sent_to(runtime, head, run_id, message.id):
        # The client has what the run said before it waited.
        after = await seq_before_message(runtime, actor.owner, run_id, message.id)
        return run_id, head.id, after
    return run_id, head.id, 0


async def _state(runtime: Runtime, owner: str, thread_id: str) -> bytes:
    """Return working memory and plan as the run leaves them. A sleeping database does not end the answer."""
    try:
        memory = await thread_memory(runtime, owner, thread_id)
    except LayoverError:
        return b""
    state = memory.model_dump(mode="json", include={"working_memory", "plan"})
    return sse.data_frames([state_snapshot(state)]) if any(state.values()) else b""


async def _decision(
    runtime: Runtime, owner: str, resumed: Resumed
) -> tuple[Approval, DecisionRequest]:
    approval = approval_of(resumed.interrupt_id)
    if approval is None:
        raise _invalid("there was no such interrupt")
    attempt = approval.attempt
    payload = resumed.payload
    if resumed.status == "cancelled":
        return approval, DecisionRequest(Verdict.DENY, attempt=attempt)
    is_verdict = isinstance(payload, dict) and isinstance(payload.get("approved"), bool)
    if not is_verdict or await waits_for_input(runtime, owner, approval):
        return approval, DecisionRequest(Verdict.RESUME, data=payload, attempt=attempt)
    verdict = Verdict.APPROVE if payload["approved"] else Verdict.DENY
    args, reason = payload.get("args"), payload.get("reason")
    return approval, DecisionRequest(
        verdict,
        args=args if isinstance(args, dict) and payload["approved"] else None,
        reason=reason if isinstance(reason, str) and reason else None,
        attempt=attempt,
    )


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(
        message, [{"loc": ["body", "messages"], "msg": message, "type": "value_error"}]
    )
