"""Events of a run (docs/reference/http-api.md#events). A draft has no `seq` and no `run_id`: the
journal's order gives them."""

import json
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from operator import not_
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from layover.keys import parent_call_of
from layover.values.base import Json, Time, Value, is_none
from layover.values.decision import Vote
from layover.values.message import Message
from layover.values.runs.hooked import Verdict
from layover.values.runs.run import (
    CallRecord,
    Decision,
    DecisionKind,
    ErrorInfo,
    FinishReason,
    Status,
    Via,
)
from layover.values.runs.usage import Usage
from layover.values.runs.views import PendingFacts


class BaseEvent(Value):
    """`seq` counts from 1 without gaps in a run."""

    seq: int = 0
    run_id: str = ""
    at: Time
    agent_path: tuple[str, ...] = Field(
        default=(),
        exclude_if=not_,
        description="Of a sub-agent's event: the names from the run's agent down to it.",
    )
    parent_tool_call_id: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of a sub-agent's event: the call that it works in.",
    )


def _place(call: CallRecord) -> dict[str, Any]:
    """Return what the events of a call say about where it is."""
    return {"agent_path": call.agent_path, "parent_tool_call_id": parent_call_of(call.key)}


class AgentStart(BaseEvent):
    """The run begins; never repeated."""

    type: Literal["agent-start"] = "agent-start"


class TurnStart(BaseEvent):
    """A step begins, or begins again after a crash or a broken stream: drop what its deltas said."""

    type: Literal["turn-start"] = "turn-start"
    step: int


class LoopEvent(BaseEvent):
    """The run, or a sub-agent, comes no further and ends: so many steps in a row brought nothing new."""

    type: Literal["loop"] = "loop"
    tools: tuple[str, ...]
    """The tools that these steps called."""
    steps: int


class ModelFallback(BaseEvent):
    """A model did not answer, so the step went to the next one."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    type: Literal["model-fallback"] = "model-fallback"
    step: int
    from_: str = Field(validation_alias="from", serialization_alias="from")
    to: str
    error: ErrorInfo


class ToolsLeftOut(BaseEvent):
    """A model's provider refuses tools by name, and the run goes on without them."""

    type: Literal["tools-left-out"] = "tools-left-out"
    step: int
    model: str
    tools: tuple[str, ...]
    error: ErrorInfo


class ModelRetry(BaseEvent):
    """A model's provider did not answer, and is asked again after a pause."""

    type: Literal["model-retry"] = "model-retry"
    step: int
    reason: str
    """The type of its error, such as `RateLimitError`."""


class ModelWaiting(BaseEvent):
    """A model's provider is away. The run pauses without a process, and goes on by itself."""

    type: Literal["model-waiting"] = "model-waiting"
    provider: str
    """As the model's name begins with it: `openai`, `bedrock`."""
    until: Time
    """The time at which it is asked again."""
    error: str
    """The type of its last error, such as `InternalServerError`."""
    attempt: int
    """The number of this pause behind the newest step, from 1."""


class Redriven(BaseEvent):
    """A run that had failed goes on. In its log, this and a `turn-start` have the places of the `error` and
    the `finish`, which whoever followed it then has read."""

    type: Literal["redriven"] = "redriven"
    error: ErrorInfo
    """The failure that the run goes on from."""


class TextDelta(BaseEvent):
    """More text of the answer."""

    type: Literal["text-delta"] = "text-delta"
    step: int
    text: str


class OutputDelta(BaseEvent):
    """The structured output as far as it has arrived. It replaces the one before."""

    type: Literal["output-delta"] = "output-delta"
    step: int
    output: Json


class ReasoningDelta(BaseEvent):
    """More of the model's reasoning."""

    type: Literal["reasoning-delta"] = "reasoning-delta"
    step: int
    text: str


class ToolCallDelta(BaseEvent):
    """More of a call's arguments (a piece of JSON text)."""

    type: Literal["tool-call-delta"] = "tool-call-delta"
    step: int
    tool_call_id: str
    tool_name: str
    args_delta: str


