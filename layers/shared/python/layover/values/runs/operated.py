"""Runs as operators see them: ids, names, times, sizes and counts, and no words of anybody but those in which
a provider, or an exception, failed a run."""

from typing import Literal

from pydantic import Field

from layover.values.base import Json, Time, Usd, Value, is_none
from layover.values.decision import DecisionKind, Via
from layover.values.message import Message
from layover.values.runs.operations import Switch
from layover.values.runs.provider_wait import WaitingFor
from layover.values.runs.run import CallState, SuspensionKind
from layover.values.runs.status import ErrorDetail, FinishReason, Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run


class OperatedFacts(Value):
    """The facts that every view of a run of any owner has."""

    id: str
    owner: str
    agent: str
    thread_id: str
    status: Status
    created_at: Time
    updated_at: Time
    waiting_since: Time | None = Field(description="When the oldest call that waits began to.")
    waiting_for: WaitingFor | None = Field(
        description="The provider that is away, while the run pauses for it and goes on by itself."
    )
    steps: int = Field(description="Model calls, those of sub-agents included.")
    calls: int = Field(description="Tool calls that these asked for.")
    usage: Usage
    definition: str | None = Field(
        description="The hash of the agent's definition that it goes by."
    )


class OperatedRun(OperatedFacts):
    """A run of any owner."""

    error: str | None = Field(description="The type of the failure, for example `RateLimitError`.")


class OperatedError(Value):
    """Why a run failed."""

    type: str = Field(description="The type of the failure, for example `RateLimitError`.")
    detail: ErrorDetail | None = Field(
        description="What the provider said, without what looks like a secret; null where the type says all. "
        "What an exception of the agent's code said may quote a user: it is there for `content=true`."
    )


class OperatedDecision(Value):
    """A decision about a call, without its reason and its data."""

    attempt: int
    decision: DecisionKind
    decided_by: str
    on_behalf_of: str | None
    via: Via
    at: Time


class OperatedHook(Value):
    """A hook's answer about a call, without its reason."""

    hook: str
    decision: Literal["allow", "change", "answer", "refuse", "suspend"]


class OperatedChild(Value):
    """The sub-agent that a call stands for."""

    run_id: str
    agent: str
    status: Status
    error: str | None
    error_detail: ErrorDetail | None
    started_at: Time
    ended_at: Time | None


class OperatedCall(Value):
    """A tool call, without its arguments and its result."""

    tool_call_id: str
    tool_name: str | None = Field(
        description="null: the model made up the name, which is not a tool's."
    )
    state: CallState
    attempt: int = Field(description="How often it has waited.")
    args_bytes: int
    result_bytes: int
    is_error: bool
    retry: bool = Field(description="The tool asked for another attempt.")
    kind: SuspensionKind | None = Field(description="What it waits, or last waited, for.")
    requested_at: Time | None
    expires_at: Time | None
    reminders: int
    escalated: bool
    votes: int
    decisions: tuple[OperatedDecision, ...]
    hooks: tuple[OperatedHook, ...]
    settled_at: Time | None
    child: OperatedChild | None


class OperatedStep(Value):
    """A model call, without what was said."""

    n: int
    parent_call: str | None = Field(
        description="The call that its sub-agent works in; null: the run's own step."
    )
    agent: str
    model: str
    at: Time
    finish_reason: str
    usage: Usage
    prompt_tokens: int = Field(description="Tokens of its prompt, by Layover's estimate.")
    text_chars: int
    fell_back_to: str | None
    hook: str | None = Field(description="The hook that replied in the model's place.")
    calls: tuple[OperatedCall, ...]


class OperatedTimeline(OperatedFacts):
    """A run step by step."""

    error: OperatedError | None
    finish_reason: FinishReason | None
    model: str | None
    attempts: int = Field(description="Attempts since the last journaled step.")
    executions: int
    redriven_at: Time | None
    lost_at: Time | None = Field(description="When the sweeper first found no execution.")
    messages_sent: int = Field(description="Messages that it was sent after its input.")
    timeline: tuple[OperatedStep, ...]
    content: Run | None = Field(
        default=None,
        exclude_if=is_none,
        description="The run with what it says, for `content=true`.",
    )


