"""One model call, journaled: prompt, reply, assistant message, the slots of its tool messages."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError

from layover.clock import MICROSECOND
from layover.context.assembly import models_of
from layover.context.tokens import output_tokens
from layover.declare.agent import Agent
from layover.declare.schemas.render import MAX_PROBLEM, describe, format_error, jsonable
from layover.declare.tools.tool import AnyTool
from layover.engine.attachments import Attachments
from layover.engine.definition import definition_of
from layover.engine.frames.output import cut_note, with_verdict
from layover.engine.hooks.around_model import AroundModel, ReplyRejected
from layover.engine.hooks.frame_hooks import FrameHooks
from layover.engine.hooks.replies import in_place_of_model
from layover.engine.models.answers import with_thoughts_as_answer
from layover.engine.models.asking import StepRequests
from layover.engine.models.day_room import DayRoom
from layover.engine.models.hook_questions import ask_for_hook
from layover.engine.models.reply_events import CallNames, ReplyEvents
from layover.engine.models.text_calls import with_meant_names, with_text_call
from layover.engine.models.unused_replies import priced
from layover.engine.progress import OutOfTime
from layover.engine.prompter import InputTooLong, Prompter
from layover.engine.tools.calls import Calls
from layover.engine.work import RunWork
from layover.errors import RunFailed
from layover.values.base import strict_json
from layover.values.message import (
    Message,
    Part,
    ProviderState,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
)
from layover.values.prompt import Prompt, Reply
from layover.values.runs.event import TurnStart
from layover.values.runs.run import SEARCH_TOOL, StepRecord, ToolMessageSlot
from layover.values.runs.usage import Usage
from layover.values.text import sanitise

MAX_ID = 256
"""Bytes of a call's id, percent-encoded, as it is in sort keys (1,024 bytes at most) and in paths."""
MAX_NESTED_ID = 64
"""The same for a sub-agent's call: the key of a call at the greatest depth has six ids."""


