"""A run and its parts: the records of the journal (docs/journal.md)."""

from datetime import datetime, timedelta
from enum import StrEnum
from operator import not_
from typing import Any, Literal

from pydantic import Field

from layover.values.base import Json, Time, Value, is_none
from layover.values.decision import DECLINES as DECLINES
from layover.values.decision import ApprovalRule, Args, Denial, PendingApproval, Vote
from layover.values.decision import Decision as Decision
from layover.values.decision import DecisionKind as DecisionKind
from layover.values.decision import Risk as Risk
from layover.values.decision import Via as Via
from layover.values.message import FilePart, Message
from layover.values.note import Note
from layover.values.runs.child import ChildRun
from layover.values.runs.hooked import HookedCall, HookReply
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.provider_wait import ProviderWait, WaitingFor
from layover.values.runs.served import ServedTools
from layover.values.runs.status import ErrorDetail as ErrorDetail
from layover.values.runs.status import ErrorInfo as ErrorInfo
from layover.values.runs.status import FinishReason as FinishReason
from layover.values.runs.status import Status as Status
from layover.values.runs.usage import Usage

MAX_ATTEMPTS = 5
"""Attempts since the last journaled step (docs/behaviour.md#attempts)."""
TURN_EVENTS = 70
"""The most events that a turn adds to its execution's history, with all its retries and a compaction."""
MAX_WINDOW = 40
"""Calls that run or wait at once (an inline Map starts 40 branches)."""
BUDGET_TOOL = "layover.budget"
"""`tool_name` of the call that asks a person to extend a run's limits."""
HOOKS_TOOL = "layover.hooks"
"""`tool_name` of a record of hooks' answers (docs/hooks.md#stored): no model made this call."""
REPLIES_TOOL = "layover.replies"
"""`tool_name` of a record of a reply that was asked for again (`UnusedReply`): no model made this call."""
SEARCH_TOOL = "search_tools"
"""Finds tools that the model is not shown (`Agent(tool_search=True)`)."""
MESSAGES_TOOL = "read_messages"
RESULT_TOOL = "read_result"
"""Opens a result again that the prompt shows as a preview (docs/result-previews.md)."""
SYSTEM = "system"
"""`decided_by` if no person decided."""
MAX_QUEUE = 100
"""Runs that wait for one thread."""
MAX_WAITING_RUNS = 20
"""Runs of one thread that wait for decisions while the conversation goes on."""
MAX_SAID = 100
"""Messages that a run may be sent after its input."""
CANCEL_GRACE = timedelta(seconds=1.5)
"""The time that a cancel leaves to running tools, from the request on: with the end itself less than 2 s."""
CANCEL_HOOKS_GRACE = timedelta(seconds=1)
"""The time that the hooks of a cancelled run have together, including the making of its deps."""
RECORDS_SLACK = timedelta(hours=2)
"""The expiry of records: this time, and the retention, after the run was accepted. The records of a run that
ends sooner need no write for it (docs/saved-writes.md#expiry)."""
RECORDS_KEPT_AFTER = timedelta(hours=1)
"""A run that takes longer than this has records without an expiry. No writer that took the run before lives
until the slack is over."""
INTERRUPT_GRACE = timedelta(seconds=2)
"""The same if another run takes the thread over (docs/behaviour.md#busy-threads): no caller waits for the end
then."""


class OnBusy(StrEnum):
    """Treatment of a new run whose thread has an active one."""

    REJECT = "reject"
    ENQUEUE = "enqueue"
    INTERRUPT = "interrupt"


class OnWaiting(StrEnum):
    """Treatment of a new message whose thread has a run that only waits for a decision."""

    ANSWER = "answer"
    STEER = "steer"
    WITHDRAW = "withdraw"
    REFUSE = "refuse"


class SuspensionKind(StrEnum):
    """The kind of answer that a call waits for."""

    APPROVAL = "approval"
    INPUT = "input"
    CONNECT = "connect"
    """The user has to connect an account (docs/guides/connections.md)."""


