"""Settings of a deployment (docs/reference/configuration.md). An agent's own settings win."""

from datetime import timedelta
from decimal import Decimal

from layover.values.base import Value
from layover.values.deployment.access import Access


class Settings(Value):
    """Read once from the environment by `layover.wiring`."""

    model: str = "openai/gpt-5-mini"
    last_messages: int = 20
    embedder_model: str | None = None
    semantic_recall_top_k: int = 5
    observer_model: str | None = None
    observer_message_tokens: int = 30_000
    reflector_observation_tokens: int = 40_000
    extractor_model: str | None = None
    title_model: str | None = None
    log_level: str = "INFO"
    log_file: str | None = None
    """Path of the function's log, on one machine."""
    sweep_patience: timedelta = timedelta(seconds=60)
    """The time between two looks at a run before it gets a successor (DescribeExecution is eventually
    consistent)."""
    max_history: int = 20_000
    """Events of an execution's history after which a successor goes on. Step Functions takes 25,000; the
    events of 40 waiting calls and of the end of a run must fit in between."""
    run_retention: timedelta = timedelta(days=30)
    """Lifetime of a finished run's records in the journal (docs/behaviour.md#run-retention)."""
    node_memory_days: int | None = None
    """Days without a write after which a node's memory counts as empty; None: never."""
    thread_retention: timedelta | None = None
    """The time without activity after which a thread is deleted; None: never."""
    entry_retention: timedelta | None = None
    """The time after the turn that taught them after which entries of episodic memory are deleted; None:
    never."""
    provider_patience: timedelta = timedelta(hours=1)
    """The time for which a run waits for a provider that is away, unless its agent says another."""
    access: Access = Access()
    daily_tokens: int | None = None
    """Tokens of a user and day (UTC) after which no step of their runs begins; None: no limit."""
    runs_per_minute: int | None = None
    """Runs that one user may begin in a minute; None: no limit."""
    traces: bool = False
    """Keep the trace context of requests that start runs, for the links of their traces."""
    docs: bool = True
    """Serve `/docs`, without a token."""
    page_sources: str = ""
    """Sources of the page's Content-Security-Policy: where its tokens come from, and where its files go."""
    origins: tuple[str, ...] = ()
    """Origins of pages that may read the answers of `streams`: a gateway allows it for all other answers."""
    max_user_waits: int = 10
    """Requests of one user that wait at once; more are answered at once."""
    max_user_streams: int = 10
    """Streams of one user that are open at once; waiting requests count apart."""
    max_waits: int = 60
    """The limit of either for all users together: fewer than `api` has environments."""
    daily_cost_usd: Decimal | None = None
    """The same limit in US dollars, for the models whose price is known."""

    @property
    def limits_days(self) -> bool:
        """True if a user's day has a limit: only then is room in it held, and its use counted."""
        return self.daily_tokens is not None or self.daily_cost_usd is not None
