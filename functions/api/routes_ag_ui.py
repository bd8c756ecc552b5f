"""AG-UI: a request is a RunAgentInput, an answer its events."""

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, ConfigDict, Field

from functions.api.call import call_of, new_router
from functions.api.documented import stream_responses
from functions.api.streaming import chat_caller, check_place, stream_answer
from layover.approvals.decide import DecisionRequest, Verdict
from layover.chat.start import decide_all, file_part, say
from layover.chat.threads import chat_thread
from layover.errors import Conflict, InvalidRequest, LayoverError
from layover.protocols import sse
from layover.protocols.ag_ui import AgUiRun, state_snapshot
from layover.protocols.ui_messages import approval_of
from layover.runtime import Runtime
from layover.threads.memory_view import thread_memory
from layover.values.deployment.access import Actor
from layover.values.message import InputPart, TextPart
from layover.values.runs.event import LoggedEvent
from layover.values.thread import ThreadHead

router = new_router()
_ID = Field(min_length=1, max_length=200, pattern="^[^/]+$")


class AgUiMessage(BaseModel):
    """A message of the client's. Only the last one is read."""

    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[dict[str, Any]] | None = None


class Resumed(BaseModel):
    """A person's answer to an interrupt."""

    model_config = ConfigDict(extra="ignore")

    interrupt_id: Annotated[str, Field(alias="interruptId")]
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(BaseModel):
    """An AG-UI client's request. Its state, its tools and its context are ignored."""

    model_config = ConfigDict(extra="ignore")

    thread_id: Annotated[str, _ID, Field(alias="threadId")]
    run_id: Annotated[str, _ID, Field(alias="runId")]
    messages: list[AgUiMessage] = Field(default_factory=list)
    resume: list[Resumed] | None = None


@router.post(
    "/ag-ui/<agent>",
    tags=["chat"],
    summary="Run an agent for an AG-UI client",
    description="AG-UI 1.0. `threadId` is a thread's id or the client's own, which is bound to one thread "
    "and this agent; an agent that was handed the conversation answers in its place. The last message is "
    "the input; `resume` answers the interrupts of the run that waits.",
    operation_id="ag_ui",
    responses=stream_responses("AG-UI's events", 400, 404, 406, 409, 413, 429),
)
def post_ag_ui(agent: str, body: RunAgentInput) -> Response[str]:
    call = chat_caller(call_of(router))
    check_place(call)
    run_id, thread_id, after = call.act(_begin, agent, body)
    frames = AgUiFrames(AgUiRun(body.thread_id, body.run_id, run_id))
    runtime, owner = call.host.runtime(), call.actor.owner
    return stream_answer(
        call,
        run_id,
        frames,
        router.current_event.raw_event,
        after,
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
        """`RUN_STARTED`."""
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


async def _begin(
    runtime: Runtime, actor: Actor, agent: str, body: RunAgentInput
) -> tuple[str, str, int]:
    """Return the run, its thread, and the seq after which the answer begins."""
    head = await chat_thread(runtime, actor.owner, agent, body.thread_id)
    if body.resume:
        if head.active_run is None:
            raise Conflict("nothing waits in this thread", thread_id=head.id)
        decisions = [_decision(each) for each in body.resume]
        run_id, after = await decide_all(runtime, actor, head, head.active_run, decisions)
        return run_id, head.id, after
    last = body.messages[-1] if body.messages else None
    if last is None or last.role != "user":
        raise _invalid("the last message has to be a user's, or `resume` has to answer what waits")
    parts = await _input(runtime, head, last)
    return await say(runtime, actor.owner, head, parts), head.id, 0


async def _state(runtime: Runtime, owner: str, thread_id: str) -> bytes:
    """Return working memory and plan as the run leaves them. A sleeping database does not end the answer."""
    try:
        memory = await thread_memory(runtime, owner, thread_id)
    except LayoverError:
        return b""
    state = memory.model_dump(mode="json", include={"working_memory", "plan"})
    return sse.data_frames([state_snapshot(state)]) if any(state.values()) else b""


def _decision(resumed: Resumed) -> tuple[str, DecisionRequest]:
    approval = approval_of(resumed.interrupt_id)
    if approval is None:
        raise _invalid("there was no such interrupt")
    attempt, tool_call_id = approval
    payload = resumed.payload
    if resumed.status == "cancelled":
        return tool_call_id, DecisionRequest(Verdict.DENY, attempt=attempt)
    if not isinstance(payload, dict) or not isinstance(payload.get("approved"), bool):
        return tool_call_id, DecisionRequest(Verdict.RESUME, data=payload, attempt=attempt)
    verdict = Verdict.APPROVE if payload["approved"] else Verdict.DENY
    args, reason = payload.get("args"), payload.get("reason")
    return tool_call_id, DecisionRequest(
        verdict,
        args=args if isinstance(args, dict) and payload["approved"] else None,
        reason=reason if isinstance(reason, str) and reason else None,
        attempt=attempt,
    )


async def _input(runtime: Runtime, head: ThreadHead, message: AgUiMessage) -> list[InputPart]:
    if isinstance(message.content, str):
        return [TextPart(text=message.content)]
    parts: list[InputPart] = []
    for part in message.content or ():
        source = part.get("source")
        if part.get("type") == "text":
            parts.append(TextPart(text=str(part.get("text", ""))))
        elif isinstance(source, dict):
            mime, value = str(source.get("mimeType", "")), str(source.get("value", ""))
            url = f"data:{mime};base64,{value}" if source.get("type") == "data" else value
            parts.append(await file_part(runtime, head.owner, head, url, None, mime))
    return parts


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(
        message, [{"loc": ["body", "messages"], "msg": message, "type": "value_error"}]
    )