class Suspension(Value):
    """A waiting call's view, and the answers it accepts."""

    kind: SuspensionKind
    payload: Json
    resume_schema: dict[str, Any]
    requested_at: Time
    expires_at: Time | None = None
    approval: ApprovalRule | None = None
    """The rule of who decides; None: the run's owner does."""
    denied_before: tuple[Denial, ...] = Field(default=(), exclude_if=not_)
    """Calls of the same tool with other arguments that persons had denied in this run, the newest last."""
    args: Args
    """The arguments that the request shows, as the tool gets them: validated, in their JSON form, with
    defaults."""
    summary: str | None = Field(default=None, exclude_if=is_none)
    """The tool's own words for what the call would do (`@tool(summary=)`)."""
    risk: Risk | None = Field(default=None, exclude_if=is_none)
    asked_again: Literal["definition"] | None = Field(default=None, exclude_if=is_none)
    """`definition`: a deployment changed what the call would run with, after it was decided."""
    definition: str | None = Field(default=None, exclude_if=is_none)
    """Of an approval: the hash of the definition of the tool that the request is about."""
    approved_under: ApprovalRule | None = Field(default=None, exclude_if=is_none)
    """For a call that waits for a connection: the rule under which persons had approved it before."""
    memo: Json = Field(default=None, exclude_if=is_none)
    """A note of the tool, which gets it back with the answer. Nobody is shown it."""

    @property
    def has_timers(self) -> bool:
        """True if something is due while the call waits."""
        return self.approval is not None and self.approval.has_timers


class Phase(StrEnum):
    """The writer that may act on a run which is running (docs/run-lifecycle.md#phases)."""

    TURN = "turn"
    """A turn: it opens calls and asks the model."""
    RESTING = "resting"
    """Its branches: each opens the one call that was decided. Another run may take the thread."""
    ENDING = "ending"
    """The process that took the run to end it: nobody opens a call any more."""


class CallState(StrEnum):
    """`planned` has no record yet. A decided call is `waiting` with a decision until Resume opens it."""

    PLANNED = "planned"
    OPEN = "open"
    WAITING = "waiting"
    SETTLED = "settled"


