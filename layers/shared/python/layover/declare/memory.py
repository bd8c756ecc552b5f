"""The memory of an agent: every part is off unless named, except the window and titles.

A number that is None is the deployment's; the methods that take `Settings` say which."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from layover.declare.option_names import unknown_options, with_named_options
from layover.declare.schemas import checks
from layover.errors import DefinitionError
from layover.values.deployment.settings import Settings

Scope = Literal["thread", "resource"]
_SCOPES = ("thread", "resource")
RESULT_TOKENS = 10_000
"""`Memory.result_tokens` with `ObservationalMemory`."""
_SPEAKERS = frozenset({"user", "assistant", "tool"})


@with_named_options
@dataclass(frozen=True)
class TokenBuffer:
    """A prompt's history as the newest whole turns that fit, instead of the window of recent messages
    (docs/behaviour.md#token-buffer). A newest turn that exceeds the limit is kept.

    Args:
        max_tokens: Estimated tokens that the turns have at most (docs/behaviour.md#token-estimates).
        max_messages: The number of messages that they have at most.

    Raises:
        DefinitionError: If a number is not a whole number from 1 on.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory, TokenBuffer
        from layover.testing import ScriptedModel, say

        guide = Agent("guide", memory=Memory(token_buffer=TokenBuffer(max_tokens=50)))


        async def main() -> None:
            script = [say("I see. " * 100), say("By train."), say("At noon.")]
            with guide.override(model=ScriptedModel(script)) as model:
                for text in ("I like trains.", "How do I get to Bonn?", "When?"):
                    await guide.generate(text, thread_id="t1")
            shown = [message.text for message in model.turns[2].messages]
            assert shown == ["How do I get to Bonn?", "By train.", "When?"]


        asyncio.run(main())
        ```
    """

    max_tokens: int = 2000
    max_messages: int = 500

    def __post_init__(self) -> None:
        checks.whole("TokenBuffer.max_tokens", self.max_tokens)
        checks.whole("TokenBuffer.max_messages", self.max_messages)


@with_named_options
@dataclass(frozen=True)
class ObservationalMemory:
    """Compaction of older messages into dense observations, ahead of need
    (docs/behaviour.md#compaction-thresholds).

    Args:
        message_tokens: Estimated tokens of messages, not yet observed, at which observations replace the
            older ones in the prompt. None: the deployment's (`LAYOVER_OBSERVER_MESSAGE_TOKENS`, 30,000).
        observation_tokens: Estimated tokens of observations above which a reflection condenses them. None:
            the deployment's (`LAYOVER_REFLECTOR_OBSERVATION_TOKENS`, 40,000).
        buffer: The share of `message_tokens` that is observed ahead at a time: above 0, at most 1.

    Raises:
        DefinitionError: If a number makes no sense.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory, ObservationalMemory
        from layover.testing import ScriptedModel, say

        compaction = ObservationalMemory(message_tokens=200)
        guide = Agent("guide", memory=Memory(last_messages=2, compaction=compaction))
        noted = say("* IMPORTANT (09:00) The user sleeps badly on trains")
        model = ScriptedModel(
            [say("I see."), say("Take the plane.")],
            background={"observer": lambda prompt: noted},
        )


        async def main() -> None:
            with guide.override(model=model):
                await guide.generate("I sleep badly on trains. " * 40, thread_id="t1")
                await guide.wait_for_memory()
                await guide.generate("How do I get to Rome?", thread_id="t1")
            shown = [message.text for message in model.turns[1].messages]
            assert "* IMPORTANT" in shown[0] and "The user sleeps badly on trains" in shown[0]
            assert shown[1:] == ["I see.", "How do I get to Rome?"]


        asyncio.run(main())
        ```
    """

    message_tokens: int | None = None
    observation_tokens: int | None = None
    buffer: float = 0.2

    def __post_init__(self) -> None:
        checks.whole_or_none("ObservationalMemory.message_tokens", self.message_tokens)
        checks.whole_or_none("ObservationalMemory.observation_tokens", self.observation_tokens)
        checks.number("ObservationalMemory.buffer", self.buffer, above=0, to=1)

    def message_limit(self, settings: Settings) -> int:
        """Return the tokens of messages at which the observer works.

        Args:
            settings: The deployment's settings, which apply where `message_tokens` is None.
        """
        return self.message_tokens or settings.observer_message_tokens

    def observation_limit(self, settings: Settings) -> int:
        """Return the tokens of observations at which the reflector works.

        Args:
            settings: The deployment's settings, which apply where `observation_tokens` is None.
        """
        return self.observation_tokens or settings.reflector_observation_tokens


@with_named_options
@dataclass(frozen=True)
class RollingSummary:
    """Compaction of older messages into one summary (docs/behaviour.md#rolling-summary).

    Args:
        fraction: The share of the model's context window at which the summary is made: above 0, at most 1.
        max_window: Tokens that cap that window; None: it is as large as the model's.
        tail: The number of newest messages that stay as they are.

    Raises:
        DefinitionError: If a number makes no sense.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory, RollingSummary
        from layover.testing import ScriptedModel, say

        compaction = RollingSummary(max_window=11_000, tail=1)
        guide = Agent("guide", memory=Memory(last_messages=1, compaction=compaction))
        summary = say("Goal: A trip to Rome")
        model = ScriptedModel(
            [say("I see."), say("Take the plane.")], background={"summary": lambda prompt: summary}
        )


        async def main() -> None:
            with guide.override(model=model):
                await guide.generate("I sleep badly on trains. " * 200, thread_id="t1")
                await guide.wait_for_memory()
                await guide.generate("How do I get there?", thread_id="t1")
            shown = [message.text for message in model.turns[1].messages]
            assert "Goal: A trip to Rome" in shown[0]
            assert shown[1:] == ["I see.", "How do I get there?"]


        asyncio.run(main())
        ```
    """

    fraction: float = 0.8
    max_window: int | None = None
    tail: int = 20

    def __post_init__(self) -> None:
        checks.number("RollingSummary.fraction", self.fraction, above=0, to=1)
        checks.whole_or_none("RollingSummary.max_window", self.max_window)
        checks.whole("RollingSummary.tail", self.tail)


@with_named_options
@dataclass(frozen=True)
class SemanticRecall:
    """Recall of older messages that are similar to the user's text, by words and by vectors
    (docs/behaviour.md#semantic-recall). It is off where no embedder is set (`LAYOVER_EMBEDDER_MODEL`).

    Args:
        top_k: The number of matches; None: the deployment's (`LAYOVER_SEMANTIC_RECALL_TOP_K`, 5).
        before: The number of messages shown before each match.
        after: The number of messages shown after each match.
        scope: `thread`: from this thread. `resource`: from all of the user's threads with this agent.

    Raises:
        DefinitionError: If a number or the scope makes no sense.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory, SemanticRecall
        from layover.testing import HashingEmbedder, ScriptedModel, say

        shop = Agent("shop", memory=Memory(semantic_recall=SemanticRecall(scope="resource")))


        async def main() -> None:
            model = ScriptedModel([say("Noted."), say("The blue one.")])
            with shop.override(model=model, embedder=HashingEmbedder()):
                await shop.generate("My favourite lamp is blue.", thread_id="may", resource_id="ada")
                await shop.wait_for_memory()
                await shop.generate("Which lamp is it?", thread_id="june", resource_id="ada")
            assert "user: My favourite lamp is blue." in model.turns[1].messages[-1].text


        asyncio.run(main())
        ```
    """

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
        """Return how many messages to look for.

        Args:
            settings: The deployment's settings, which apply where `top_k` is None.
        """
        return self.top_k or settings.semantic_recall_top_k


@with_named_options
@dataclass(frozen=True)
class EpisodicMemory:
    """Lessons that past turns taught this agent about this user's matters (docs/behaviour.md#episodic-scope).
    Each entry quotes the message that it comes from. Without an embedder, entries are found only by words.

    Args:
        top_k: The number of entries that the tool `recall_memory` returns.
        inject: The number of entries put into a prompt; 0: none.
        per_turn: The number of entries kept of a turn; 0: none.
        max_length: Characters of an entry; the rest is cut.
        half_life_days: Days after which the recency term of an entry is half as large; `math.inf`: nothing
            grows old.
        embedder: An embedder (an object like `HashingEmbedder`) instead of the deployment's; None: that of
            `embedding_model`.
        embedding_model: The name of an embedder instead of the deployment's; None: the deployment's
            (`LAYOVER_EMBEDDER_MODEL`). It cannot be given together with `embedder`.
        assistant_evidence: Treatment of what only the assistant says after it used tools that are not all
            `trusted`: `trust` stores it, `label` stores it as `(unverified)`, `refuse` does not store it.
            What it says without a tool that worked, or a file, is stored only by `trust`. What only a text
            says that the user quotes or pastes is stored as `(unverified)`, and not by `refuse`.
        instructions: A text that is added to the extractor's own prompt, such as what else to keep; None:
            nothing is.

    Raises:
        DefinitionError: If a number makes no sense, or `embedder` and `embedding_model` are both given.

    Example:
        ```python
        import asyncio
        import json

        from layover import Agent, EpisodicMemory, Memory
        from layover.testing import HashingEmbedder, ScriptedModel, say

        shop = Agent("shop", memory=Memory(episodic=EpisodicMemory()))
        entry = {
            "content": "Ada's lamps are delivered to the office",
            "source": "user_assertion",
            "evidence": "deliver my lamps to the office",
        }
        learned = say(json.dumps({"entries": [entry]}))
        nothing = say(json.dumps({"entries": []}))
        model = ScriptedModel(
            [say("Noted."), say("To the office?")], background={"extractor": [learned, nothing]}
        )


        async def main() -> None:
            with shop.override(model=model, embedder=HashingEmbedder()):
                await shop.generate("I am Ada. Please deliver my lamps to the office.", resource_id="ada")
                await shop.wait_for_memory()
                await shop.generate("I need more lamps.", resource_id="ada")
                await shop.wait_for_memory()
            assert "- Ada's lamps are delivered to the office (today)" in model.turns[1].messages[-1].text


        asyncio.run(main())
        ```
    """

    top_k: int = 5
    inject: int = 12
    per_turn: int = 5
    max_length: int = 2000
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
        checks.number("EpisodicMemory.half_life_days", self.half_life_days, above=0)
        if self.embedder is not None and not _embeds(self.embedder):
            raise checks.fail("EpisodicMemory.embedder", "an Embedder or None", self.embedder)
        checks.text_or_none("EpisodicMemory.embedding_model", self.embedding_model)
        if self.embedder is not None and self.embedding_model is not None:
            raise DefinitionError(
                "EpisodicMemory: embedder and embedding_model exclude each other: remove one of them"
            )
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


@with_named_options
@dataclass(frozen=True)
class WorkingMemory:
    """Notes that the model itself keeps up to date, with the tool `update_working_memory`
    (docs/behaviour.md#working-memory). The system message shows them; they have at most 20,000 characters.

    Args:
        schema: A pydantic model, whose fields the model updates one by one; None: free text.
        scope: `resource`: one set of notes for the user. `thread`: one for each thread.
        shared: True: the user's other agents see the same notes; only with `scope="resource"`.

    Raises:
        DefinitionError: If the schema is not a pydantic model, or the scope does not fit.

    Example:
        ```python
        import asyncio

        from pydantic import BaseModel

        from layover import Agent, Memory, WorkingMemory
        from layover.testing import ScriptedModel, call, say


        class Guest(BaseModel):
            name: str | None = None
            allergies: list[str] = []


        concierge = Agent("concierge", memory=Memory(working_memory=WorkingMemory(Guest)))


        async def main() -> None:
            script = [call("update_working_memory", name="Ada"), say("Welcome!"), say("Hello, Ada.")]
            with concierge.override(model=ScriptedModel(script)) as model:
                await concierge.generate("I am Ada.", thread_id="monday", resource_id="ada")
                await concierge.generate("Good morning!", thread_id="friday", resource_id="ada")
            assert "Ada" in model.turns[-1].system


        asyncio.run(main())
        ```
    """

    schema: Any = None
    scope: Scope = "resource"
    shared: bool = False

    def __post_init__(self) -> None:
        checks.one_of("WorkingMemory.scope", self.scope, _SCOPES)
        checks.flag("WorkingMemory.shared", self.shared)
        if self.shared and self.scope != "resource":
            raise DefinitionError(
                f'WorkingMemory.shared needs scope="resource", not {self.scope!r}'
            )
        if self.schema is not None and not _is_model(self.schema):
            raise checks.fail("WorkingMemory.schema", "a pydantic model or None", self.schema)


@with_named_options
@dataclass(frozen=True)
class NodeMemory:
    """A separate history for a named step of a workflow, inside a thread (docs/behaviour.md#node-memory). It
    is the `history` of a `Memory`; tools and hooks open one with `ctx.node_memory(node_id)`.

    Args:
        node_id: The step's name: a text of at most 300 bytes, percent-encoded.

    Raises:
        DefinitionError: If it is not a text, or empty.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory, NodeMemory
        from layover.testing import ScriptedModel, call, say

        triage = Agent("triage", memory=Memory(history=NodeMemory("triage")))
        desk = Agent("desk", handoffs=[triage])


        async def main() -> None:
            script = [say("Hello."), call("transfer_to_triage"), say("Which order?"), say("I see.")]
            with desk.override(model=ScriptedModel(script)) as model:
                for text in ("Good morning.", "My lamp is broken.", "A-1007."):
                    await desk.generate(text, thread_id="t1")
            shown = [message.text for message in model.turns[-1].messages]
            assert shown == ["My lamp is broken.", "Which order?", "A-1007."]  # and no "Good morning."


        asyncio.run(main())
        ```
    """

    node_id: str

    def __post_init__(self) -> None:
        if self.node_id is None:
            raise checks.fail("NodeMemory.node_id", "a text that is not empty", None)
        checks.text_or_none("NodeMemory.node_id", self.node_id)


@with_named_options
@dataclass(frozen=True)
class Memory:
    """The memory of an agent: its parts and their settings. Every part is off unless it is named, except the
    window of recent messages and titles.

    Args:
        last_messages: The window: at least this number of recent messages is in a prompt, and at most half as
            many more. None: the deployment's (`LAYOVER_LAST_MESSAGES`, 20).
        token_buffer: The newest whole turns that fit, instead of the window; it cannot be given together with
            `last_messages` or `compaction`.
        compaction: `ObservationalMemory(...)` or `RollingSummary(...)`: condenses older messages.
        semantic_recall: Recall of older messages that are similar to the input.
        episodic: Entries about the user's matters, each with its evidence.
        working_memory: Notes that the model keeps up to date.
        profile: True: facts about the user, made only from what the user said.
        session: True: the state of the conversation: objective, decisions, follow-ups.
        plan: True: a plan with steps, which the model writes with the tool `plan`.
        titles: True: a title for the thread, after its first real question.
        query_template: A text around the input, with `{{query}}` in its place; None: the input as it is.
        role_prefix: Names of the speakers where history is rendered as text, `{"user": "Customer"}`, for the
            roles `user`, `assistant` and `tool`; None: the names of the roles.
        history: `thread`: a prompt shows the thread's. `none`: a run sees only its own input and steps, and
            what memory adds. `NodeMemory(...)`: the history of one step of a workflow.
        result_tokens: Tokens of long tool results that a prompt shows in full, in addition to those of the
            newest step; older ones are previews, which the model can open again. None: 10,000 with
            `ObservationalMemory`, else all; `math.inf`: all (docs/result-previews.md).
        recall_tokens: Estimated tokens that recalled messages and entries have together in a prompt, the best
            first. None: 3,000, or a tenth of the model's window if that is less.

    Raises:
        DefinitionError: If settings make no sense, or exclude each other.

    Example:
        ```python
        import asyncio

        from layover import Agent, Memory
        from layover.testing import ScriptedModel, say

        shop = Agent("shop", memory=Memory(last_messages=2, query_template="Customer: {{query}}"))


        async def main() -> None:
            script = [say("Hello."), say("42 euros."), say("Yes."), say("Bye.")]
            with shop.override(model=ScriptedModel(script)) as model:
                for text in ("Hi.", "A lamp?", "In stock?", "Thanks."):
                    await shop.generate(text, thread_id="t1")
            shown = [message.text for message in model.turns[3].messages]
            assert shown == ["In stock?", "Yes.", "Customer: Thanks."]


        asyncio.run(main())
        ```
    """

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
    recall_tokens: int | None = None

    def __post_init__(self) -> None:
        checks.whole_or_none("Memory.last_messages", self.last_messages)
        checks.whole_or_none("Memory.recall_tokens", self.recall_tokens)
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
        if not isinstance(self.history, NodeMemory):
            checks.one_of("Memory.history", self.history, ("thread", "none"), "a NodeMemory(...)")
        if self.history == "none":
            self._check_no_history()
        if self.token_buffer and self.last_messages is not None:
            raise DefinitionError(
                "Memory: token_buffer and last_messages exclude each other: remove one of them"
            )
        if self.compaction and self.token_buffer:
            raise DefinitionError(
                "Memory: token_buffer and compaction exclude each other: remove one of them"
            )
        if self.compaction and isinstance(self.history, NodeMemory):
            raise DefinitionError(
                f"Memory: compaction works on the thread, and history is {self.history!r}: remove one of "
                "them"
            )

    def _check_no_history(self) -> None:
        parts = ("last_messages", "token_buffer", "compaction")
        useless = [name for name in parts if getattr(self, name) is not None]
        if useless:
            raise DefinitionError(
                f'Memory: {" and ".join(useless)} cannot work with history="none", which shows no history: '
                "remove one of them"
            )

    def _check_words(self) -> None:
        checks.text_or_none("Memory.query_template", self.query_template)
        if self.query_template is not None and "{{query}}" not in self.query_template:
            raise checks.fail("Memory.query_template", "a text with {{query}}", self.query_template)
        prefix = self.role_prefix
        if prefix is None:
            return
        if not isinstance(prefix, Mapping):
            raise checks.fail("Memory.role_prefix", "names for user, assistant, tool", prefix)
        if unknown := prefix.keys() - _SPEAKERS:
            raise unknown_options("Memory.role_prefix", unknown, _SPEAKERS, "role")
        for role, name in prefix.items():
            checks.text_or_none(f"Memory.role_prefix[{role!r}]", name)

    def window(self, settings: Settings) -> int:
        """Return the recent messages that stay in the prompt (docs/behaviour.md#prompt-window).

        Args:
            settings: The deployment's settings, which apply where `last_messages` is None.
        """
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