class MessageEvent(BaseEvent):
    """A finished message of the run."""

    type: Literal["message"] = "message"
    message: Message
    model: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of a model's reply: the model that made it.",
    )
    usage: Usage | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of a model's reply: the usage of its request, or an estimate of it.",
    )

    @classmethod
    def of(cls, call: CallRecord, message: Message, at: datetime) -> Self:
        """Return the event of a message that a settled call gave."""
        return cls(at=at, **_place(call), message=message)


class ToolExecutionStart(BaseEvent):
    """A call begins to run."""

    type: Literal["tool-execution-start"] = "tool-execution-start"
    tool_call_id: str
    tool_name: str
    args: Json


class ToolExecutionEnd(BaseEvent):
    """A call is settled."""

    type: Literal["tool-execution-end"] = "tool-execution-end"
    tool_call_id: str
    tool_name: str
    result: Json
    is_error: bool

    @classmethod
    def of(cls, call: CallRecord, at: datetime) -> Self:
        """Return the end of a settled call."""
        return cls(
            at=at,
            **_place(call),
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            result=call.result,
            is_error=call.is_error,
        )


class DataEvent(BaseEvent):
    """An event of a running tool, by `ctx.emit`."""

    type: Literal["data"] = "data"
    tool_call_id: str
    data: Json


class ToolCallSuspended(BaseEvent, PendingFacts):
    """A call waits for a person."""

    type: Literal["tool-call-suspended"] = "tool-call-suspended"
    agent_path: tuple[str, ...]


class ToolCallDecided(BaseEvent):
    """A waiting call was decided."""

    type: Literal["tool-call-decided"] = "tool-call-decided"
    tool_call_id: str
    decision: DecisionKind
    decided_by: str
    on_behalf_of: str | None = None
    reason: str | None = None
    via: Via = Via.API
    args: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """The arguments that are to run, if the approver changed those of the request."""

    @classmethod
    def of(cls, call: CallRecord, decision: Decision) -> Self:
        """Return the event of a decision about a call."""
        return cls(
            at=decision.at,
            **_place(call),
            tool_call_id=call.tool_call_id,
            decision=decision.kind,
            decided_by=decision.decided_by,
            on_behalf_of=decision.on_behalf_of,
            reason=decision.reason,
            via=decision.via,
            args=decision.exact_args,
        )


class ToolCallApproval(BaseEvent):
    """A call that takes more approvals was approved by one person. It replaces an earlier vote of theirs."""

    type: Literal["tool-call-approval"] = "tool-call-approval"
    tool_call_id: str
    by: str
    on_behalf_of: str | None = Field(default=None, exclude_if=is_none)
    args: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """The arguments that the vote approves, if they are not those of the request. Only votes for the same
    arguments count together."""
    reason: str | None = Field(default=None, exclude_if=is_none)

    @classmethod
    def of(cls, call: CallRecord, vote: Vote, args: dict[str, Any] | None) -> Self:
        """Return the event of one person's vote. `args`: what it approves; None: what was asked for."""
        about = {"by": vote.by, "on_behalf_of": vote.on_behalf_of, "reason": vote.reason}
        return cls(at=vote.at, **_place(call), tool_call_id=call.tool_call_id, args=args, **about)

    @property
    def vote(self) -> Vote:
        """The vote as the call's request shows it."""
        names = ("by", "on_behalf_of", "at", "args", "reason")
        return Vote.model_validate({name: getattr(self, name) for name in names})


class ApprovalReminder(BaseEvent):
    """A reminder of a waiting call."""

    type: Literal["approval-reminder"] = "approval-reminder"
    tool_call_id: str
    n: int

    @classmethod
    def of(cls, call: CallRecord, n: int, at: datetime) -> Self:
        """Return the event of the n-th reminder."""
        return cls(at=at, **_place(call), tool_call_id=call.tool_call_id, n=n)


