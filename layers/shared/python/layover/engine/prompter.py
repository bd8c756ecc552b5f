"""The prompts of one run: the parts that do not change between its steps, and the room for the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from layover.context.assembly import (
    build_prompt,
    drop_compacted,
    messages_room,
    sendable_history,
)
from layover.context.fit import ASSUMED_WINDOW, TooLong, room
from layover.context.previews import Previews
from layover.context.rendering import sendable
from layover.context.tokens import estimate
from layover.declare.agent import Agent
from layover.engine.state import RunState
from layover.errors import RunFailed
from layover.values.deployment.settings import Settings
from layover.values.memory.rendered import RenderedMemory
from layover.values.message import Message
from layover.values.prompt import Prompt, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import PromptSnapshot

SHRINK = 0.7
"""The factor by which the budget shrinks after the provider said that a prompt is too long."""
MAX_CORRECTION = 4.0
"""Characters of some scripts are a token each: four times the estimate."""


@dataclass(frozen=True)
class Fit:
    """The room of a frame's prompts, in tokens. `budget`: of one prompt; `most`: of one that was refused, at
    its largest. `recalls`: False once the provider said that a prompt with recalled texts
    is too long. `is_measured`: the budget is by our estimate, as a refusal measured it; otherwise it is as
    providers count."""

    budget: int
    most: int
    recalls: bool = True
    is_measured: bool = False

    def shortened(self, size: int, window: int | None = None) -> "Fit":
        """Return the fit after the provider said that a prompt of this size is too long. `window`: the one
        that it names."""
        most = min(self.budget, self.most, size)
        budget = room(window)
        budget = budget if budget < most else int(most * SHRINK)
        return replace(self, budget=budget, is_measured=True)


@dataclass
class PromptMemory:
    """The memory that a frame's prompts show, as it is pinned and as text. A compaction that takes effect
    changes both, from the next step on."""

    base: PromptSnapshot
    rendered: RenderedMemory

    def through(self) -> str | None:
        """Return the id of the last message that the prompts do not show; None: they show all."""
        return self.rendered.through


class InputTooLong(RunFailed):
    """No request can be made: the run's input and its last step exceed the model's window."""

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message, type="ContextLengthExceeded", run_id=run_id)


class Prompter:
    """Builds each step's prompt within the model's window (`window`: tokens; None if unknown; `is_learned`: a
    refusal taught it). `notes`: adds to the run's own messages what the model is to be told about them."""

    def __init__(
        self,
        *,
        agent: Agent,
        settings: Settings,
        memory: PromptMemory,
        history: Sequence[Message],
        tools: Callable[[RunState], Sequence[ToolSpec]],
        window: int | None,
        is_learned: bool = False,
        model_settings: ModelSettings | None = None,
        notes: Callable[[Sequence[Message]], Sequence[Message]] = lambda messages: messages,
    ) -> None:
        self._agent = agent
        self._settings = settings
        self.memory = memory
        self.history = history
        self._tools = tools
        self._model_settings = model_settings
        self._notes = notes
        self._previews = Previews(agent.memory.max_result_tokens)
        self.fit = Fit(room(window), room(window or ASSUMED_WINDOW), is_measured=is_learned)
        """It holds for the frame's next steps as well."""

    def room(self, state: RunState) -> int:
        """Return how many tokens the next step's messages may have, as stored."""
        rendered = self._visible
        left = messages_room(self._agent, rendered, self._tools(state), self._corrected(state))
        return left - estimate(rendered.volatile)

    def _corrected(self, state: RunState) -> int:
        fit = self.fit
        return fit.budget if fit.is_measured else int(fit.budget / _correction(state))

    def prompt(self, state: RunState) -> Prompt:
        """Return the next step's prompt, without recalled texts if it fits only without them. Raises
        RunFailed if the run's input and last step do not fit."""
        memory = self._visible
        try:
            return self._build(state, memory)
        except TooLong:
            less = memory.without_recall()
        try:
            if less is not None:
                return self._build(state, less)
        except TooLong:
            pass
        problem = "the run's input and its last step do not fit into the model's window"
        raise InputTooLong(problem, run_id=state.meta.id)

    @property
    def has_recall(self) -> bool:
        """True if the prompts have recalled texts that can be left out."""
        return self._visible.volatile_without_recall is not None

    @property
    def _visible(self) -> RenderedMemory:
        rendered = self.memory.rendered
        less = None if self.fit.recalls else rendered.without_recall()
        return less or rendered

    def _build(self, state: RunState, memory: RenderedMemory) -> Prompt:
        history, own = self._previews.apply(*self._messages(state))
        return build_prompt(
            agent=self._agent,
            settings=self._settings,
            run=state.meta,
            memory=memory,
            history=history,
            own=self._notes(own),
            steps=state.steps,
            tools=self._tools(state),
            budget=self._corrected(state),
            model_settings=self._model_settings,
            heard=state.heard_ids(),
        )

    def _messages(self, state: RunState) -> tuple[Sequence[Message], Sequence[Message]]:
        """Return the history and the run's own messages for a model, without what is compacted."""
        memory = self.memory.rendered
        if memory.through is None:
            return self._sendable_history, state.sendable()
        response = [*state.response_with_heard(), *state.notices]
        history, own = drop_compacted(
            self.history, state.meta.input, response, memory.through, memory.left_out
        )
        return sendable_history(history), sendable(own, state.steps)

    @cached_property
    def _sendable_history(self) -> list[Message]:
        """The history as all prompts have it while nothing of it is compacted."""
        return sendable_history(self.history)

    def with_previews(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages as a prompt shows them, older results as previews."""
        return self._previews.apply((), messages)[1]


def _correction(state: RunState) -> float:
    """Return the ratio of the provider's token count to our estimate at the run's last step."""
    step = state.step
    if step is None or not step.estimated_tokens or not step.usage.input_tokens:
        return 1.0
    return min(max(step.usage.input_tokens / step.estimated_tokens, 1.0), MAX_CORRECTION)
