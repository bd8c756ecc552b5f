"""Assembles the prompt, stable parts first (docs/behaviour.md#prompt-order)."""

import hashlib
from collections.abc import Collection, Sequence
from datetime import timedelta

from layover.context.fit import fit
from layover.context.rendering import render_notices
from layover.context.repair import without_orphans
from layover.context.tokens import estimate, total_tokens
from layover.declare.agent import Agent
from layover.values.deployment.settings import Settings
from layover.values.memory.rendered import RenderedMemory
from layover.values.message import FilePart, Message, Part, Role, TextPart
from layover.values.prompt import Prompt, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import RunMeta, StepRecord


def build_prompt(
    *,
    agent: Agent,
    settings: Settings,
    run: RunMeta,
    memory: RenderedMemory,
    history: Sequence[Message],
    own: Sequence[Message],
    steps: Sequence[StepRecord],
    tools: Sequence[ToolSpec],
    budget: int,
    model_settings: ModelSettings | None = None,
    heard: Collection[str] = (),
) -> Prompt:
    """Return the request of a run's next step: one system message, history, the run's input, its own steps.
    `history` and `own` are sendable and without what is compacted; `own` has the messages of other runs
    that the run has heard (`heard`: their ids). `budget`: tokens that the messages
    may have, by estimate. `model_settings`: None are the agent's own. Raises `fit.TooLong`."""
    system = _system(agent, memory)
    input_message = render_input(run.input, memory.volatile, agent.memory.query_template)
    room = messages_room(agent, memory, tools, budget)
    messages = _with_lead(fit(history, input_message, own, room, heard), memory.block)
    return Prompt(
        model=model_of(agent, settings, run),
        system=system or None,
        messages=tuple(messages),
        tools=tuple(tools),
        output=agent.output_spec,
        stream=run.stream,
        task="turn",
        run_id=run.id,
        settings=_step_settings(model_settings or agent.model_settings, run, steps),
        api=agent.api,
        provider_tools=agent.provider_tools,
        cache_key=cache_key(run.thread_id),
    )


def model_of(agent: Agent, settings: Settings, run: RunMeta) -> str:
    """Return the model that answers a run: its own choice, else its agent's, else the deployment's."""
    return run.choice.model or agent.model or settings.model


def patience_of(agent: Agent, settings: Settings) -> timedelta:
    """Return the time for which the agent's runs wait for a provider that is away."""
    own = agent.limits.provider_patience if agent.limits is not None else None
    return settings.provider_patience if own is None else own


def models_of(agent: Agent, settings: Settings, run: RunMeta) -> tuple[str, ...]:
    """Return all models that may answer a run, in the order in which they are called. A run that chose a
    model has only that one."""
    first = model_of(agent, settings, run)
    return (first,) if run.choice.model else (first, *agent.fallbacks)


def _step_settings(
    settings: ModelSettings, run: RunMeta, steps: Sequence[StepRecord]
) -> ModelSettings:
    """Return the settings of a step. A setting that forces a call applies once, because a model that has to
    make a call at each step never answers."""
    result = run.choice.apply(settings)
    if steps and result.tool_choice not in (None, "auto", "none"):
        return result.model_copy(update={"tool_choice": "auto"})
    return result


def messages_room(
    agent: Agent, memory: RenderedMemory, tools: Sequence[ToolSpec], budget: int
) -> int:
    """Return the tokens of a prompt's budget that are left for its messages."""
    overhead = estimate(_system(agent, memory)) + estimate(memory.block)
    return budget - overhead - tool_tokens(tools)


def tool_tokens(tools: Sequence[ToolSpec]) -> int:
    """Return the tokens of the description of tools."""
    return sum(estimate(str(t.parameters)) for t in tools)


def _system(agent: Agent, memory: RenderedMemory) -> str:
    own = agent.instructions if isinstance(agent.instructions, str) else ""
    instructions = own if memory.instructions is None else memory.instructions
    return "\n\n".join(filter(None, (instructions, memory.system)))


def drop_compacted(
    history: Sequence[Message],
    input_message: Message,
    response: Sequence[Message],
    through: str | None,
    left_out: Collection[str] = (),
) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the messages of a run's history and its own messages, except those covered by its compaction,
    which ends with the message `through` and does not stand for those `left_out`. The run's input always
    stays in its prompts."""
    if through is None:
        return history, response
    own = _after(response, through, left_out)
    if goes_beyond_input(input_message, response, through, left_out):
        return [m for m in history if is_left_out(m, left_out)], own
    return _after(history, through, left_out), own


def is_left_out(message: Message, ids: Collection[str]) -> bool:
    """Return whether a prompt has the message although its compaction goes further. `ids`: what that leaves
    out, without the results that are made for calls that wait."""
    return message.id in ids or (message.role is Role.TOOL and message.parent_id in ids)


def goes_beyond_input(
    input_message: Message,
    response: Sequence[Message],
    through: str | None,
    left_out: Collection[str] = (),
) -> bool:
    """Return whether a compaction that ends with the message `through` goes as far as a run's input, or
    further. It leaves out only what it passes."""
    own = (input_message, *response)
    return any(m.id == through or is_left_out(m, left_out) for m in own)


def _after(
    messages: Sequence[Message], through: str | None, left_out: Collection[str]
) -> Sequence[Message]:
    place = next((i for i, m in enumerate(messages) if m.id == through), None)
    if place is None:
        return messages
    stay = (m for m in messages[:place] if is_left_out(m, left_out))
    return [*stay, *messages[place + 1 :]]


def _with_lead(messages: list[Message], block: str) -> list[Message]:
    """Return the messages with the block as the leading part of the first user message: data, with a user's
    authority. A history that begins with an answer gets a separate message for the block."""
    if not block:
        return messages
    first, lead = messages[0], TextPart(text=block)
    if first.role is Role.USER:
        return [first.with_content((lead, *first.content)), *messages[1:]]
    lead_message = first.with_content(
        (lead,), role=Role.USER, id=f"{first.id}.o", model_output=None
    )
    return [lead_message, *messages]


def estimated_tokens(prompt: Prompt) -> int:
    """Return the prompt's estimated size. The provider's own count of it corrects the next estimate."""
    tools = sum(estimate(str(t.parameters)) + estimate(t.description) for t in prompt.tools)
    return estimate(prompt.system or "") + tools + total_tokens(prompt.messages)


def cache_key(thread_id: str) -> str:
    """Return `prompt_cache_key`: requests of one thread belong together."""
    return hashlib.sha256(thread_id.encode()).hexdigest()[:32]


def render_input(message: Message, volatile: str, template: str | None) -> Message:
    """Return the run's input as one user message: a volatile part, then files, then the text."""
    texts = [p for p in message.content if isinstance(p, TextPart) and p.text]
    if template is not None:
        texts = [TextPart(text=template.replace("{{query}}", message.text))]
    content: list[Part] = [TextPart(text=volatile)] if volatile else []
    content += [p for p in message.content if isinstance(p, FilePart)]
    content += texts
    return message.with_content(tuple(content))


def sendable_history(messages: Sequence[Message]) -> list[Message]:
    """Return the messages before a run that may be sent to a model, as its prompts have them."""
    return [files_first(m) for m in without_orphans(render_notices(messages))]


def files_first(message: Message) -> Message:
    """Return a user's message with its files before its text."""
    if message.role is not Role.USER or not any(isinstance(p, FilePart) for p in message.content):
        return message
    content = sorted(message.content, key=lambda p: not isinstance(p, FilePart))
    return message.model_copy(update={"content": tuple(content)})