class ApprovalEscalated(BaseEvent):
    """Members of other groups may decide a waiting call, too."""

    type: Literal["approval-escalated"] = "approval-escalated"
    tool_call_id: str
    to: tuple[str, ...]

    @classmethod
    def of(cls, call: CallRecord, to: tuple[str, ...], at: datetime) -> Self:
        """Return the event of an escalation to these groups."""
        return cls(at=at, **_place(call), tool_call_id=call.tool_call_id, to=to)


class ApprovalExtended(BaseEvent):
    """A person put off the time at which a waiting call expires."""

    type: Literal["approval-extended"] = "approval-extended"
    tool_call_id: str
    by: str
    expires_at: Time

    @classmethod
    def of(cls, call: CallRecord, by: str, expires_at: datetime, at: datetime) -> Self:
        """Return the event of a call that expires later."""
        about = {"tool_call_id": call.tool_call_id, "by": by, "expires_at": expires_at}
        return cls(at=at, **_place(call), **about)


class HookDecided(BaseEvent):
    """A hook decided about a call before it ran; `args` if it changed them."""

    type: Literal["hook-decision"] = "hook-decision"
    tool_call_id: str
    tool_name: str
    hook: str
    decision: Verdict
    args: dict[str, Any] | None = None
    reason: str | None = None


class HookReplied(BaseEvent):
    """A hook replied in the model's place, and no model was asked; `message_ids`: what it refused."""

    type: Literal["hook-reply"] = "hook-reply"
    step: int
    hook: str
    decision: Literal["answer", "refuse"]
    reason: str | None = None
    message_ids: tuple[str, ...] = ()


class TurnEnd(BaseEvent):
    """A step is complete."""

    type: Literal["turn-end"] = "turn-end"
    step: int
    message: Message
    tool_results: tuple[Message, ...]


class Finish(BaseEvent):
    """The run is over; exactly one."""

    type: Literal["finish"] = "finish"
    status: Status
    finish_reason: FinishReason
    usage: Usage
    model: str | None
    output: Json


class ErrorEvent(BaseEvent):
    """Just before the `finish` of a failed run."""

    type: Literal["error"] = "error"
    error: ErrorInfo


class AgentEnd(BaseEvent):
    """After `finish` on success: the response messages."""

    type: Literal["agent-end"] = "agent-end"
    messages: tuple[Message, ...]


class DefinitionChanged(BaseEvent):
    """The run goes on under another definition of its agent than before."""

    model_config = ConfigDict(
        serialize_by_alias=True, validate_by_name=True, validate_by_alias=True
    )

    type: Literal["definition-changed"] = "definition-changed"
    was: str
    now: str = Field(alias="is")


class Handoff(BaseEvent):
    """The conversation belongs to another agent from here on."""

    model_config = ConfigDict(
        serialize_by_alias=True, validate_by_name=True, validate_by_alias=True
    )

    type: Literal["handoff"] = "handoff"
    giver: str = Field(alias="from")
    to: str


