"""`before_model` and `after_model` of a step."""

import hashlib
from collections.abc import Sequence
from typing import Any

from layover.context.hooked import (
    request_of,
    response_of,
    validate_answer,
    with_request,
    with_response,
)
from layover.declare.context import Retry
from layover.declare.hooks.base import (
    AskModel,
    HookContext,
    ModelRequest,
    defines,
    is_once_per_input,
)
from layover.declare.schemas.render import jsonable
from layover.engine.hooks.frame_hooks import FrameHooks, ask_hook
from layover.engine.hooks.replies import InPlace, reply_of, unanswered
from layover.engine.hooks.stream_changes import StreamChanges
from layover.errors import RetryableError, RunFailed
from layover.values.base import Json, compact_json
from layover.values.message import Message
from layover.values.prompt import Prompt, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import MAX_ATTEMPTS
from layover.values.text import sanitise

MAX_RETRIES = 2
"""The limit of retries in a row."""


class ReplyRejected(Exception):
    """A hook rejects the reply. The text tells the model why, with the next request."""


class AroundModel:
    """The hooks around one step's model call. `history`: the messages before the run's input; `models`:
    answers questions of the hooks."""

    def __init__(self, hooks: FrameHooks, history: Sequence[Message], models: AskModel) -> None:
        self._hooks = hooks
        self._models = models
        self._history = history
        self._ctx: HookContext | None = None
        self.in_place: InPlace | None = None
        """The reply of a hook in the model's place."""

    @property
    def holds_back(self) -> bool:
        """True if nothing of a reply may be streamed before hooks have seen it whole."""
        hooks = self._hooks.at("after_model")
        return not all(defines(hook, "stream_text") for _, hook in hooks)

    @property
    def stream_changes(self) -> StreamChanges | None:
        """The hooks' changes of one reply while it is streamed; None if there are none."""
        hooks = [hook for _, hook in self._hooks.at("after_model")]
        return StreamChanges(hooks, self._context) if hooks else None

    async def request(self, prompt: Prompt) -> Prompt | InPlace:
        """Return the request as hooks changed it, or the reply of one in the model's place, after which no
        other is asked. A journaled answer is used again instead of another call of the hooks. Raises
        RunFailed if a hook fails."""
        hooks = self._hooks.at("before_model")
        if not hooks:
            return prompt
        ctx = self._context()
        records = self._hooks.journaled("before_model")
        journaled_answers = [a for record in records for a in record["answers"]]
        fresh: list[dict[str, Any]] = []
        request = first = request_of(prompt, self._unanswered())
        for name, hook in hooks:
            once = is_once_per_input(hook)
            if once and not request.unanswered:
                continue
            if getattr(hook, "idempotent", False):
                answer = await self._ask_hook(hook, ctx, request)
                if isinstance(answer, InPlace):
                    return self._replied(answer)
                request = answer
                continue
            about = {
                "hook": name,
                "request": _digest_of_input(request) if once else _digest(request),
            }
            stored_answer = next((a for a in journaled_answers if about.items() <= a.items()), None)
            if stored_answer is None:
                answer = await self._ask_hook(hook, ctx, request)
                if isinstance(answer, InPlace):
                    # It is journaled with the step, as the next thing that happens.
                    return self._replied(answer)
                stored_answer = {**about, "change": _change(request, answer)}
                fresh.append(stored_answer)
            # The first attempt sends the same request as a later one, which reads it from the journal.
            request = _changed(request, stored_answer["change"])
        await self._keep(fresh, attempts=len(records))
        return prompt if request is first else with_request(prompt, request)

    async def _keep(self, fresh: Sequence[dict[str, Any]], *, attempts: int) -> None:
        """Journal new answers of hooks, for the next attempt. A write counts as progress: a request that
        differs at each attempt must not be tried for ever."""
        if not fresh or attempts >= MAX_ATTEMPTS:
            return
        await self._hooks.keep("before_model", {"answers": fresh})

    async def judge_long_input(self) -> InPlace | None:
        """Return the reply of a hook to an input for which there is no request, because it is too long for
        the model; None: it fails the run. Only hooks that judge inputs, and cost nothing, are asked."""
        new = self._unanswered() if self._hooks.at("before_model") else ()
        if not new:
            return None
        request = ModelRequest(model="", messages=new, unanswered=new)
        for _, hook in self._hooks.at("before_model"):
            if is_once_per_input(hook) and getattr(hook, "idempotent", False):
                answer = await self._ask_hook(hook, self._context(), request)
                if isinstance(answer, InPlace):
                    return self._replied(answer)
        return None

    def _replied(self, reply: InPlace) -> InPlace:
        self.in_place = reply
        return reply

    def _unanswered(self) -> tuple[Message, ...]:
        work = self._hooks.work
        state = work.state
        own = (state.meta.input, *state.response(), *state.heard, *state.notices)
        # An agent that got the conversation has read nothing of the run yet.
        is_new = all(step.agent not in ("", work.agent.name) for step in state.steps)
        others = {step.message.id for step in state.steps} if is_new else set()
        return unanswered((*self._history, *own), others)

    def _context(self) -> HookContext:
        self._ctx = self._ctx or self._hooks.context(self._models)
        return self._ctx

    async def _ask_hook(
        self, hook: Any, ctx: HookContext, request: ModelRequest
    ) -> ModelRequest | InPlace:
        try:
            answer = await ask_hook(hook, "before_model", ctx, request)
            work = self._hooks.work
            reply = reply_of(hook, answer, request, work.agent, work.state.meta.input.id)
            if reply is not None:
                return reply
            changed = validate_answer(answer, request)
            if changed is not request and is_once_per_input(hook):
                raise TypeError(
                    "it changed the request, which a hook that is asked once per input cannot"
                )
        except (RetryableError, RunFailed):
            raise
        except Exception as error:
            raise self._hooks.failed(hook, "before_model", error) from error
        return changed

    async def response(self, reply: Reply) -> Reply:
        """Return the reply that is stored. Raises ReplyRejected if a hook rejects it, and RunFailed."""
        response = first = response_of(reply)
        for _, hook in self._hooks.at("after_model"):
            ctx = self._context()
            try:
                response = validate_answer(
                    await ask_hook(hook, "after_model", ctx, response), response
                )
            except Retry as again:
                raise ReplyRejected(sanitise(str(again))) from again
            except RetryableError:
                raise
            except Exception as error:
                raise self._hooks.failed(hook, "after_model", error) from error
        return reply if response is first else with_response(reply, response)


