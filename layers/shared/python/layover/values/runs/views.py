"""A run, and the calls that wait in it, as callers see them (docs/reference/http-api.md#objects)."""

from operator import not_
from typing import Any, Literal, Self

from pydantic import Field

from layover.values.base import Json, Time, Value, is_none
from layover.values.decision import DecisionNote, Denial, PendingApproval, Risk, Vote
from layover.values.message import Message
from layover.values.runs.feedback import Feedback
from layover.values.runs.provider_wait import WaitingFor
from layover.values.runs.run import CallRecord, SuspensionKind
from layover.values.runs.status import ErrorInfo, FinishReason, Status
from layover.values.runs.usage import Usage


class PendingFacts(Value):
    """The facts of a wait that a call's record keeps, and so its event tells."""

    tool_call_id: str
    tool_name: str
    args: Json
    kind: SuspensionKind
    payload: Json
    resume_schema: dict[str, Any]
    attempt: int
    agent_path: tuple[str, ...]
    requested_at: Time
    expires_at: Time | None = None
    summary: str | None = None
    risk: Risk | None = None
    approval: PendingApproval | None = Field(
        default=None,
        exclude_if=is_none,
        description="Who may decide, if that is not only the run's owner, and who has approved so far.",
    )
    denied_before: tuple[Denial, ...] = Field(
        default=(),
        description="Calls of the same tool with other arguments that persons have denied in this run, the "
        "newest last.",
    )
    asked_again: Literal["definition"] | None = Field(
        default=None,
        exclude_if=is_none,
        description="`definition`: it was decided, and a deployment then changed what it would run with.",
    )
    taken_back_at: Time | None = Field(
        default=None,
        exclude_if=is_none,
        description="The time at which its user took back the message that led to it, if its rule lets it "
        "wait on.",
    )

    @classmethod
    def of(cls, call: CallRecord, agent: str, /, **more: Any) -> Self:
        """Return the view of a call that waits.

        Args:
            call: The call's record, with its suspension.
            agent: The name of the run's agent.
            **more: Fields of a wider view, by name.
        """
        suspension = call.suspension
        assert suspension is not None  # a call that waits has one
        fields = {
            "tool_call_id": call.tool_call_id,
            "tool_name": call.tool_name,
            "args": call.exact_args,
            "kind": suspension.kind,
            "payload": suspension.payload,
            "resume_schema": suspension.resume_schema,
            "attempt": call.attempt,
            "agent_path": call.agent_path or (agent,),
            "requested_at": suspension.requested_at,
            "expires_at": call.expires_at,
            "summary": suspension.summary,
            "risk": suspension.risk,
            "approval": call.approval,
            "denied_before": suspension.denied_before,
            "asked_again": suspension.asked_again,
            "taken_back_at": call.taken_back_at,
        }
        return cls.model_validate({**fields, **more})


class Pending(PendingFacts):
    '''A call that waits for a person.

    Attributes:
        tool_call_id: The call's id: with the run's id, it names the call in `approve`, `deny` and `resume`.
        tool_name: The tool's name.
        args: The arguments that it would run with: validated, as JSON, with their defaults.
        kind: `approval`: it waits for `approve` or `deny`. `input`: it suspended itself, and waits for
            `resume` or `deny`. `connect`: it waits until its user has connected an account, or for `deny`.
        payload: The data that the person decides by: of an approval `{type, tool_name, args}`, of an account
            `{connection, scopes}`, else what the tool gave `ctx.suspend`.
        resume_schema: The JSON schema of the answer.
        args_schema: The JSON schema of the arguments that an approval may be given, by the tool as it is
            deployed at the time of reading. None: the call waits for input, or nobody knows its tool here.
        attempt: The number of this suspension, from 1: a call that was resumed may suspend again.
        agent_path: The names from the run's agent down to the agent that made the call.
        requested_at: The time at which it began to wait, in UTC.
        expires_at: The time at which the wait counts as a denial, in UTC; None: never.
        summary: What the call would do, in the words of `@tool(summary=)`; None: the tool has none.
        risk: `low`, `medium` or `high`, by `@tool(risk=)`; None: the tool does not say.
        approval: The rule of who may decide (`by`, `requester`, `quorum`, `reason_required`) and the
            approvals `given` so far; None: the run's owner decides.
        denied_before: Calls of the same tool with other arguments that persons have denied in this run, the
            newest last and ten at most: `args`, `reason`, `decided_by`, `at`.
        asked_again: `definition`: it was decided, and a deployment then changed the arguments that it would
            run with. Nothing ran. None: it is asked for the first time.
        taken_back_at: The time, in UTC, at which its user edited the message that led to it or left it for
            another branch (`Approval(when_edited="keep")`); None: they did not.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, say


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return f"paid {amount:.2f} euros"


        shop = Agent("shop", tools=[refund])


        async def main() -> None:
            with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
                waiting = await shop.generate("5 euros back, please.")
                (pending,) = waiting.pending
                assert (pending.kind, pending.tool_name) == ("approval", "refund")
                assert pending.args == {"amount": 5}
                result = await shop.approve(waiting.run_id, pending.tool_call_id)
            assert result.text == "Done."


        asyncio.run(main())
        ```
    '''

    args_schema: dict[str, Any] | None = Field(
        default=None,
        description="The JSON schema of the arguments that an approval may be given, by the tool as it is "
        "deployed now; null if the call waits for input, or if its tool is not known here (any more).",
    )


