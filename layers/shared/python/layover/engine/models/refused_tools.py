"""Requests that a provider refuses because of their tools: which ones it names, and how many it takes
(docs/behaviour.md#refused-tools). It is loaded where a provider has refused something."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace

from layover.engine.models.plan import Plan, ToolsRefused
from layover.engine.tools.search import tools_in_view
from layover.engine.work import RunWork
from layover.errors import INVALID_RESPONSE, ModelError
from layover.values.places import is_of_tools
from layover.values.prompt import Prompt, ToolSpec
from layover.values.runs.event import ToolsLeftOut
from layover.values.runs.failures import error_of

logger = logging.getLogger("layover")

_STATUSES = frozenset({400, 422})
_AT = re.compile(r"(?:function_?declarations|tools|functions)(?:\[(\d+)\]|\.(\d+)\b)", re.I)
_IN_A_LIST = re.compile(r"(?:tools|functions)(?:\[\d+\]|\.\d+)\.function_?declarations", re.I)
"""Gemini has one tool with all functions in it."""
_OF_A_SCHEMA = re.compile(r"schema|parameter|declaration|definition", re.I)
_TOO_MANY = re.compile(
    r"too many|too long|too large|exceed|at most|no more than|not (include )?more than|max|limit|up to",
    re.I,
)
_SOME_TOOLS = re.compile(r"\b(tools|functions|function_?declarations)\b", re.I)
_NUMBER = re.compile(r"\d+")


_TOOL, _SEARCH = "tool:", "tools:search"


class StepTools:
    """The tools that the models of a step take, as far as the run and its process know. `search`: the tool by
    which a model finds others; None: it may not, or does so anyhow."""

    def __init__(self, work: RunWork, search: ToolSpec | None) -> None:
        self._work = work
        self._search = search

    def with_earlier(self, plan: Plan, model: str) -> Plan:
        """Return the plan with what earlier steps of the run found out."""
        keys = frozenset(self._keys(model))
        names = frozenset(k.removeprefix(_TOOL) for k in keys if k.startswith(_TOOL))
        return replace(plan, no_tools=names, searches=_SEARCH in keys)

    def narrow(self, prompt: Prompt, plan: Plan) -> Prompt:
        """Return the prompt with the tools that its model takes."""
        tools = tuple(tool for tool in prompt.tools if tool.name not in plan.no_tools)
        most = self._work.runtime.most_tools.get(prompt.model)
        is_above = most is not None and len(tools) > most
        if self._search is not None and (plan.searches or is_above):
            tools = self._in_view(tools, self._search)
        return prompt.model_copy(update={"tools": tools})

    def problem(self, prompt: Prompt, error: ModelError) -> ModelError:
        """Return a provider's error as what it says of the tools of its request."""
        problem = as_refusal_of_tools(prompt, error)
        if isinstance(problem, ToolsRefused) and problem.most is not None:
            if self._search is None:
                return error
            self._work.runtime.most_tools[prompt.model] = problem.most
        return problem

    def news(self, prompt: Prompt, plan: Plan) -> frozenset[str]:
        """Return keys of what this request had to leave out, for the run's next steps."""
        earlier = frozenset(self._keys(prompt.model))
        news = frozenset(f"{_TOOL}{name}" for name in plan.no_tools) - earlier
        is_search = self._search is not None and self._search in prompt.tools
        if is_search and _SEARCH not in earlier:
            message = (
                "%s takes fewer tools than its agent has: it finds them by words (tool_search)"
            )
            logger.warning(message, prompt.model, extra=self._facts)
            news |= {_SEARCH}
        return news

    def event(self, problem: ToolsRefused, model: str) -> ToolsLeftOut:
        """Return the event of tools that are left out from now on, and log their names."""
        index, _ = self._work.state.next_key()
        tools, error = tuple(sorted(problem.names)), error_of(problem)
        logger.warning("%s refuses tools, left out: %s", model, ", ".join(tools), extra=self._facts)
        now = self._work.clock.now()
        return ToolsLeftOut(at=now, step=index, model=model, tools=tools, error=error)

    @property
    def _facts(self) -> dict[str, str]:
        return {"run_id": self._work.state.run_id, "agent": self._work.agent.name}

    def _keys(self, model: str) -> Iterator[str]:
        for step in self._work.state.steps:
            if step.message.provider_state is not None:
                yield from step.message.provider_state.left_out.get(model, ())

    def _in_view(self, tools: tuple[ToolSpec, ...], search: ToolSpec) -> tuple[ToolSpec, ...]:
        """Return the tools that a model sees that searches, as hooks left them."""
        agent = self._work.agent
        specs = {spec.name: spec for spec in tools}
        built_in = [spec for spec in tools if agent.tool(spec.name) is None]
        in_view = [t.name for t in tools_in_view(agent, self._work.state) if t.name in specs]
        return (*built_in, search, *map(specs.__getitem__, in_view))


def as_refusal_of_tools(prompt: Prompt, error: ModelError) -> ModelError:
    """Return a provider's error as ToolsRefused if it is about the tools of its request; else as it is."""
    if error.status not in _STATUSES or error.type == INVALID_RESPONSE or not prompt.tools:
        return error
    if error.place and not is_of_tools(error.place):
        return error
    if names := _tools_in(prompt, error):
        return error if _is_forced(prompt, names) else ToolsRefused(error, names)
    most = _number_in(error, len(prompt.tools))
    return error if most is None else ToolsRefused(error, most=most)


def _tools_in(prompt: Prompt, error: ModelError) -> frozenset[str]:
    """Return the tools that a refusal is about: by their places in the request, else by their names."""
    place = _IN_A_LIST.sub("functionDeclarations", error.place)
    if at := _AT.search(place):
        # Amazon's own checks count from 1, and call each `member`.
        number = int(at[1] or at[2]) - (".member" in place)
        return frozenset(tool.name for tool in prompt.tools[number : number + 1] if number >= 0)
    if not error.place and not _OF_A_SCHEMA.search(error.message):
        return frozenset()
    return frozenset(t.name for t in prompt.tools if _is_named(t.name, error.message))


def _is_named(name: str, message: str) -> bool:
    word = re.escape(name)
    return re.search(rf"['\"`]{word}['\"`]|\b(function|tool):? {word}\b", message) is not None


def _is_forced(prompt: Prompt, names: frozenset[str]) -> bool:
    """Return whether a request without these tools could not have the call that it forces."""
    choice = prompt.settings.tool_choice
    is_left = any(tool.name not in names for tool in prompt.tools)
    return choice in names or (choice == "required" and not is_left)


def _number_in(error: ModelError, number: int) -> int | None:
    """Return how many tools a provider takes; None if its error is not about their number. It names the
    largest number, and often the one that was sent."""
    if not (error.place or _SOME_TOOLS.search(error.message)):
        return None
    if "array_above_max" not in error.code and not _TOO_MANY.search(error.message):
        return None
    numbers = [n for n in map(int, _NUMBER.findall(error.message)) if 0 < n < number]
    if not numbers and not re.search(r"too many", error.message, re.I):
        return None
    return max(numbers, default=number - 1)
