"""Requests and replies as hooks see them, and memory's own requests, which some hooks see."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from layover.declare.agent import Agent
from layover.declare.blocking import call_author
from layover.declare.hooks.base import (
    Answer,
    HookContext,
    ModelCall,
    ModelRequest,
    ModelResponse,
    Refuse,
    defines,
    is_everywhere,
    name_of,
)
from layover.declare.schemas.render import jsonable, message_of
from layover.errors import RunFailed
from layover.ports import Embedder
from layover.runtime import Runtime
from layover.values.base import Json, Value, compact_json, strict_json
from layover.values.message import Message
from layover.values.prompt import Embedded, Prompt, Reply, RequestedCall
from layover.values.runs.run import RunMeta

V = TypeVar("V", bound=Value)


_CHANGEABLE = ("system", "messages", "tools", "settings")


def request_of(prompt: Prompt, unanswered: tuple[Message, ...] = ()) -> ModelRequest:
    """Return a prompt as hooks see it. `unanswered`: the users' messages that no model has answered, as they
    were sent."""
    fields = {name: getattr(prompt, name) for name in ("model", *_CHANGEABLE)}
    return ModelRequest.model_construct(**fields, unanswered=unanswered)


def with_request(prompt: Prompt, request: ModelRequest) -> Prompt:
    """Return the prompt as hooks changed it."""
    return prompt.model_copy(update={name: getattr(request, name) for name in _CHANGEABLE})


def response_of(reply: Reply) -> ModelResponse:
    """Return a reply as hooks see it."""
    calls = tuple(
        ModelCall(id=c.id, name=c.name, args=_decoded(c.args), state=c.state) for c in reply.calls
    )
    return ModelResponse(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=calls,
        finish_reason=reply.finish_reason,
        model=reply.model,
        usage=reply.usage,
    )


def with_response(reply: Reply, response: ModelResponse) -> Reply:
    """Return the reply as hooks changed it."""
    calls = tuple(
        RequestedCall(
            id=c.id,
            name=c.name,
            args=c.args if isinstance(c.args, str) else compact_json(jsonable(c.args)),
            state=c.state,
        )
        for c in response.calls
    )
    update = {"text": response.text, "reasoning": response.reasoning, "calls": calls}
    return reply.model_copy(update=update)


def _decoded(args: str) -> Json:
    try:
        value = strict_json(args) if args.strip() else {}
    except (ValueError, RecursionError):
        return args
    return value if isinstance(value, dict) else args


def validate_answer(answer: Any, before: V) -> V:
    """Return a hook's answer as a validated value; `before` if it answered None. Raises TypeError."""
    if answer is None:
        return before
    kind = type(before)
    if not isinstance(answer, kind):
        message = f"it returned {type(answer).__name__}, not a changed copy of {kind.__name__}"
        raise TypeError(message)
    try:
        # `model_copy` validates nothing.
        return kind.model_validate(dict(answer))
    except ValidationError as error:
        fields = dict.fromkeys(
            str(e["loc"][0]) for e in error.errors(include_url=False) if e["loc"]
        )
        names = ", ".join(fields)
        raise TypeError(f"it returned a {kind.__name__} with invalid fields: {names}") from error


async def ask_model(runtime: Runtime, agent: Agent, meta: RunMeta, prompt: Prompt) -> Reply:
    """Return the model's reply to a request of memory, made for a run of this agent. Hooks that are
    `everywhere` change both. Raises LayoverError: the model's, or RunFailed if a hook fails; then
    the request is not sent."""
    with runtime.tracing.memory(meta, prompt.task, agent.name):
        return await complete_hooked(runtime, agent, meta, prompt)


async def complete_hooked(runtime: Runtime, agent: Agent, meta: RunMeta, prompt: Prompt) -> Reply:
    """Return the model's reply to a request that is not a step's. Hooks that are `everywhere` change both.
    Raises as `ask_model`."""
    hooks = [hook for hook in (*agent.hooks, *agent.hooks_above) if is_everywhere(hook)]
    if not hooks:
        return await runtime.model_for(agent, prompt.model).complete(prompt)
    ctx = HookContext(
        run_id=meta.id,
        thread_id=meta.thread_id if meta.thread_given else None,
        resource_id=meta.owner,
        agent_name=agent.name,
        metadata={},
        now=runtime.clock.now(),
        groups=meta.groups,
        scopes=meta.scopes,
    )
    request = await _changed(hooks, "before_model", ctx, request_of(prompt))
    changed = with_request(prompt, request)
    reply = await runtime.model_for(agent, changed.model).complete(changed)
    response = await _changed(hooks, "after_model", ctx, response_of(reply))
    return with_response(reply, response)


@dataclass(frozen=True)
class HookedEmbedder:
    """`ports.Embedder` that reads texts as the hooks of an agent change them."""

    embedder: Embedder
    agent: Agent

    @property
    def model(self) -> str:
        """See `ports.Embedder`."""
        return self.embedder.model

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """See `ports.Embedder`. If a hook raises, raises the same and sends nothing."""
        return await self.embedder.embed([await embedded_text(self.agent, t) for t in texts])


async def embedded_text(agent: Agent, text: str) -> str:
    """Return a text in the form that an embedder may read."""
    for hook in _asked_before_embedding(agent):
        answer = await call_author(hook.before_embedding, text)
        text = text if answer is None else str(answer)
    return text


def hooked_embedder(agent: Agent | None, embedder: Embedder | None) -> Embedder | None:
    """Return the embedder, which reads texts as the agent's hooks change them."""
    if agent is None or embedder is None or not _asked_before_embedding(agent):
        return embedder
    return HookedEmbedder(embedder, agent)


def _asked_before_embedding(agent: Agent) -> list[Any]:
    hooks = (*agent.hooks, *agent.hooks_above)
    return [h for h in hooks if is_everywhere(h) and defines(h, "before_embedding")]


async def _changed(hooks: list[Any], point: str, ctx: HookContext, value: V) -> V:
    for hook in hooks:
        if not defines(hook, point):
            continue
        try:
            answer = await call_author(getattr(hook, point), ctx, value)
            if isinstance(answer, Answer | Refuse):
                raise TypeError(
                    "it answered in the model's place, which only a run's own request has"
                )
            value = validate_answer(answer, value)
        except Exception as error:
            message = f"{point} of the hook {name_of(hook)!r} failed: {message_of(error)}"
            kind = type(error).__name__
            raise RunFailed(message, type=kind, is_internal=True, run_id=ctx.run_id) from error
    return value
