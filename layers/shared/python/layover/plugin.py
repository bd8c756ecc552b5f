"""The protocols that plugins implement for the runtime. They come in by fields of `Runtime`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from layover.declare.agent import Agent
from layover.declare.connection import Connection
from layover.declare.tools.tool import AnyTool
from layover.values.memory.compaction import Compacted
from layover.values.memory.context import IndexedText, LoggedAttempt, TurnContext, TurnQuery
from layover.values.memory.rendered import RenderedMemory
from layover.values.message import Message
from layover.values.note import Note
from layover.values.runs.payload import MemoryWork
from layover.values.runs.run import PromptSnapshot, RunMeta, Status
from layover.values.thread import ThreadHead


@dataclass(frozen=True)
class Turn:
    """A turn, as memory is asked about it. `pinned`: what its run pinned at the first step; None before
    that. `windows`: as `ThreadHead.windows`."""

    agent: Agent
    run: RunMeta
    as_of: datetime
    pinned: PromptSnapshot | None = None
    windows: Mapping[str, int] = field(default_factory=dict)


class AgentMemory(Protocol):
    """The memory of agents: what a prompt has of it, and when it learns. The rows are `Runtime.memory`'s."""

    async def read(self, turn: Turn, query: TurnQuery) -> TurnContext:
        """Return the answer to a turn's query and to memory's own reads, which join it: one round trip to the
        database. What the run has pinned is only checked for what is gone. Raises RetryableError."""
        ...

    async def read_notes(self, agent: Agent, run: RunMeta) -> Sequence[Note]:
        """Return the notes that a sub-agent's prompt shows. Raises RetryableError."""
        ...

    def pin(self, turn: Turn, context: TurnContext, history: Sequence[Message]) -> PromptSnapshot:
        """Return what a run pins at its first step: every later rendering is the same. `history`: what the
        prompt shows of the thread."""
        ...

    def render(
        self, base: PromptSnapshot, context: TurnContext, input_message: Message
    ) -> RenderedMemory:
        """Return the pinned context as text, less all that is deleted by now, and the client's."""
        ...

    def tools(
        self, agent: Agent, run: RunMeta, base: PromptSnapshot, *, embeds: bool = True
    ) -> Sequence[AnyTool]:
        """Return the tools of `Agent.memory`; none if it has no part that adds one. `base`: what the prompt
        shows. `embeds`: whether searches may ask an embedder."""
        ...

    def messages_tool(self, run: RunMeta, through: Callable[[], str | None]) -> AnyTool:
        """Return the tool that shows messages of the run's own path up to `through`, the last one that its
        prompt does not show (None: it shows all)."""
        ...

    def compacted_text(self, compacted: Compacted | None) -> str:
        """Return what stands in a prompt for compacted messages; "" if there is nothing."""
        ...

    def is_to_condense(self, compacted: Compacted, max_tokens: int | None) -> bool:
        """Return whether observations exceed `max_tokens`, and new ones have come since they were last
        condensed."""
        ...

    def attempts_text(self, attempts: Sequence[LoggedAttempt]) -> str:
        """Return earlier attempts at a task as its next attempt reads them; "" if there are none."""
        ...

    def work_after(self, agent: Agent, status: Status, head: ThreadHead | None) -> MemoryWork:
        """Return the work that follows a run that ended with `status`. `head`: its thread before the end."""
        ...

    async def texts_of_import(
        self, owner: str, agent: Agent, messages: Sequence[Message], *, embeds: bool
    ) -> Sequence[IndexedText]:
        """Return imported messages as later turns will find them; none if the agent does not recall.
        `embeds`: whether an embedder may be asked. Without vectors they are found by words."""
        ...


class Accounts(Protocol):
    """Accounts at other services, of users and of the deployment, for tools that need them."""

    async def token(
        self, connection: Connection, owner: str, rejected: str | None = None
    ) -> str | None:
        """Return a token that is valid now. None: the owner has to consent first. `rejected`: a token that
        the service has refused. Raises RetryableError if none could be had now, and ConfigurationError for a
        registration that the service does not take."""
        ...

    async def describe_consent(self, connection: Connection, owner: str) -> dict[str, Any]:
        """Return what a call waits for, `{connection, scopes}`: others see it, so it has no address."""
        ...

    async def revoke_all(self, owner: str, until: datetime) -> None:
        """Forget the owner's grants from before this time, and tell their services. Repeatable."""
        ...

    async def tell_left(self, owner: str, connection: str) -> bool:
        """Tell the service of a grant that is over, and was away before. False: it is to be told again."""
        ...