def refused_in_a_row(verdicts: list[str]) -> int:
    """Return how many of the newest steps in a row hooks have rejected."""
    newest = next((n for n, verdict in enumerate(reversed(verdicts)) if verdict != "hook"), None)
    return len(verdicts) if newest is None else newest


def too_many_rejections(message: str | None, run_id: str) -> RunFailed:
    """Return the failure of a run whose replies hooks reject."""
    problem = f"a hook rejected the model's reply and all {MAX_RETRIES} retries: {message}"
    return RunFailed(problem, type="RetriesUsedUp", run_id=run_id)


def _stored(message: Message) -> dict[str, Any]:
    """Return a message with the fields that its JSON leaves out, except the provider's own."""
    return {**message.model_dump(mode="json"), "model_output": message.model_output}


def _digest(request: ModelRequest) -> str:
    facts = request.model_dump(mode="json", exclude={"messages", "unanswered"}, fallback=str)
    facts["messages"] = [_stored(m) for m in request.messages]
    return _hash(facts)


def _digest_of_input(request: ModelRequest) -> str:
    return _hash({"unanswered": [_stored(m) for m in request.unanswered]})


def _hash(facts: dict[str, Any]) -> str:
    text = compact_json(jsonable(facts))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _change(before: ModelRequest, after: ModelRequest) -> dict[str, Json] | None:
    """Return the difference as JSON: unchanged parts by name, new parts whole; None if nothing changed."""
    change: dict[str, Json] = {}
    if after.system != before.system:
        change["system"] = after.system
    if after.settings != before.settings:
        change["settings"] = after.settings.model_dump(
            mode="json", exclude_unset=True, fallback=str
        )
    if after.tools != before.tools:
        tools_by_name = {t.name: t for t in before.tools}
        change["tools"] = [
            t.name if tools_by_name.get(t.name) == t else t.model_dump(mode="json")
            for t in after.tools
        ]
    if after.messages != before.messages:
        messages_by_id = {m.id: m for m in before.messages}
        change["messages"] = [
            m.id if messages_by_id.get(m.id) == m else _stored(m) for m in after.messages
        ]
    return jsonable(change) if change else None


def _changed(request: ModelRequest, change: dict[str, Any] | None) -> ModelRequest:
    """The inverse of `_change`."""
    if change is None:
        return request
    update: dict[str, Any] = {}
    if "system" in change:
        update["system"] = change["system"]
    if "settings" in change:
        # An unknown field is an error in an author's message, but not in one that a later release stored.
        tools_by_name = {
            k: v for k, v in change["settings"].items() if k in ModelSettings.model_fields
        }
        update["settings"] = ModelSettings.model_validate(tools_by_name)
    if "tools" in change:
        tools = {t.name: t for t in request.tools}
        update["tools"] = tuple(
            tools[t] if isinstance(t, str) else ToolSpec.model_validate(t) for t in change["tools"]
        )
    if "messages" in change:
        messages_by_id = {m.id: m for m in request.messages}
        update["messages"] = tuple(
            messages_by_id[m] if isinstance(m, str) else _message(m, messages_by_id)
            for m in change["messages"]
        )
    return request.model_copy(update=update)


def _message(stored: dict[str, Any], messages_by_id: dict[str, Message]) -> Message:
    """Return a changed message with the state that its provider wants back."""
    message, before = Message.model_validate(stored), messages_by_id.get(stored["id"])
    state = before.provider_state if before else None
    return message.model_copy(update={"provider_state": state})
