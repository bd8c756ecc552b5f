"""The next request of a step, and how a step goes on when one fails
(docs/behaviour.md#requests-of-a-step).

Each recovery is a pure function: it returns the plan of another request, or None if the problem is not its
own. `RECOVERIES` has their order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from layover.engine.models.answers import ATTEMPTS, FORCED_ATTEMPTS, NotAnAnswer
from layover.engine.models.refused_content import Omission, may_be_of_content
from layover.engine.prompter import Fit
from layover.errors import INVALID_RESPONSE, ContentFiltered, ContextLengthExceeded, ModelError
from layover.values.runs.run import StepRecord

MAX_REQUESTS = 24
"""Requests to providers that one step makes at most, repeats of passing faults included: six at each of three
models, and some without content."""
TRIES = 4
"""Requests with a prompt that is shortened each time."""
MAX_FALLBACKS_IN_A_ROW = 2
"""Steps that fell back in a row, after which the next one begins with the model that answered the last
one."""
_STATUSES_OF_OTHERS = frozenset({402, 404, 408, 429})


class ToolsRefused(ModelError):
    """A refusal of the tools of these names, or of their number: `most` is how many the provider takes."""

    def __init__(
        self, refusal: ModelError, names: frozenset[str] = frozenset(), most: int | None = None
    ) -> None:
        super().__init__(refusal.message, status=refusal.status, type=refusal.type)
        self.requests, self.place, self.code = refusal.requests, refusal.place, refusal.code
        self.names, self.most = names, most


class Trial(NamedTuple):
    """Requests without what the model may have refused. `at`: the one that is made; -1: the whole request.
    `problem`: why the step ends if the model takes none of them."""

    omissions: Sequence[Omission]
    problem: ModelError
    at: int = -1

    @property
    def omission(self) -> Omission | None:
        """The content that the request leaves out."""
        return self.omissions[self.at] if self.at >= 0 else None


@dataclass(frozen=True)
class Plan:
    """One request. `model`: the number of the model in the step's list. `shortened`: how often the prompt
    was. `unanswered`: the replies in a row that answered nothing; `unforced`: those without a call that was
    forced. `is_filtered`: nothing is asked, since a filter takes nothing of the request. `no_tools`: names of
    tools that the model is not given; `searches`: it finds its tools by words, as there are too many."""

    model: int
    fit: Fit
    shortened: int = 0
    trial: Trial | None = None
    unanswered: int = 0
    unforced: int = 0
    is_filtered: bool = False
    no_tools: frozenset[str] = frozenset()
    searches: bool = False


class Facts(NamedTuple):
    """Facts of a request. `size`: its estimated tokens. `has_recall`: whether it has texts that can be left
    out. `models`: how many the step has. `window`: what its refusal says of the model's window, as
    `learned.Lesson` reads it."""

    size: int
    has_recall: bool
    models: int
    window: int | None = None


Recovery = Callable[[Plan, ModelError, Facts], Plan | None]


def cause(plan: Plan, problem: ModelError) -> ModelError:
    """Return the problem that is left once no omission mends it."""
    if plan.trial is not None and may_be_of_content(problem):
        return plan.trial.problem
    return problem


def same_again(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """Ask for a reply again that answered nothing: the model may say something else."""
    if not isinstance(problem, NotAnAnswer):
        return None
    unanswered, unforced = plan.unanswered + 1, plan.unforced + problem.is_forced
    if unanswered >= ATTEMPTS or unforced >= FORCED_ATTEMPTS:
        return None
    return replace(plan, unanswered=unanswered, unforced=unforced)


def with_fewer_tools(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """Leave out the tools that the provider refuses by name, or have the model find its tools by words."""
    if not isinstance(problem, ToolsRefused):
        return None
    names, searches = plan.no_tools | problem.names, plan.searches or problem.most is not None
    if (names, searches) == (plan.no_tools, plan.searches):
        return None
    return replace(plan, no_tools=names, searches=searches, unanswered=0, unforced=0)


def without_refused_content(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """Leave out what the model may have refused, the likeliest first."""
    trial = plan.trial
    if trial is None or not may_be_of_content(problem) or trial.at + 1 >= len(trial.omissions):
        return None
    return replace(plan, trial=trial._replace(at=trial.at + 1), unanswered=0, unforced=0)


def as_filtered(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """End a step whose request a filter refuses, whatever it leaves out, as a filtered answer."""
    if not isinstance(cause(plan, problem), ContentFiltered):
        return None
    return replace(plan, is_filtered=True)


def shorter(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """Shorten a prompt that is too long. Leaving out recalled texts does not count: the run goes on as if
    nothing had been recalled."""
    if not isinstance(cause(plan, problem), ContextLengthExceeded):
        return None
    if facts.has_recall:
        return _anew(plan, replace(plan.fit, recalls=False), plan.shortened)
    if plan.shortened + 1 >= TRIES:
        return None
    return _anew(plan, plan.fit.shortened(facts.size, facts.window), plan.shortened + 1)


def _anew(plan: Plan, fit: Fit, shortened: int) -> Plan:
    """Return the plan of another prompt for the same model, with the tools that it takes."""
    return Plan(plan.model, fit, shortened, no_tools=plan.no_tools, searches=plan.searches)


def next_model(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """Ask the next model of the list, if another provider may succeed."""
    if plan.model + 1 >= facts.models or not _is_left_to_others(cause(plan, problem)):
        return None
    return Plan(plan.model + 1, plan.fit, plan.shortened)


RECOVERIES: Sequence[Recovery] = (
    same_again,
    with_fewer_tools,
    without_refused_content,
    as_filtered,
    shorter,
    next_model,
)


def recovered(plan: Plan, problem: ModelError, facts: Facts) -> Plan | None:
    """Return the plan after a request that failed; None: the step fails with its `cause`."""
    plans = (recover(plan, problem, facts) for recover in RECOVERIES)
    return next((each for each in plans if each is not None), None)


def first_model(models: Sequence[str], steps: Sequence[StepRecord]) -> int:
    """Return the number of the model that a step begins with."""
    last = [step.fell_back_to for step in steps[-MAX_FALLBACKS_IN_A_ROW:]]
    if len(last) < MAX_FALLBACKS_IN_A_ROW or None in last or last[-1] not in models:
        return 0
    return models.index(last[-1])


def _is_left_to_others(error: ModelError) -> bool:
    """Return whether another provider may succeed. It cannot if the request or the key is at fault."""
    if isinstance(error, ContextLengthExceeded) or error.type == "AuthenticationError":
        return False
    if error.type == INVALID_RESPONSE or error.status is None:
        return True
    return error.status in _STATUSES_OF_OTHERS or error.status >= 500
