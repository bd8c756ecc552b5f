"""The requests of one step, until a model has answered it. From the outside in: the hooks change the request,
one model after another is asked, each without the content that it cannot read, and again if its reply
answers nothing."""

from collections.abc import Callable, Sequence

from layover.engine.attachments import Attachments
from layover.engine.frame_core import FrameCore
from layover.engine.hooks.around_model import AroundModel
from layover.engine.hooks.replies import InPlace
from layover.engine.models.day_room import DayRoom
from layover.engine.models.empty_reply import ask_until_answered
from layover.engine.models.fallback import Fallback
from layover.engine.models.refused_content import RefusedContent
from layover.engine.models.reply_events import CallNames, ReplyEvents
from layover.engine.models.unused_replies import UnusedReplies
from layover.values.prompt import Delta, Prompt, Reply
from layover.values.runs.event import ModelFallback

ReadText = Callable[[Prompt, Reply], Reply]
"""Reads a text as the call that it is; returns the same reply if it is anything else."""


class StepRequests:
    """Asks for one step's reply. `ask` is for `Prompter.complete`; the properties say how the reply came
    about."""

    def __init__(
        self,
        core: FrameCore,
        *,
        models: Sequence[str],
        around: AroundModel,
        day: DayRoom,
        attachments: Attachments,
        names: CallNames,
        events: ReplyEvents,
        streams: bool,
        read_text: ReadText,
    ) -> None:
        self._core = core
        self._around = around
        self._day = day
        self._attachments = attachments
        self._names = names
        self._events = events
        self._streams = streams
        self._read_text = read_text
        self._unused = UnusedReplies(core)
        index, _ = core.state.next_key()
        self._fallback = Fallback(models, core.state.steps, index)
        self._content = RefusedContent(
            self._ask_readable, self._restart, core.state.meta.input.id, core.runtime.window_of
        )
        self.offered: frozenset[str] = frozenset()
        """Tools of the request, as hooks left it. A model may name others: it remembers them, or guesses."""

    @property
    def fallbacks(self) -> Sequence[ModelFallback]:
        """The fallbacks that happened, to be journaled with the step."""
        return self._fallback.events

    @property
    def fell_back_to(self) -> str | None:
        """The model that answered, if it is not the first one."""
        return self._fallback.fell_back_to

    @property
    def left_out(self) -> dict[str, tuple[str, ...]]:
        """By model: what it could not read, as keys of `layover.context.left_out`."""
        return self._content.left_out

    async def ask(self, prompt: Prompt) -> Reply:
        """Return the reply to the prompt, as hooks change it, or that of a hook in the model's place. Raises
        the last model's ModelError, and RunFailed."""
        request = await self._around.request(prompt)
        if isinstance(request, InPlace):
            return request.as_reply()
        self.offered = frozenset(tool.name for tool in request.tools)
        return await self._fallback.reply(request, self._ask_model, self._core.clock.now)

    async def _ask_model(self, prompt: Prompt) -> Reply:
        if self._streams and self._fallback.events:  # Whatever the previous model said is void.
            self._restart()
        return await self._content.complete(prompt)

    async def _ask_readable(self, request: Prompt) -> Reply:
        prompt = await self._attachments.loaded(request)
        # Ids that an earlier attempt gave belong to calls that do not exist.
        self._names.forget()
        await self._day.reserve(prompt)
        return await ask_until_answered(
            prompt, self._ask_once, self._restart, on_unused=self._unused.add
        )

    async def _ask_once(self, prompt: Prompt) -> Reply:
        # Once more after the wait for room, and after a reply without an answer: a cancel may have come in
        # it, and this call costs money.
        await self._core.stopping.check()
        model = self._core.runtime.model_for(self._core.agent, prompt.model)
        reply = await model.complete(prompt, self._events.on_delta)
        read = self._read_text(prompt, reply)
        if self._streams and read is not reply:  # The text that was streamed is void.
            self._restart()
            for at, call in enumerate(read.calls):
                delta = Delta("tool-call", call.args, call=at, tool_name=call.name)
                self._events.on_delta(delta)
        return read

    def _restart(self) -> None:
        self._events.on_delta(Delta(kind="restart"))
