"""The memory of an agent: every part is off unless named, except the window and titles.

A number that is None is the deployment's; the methods that take `Settings` say which."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from layover.declare.schemas import checks
from layover.errors import DefinitionError
from layover.values.deployment.settings import Settings

Scope = Literal["thread", "resource"]
_SCOPES = ("thread", "resource")
RESULT_TOKENS = 10_000
"""`Memory.result_tokens` beside `ObservationalMemory`."""
_SPEAKERS = frozenset({"user", "assistant", "tool"})


@dataclass(frozen=True)
class TokenBuffer:
    """A prompt's history as the newest whole turns that fit, instead of the window
    (docs/behaviour.md#token-buffer)."""

    max_tokens: int = 2000
    max_messages: int = 500

    def __post_init__(self) -> None:
        checks.whole("TokenBuffer.max_tokens", self.max_tokens)
        checks.whole("TokenBuffer.max_messages", self.max_messages)


@dataclass(frozen=True)
class ObservationalMemory:
    """Compaction of older messages into dense observations (docs/behaviour.md#compaction-thresholds).

    `message_tokens`: un-observed messages that set the observer to work (None: the deployment's,
    30,000). `observation_tokens`: observations that set the reflector to work (None: 40,000).
    `buffer`: the share of `message_tokens` that is observed ahead at a time."""

    message_tokens: int | None = None
    observation_tokens: int | None = None
    buffer: float = 0.2

    def __post_init__(self) -> None:
        checks.whole_or_none("ObservationalMemory.message_tokens", self.message_tokens)
        checks.whole_or_none("ObservationalMemory.observation_tokens", self.observation_tokens)
        checks.number("ObservationalMemory.buffer", self.buffer, above=0, to=1)

    def message_limit(self, settings: Settings) -> int:
        """Return the tokens of messages at which the observer works."""
        return self.message_tokens or settings.observer_message_tokens

    def observation_limit(self, settings: Settings) -> int:
        """Return the tokens of observations at which the reflector works."""
        return self.observation_tokens or settings.reflector_observation_tokens


@dataclass(frozen=True)
class RollingSummary:
    """Compaction of older messages into one summary (docs/behaviour.md#rolling-summary).

    `fraction` of the model's context window at which it is made; `max_window` caps that window
    (tokens); `tail`: newest messages that stay as they are."""

    fraction: float = 0.8
    max_window: int | None = None
    tail: int = 20

    def __post_init__(self) -> None:
        checks.number("RollingSummary.fraction", self.fraction, above=0, to=1)
        checks.whole_or_none("RollingSummary.max_window", self.max_window)
        checks.whole("RollingSummary.tail", self.tail)


@dataclass(frozen=True)
class SemanticRecall:
    """Recall of older messages that are similar to the user's text (docs/behaviour.md#semantic-recall).

    `top_k` matches (None: the deployment's, 5), each with `before` and `after` messages around it,
    from the thread, or with `scope="resource"` from all of the user's threads."""

    top_k: int | None = None
    before: int = 2
    after: int = 1
    scope: Scope = "thread"

    def __post_init__(self) -> None:
        checks.whole_or_none("SemanticRecall.top_k", self.top_k)
        checks.whole("SemanticRecall.before", self.before, least=0)
        checks.whole("SemanticRecall.after", self.after, least=0)
        checks.one_of("SemanticRecall.scope", self.scope, _SCOPES)

    def matches(self, settings: Settings) -> int:
        """Return how many messages to look for."""
        return self.top_k or settings.semantic_recall_top_k


@dataclass(frozen=True)
class EpisodicMemory:
    """Lessons that past turns taught this agent about this user's matters (docs/behaviour.md#episodic-scope).

    `top_k`: entries that `recall_memory` returns; `inject`: entries put into a prompt (0:
    none); `per_turn`: entries kept of a turn; `max_length` of an entry in characters;
    `dedupe_similarity`: cosine at which two entries are the same (None: never);
    `half_life_days` of the recency term (`math.inf`: nothing grows old). `embedder` (a `ports.Embedder`),
    or the one of `embedding_model`, instead of the deployment's. `instructions` are added to the
    extractor's own prompt."""

    top_k: int = 5
    inject: int = 12
    per_turn: int = 5
    max_length: int = 2000
    dedupe_similarity: float | None = 0.86
    half_life_days: float = 180
    embedder: Any = None
    embedding_model: str | None = None
    assistant_evidence: Literal["trust", "label", "refuse"] = "label"
    instructions: str | None = None

    def __post_init__(self) -> None:
        checks.whole("EpisodicMemory.top_k", self.top_k)
        checks.whole("EpisodicMemory.inject", self.inject, least=0)
        checks.whole("EpisodicMemory.per_turn", self.per_turn, least=0)
        checks.whole("EpisodicMemory.max_length", self.max_length)
        if self.dedupe_similarity is not None:
            checks.number("EpisodicMemory.dedupe_similarity", self.dedupe_similarity, to=1)
        checks.number("EpisodicMemory.half_life_days", self.half_life_days, above=0)
        if self.embedder is not None and not _embeds(self.embedder):
            raise checks.fail("EpisodicMemory.embedder", "an Embedder or None", self.embedder)
        checks.text_or_none("EpisodicMemory.embedding_model", self.embedding_model)
        if self.embedder is not None and self.embedding_model is not None:
            raise DefinitionError("EpisodicMemory: embedder and embedding_model exclude each other")
        checks.one_of(
            "EpisodicMemory.assistant_evidence",
            self.assistant_evidence,
            ("trust", "label", "refuse"),
        )
        checks.text_or_none("EpisodicMemory.instructions", self.instructions)

    @property
    def half_life(self) -> timedelta:
        """Return the half-life of the recency term, as near as a timedelta can express it."""
        days = min(self.half_life_days, timedelta.max.days)
        return max(timedelta(days=days), timedelta.resolution)


@dataclass(frozen=True)
class WorkingMemory:
    """Notes that the model itself keeps up to date (docs/behaviour.md#working-memory).

    `schema`: a pydantic model, or None for free text. `scope`: one for the user or one a thread.
    `shared`: the user's other agents see the same notes."""

    schema: Any = None
    scope: Scope = "resource"
    shared: bool = False

    def __post_init__(self) -> None:
        checks.one_of("WorkingMemory.scope", self.scope, _SCOPES)
        checks.flag("WorkingMemory.shared", self.shared)
        if self.shared and self.scope != "resource":
            raise DefinitionError('WorkingMemory.shared needs scope="resource"')
        if self.schema is not None and not _is_model(self.schema):
            raise checks.fail("WorkingMemory.schema", "a pydantic model or None", self.schema)


@dataclass(frozen=True)
class NodeMemory:
    """A separate history for a named step of a workflow, inside a thread (docs/behaviour.md#node-memory)."""

    node_id: str

    def __post_init__(self) -> None:
        if self.node_id is None:
            raise checks.fail("NodeMemory.node_id", "a text that is not empty", None)
        checks.text_or_none("NodeMemory.node_id", self.node_id)


@dataclass(frozen=True)
class Memory:
    """The memory of an agent: its parts and their settings.

    `last_messages`: the window (None: the deployment's, 20). `query_template` wraps the input
    (`{{query}}` stands for it). `role_prefix`: names of the speakers where history is rendered as
    text, `{"user": "Customer"}`. `history="none"`: a run sees its own input and steps alone, and what memory
    adds. `result_tokens`: of long tool results that are whole in a prompt, beside those of the newest step;
    older ones are previews, which the model can open again (None: 10,000 with `ObservationalMemory`, else all
    are whole; `math.inf`: all). Raises DefinitionError for settings that make no sense."""

    last_messages: int | None = None
    token_buffer: TokenBuffer | None = None
    compaction: ObservationalMemory | RollingSummary | None = None
    semantic_recall: SemanticRecall | None = None
    episodic: EpisodicMemory | None = None
    working_memory: WorkingMemory | None = None
    profile: bool = False
    session: bool = False
    plan: bool = False
    titles: bool = True
    query_template: str | None = None
    role_prefix: Mapping[str, str] | None = None
    history: Literal["thread", "none"] | NodeMemory = "thread"
    result_tokens: float | None = None

    def __post_init__(self) -> None:
        checks.whole_or_none("Memory.last_messages", self.last_messages)
        if self.result_tokens is not None:
            checks.number("Memory.result_tokens", self.result_tokens)
        for name, kinds in _PARTS.items():
            part = getattr(self, name)
            if part is not None and not isinstance(part, kinds):
                expected = " or ".join(f"{k.__name__}(...)" for k in kinds)
                raise checks.fail(f"Memory.{name}", f"{expected} or None", part)
        for name in ("profile", "session", "plan", "titles"):
            checks.flag(f"Memory.{name}", getattr(self, name))
        self._check_history()
        self._check_words()

    def _check_history(self) -> None:
        if self.history not in ("thread", "none") and not isinstance(self.history, NodeMemory):
            expected = '"thread", "none" or NodeMemory(...)'
            raise checks.fail("Memory.history", expected, self.history)
        if self.history == "none":
            self._check_no_history()
        if self.token_buffer and self.last_messages is not None:
            raise DefinitionError("Memory: token_buffer and last_messages exclude each other")
        if self.compaction and self.token_buffer:
            raise DefinitionError("Memory: token_buffer and compaction exclude each other")
        if self.compaction and isinstance(self.history, NodeMemory):
            raise DefinitionError("Memory: compaction works on the thread, not on a NodeMemory")

    def _check_no_history(self) -> None:
        parts = ("last_messages", "token_buffer", "compaction")
        useless = [name for name in parts if getattr(self, name) is not None]
        if useless:
            raise DefinitionError(
                f'Memory: {" and ".join(useless)} cannot work with history="none", which shows no history'
            )

    def _check_words(self) -> None:
        checks.text_or_none("Memory.query_template", self.query_template)
        if self.query_template is not None and "{{query}}" not in self.query_template:
            raise checks.fail("Memory.query_template", "a text with {{query}}", self.query_template)
        prefix = self.role_prefix
        if prefix is None:
            return
        if not isinstance(prefix, Mapping) or prefix.keys() - _SPEAKERS:
            raise checks.fail("Memory.role_prefix", "names for user, assistant, tool", prefix)
        for role, name in prefix.items():
            checks.text_or_none(f"Memory.role_prefix[{role!r}]", name)

    def window(self, settings: Settings) -> int:
        """Return the recent messages that stay in the prompt (docs/behaviour.md#prompt-window)."""
        return self.last_messages or settings.last_messages

    @property
    def max_result_tokens(self) -> float:
        """The tokens of long tool results that are whole in a prompt (docs/result-previews.md)."""
        if self.result_tokens is not None:
            return self.result_tokens
        return RESULT_TOKENS if isinstance(self.compaction, ObservationalMemory) else math.inf

    @property
    def has_previews(self) -> bool:
        """True if older results may be previews."""
        return self.max_result_tokens < math.inf


_PARTS: dict[str, tuple[type, ...]] = {
    "token_buffer": (TokenBuffer,),
    "compaction": (ObservationalMemory, RollingSummary),
    "semantic_recall": (SemanticRecall,),
    "episodic": (EpisodicMemory,),
    "working_memory": (WorkingMemory,),
}


def _embeds(value: Any) -> bool:
    return callable(getattr(value, "embed", None)) and isinstance(
        getattr(value, "model", None), str
    )


def _is_model(value: Any) -> bool:
    from pydantic import BaseModel

    return isinstance(value, type) and issubclass(value, BaseModel)