class CallRecord(Value):
    """One tool call of a step, as journaled."""

    key: str
    """Its sort key in the run's partition (`layover.keys.call_key`)."""
    run_id: str
    tool_call_id: str
    tool_name: str
    args: Json
    state: CallState = CallState.PLANNED
    rev: int | None = None
    """The number of the write that left the record as it was read; 0: a release wrote it that did not count.
    None: the call has no record."""
    opener: str | None = None
    attempt: int = 0
    """Counts suspensions from 1; 0 before the first."""
    suspension: Suspension | None = None
    token: str | None = None
    decision: Decision | None = None
    votes: tuple[Vote, ...] = ()
    """Votes of the persons who approved this attempt, the newest of each."""
    voted: int = 0
    """Count of votes: a reader that knows this number knows them all."""
    ends_step: bool = False
    """True if its end completed its step: the `turn-end` is in the log with its other events."""
    log_seq: int | None = None
    """The events of its end are in the log at this seq or later; missing, if its writer died before it wrote
    them. None: they were written with the record."""
    reminders: int = Field(default=0, exclude_if=not_)
    """The number of the newest reminder of this attempt; 0: there was none."""
    escalated: bool = Field(default=False, exclude_if=not_)
    """True if the groups that the rule escalates this attempt to decide, too."""
    extended_to: Time | None = Field(default=None, exclude_if=is_none)
    """The time at which this attempt expires, if a person has put it off."""
    taken_back_at: Time | None = Field(default=None, exclude_if=is_none)
    """The time at which its user took back the message that led to it, if it waits on all the same."""
    past: tuple[dict[str, Any], ...] = ()
    """Earlier attempts' decisions, for audit."""
    result: Json = None
    model_output: str | None = None
    files: tuple[FilePart, ...] = Field(default=(), exclude_if=not_)
    """The files that its result shows to the model."""
    is_error: bool = False
    retry: bool = False
    """True if the tool asked for another attempt."""
    custom: Message | None = None
    """The `to_message` message of this call, if it made one."""
    settled_at: Time | None = None
    agent_path: tuple[str, ...] = ()
    """Names from the run's agent down to the caller's; empty: the run's own call."""
    child: ChildRun | None = None
    """The run of the sub-agent that this call stands for."""
    hooked: HookedCall | None = Field(default=None, exclude_if=is_none)
    """The answers of hooks about it."""
    offered: bool = Field(default=True, exclude_if=bool)
    """False if the model's request did not have the tool: such a call finds none."""
    denial: str | None = Field(default=None, exclude_if=is_none)
    """The id of the call whose denial is the result of this one, for which nobody was asked."""

    def written(self, **changes: Any) -> "CallRecord":
        """Return the record as a write leaves it that makes these changes."""
        return self.model_copy(update={**changes, "rev": (self.rev or 0) + 1})

    @property
    def proposed(self) -> Json:
        """The arguments that the tool is to get: the model's, or those that hooks gave."""
        changed = self.hooked.args if self.hooked else None
        return self.args if changed is None else changed

    @property
    def edited(self) -> dict[str, Any] | None:
        """The arguments that a person put in place of the proposed ones: the newest, since the call may wait
        again after an edit. None: nobody did."""
        decisions = (
            self.decision.args if self.decision else None,
            *(p.get("args") for p in self.past[::-1]),
        )
        return next((args for args in decisions if args is not None), None)

    @property
    def resumed_with(self) -> tuple[Json] | None:
        """The data that the call was resumed with, in a tuple: it may be null. A consent in between resumes
        nothing. None: it was not resumed."""
        decisions = [d.model_dump(mode="json") for d in (self.decision,) if d is not None]
        for each in (*decisions, *self.past[::-1]):
            if each["kind"] != DecisionKind.CONNECTED:
                return (each.get("data"),) if each["kind"] == DecisionKind.RESUMED else None
        return None

    def decision_on(self, attempt: int) -> Decision | None:
        """Return the decision on an attempt: the call may wait again, or be settled. None: there is none."""
        if attempt == self.attempt:
            return self.decision
        past = next((each for each in self.past if each["attempt"] == attempt), None)
        if past is None:
            return None
        return Decision.model_validate({k: v for k, v in past.items() if k != "attempt"})

    def at_attempt(self, attempt: int) -> "CallRecord":
        """Return the call with the decision on this attempt: it may wait again since."""
        if attempt == self.attempt:
            return self
        earlier = {"attempt": attempt, "decision": self.decision_on(attempt), "votes": ()}
        return self.model_copy(update=earlier)

    @property
    def exact_args(self) -> Json:
        """The arguments that a decision about the waiting call is about: those that the tool gets."""
        return self.suspension.args if self.suspension else self.proposed

    @property
    def rule(self) -> ApprovalRule | None:
        """The rule of who decides now; None: the run's owner does."""
        rule = self.suspension.approval if self.suspension else None
        return rule.escalated() if rule is not None and self.escalated else rule

    @property
    def expires_at(self) -> datetime | None:
        """The time at which the wait counts as a denial; None: never."""
        first = self.suspension.expires_at if self.suspension else None
        return self.extended_to or first

    @property
    def undecided(self) -> bool:
        """True if the call waits for a decision."""
        return self.state is CallState.WAITING and self.decision is None

    @property
    def approval(self) -> PendingApproval | None:
        """Return the approval rule and the votes so far."""
        rule = self.rule
        return PendingApproval(**rule.model_dump(), given=self.votes) if rule else None


