"""`Runtime`: all ports of one process, with the agents that it serves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from layover.dice import SYSTEM_DICE
from layover.ports import (
    Aborts,
    Allowance,
    Background,
    Blobs,
    Callbacks,
    ChannelPorts,
    ChatModel,
    Clock,
    Dialer,
    Dice,
    Embedder,
    GrantPorts,
    Ids,
    Journal,
    Leases,
    MemoryStore,
    Metrics,
    Model,
    NoAllowance,
    NoDialer,
    NoLeases,
    NoMetrics,
    NoToolServers,
    NoTracing,
    SocketPorts,
    ThreadStore,
    ToolServers,
    Tracing,
)
from layover.values.deployment.settings import Settings
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.usage import Usage

if TYPE_CHECKING:
    from layover.declare.agent import Agent
    from layover.plugin import Accounts, AgentMemory


@dataclass(frozen=True)
class Runtime:
    """All ports of one process, made by `layover.wiring` (or by the in-process SDK)."""

    journal: Journal
    threads: ThreadStore
    memory: MemoryStore
    blobs: Blobs
    model: ChatModel
    callbacks: Callbacks
    clock: Clock
    ids: Ids
    settings: Settings
    agents: "Callable[[], Mapping[str, Agent]]"
    """The user's agents by name. They are imported on first use."""
    make_agent_memory: "Callable[[Runtime], AgentMemory]"
    """Makes what `agent_memory` is, over these ports."""
    make_accounts: "Callable[[Runtime], Accounts]"
    """Makes what `accounts` is, over these ports."""
    price: "Callable[[str, Usage], Decimal | None] | None" = None
    """(model, usage) -> USD; None if the price is unknown."""
    window: "Callable[[str], int | None] | None" = None
    """Tokens of a model's context window; None if it is unknown."""
    embedder: Embedder | None = None
    """None: semantic recall is off."""
    embedder_named: "Callable[[str], Embedder] | None" = None
    """The embedder of a model, for agents that name their own."""
    metrics: Metrics = field(default_factory=NoMetrics)
    allowance: Allowance = field(default_factory=NoAllowance)
    leases: Leases = field(default_factory=NoLeases)
    background: Background | None = None
    """None: no step is observed ahead while a run goes on."""
    aborts: Aborts | None = None
    """None: only the journal says that a run is to stop."""
    sockets: SocketPorts | None = None
    """None: no run can be followed by socket."""
    dialer: Dialer = field(default_factory=NoDialer)
    tracing: Tracing = field(default_factory=NoTracing)
    tool_servers: ToolServers = field(default_factory=NoToolServers)
    connections: GrantPorts = field(default_factory=GrantPorts)
    """Users' grants at other services. Without them, an agent's connections say that they are not set up."""
    channels: ChannelPorts = field(default_factory=ChannelPorts)
    """The ports by which people are told of calls that wait. Without a configuration, nobody is told."""
    dice: Dice = SYSTEM_DICE
    """Tokens that nobody can guess, and pauses that no two writers share."""
    own_model: Callable[[Model], ChatModel] = lambda model: model
    """Makes the port of a model that an author has brought."""
    most_tools: dict[str, int] = field(default_factory=dict)
    """By model: how many tools its provider takes, as it has said when it refused more."""

    @property
    def agent_memory(self) -> "AgentMemory":
        """The memory of agents."""
        return self.make_agent_memory(self)

    @property
    def accounts(self) -> "Accounts":
        """Accounts at other services, for tools."""
        return self.make_accounts(self)

    def model_for(self, agent: "Agent", name: str) -> ChatModel:
        """Return the model of this name that an agent asks: its own object, else the deployment's."""
        own = agent.own_models.get(name)
        return self.model if own is None else self.own_model(own)

    def window_of(
        self,
        model: str,
        settings: ModelSettings | None = None,
        learned: Mapping[str, int] | None = None,
    ) -> int | None:
        """Return the tokens of a model's context window, as the agent's settings say, by its name, or as its
        provider's refusals taught it; None if it is unknown."""
        if settings is not None and settings.context_window is not None:
            return settings.context_window
        by_name = self.window(model) if self.window else None
        return by_name or (learned.get(model) if learned else None)