class ModelStep:
    """Makes the steps of one frame. `built_in`: the tools that the agent has in addition to its own.
    `declared`: the agent without the tools that the run asked its servers for."""

    def __init__(
        self,
        work: RunWork,
        prompter: Prompter,
        hooks: FrameHooks,
        calls: Calls,
        *,
        built_in: Sequence[AnyTool],
        declared: Agent,
    ) -> None:
        self._work = work
        self._runtime = work.runtime
        self._state = work.state
        self._agent = work.agent
        self._prompter = prompter
        self._attachments = Attachments(work.run_files.files)
        self._hooks = hooks
        self._calls = calls
        self._built_in = built_in
        self._declared = declared
        self._day = DayRoom(work)

    async def make(self) -> StepRecord:
        """Call the model for the next step, and journal its answer. Raises RunFailed, OutOfTime."""
        index, key = self._state.next_key()
        clock = self._runtime.clock
        self._work.emit(TurnStart(at=clock.now(), step=index))
        models = partial(ask_for_hook, self._work)
        around = AroundModel(self._hooks, self._prompter.history, models)
        streams = self._state.meta.stream and not around.holds_back
        longest = MAX_NESTED_ID if self._state.path else MAX_ID
        names = CallNames(self._state.call_ids, self._runtime.ids, longest)
        changes = around.stream_changes if streams else None
        reply_events = ReplyEvents(
            self._work.emit, index, clock, names, self._agent, streams=streams, changes=changes
        )

        requests = StepRequests(
            self._work,
            self._prompter,
            models=models_of(self._agent, self._runtime.settings, self._state.meta),
            around=around,
            day=self._day,
            attachments=self._attachments,
            names=names,
            events=reply_events,
            streams=streams,
            read=self._as_meant,
            search=next((t.spec for t in self._built_in if t.name == SEARCH_TOOL), None),
        )
        # Until the journal has the reply, a death loses it: the next attempt asks the model again and pays
        # again. Nothing has acted on the reply, because tools begin only after `put_step`.
        async with self._day.released():
            try:
                models_reply = await self._complete(around, requests)
            except (RunFailed, OutOfTime):
                self._work.emit(*requests.told)
                raise
            # Hooks come before the record: the journal has the reply as they changed or rejected it, and a
            # replay sees the same.
            reply, problem = await self._ask_hooks(around, models_reply)
            step = self._record(index, key, reply, names, requests)
            more = {"correction": problem, "verdict": "hook"} if problem is not None else {}
            step = step.model_copy(update={"fell_back_to": requests.fell_back_to, **more})
            if around.in_place is not None:
                step = in_place_of_model(step, around.in_place.record)
            # The validator is the author's code and may act: it is asked once, and its verdict is journaled
            # with the answer that it judged.
            if step.is_answer:
                step = await with_verdict(
                    self._agent, self._state, self._prompter.memory.base, step, clock.now()
                )
            self._runtime.allowance.note(self._state.meta.owner, step.counts_as)
            if step.replied is not None:
                if self._state.meta.stream:
                    reply_events.tell(step)
            elif problem is not None:
                reply_events.reject()
            elif self._state.meta.stream:
                reply_events.finish(models_reply, step)
            begins = self._calls.first_window(step)
            heeds = self._calls.heeds
            await self._work.put_step(step, *requests.told, begins=begins, heeds=heeds)
        return step

    async def _complete(self, around: AroundModel, requests: StepRequests) -> Reply:
        """Return the reply. Raises RunFailed."""
        try:
            return await requests.ask()
        except InputTooLong:
            in_place = await around.judge_long_input()
            if in_place is None:
                raise
            requests.size = 0
            return in_place.as_reply()

    def _as_meant(self, prompt: Prompt, reply: Reply) -> Reply:
        reply = with_meant_names(reply, [tool.name for tool in prompt.tools])
        if self._agent.output is not None:
            reply = with_thoughts_as_answer(reply, lambda each: self._correction(each) is None)
        if not prompt.settings.text_calls:
            return reply
        is_output = self._agent.output is not None and self._correction(reply) is None
        tools = [*self._agent.tools, *self._built_in]
        return with_text_call(prompt, reply, tools, is_output=is_output)

    async def _ask_hooks(self, around: AroundModel, reply: Reply) -> tuple[Reply, str | None]:
        """Return the reply that is stored, and the hooks' text for the model if they reject it."""
        if around.in_place is not None:
            return reply, None
        try:
            return await around.response(reply), None
        except ReplyRejected as again:
            return reply.model_copy(update={"calls": ()}), str(again)

    def _record(
        self,
        index: int,
        key: str,
        reply: Reply,
        names: CallNames,
        requests: StepRequests,
    ) -> StepRecord:
        state, ids, base = self._state, self._runtime.ids, self._prompter.memory.base
        created_at, message_id = state.next_time(self._runtime.clock.now()), ids.new("msg")
        calls = [
            ToolCallPart(
                tool_call_id=names.of(at, call.id),
                tool_name=sanitise(call.name),
                args=_decoded(call.args),
            )
            for at, call in enumerate(reply.calls)
        ]
        message = Message(
            id=message_id,
            thread_id=state.meta.thread_id,
            run_id=state.run_id,
            parent_id=state.newest_id(),
            role=Role.ASSISTANT,
            content=_content(reply, calls),
            created_at=created_at,
            provider_state=_state(reply, calls, requests.left_out_behind(message_id)),
        )
        slots = tuple(
            ToolMessageSlot(
                tool_call_id=call.tool_call_id,
                message_id=ids.new("msg"),
                created_at=created_at + (i + 1) * MICROSECOND,
                offered=call.tool_name in requests.offered,
            )
            for i, call in enumerate(calls)
        )
        return StepRecord(
            key=key,
            index=index,
            message=message,
            usage=priced(self._runtime, reply.model, reply.usage),
            estimated=self._estimated(reply, requests.size, message),
            model=reply.model,
            finish_reason=reply.finish_reason,
            slots=slots,
            notices=state.notices,
            heard=state.heard,
            heard_through=state.hears,
            estimated_tokens=requests.size,
            base=base if base != state.base else None,
            correction=None if slots else self._correction(reply),
            asked_through=state.asked_through,
            windows=requests.windows,
            agent=self._agent.name,
            definition="" if state.steps or state.path else definition_of(self._declared),
        )

    def _correction(self, reply: Reply) -> str | None:
        """Return the message to a model whose reply does not fit the agent's output; None if the reply
        fits, or was withheld (`StepRecord.is_withheld`)."""
        if self._agent.output is None or reply.finish_reason == "content-filter":
            return None
        try:
            jsonable(self._agent.parse_output(sanitise(reply.text)))
        except Exception as error:  # an author's validator may raise anything
            what = describe(error) if isinstance(error, ValidationError) else format_error(error)
            what = cut_note(reply.finish_reason) + what
            return sanitise(
                "Your answer does not fit the required JSON schema. Answer again with JSON that "
                f"fits it, and nothing else. What is wrong: {what[:MAX_PROBLEM]}"
            )
        return None

    def _estimated(self, reply: Reply, size: int, message: Message) -> Usage | None:
        if reply.usage.total_tokens:
            return None
        estimate = {"input_tokens": size, "output_tokens": output_tokens(message)}
        return priced(self._runtime, reply.model, reply.usage.model_copy(update=estimate))


def _decoded(args: str) -> Any:
    """Return the decoded arguments; anything but a JSON object stays as the model wrote it. No store takes
    NUL and lone surrogates, and JSON has neither NaN nor infinities."""
    if not args.strip():
        return {}
    try:
        value = strict_json(args)
        return jsonable(value) if isinstance(value, dict) else sanitise(args)
    except (ValueError, RecursionError):
        return sanitise(args)


def _state(
    reply: Reply, calls: list[ToolCallPart], left_out: dict[str, tuple[str, ...]]
) -> ProviderState | None:
    """Return the state that the provider wants back, by the calls' own ids, and what models could not
    read."""
    pairs = zip(calls, reply.calls, strict=True)
    of_calls = {part.tool_call_id: call.state for part, call in pairs if call.state}
    if not reply.state and not of_calls and not left_out:
        return None
    return ProviderState(
        provider=reply.provider,
        model=reply.asked_model,
        fields=reply.state,
        calls=of_calls,
        left_out=left_out,
    )


def _content(reply: Reply, calls: list[ToolCallPart]) -> tuple[Part, ...]:
    parts: list[Part] = []
    if reply.reasoning:
        parts.append(ReasoningPart(text=sanitise(reply.reasoning)))
    parts += reply.data
    if reply.text:
        parts.append(TextPart(text=sanitise(reply.text)))
    return (*parts, *calls)