class SentTool(Value):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Json]
    strict: bool = Field(
        default=False, description="Whether the provider is to hold the model to the schema."
    )


class SentPrompt(Value):
    """A request to a model."""

    model: str
    system: str | None
    messages: tuple[Message, ...] = Field(
        description="Oldest first. A tool's result is the text that the model reads."
    )
    tools: tuple[SentTool, ...]
    settings: dict[str, Json] = Field(description="Those that somebody set.")
    output: dict[str, Json] | None = Field(
        default=None,
        description="The structured output that is to come, `{name, json_schema, strict}`; null: any.",
    )
    api: Literal["chat", "responses"] = Field(
        default="chat", description="OpenAI's API, for a provider that has both."
    )
    provider_tools: tuple[dict[str, Json], ...] = Field(
        default=(), description="Tools that the provider runs itself, each `{type, options}`."
    )


class OperatedPrompt(Value):
    """The prompt of a step, made again from the journal and the thread, before hooks change it."""

    n: int = Field(description="The step; one behind the last: the step that would come next.")
    prompt: SentPrompt | None = Field(description="null: it cannot be made again.")
    as_sent: bool = Field(
        description="It has the size of the prompt that was sent, and no hook was asked."
    )
    problem: str | None = Field(description="Why there is none, or why it may be another one.")


class RunCount(Value):
    """Runs with one status of one agent."""

    status: Status
    agent: str
    count: int


class RunPeriod(Value):
    """Runs with one status that were accepted in one hour or day."""

    at: Time = Field(description="The beginning of the UTC hour or day.")
    status: Status
    count: int


class OldestWait(Value):
    """The call that has waited longest."""

    run_id: str
    owner: str
    agent: str
    waiting_since: Time


class ErrorCount(Value):
    """Failures of one type that came from one provider."""

    error: str
    provider: str | None = Field(description="Of models; null: they came from none.")
    count: int
    newest_run_id: str


class AgentSpend(Value):
    """The spend of one agent's runs, their sub-agents included."""

    agent: str
    runs: int
    tokens: int
    cost_usd: Usd
    unpriced: int = Field(description="Runs whose cost is not known: they are not in `cost_usd`.")


class OperatedSummary(Value):
    """The state of a deployment."""

    at: Time
    since: Time = Field(description="Counts of runs that are over begin here, by their acceptance.")
    runs: tuple[RunCount, ...] = Field(
        description="All runs that are not over, and those that are and were accepted since `since`."
    )
    period: Literal["hour", "day"] = Field(
        description="What `over_time` counts by: hours over two days at most, else days."
    )
    over_time: tuple[RunPeriod, ...] = Field(
        description="Runs that were accepted since `since`, by their acceptance, the earliest first. Periods "
        "without runs are left out, and the first may have begun before `since`."
    )
    oldest_wait: OldestWait | None
    errors: tuple[ErrorCount, ...]
    spent_since: Time = Field(description="The beginning of the UTC day.")
    spent: tuple[AgentSpend, ...] = Field(
        description="Runs that were accepted since then and are over; without memory's own requests."
    )
    complete: bool = Field(description="false: there were more runs than one request counts.")


class DaySpend(Value):
    """The use of one user since 00:00 UTC, as daily limits count it."""

    tokens: int
    cost_usd: Usd = Field(description="Of the models whose price is known.")
    used_up: bool = Field(
        description="A limit is reached: no run of the user begins before midnight."
    )


class OperatedLimits(Value):
    """The limits of each user of a deployment, and the switch."""

    daily_tokens: int | None = Field(description="Tokens of a user and UTC day; null: no limit.")
    daily_cost_usd: Usd | None = Field(
        description="US dollars of a user and UTC day; null: no limit."
    )
    runs_per_minute: int | None = Field(
        description="Runs that a user may begin in a minute; null: no limit."
    )
    switch: Switch
    used: DaySpend | None = Field(
        description="Today's use of `owner`; null without `owner`, and where days have no limit: then it is "
        "not counted."
    )