Event = Annotated[
    AgentStart
    | Handoff
    | DefinitionChanged
    | TurnStart
    | ModelFallback
    | ModelRetry
    | ModelWaiting
    | Redriven
    | ToolsLeftOut
    | LoopEvent
    | TextDelta
    | OutputDelta
    | ReasoningDelta
    | ToolCallDelta
    | MessageEvent
    | ToolExecutionStart
    | ToolExecutionEnd
    | DataEvent
    | ToolCallSuspended
    | ToolCallApproval
    | ApprovalReminder
    | ApprovalEscalated
    | ApprovalExtended
    | ToolCallDecided
    | HookDecided
    | HookReplied
    | TurnEnd
    | Finish
    | ErrorEvent
    | AgentEnd,
    Field(discriminator="type"),
]
"""Any event of a run, told apart by `type`. Each has `seq` (from 1, without gaps), `run_id`, `at` (UTC) and,
of a sub-agent, `agent_path` and `parent_tool_call_id`. A newer release may add types and fields.

- `agent-start`: the run begins.
- `handoff`: the conversation belongs to another agent from here on.
- `definition-changed`: the run goes on under another definition of its agent.
- `turn-start`: a step begins, or begins again: drop what its deltas said.
- `model-fallback`: a model did not answer, and the step asks the next one.
- `model-retry`: a model's provider did not answer, and is asked again after a pause.
- `model-waiting`: a model's provider is away. The run pauses, and goes on by itself.
- `redriven`: a run that had failed goes on.
- `tools-left-out`: a model's provider refuses tools by name, and the run goes on without them.
- `loop`: the agent made the same calls with the same results in so many steps, and ends.
- `text-delta`, `reasoning-delta`, `tool-call-delta`: more of the answer, the thoughts, a call's arguments.
- `output-delta`: the structured output as far as it has arrived; it replaces the one before.
- `message`: a finished message of the run.
- `tool-execution-start`, `tool-execution-end`: a call begins to run, is settled.
- `data`: what a running tool emitted (`ctx.emit`).
- `tool-call-suspended`: a call waits for a person; it has the fields of `Pending`, but no
  `args_schema`.
- `tool-call-approval`: one person's approval of a call that takes more; of each person the newest counts.
- `tool-call-decided`: a waiting call was decided.
- `hook-decision`: a hook decided about a call before it ran.
- `hook-reply`: a hook replied in the model's place, or refused the request.
- `turn-end`: a step is complete.
- `finish`: the run is over; exactly one.
- `error`: the reason, just before the `finish` of a failed run.
- `agent-end`: the response messages, after the `finish` of a success.

Example:
    ```python
    import asyncio

    from layover import Agent, Event
    from layover.testing import ScriptedModel, say

    shop = Agent("shop")


    async def main() -> None:
        events: list[Event] = []
        with shop.override(model=ScriptedModel([say("Good morning.")])):
            async for event in shop.stream("Hi"):
                events.append(event)
        order = ["agent-start", "turn-start", "message", "turn-end", "finish", "agent-end"]
        assert [e.type for e in events if e.type != "text-delta"] == order
        assert "".join(e.text for e in events if e.type == "text-delta") == "Good morning."


    asyncio.run(main())
    ```
"""


@cache
def event_types() -> frozenset[str]:
    """Return the types that events have."""
    return frozenset(event.model_fields["type"].default for event in get_args(get_args(Event)[0]))


class UnknownEvent(BaseEvent):
    """An event that this version cannot read, because another one wrote it: its type, or a value in it, is
    unknown here. It has the fields that it came with."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str


LoggedEvent = Event | UnknownEvent
"""An event as a log has it: a deployment that was rolled back reads what the newer one wrote."""

_LIST: TypeAdapter[list[Event]] = TypeAdapter(list[Event], config={"defer_build": True})
_ONE: TypeAdapter[Event] = TypeAdapter(Event, config={"defer_build": True})
_UNNUMBERED = {"__all__": {"seq", "run_id"}}


class EventPage(Value):
    """`done` once no event can follow."""

    items: tuple[LoggedEvent, ...]
    last_seq: int
    done: bool


def dump_events(drafts: list[Event]) -> str:
    """Return the JSON of a batch as it is stored: without seqs, since the batch's key has the first one."""
    return _LIST.dump_json(drafts, exclude=_UNNUMBERED).decode()


def load_events(text: str, run_id: str, first_seq: int) -> list[LoggedEvent]:
    """Invert `dump_events`: event i of a batch has `first_seq + i`. One that cannot be read is an
    UnknownEvent: it takes the others of its batch from nobody."""
    events: Iterable[LoggedEvent]
    try:
        events = _LIST.validate_json(text)
    except ValidationError:
        events = map(_load, json.loads(text))
    return [
        e.model_copy(update={"seq": first_seq + i, "run_id": run_id}) for i, e in enumerate(events)
    ]


def _load(fields: dict[str, Any]) -> LoggedEvent:
    try:
        return _ONE.validate_python(fields)
    except ValidationError:
        return UnknownEvent.model_validate(fields)
