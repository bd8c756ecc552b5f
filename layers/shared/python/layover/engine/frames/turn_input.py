"""The input of a frame of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from layover.declare.tools.tool import AnyTool
from layover.engine.compaction import CompactionState
from layover.values.memory.rendered import RenderedMemory
from layover.values.message import Message
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import PromptSnapshot
from layover.values.runs.served import ServedTools


@dataclass(frozen=True)
class TurnInput:
    """The data that a turn read for its run: the history that the prompt shows, what memory adds to it (as it
    is pinned, and as text), and the tools that memory brings."""

    history: Sequence[Message]
    base: PromptSnapshot
    rendered: RenderedMemory
    memory_tools: Sequence[AnyTool] = ()
    compaction: CompactionState | None = None
    model_settings: ModelSettings | None = None
    """The settings of the agent above. They hold where this agent sets nothing."""
    heard: tuple[Message, ...] = ()
    """Messages of other runs while this one was set aside, for its next step."""
    newest_at: datetime | None = None
    """The time of the thread's newest message, or of the place of a result to come."""
    windows: Mapping[str, int] = field(default_factory=dict)
    """The windows that refusals taught in the thread so far, as `ThreadHead.windows`."""
    tools: Sequence[AnyTool] | None = None
    """The tools that the agent's function returned; None: the agent has a list."""
    served: tuple[ServedTools, ...] | None = None
    """The tools of servers, where some were asked since the run pinned them; None: those that it pinned."""