class ApproverItem(Pending):
    """A Pending in the list of its approvers, over all users."""

    run_id: str
    agent: str
    owner: str


class OpenApproval(Pending):
    """A Pending in the list over all of a user's runs."""

    run_id: str
    thread_id: str
    agent: str


class AskedCall(Pending):
    """A call about which people were asked, as its owner and those who may decide it see it."""

    run_id: str
    agent: str
    owner: str
    thread_id: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="The run's thread; only for its owner.",
    )
    waits: bool = Field(description="Whether it still waits for a decision.")
    may_decide: bool = Field(
        description="Whether you may decide it. The owner of a run whose rule leaves the call to others may "
        "not."
    )
    decision: DecisionNote | None = Field(
        default=None, description="What was decided about this attempt; null: nobody has decided."
    )


class UnexecutedCall(Value):
    """A call that stays planned while a sibling waits."""

    tool_call_id: str
    tool_name: str
    args: Json


class RunGlimpse(Value):
    """A run as an approver of one of its calls sees it."""

    id: str
    status: Status


class VoteCount(Value):
    """The votes about a call that takes several approvals, as the answer to a vote has them."""

    given: tuple[Vote, ...] = Field(
        description="The approvals so far, the newest of each person; each counts with those of the same "
        "arguments."
    )
    quorum: int = Field(description="The approvals of the same arguments that settle the call.")
    settled: bool = Field(description="Whether the call is decided, by the quorum or by a denial.")


class VotedGlimpse(RunGlimpse, VoteCount):
    """A run as an approver of one of its calls sees it after a vote."""


class Run(Value):
    '''A run as its owner sees it, at the time of reading: the answer of `GET /runs/{run_id}`.

    Attributes:
        id: The run's id.
        thread_id: The thread that it answers in.
        agent: The name of its agent.
        status: Its state.
        finish_reason: The reason for its end; None before.
        text: The assistant's newest text; empty before the first.
        output: The structured output, if the agent has one and the run succeeded; else None.
        messages: The response so far, oldest first, never the input.
        pending: The calls that wait for a person, those of sub-agents included.
        unexecuted: The calls of the newest step that have not begun, while a sibling waits: `tool_call_id`,
            `tool_name` and `args` each.
        usage: Tokens and cost so far, those of sub-agents included.
        model: The model that answered last; None before the first answer.
        error: The reason for a failure; None: it did not fail.
        waiting_for: The `provider` that is away, `until` when the run pauses, and the type of its last
            `error`; None: the run does not pause.
        input: The user's message that it answers.
        children: The runs of its sub-agents, in the order of their calls, unfinished ones included.
        created_at: The time at which it was accepted, in UTC.
        updated_at: The time of its newest change, in UTC.
        feedback: What its owner thinks of it (`score`, `comment`, `at`), read by its id or in the list of the
            thread's runs; None: they have not said so.
        truncated: True if the run does not fit into one answer, and long values are cut. The thread's
            messages have all of it.

    Example:
        ```python
        from layover import Run

        body = """{
            "id": "run_1", "thread_id": "thread_1", "agent": "shop",
            "status": "success", "finish_reason": "stop", "text": "42 euros.",
            "input": {
                "id": "msg_1", "thread_id": "thread_1", "role": "user",
                "content": [{"type": "text", "text": "What is the lamp?"}],
                "created_at": "2026-05-01T12:00:00.000000Z"
            },
            "created_at": "2026-05-01T12:00:00.000000Z",
            "updated_at": "2026-05-01T12:00:02.000000Z"
        }"""
        run = Run.model_validate_json(body)
        assert run.status.over and run.text == "42 euros."
        assert run.input.text == "What is the lamp?"
        assert (run.updated_at - run.created_at).total_seconds() == 2
        ```
    '''

    id: str
    thread_id: str
    agent: str
    status: Status
    finish_reason: FinishReason | None = None
    text: str = ""
    output: Json = None
    messages: tuple[Message, ...] = ()
    pending: tuple[Pending, ...] = ()
    unexecuted: tuple[UnexecutedCall, ...] = ()
    usage: Usage = Usage()
    model: str | None = None
    error: ErrorInfo | None = None
    waiting_for: WaitingFor | None = Field(
        default=None,
        exclude_if=is_none,
        description="The provider that is away, while the run pauses for it and goes on by itself.",
    )
    input: Message
    children: tuple["Run", ...] = ()
    created_at: Time
    updated_at: Time
    feedback: Feedback | None = Field(
        default=None,
        exclude_if=is_none,
        description="What its owner thinks of it, once they said so.",
    )
    truncated: bool = Field(
        default=False,
        exclude_if=not_,
        description="There, and true, only where the run does not fit into one answer (6 MB): its long "
        "results, arguments and payloads are cut to `{_truncated, head, tail, original_chars, url}`, and "
        "where that is not enough its oldest messages are left out. The thread's messages have all of it.",
    )


class VotedRun(Run, VoteCount):
    """A run as its owner sees it after a vote of theirs."""