class ToolMessageSlot(Value):
    """Id and time of a future tool message, fixed when its step is journaled
    (docs/behaviour.md#message-times)."""

    tool_call_id: str
    message_id: str
    created_at: Time
    offered: bool = Field(default=True, exclude_if=bool)
    """See `CallRecord.offered`."""


class PinnedText(Value):
    """A piece of a run's prompt as first shown. Its source may be deleted meanwhile: then it is
    left out. `id`: of the message or the entry."""

    id: str
    text: str


class PromptSnapshot(Value):
    """The context that a run pinned at its first step. A resume or a retry renders from it, less all that was
    deleted meanwhile (docs/behaviour.md#pinned-context)."""

    as_of: Time
    window_depth: int = 0
    """Depth of the first history message in the prompt."""
    generation: int | None = None
    """Generation of the compaction; None: none. Changes only when the run's own compaction switches in."""
    through: str | None = None
    """The last message that the compaction stands for."""
    notes: tuple[Note, ...] = ()
    """Profile and working memory, as they were read."""
    volatile: str | None = None
    """Session memory and plan, as they were."""
    recalled: tuple[PinnedText, ...] = ()
    """Recalled messages, a line each."""
    entries: tuple[PinnedText, ...] = ()
    """Entries of episodic memory, a line each."""
    instructions: str | None = None
    """The text that the agent's function returned; None: the instructions are a constant."""
    metadata: dict[str, Json] = Field(default_factory=dict)
    """The thread's."""
    tools: tuple[str, ...] | None = Field(default=None, exclude_if=is_none)
    """Names of the tools that the agent's function gave; None: the agent has a list."""
    served: tuple[ServedTools, ...] | None = Field(default=None, exclude_if=is_none)
    """The tools of the agent's servers; None: it has no servers."""


class StepRecord(Value):
    """One model call, as journaled."""

    key: str
    index: int
    message: Message
    usage: Usage
    model: str
    finish_reason: str
    slots: tuple[ToolMessageSlot, ...] = ()
    estimated_tokens: int = 0
    """Tokens of its prompt, by our estimate; `usage.input_tokens` is the provider's own count."""
    estimated: Usage | None = None
    """Our estimate, if the provider reported no usage."""
    fell_back_to: str | None = None
    """The model that was called because those before it did not answer."""
    base: PromptSnapshot | None = None
    """The pinned context: set with the first step, and again when a compaction switched in."""
    verdict: Literal["", "accepted", "retry", "failed", "hook"] = ""
    """The verdict of the agent's validator on an answer that fits its schema, or `hook`: a hook rejected the
    reply. `correction` says why."""
    output: Json = None
    """The validator's value of an answer that it accepted."""
    correction: str | None = None
    """The message to the model before its next attempt (its reply fits no schema)."""
    asked_through: str | None = None
    """The last message of the slices that were to be observed ahead by then."""
    agent: str = ""
    """The agent that made it: a hand-off changes the agent within a run."""
    definition: str = ""
    """Hash of the definition that the run began with; set in its first step only."""
    notices: tuple[Message, ...] = Field(default=(), exclude_if=not_)
    """Messages of the run that ended its prompt: notices of the ends of sub-agents in the background, and
    what the run was sent meanwhile."""
    heard: tuple[Message, ...] = Field(default=(), exclude_if=not_)
    """Messages of other runs that its prompt had before the notices: what was said while the run waited."""
    heard_through: str | None = Field(default=None, exclude_if=is_none)
    """The thread's newest message then (`RunMeta.hears`)."""
    replied: HookReply | None = Field(default=None, exclude_if=is_none)
    """The hook that replied in the model's place: no model was asked. None: a model replied."""
    windows: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    """The windows that refusals taught before the reply, as `ThreadHead.windows`."""
    ended: bool = False
    """For a sub-agent's step: its `turn-end` is in the event log (META has the same for the run's own)."""

    @property
    def counts_as(self) -> Usage:
        """Return the usage that limits count."""
        return self.estimated or self.usage

    @property
    def is_refused(self) -> bool:
        """True if a hook refused its request: the agent ends with it."""
        return self.replied is not None and self.replied.refuses

    @property
    def is_withheld(self) -> bool:
        """True if the provider withheld its answer, or the model refused: that is not an output, and
        asking again brings none."""
        return self.finish_reason == "content-filter"

    @property
    def is_answer(self) -> bool:
        """True if a validator of the author's judges it: nothing else has ended or refused it."""
        return not (self.slots or self.correction or self.is_refused or self.is_withheld)


