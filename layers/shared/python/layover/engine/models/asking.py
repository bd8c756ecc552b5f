"""The one place where a step asks: one request after another until a model has answered. `models.plan` says
what each of them is."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from layover.context.assembly import estimated_tokens
from layover.context.left_out import answer_key, known_keys, without
from layover.engine.attachments import Attachments
from layover.engine.hooks.around_model import AroundModel
from layover.engine.hooks.replies import InPlace
from layover.engine.models.answers import not_an_answer
from layover.engine.models.day_room import DayRoom
from layover.engine.models.plan import (
    MAX_REQUESTS,
    Facts,
    Plan,
    ToolsRefused,
    Trial,
    cause,
    first_model,
    recovered,
)
from layover.engine.models.refused_content import (
    exchange_keys,
    input_keys,
    is_long,
    may_be_of_content,
    omissions,
)
from layover.engine.models.reply_events import CallNames, ReplyEvents
from layover.engine.models.unused_replies import UnusedReplies
from layover.engine.progress import OutOfTime
from layover.engine.prompter import Prompter
from layover.engine.tools.search import uses_search
from layover.engine.work import RunWork
from layover.errors import ContentFiltered, ContextLengthExceeded, ModelError
from layover.values.prompt import Delta, Prompt, Reply, ToolSpec, deltas_of
from layover.values.runs.event import Event, ModelFallback

if TYPE_CHECKING:
    from layover.engine.models.learned import Lesson
    from layover.engine.models.refused_tools import StepTools

logger = logging.getLogger("layover")

ReadReply = Callable[[Prompt, Reply], Reply]
"""Reads a reply as it was meant; returns the same one if it says what it means."""


class StepRequests:
    """Asks for one step's reply. The properties say how the reply came about."""

    def __init__(
        self,
        work: RunWork,
        prompter: Prompter,
        *,
        models: Sequence[str],
        around: AroundModel,
        day: DayRoom,
        attachments: Attachments,
        names: CallNames,
        events: ReplyEvents,
        streams: bool,
        read: ReadReply,
        search: ToolSpec | None = None,
    ) -> None:
        self._work = work
        self._prompter = prompter
        self._models = models
        self._around = around
        self._day = day
        self._attachments = attachments
        self._names = names
        self._events = events
        self._streams = streams
        self._read = read
        self._search = None if uses_search(work.agent) else search
        """The tool that finds others, if the model is not shown it before it has too many tools."""
        self._unused = UnusedReplies(work)
        self._left = MAX_REQUESTS
        wait = work.state.meta.away
        self._asks_again = wait is None or not wait.is_on(work.state.step_count)
        """False if the run comes from a pause of this step."""
        steps = work.state.steps
        states = (step.message.provider_state for step in steps)
        self._asks_of_tools = bool(work.runtime.most_tools) or any(s and s.left_out for s in states)
        """True if a model may take fewer tools than the agent has."""
        self._plan = self._with_tools(Plan(first_model(models, steps), prompter.fit))
        self._facts = Facts(0, False, len(models))
        self._lesson: Lesson | None = None
        """The lesson of the last prompt that was too long."""
        self.size = 0
        """The prompt's estimated tokens; 0: no model was asked."""
        self.told: list[Event] = []
        """Events of the way to the reply, to be journaled with the step."""
        self.left_out: dict[str, tuple[str, ...]] = {}
        """By model: what it could not read, as keys of `layover.context.left_out`."""
        self.windows: dict[str, int] = {}
        """The windows that refusals taught, by the names of models."""
        self._is_filtered = False
        self._faults: list[tuple[str, ModelError]] = []
        """By name: the models that were given up, and why."""
        self.offered: frozenset[str] = frozenset()
        """Tools of the request as it was sent. A model may name others: it remembers them, or guesses."""

    @property
    def fell_back_to(self) -> str | None:
        """The model that answered, if it is not the first one."""
        return self._models[self._plan.model] if self._plan.model else None

    async def ask(self) -> Reply:
        """Return the reply to the step's prompt, as hooks change it, or that of a hook in the model's place.
        Raises the last model's ModelError, RunFailed, and OutOfTime if a provider is away."""
        while True:
            request = await self._request()
            if isinstance(request, InPlace):
                return request.as_reply()
            fit = self._plan.fit
            while self._plan.fit == fit:
                try:
                    return await self._reply(request)
                except ModelError as problem:
                    self._recover(problem, request)

    async def _request(self) -> Prompt | InPlace:
        """Return the request of this plan's prompt. Hooks are asked once for each prompt."""
        prompt = self._prompter.prompt(self._work.state)
        self.size = estimated_tokens(prompt)
        self._facts = Facts(self.size, self._prompter.has_recall, len(self._models))
        return await self._around.request(prompt)

    async def _reply(self, request: Prompt) -> Reply:
        """Return the reply to the request. Raises ModelError, also for a reply that answers nothing."""
        plan, name = self._plan, self._models[self._plan.model]
        named_prompt = request.model_copy(
            update={"model": name, "max_requests": self._left, "asks_again": self._asks_again}
        )
        if self._asks_of_tools:
            named_prompt = self._tools.narrow(named_prompt, plan)
        self.offered = frozenset(tool.name for tool in named_prompt.tools)
        if plan.is_filtered:
            self._note(named_prompt, input_keys(named_prompt, self._work.state.meta.input.id))
            return Reply(finish_reason="content-filter", model=name)
        readable = without(named_prompt, known_keys(named_prompt.messages, name))
        omission = plan.trial.omission if plan.trial is not None else None
        prompt = readable if omission is None else without(readable, omission.left_out)
        try:
            reply = await self._complete(await self._attachments.loaded(prompt))
        except ModelError as error:
            self._asks_of_tools = True
            problem = self._tools.problem(named_prompt, error)
            if plan.trial is None and may_be_of_content(problem):
                self._begin_trial(readable, problem)
            raise problem from error.__cause__
        if omission is not None and omission.blamed:
            self._note(prompt, omission.blamed)
        if self._lesson is not None and plan.shortened:
            self._lesson.end(name, plan.fit.budget)
        self._remember(named_prompt, reply)
        return reply

    def _remember(self, prompt: Prompt, reply: Reply) -> None:
        """Have later prompts be without what this one could not have, or should not have had."""
        if self._asks_of_tools:
            self._leave_out(prompt.model, self._tools.news(prompt, self._plan))
        if reply.finish_reason == "content-filter" and not reply.is_refusal:
            self._is_filtered = True
            self._note(prompt, exchange_keys(prompt, self._work.state.meta.input.id))

    async def _complete(self, prompt: Prompt) -> Reply:
        # Ids that an earlier attempt gave belong to calls that do not exist.
        self._names.forget()
        if not self._plan.unanswered:
            await self._day.reserve(prompt)
        # After the wait for room, and after each reply without an answer: a cancel may have come in it, and
        # this call costs money.
        await self._work.invocation.check()
        model = self._work.runtime.model_for(self._work.agent, prompt.model)
        try:
            reply = await model.complete(prompt, self._events.on_delta)
        except ModelError as problem:
            self._left -= problem.requests
            raise
        self._left -= reply.requests
        read = self._read(prompt, reply)
        if self._streams and read is not reply:  # What was streamed is void.
            self._restart()
            for delta in deltas_of(read):
                self._events.on_delta(delta)
        missing = not_an_answer(prompt, read, self._plan.unanswered + 1)
        if missing is None:
            return read
        await self._unused.add(read)
        raise missing

    @cached_property
    def _tools(self) -> "StepTools":
        from layover.engine.models.refused_tools import StepTools

        return StepTools(self._work, self._search)

    def _with_tools(self, plan: Plan) -> Plan:
        """Return the plan with what the run knows of the tools that its model takes."""
        return (
            self._tools.with_earlier(plan, self._models[plan.model])
            if self._asks_of_tools
            else plan
        )

    def _begin_trial(self, readable: Prompt, refusal: ModelError) -> None:
        """Note what the next requests leave out, and why the step ends if that does not help."""
        window = self._work.runtime.window_of(readable.model, readable.settings)
        long = not isinstance(refusal, ContentFiltered) and is_long(readable, window)
        problem = refusal
        if long:
            problem = ContextLengthExceeded(refusal.message, status=refusal.status)
            problem.__cause__ = refusal
        input_id = self._work.state.meta.input.id
        trial = Trial(omissions(readable, refusal, input_id, is_long=long), problem)
        self._plan = replace(self._plan, trial=trial)

    def _recover(self, problem: ModelError, request: Prompt) -> None:
        """Change the plan after a request that failed. Raises the ModelError of which the step fails;
        OutOfTime if the run pauses, since a provider is away."""
        failed, reason = self._plan, cause(self._plan, problem)
        reason.model = reason.model or self._models[failed.model]
        facts = self._facts
        if isinstance(reason, ContextLengthExceeded):
            # Most runs meet none.
            from layover.engine.models.learned import Lesson

            model = self._models[failed.model]
            self._lesson = Lesson(self._work, self.windows, model, request.settings)
            facts = facts._replace(window=self._lesson.begin(problem, facts.size))
        plan = recovered(failed, problem, facts)
        if plan is None or (self._left <= 0 and not plan.is_filtered):
            # Most runs meet no provider that is away.
            from layover.engine.models.away import paused

            self._faults.append((self._models[failed.model], reason))
            raise OutOfTime(paused(self._work, self._faults)) from reason
        if plan.model != failed.model:
            from layover.values.runs.failures import error_of

            self._faults.append((self._models[failed.model], reason))
            index, _ = self._work.state.next_key()
            self.told.append(
                ModelFallback(
                    at=self._work.clock.now(),
                    step=index,
                    from_=self._models[failed.model],
                    to=self._models[plan.model],
                    error=error_of(reason),
                )
            )
            plan = self._with_tools(plan)
        elif isinstance(problem, ToolsRefused) and plan.no_tools != failed.no_tools:
            self.told.append(self._tools.event(problem, self._models[plan.model]))
        self._plan, self._prompter.fit = plan, plan.fit
        # Nothing of an answer comes before a provider says that the prompt is too long.
        if plan.fit == failed.fit and (plan.model == failed.model or self._streams):
            self._restart()

    def left_out_behind(self, message_id: str) -> dict[str, tuple[str, ...]]:
        """Return `left_out` as the answer has it that gets this id: a filtered one is left out as well."""
        if not self._is_filtered:
            return self.left_out
        own = answer_key(message_id)
        return {model: (*keys, own) for model, keys in self.left_out.items()}

    def _leave_out(self, model: str, keys: frozenset[str]) -> None:
        if keys:
            self.left_out[model] = tuple(sorted({*self.left_out.get(model, ()), *keys}))

    def _note(self, prompt: Prompt, keys: frozenset[str]) -> None:
        self._leave_out(prompt.model, keys)
        facts = {"run_id": prompt.run_id, "pieces": len(keys)}
        logger.warning("%s cannot read some of the thread: left out", prompt.model, extra=facts)

    def _restart(self) -> None:
        """Take back what was told of a reply that is not the step's."""
        self._events.on_delta(Delta(kind="restart"))
