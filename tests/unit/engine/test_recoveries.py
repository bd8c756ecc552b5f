"""How a step goes on after a request that failed: each recovery by itself, and all of them in every order."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from layover import Agent, tool_from_schema
from layover.engine.models.answers import ATTEMPTS, FORCED_ATTEMPTS, NotAnAnswer
from layover.engine.models.plan import (
    MAX_REQUESTS,
    RECOVERIES,
    TRIES,
    Facts,
    Plan,
    ToolsRefused,
    Trial,
    as_filtered,
    cause,
    next_model,
    recovered,
    same_again,
    shorter,
    with_fewer_tools,
    without_refused_content,
)
from layover.engine.models.refused_content import Omission, may_be_of_content
from layover.engine.prompter import Fit
from layover.errors import (
    INVALID_RESPONSE,
    ContentFiltered,
    ContextLengthExceeded,
    ModelError,
)
from layover.inmemory.model import say
from layover.ports import ChatModel, OnDelta
from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.worlds.runs import Bench, words_of

FIT = Fit(budget=1_000, most=1_000)
FIRST = Plan(0, FIT)
FACTS = Facts(size=500, has_recall=False, models=3)
RECALLING = FACTS._replace(has_recall=True)

EMPTY = NotAnAnswer("The provider of m answered with nothing (attempt 1)", is_forced=False)
UNFORCED = NotAnAnswer("The provider of m called none (attempt 1)", is_forced=True)
REFUSED = ModelError("Invalid request", status=400)
FILTERED = ContentFiltered("The response was filtered", status=400)
LONG = ContextLengthExceeded("too long", status=400)
DOWN = ModelError("overloaded", status=503)
LATE = ModelError("no connection", type="APIConnectionError")
BROKEN = ModelError("not JSON", type=INVALID_RESPONSE)
NO_KEY = ModelError("wrong key", status=401, type="AuthenticationError")
BAD_TOOL = ToolsRefused(ModelError("Invalid schema for function 'a'", status=400), frozenset("a"))
TOO_MANY = ToolsRefused(ModelError("Too many tools", status=400), most=128)
PROBLEMS = (
    EMPTY,
    UNFORCED,
    REFUSED,
    FILTERED,
    LONG,
    DOWN,
    LATE,
    BROKEN,
    NO_KEY,
    BAD_TOOL,
    TOO_MANY,
)

KEYS = [frozenset({f"file:{n}"}) for n in range(6)]
OMISSIONS = [Omission(keys, keys) for keys in KEYS]
"""As many as a request has at most: two of files, three of words, and the history."""


def on_trial(problem: ModelError, at: int = -1, omissions: int = 2) -> Plan:
    return replace(FIRST, trial=Trial(OMISSIONS[:omissions], problem, at))


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_what_no_recovery_can_mend_is_left_as_it_is(recovery: Any) -> None:
    assert recovery(FIRST, NO_KEY, RECALLING) is None


def test_a_reply_that_answers_nothing_is_asked_for_again() -> None:
    plan = same_again(FIRST, EMPTY, FACTS)
    assert plan == replace(FIRST, unanswered=1)
    for problem in set(PROBLEMS) - {EMPTY, UNFORCED}:
        assert same_again(FIRST, problem, FACTS) is None


@pytest.mark.parametrize(("problem", "most"), [(EMPTY, ATTEMPTS), (UNFORCED, FORCED_ATTEMPTS)])
def test_it_is_asked_for_a_few_times(problem: NotAnAnswer, most: int) -> None:
    plan: Plan | None = FIRST
    for _ in range(most - 1):
        assert plan is not None
        plan = same_again(plan, problem, FACTS)
    assert plan is not None
    assert same_again(plan, problem, FACTS) is None


def test_content_is_left_out_in_the_order_of_the_trial_and_replies_count_anew() -> None:
    plan = replace(on_trial(REFUSED), unanswered=2, unforced=1)
    first = without_refused_content(plan, REFUSED, FACTS)
    assert first is not None
    assert first.trial is not None
    assert (first.trial.omission, first.unanswered, first.unforced) == (OMISSIONS[0], 0, 0)
    second = without_refused_content(first, FILTERED, FACTS)
    assert second is not None
    assert second.trial is not None
    assert second.trial.omission == OMISSIONS[1]
    assert without_refused_content(second, REFUSED, FACTS) is None


def test_a_tool_that_is_refused_by_name_is_left_out_once() -> None:
    plan = with_fewer_tools(replace(FIRST, unanswered=2), BAD_TOOL, FACTS)
    assert plan == replace(FIRST, no_tools=frozenset("a"))
    assert with_fewer_tools(plan, BAD_TOOL, FACTS) is None
    for problem in set(PROBLEMS) - {BAD_TOOL, TOO_MANY}:
        assert with_fewer_tools(FIRST, problem, FACTS) is None


def test_a_model_with_too_many_tools_searches_them_once() -> None:
    plan = with_fewer_tools(replace(FIRST, unanswered=2), TOO_MANY, FACTS)
    assert plan == replace(FIRST, searches=True)
    assert with_fewer_tools(plan, TOO_MANY, FACTS) is None
    for problem in set(PROBLEMS) - {BAD_TOOL, TOO_MANY}:
        assert with_fewer_tools(FIRST, problem, FACTS) is None


def test_a_shorter_prompt_has_no_tool_that_was_refused_before() -> None:
    plan = replace(FIRST, no_tools=frozenset("a"), searches=True)
    for facts in (FACTS, RECALLING):
        cut = shorter(plan, LONG, facts)
        assert cut is not None
        assert (cut.no_tools, cut.searches) == (frozenset("a"), True)


def test_a_fault_during_a_trial_is_not_the_contents() -> None:
    plan = on_trial(REFUSED, at=0)
    assert without_refused_content(plan, DOWN, FACTS) is None
    assert cause(plan, DOWN) is DOWN
    assert cause(plan, FILTERED) is REFUSED
    assert next_model(plan, DOWN, FACTS) == Plan(1, FIT)


def test_only_a_filters_refusal_ends_as_a_filtered_answer_once_nothing_helps() -> None:
    plan = on_trial(FILTERED, at=1)
    assert as_filtered(plan, REFUSED, FACTS) == replace(plan, is_filtered=True)
    assert as_filtered(on_trial(REFUSED, at=1), FILTERED, FACTS) is None
    assert as_filtered(plan, DOWN, FACTS) is None


def test_a_long_prompt_loses_what_was_recalled_before_it_is_cut() -> None:
    less = shorter(FIRST, LONG, RECALLING)
    assert less == Plan(0, replace(FIT, recalls=False))
    cut = shorter(less, LONG, FACTS)
    assert cut == Plan(0, Fit(350, 1_000, recalls=False, is_measured=True), shortened=1)


def test_a_prompt_is_cut_a_few_times() -> None:
    plan: Plan | None = FIRST
    for _ in range(TRIES - 1):
        assert plan is not None
        plan = shorter(plan, LONG, FACTS)
    assert plan is not None
    assert shorter(plan, LONG, FACTS) is None


def test_a_refusal_of_a_long_prompt_shortens_it_once_no_file_is_to_blame() -> None:
    plan = on_trial(LONG, at=1)
    cut = shorter(plan, REFUSED, FACTS)
    assert cut is not None
    assert (cut.shortened, cut.trial) == (1, None)


def test_the_next_model_gets_the_request_as_it_was_shortened() -> None:
    plan = replace(FIRST, shortened=2, fit=replace(FIT, budget=10), unanswered=2, unforced=1)
    assert next_model(plan, DOWN, FACTS) == Plan(1, replace(FIT, budget=10), shortened=2)
    assert next_model(replace(FIRST, model=2), DOWN, FACTS) is None
    for problem in (REFUSED, LONG, NO_KEY, FILTERED):
        assert next_model(FIRST, problem, FACTS) is None


def test_in_every_order_of_faults_a_step_ends_and_this_is_the_longest() -> None:
    """Without the limit, a step of three models would make 165 requests, and the provider's port would repeat
    each up to six times."""
    longest: dict[Plan, int] = {}

    def key(plan: Plan) -> Plan:
        return replace(plan, fit=replace(FIT, recalls=plan.fit.recalls))

    def requests(plan: Plan, above: frozenset[Plan]) -> int:
        place = key(plan)
        if place in longest:
            return longest[place]
        assert place not in above, "a plan comes again: the step would never end"
        most = 0 if plan.is_filtered else 1
        facts = FACTS._replace(has_recall=plan.fit.recalls)
        for problem in () if plan.is_filtered else PROBLEMS:
            for failed in with_trials(plan, problem):
                following = recovered(failed, problem, facts)
                if following is not None:
                    most = max(most, 1 + requests(following, above | {place}))
        longest[place] = most
        return most

    assert requests(FIRST, frozenset()) == 165


def with_trials(plan: Plan, problem: ModelError) -> Iterator[Plan]:
    """The plan as the step has it when a request failed: a first refusal begins a trial."""
    if plan.trial is not None or not may_be_of_content(problem):
        yield plan
        return
    for omissions, reason in product((0, 6), (problem, LONG)):
        yield replace(plan, trial=Trial(tuple(OMISSIONS[:omissions]), reason))


class Faulty(ChatModel):
    """A model that has these problems, one after the other and again, then answers. Each takes as many
    requests as the port of a provider makes."""

    def __init__(self, *problems: ModelError, times: int, repeats: int) -> None:
        self._problems = [p for _ in range(times) for p in problems]
        self._repeats = repeats
        self.prompts: list[Prompt] = []
        self.requests = 0

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        self.prompts.append(prompt)
        assert prompt.max_requests is not None
        assert prompt.max_requests > 0
        made = min(self._repeats, prompt.max_requests)
        self.requests += made
        if not self._problems:
            return say("Hello").model_copy(update={"requests": made})
        problem = self._problems.pop(0)
        if isinstance(problem, NotAnAnswer):
            return say("").model_copy(update={"requests": made})
        again = type(problem)(problem.message, status=problem.status)
        again.type, again.requests, again.place = problem.type, made, problem.place
        raise again


def placed(place: str, message: str) -> ModelError:
    error = ModelError(message, status=400)
    error.place = place
    return error


FAULTS: Mapping[str, ModelError] = {
    "empty": EMPTY,
    "refused": REFUSED,
    "filtered": FILTERED,
    "long": LONG,
    "down": DOWN,
    "late": LATE,
    "broken": BROKEN,
    "bad tool": placed("tools[0].function.parameters", "Invalid schema"),
    "too many": placed("tools", "Expected at most 31 tools"),
}
"""By a short name."""

TOOLS = [
    tool_from_schema(f"tool_{n}", "Does it.", {"type": "object"}, lambda **_: "") for n in range(40)
]


async def run_with(model: Faulty, *, stream: bool = False) -> Run:
    agent = Agent("helper", model=["openai/a", "deepseek/b", "groq/c"], tools=TOOLS)
    return await Bench(agent, model).go(stream=stream)


@pytest.mark.parametrize("repeats", [1, 6])
@pytest.mark.parametrize("pair", [*product(FAULTS, FAULTS)], ids="-".join)
async def test_whatever_two_faults_follow_each_other_a_step_ends_within_its_requests(
    pair: tuple[str, str], repeats: int
) -> None:
    model = Faulty(*(FAULTS[name] for name in pair), times=20, repeats=repeats)
    run = await run_with(model)
    assert run.status in (Status.SUCCESS, Status.FAILED)
    assert model.requests <= MAX_REQUESTS
    assert all("hello" in [m.text for m in prompt.messages] for prompt in model.prompts)


async def test_the_last_problem_is_told_if_the_requests_are_used_up() -> None:
    model = Faulty(LATE, times=20, repeats=9)
    run = await run_with(model)
    assert (model.requests, len(model.prompts)) == (MAX_REQUESTS, 3)
    assert run.error is not None
    assert (run.error.type, words_of(run)) == ("APIConnectionError", "no connection")


async def test_a_model_gets_no_more_than_what_is_left() -> None:
    model = Faulty(LATE, times=20, repeats=10)
    await run_with(model)
    assert [prompt.max_requests for prompt in model.prompts] == [24, 14, 4]
