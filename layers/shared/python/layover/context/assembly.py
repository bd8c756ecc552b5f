"""What the model sees, stable parts first (BEHAVIOUR 6.1)."""

import hashlib
from collections.abc import Sequence

from layover.context.repair import without_orphans
from layover.context.window import recent
from layover.declare.agent import Agent
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt, ToolSpec
from layover.values.run import RunMeta, StepRecord
from layover.values.settings import Settings


def build_prompt(
    agent: Agent,
    settings: Settings,
    run: RunMeta,
    history: Sequence[Message],
    response: Sequence[Message],
    steps: Sequence[StepRecord],
) -> Prompt:
    """The request of a run's next step: system, history, the run's input, the run's own messages."""
    window = recent(history, window_size(agent, settings))
    own = _with_corrections(response, steps)
    return Prompt(
        model=agent.model or settings.model,
        system=agent.instructions or None,
        messages=tuple(without_orphans([*window, run.input, *own])),
        tools=tuple(tool_specs(agent)),
        output=agent.output_spec,
        stream=run.stream,
        task="turn",
        run_id=run.id,
        cache_key=hashlib.sha256(run.thread_id.encode()).hexdigest()[:32],
    )


def window_size(agent: Agent, settings: Settings) -> int:
    """N: the agent's own setting wins over the deployment's."""
    own = agent.memory.last_messages
    return settings.last_messages if own is None else own


def tool_specs(agent: Agent) -> list[ToolSpec]:
    """The agent's tools, in the order of their declaration (the bytes stay the same)."""
    return [tool.spec for tool in agent.tools]


def _with_corrections(response: Sequence[Message], steps: Sequence[StepRecord]) -> list[Message]:
    """A step whose answer fitted no schema is followed by what the model is told about it. That
    message is shown to the model and is no part of the thread."""
    corrections = {s.message.id: s.correction for s in steps if s.correction}
    shown: list[Message] = []
    for message in response:
        shown.append(message)
        text = corrections.get(message.id)
        if text is not None:
            told = {"role": Role.USER, "content": (TextPart(text=text),), "id": f"{message.id}.c"}
            shown.append(message.model_copy(update=told))
    return shown