class UnusedReply(Value):
    """A reply that was asked for again, because it answered nothing: it is paid for all the same."""

    agent: str
    model: str
    usage: Usage
    at: Time


class RunMeta(Value):
    """The facts of a run (`RUN#id / META`)."""

    id: str
    owner: str
    thread_id: str
    agent: str
    status: Status
    """As stored: queued, running or over. Readers use `shown_status`."""
    input: Message
    parent_given: bool = False
    """True if the caller named the input's parent; otherwise it follows the thread's newest leaf."""
    thread_given: bool = True
    """True if the caller named the thread; otherwise it was made for this run, and its tools see no
    thread."""
    stream: bool = False
    max_iterations: int | None = None
    choice: RunChoice = RunChoice()
    """The model and the settings that this run chose for itself."""
    groups: frozenset[str] = frozenset()
    """The groups of the caller who started it, from the verified token. Nothing later changes them."""
    scopes: frozenset[str] = frozenset()
    """The scopes of that token."""
    created_at: Time
    updated_at: Time
    epoch: int = 0
    attempts: int = 0
    n: int = 1
    execution: str | None = None
    cancel: bool = False
    waiting: frozenset[str] = frozenset()
    """Keys of the calls that wait undecided."""
    step_ended: int = 0
    """The last step whose `turn-end` is in the event log."""
    finish_reason: FinishReason | None = None
    output: Json = None
    error: ErrorInfo | None = None
    error_detail: ErrorDetail | None = None
    """The words about the failure for operators. No view of the run's owner has it."""
    usage: Usage = Usage()
    model: str | None = None
    saved: bool = True
    """False while the outcome is over but not in Postgres (docs/behaviour.md#unsaved-runs)."""
    untold: bool = False
    """True if the run is over, and the sweeper has to tell the bus of that."""
    decided: frozenset[str] = frozenset()
    """Keys of the calls that are decided and not yet settled."""
    owed: frozenset[str] = frozenset()
    """The facts that others have to be told of, as `Debt` writes them."""
    history: int = 0
    """The most events that the present execution may have used of its history."""
    pointed: bool = False
    """True if approvers other than its owner find it by its id."""
    redriven_at: Time | None = None
    """The time at which an operator last started an execution."""
    reopened_at: Time | None = None
    """The time at which it last went on after it had failed."""
    lost_at: Time | None = None
    """The time at which the sweeper first saw no execution that drives the run."""
    compacted_for: int = 0
    """The step before which the run last waited for its compaction."""
    compacted_before: int = 0
    """The step before which it waited the time before."""
    definition: str = ""
    """Hash of the definition that it goes on under, if that changed since its first step."""
    sockets: frozenset[str] = frozenset()
    """Connections that follow the run."""
    subscribed: int = 0
    """Count of subscriptions: a writer that knows this number knows them all."""
    records_expire_at: Time | None = None
    """The expiry that its records are written with; None: they have no expiry until the run is over."""
    records_kept: bool = False
    """True if their expiry was removed again, as the run takes longer."""
    aside: bool = False
    """True if another run has taken the thread while this one waited, at least once."""
    ready: bool = False
    """True while the run is in `ThreadHead.ready`: nothing drives it until its thread is free."""
    hears: str | None = None
    """The newest message of the thread when the run took it back: its next step hears what was said up to
    it."""
    said: int = 0
    """Count of messages that the run was sent after its input."""
    loose_at: Time | None = None
    """The time of a run's first loose message, once it is over: what its last tools say, and what it was sent
    and did not read. As long as these have no place (`unplaced`), a time before which none of them comes."""
    unplaced: str | None = None
    """The last message of a run that is over, whose loose messages come behind the run at work. None: nothing
    is loose, or it has its place."""
    takes: int = 0
    """Count of the writers that took the run, one after another."""
    phase: Phase | None = None
    """The writer that may act on it now; None: nobody has taken it yet, or a release took it that had no
    phases."""
    branches: frozenset[str] = frozenset()
    """Keys of the calls that branches have opened since the run rests."""
    left: int = 0
    """The number of the last writer whose process recorded the spans of its work before it ended. Only a
    process that traces notes it."""
    traceparent: str | None = None
    """The W3C trace context of the request that started the run."""
    away: ProviderWait | None = None
    """Its last wait for a provider that was away."""

    @property
    def began(self) -> bool:
        """False if it ended in the queue."""
        return self.execution is not None or self.status is not Status.CANCELLED

    def has_to_keep_records(self, now: datetime) -> bool:
        """Return whether records of this run still have the expiry of one that ends soon, although it takes
        longer."""
        expire = self.records_expire_at is not None and not self.records_kept
        return expire and now >= self.created_at + RECORDS_KEPT_AFTER

    @property
    def at_rest(self) -> bool:
        """True if no process is at work on it: no turn, no branch that runs a tool, and nobody who ends
        it."""
        return self.phase is Phase.RESTING and not self.branches

    @property
    def only_waits(self) -> bool:
        """True if it does nothing but wait for decisions: another run may take its thread. It depends on
        `WAITS_BY` and on nothing else."""
        waits = bool(self.waiting) and not self.decided and not self.cancel
        return self.status is Status.RUNNING and self.at_rest and waits

    def pauses_until(self, now: datetime) -> datetime | None:
        """Return the end of the pause that the run is in, since a provider is away; None: it is in none."""
        wait = self.away
        return wait.until if wait is not None and self.at_rest and wait.until > now else None

    @property
    def shown_status(self) -> Status:
        """The status that callers see."""
        return self.status.for_callers(waits=bool(self.waiting))


WAITS_BY = ("status", "phase", "epoch", "branches", "waiting", "decided", "cancel")
"""The fields by which a run only waits. Whoever takes its thread does so on the condition that all of them
are as it read them."""


class RunSnapshot(Value):
    """A run with its journal: everything that was journaled, in order."""

    meta: RunMeta
    steps: tuple[StepRecord, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    said: tuple[Message, ...] = ()
    """Messages that the run was sent after its input, oldest first. Their place in the thread is decided by
    the step that reads them."""

    @property
    def waiting_for(self) -> WaitingFor | None:
        """The wait that the run goes on from by itself; None: it does not wait so."""
        wait = self.meta.away
        if (
            wait is None
            or self.meta.status is not Status.RUNNING
            or not wait.is_on(len(self.steps))
        ):
            return None
        return wait.view

    def call(self, key: str) -> CallRecord | None:
        """Return the record of a call; None if it was only planned."""
        return next((c for c in self.calls if c.key == key), None)


class Outcome(Value):
    """The end of a run."""

    status: Status
    finish_reason: FinishReason
    output: Json = None
    error: ErrorInfo | None = None
    error_detail: ErrorDetail | None = None
    usage: Usage = Usage()
    model: str | None = None
    leaf_id: str
    """The thread's newest message after the run."""
    last_created_at: datetime
    loose_at: datetime | None = None
    """See `RunMeta.loose_at`."""
    unplaced: str | None = None
    """See `RunMeta.unplaced`."""
    windows: dict[str, int] = Field(default_factory=dict)
    """The windows that refusals taught in this thread, as `ThreadHead.windows`."""
    saved: bool = True
