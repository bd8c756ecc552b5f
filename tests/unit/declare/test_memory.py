"""Memory settings: nonsense is refused, the deployment fills what is not named."""

import math
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from layover import (
    DefinitionError,
    EpisodicMemory,
    Memory,
    NodeMemory,
    ObservationalMemory,
    RollingSummary,
    SemanticRecall,
    TokenBuffer,
    WorkingMemory,
)
from layover.values.deployment.settings import Settings


class Profile(BaseModel):
    name: str = ""


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (TokenBuffer, {"max_tokens": 0}),
        (TokenBuffer, {"max_messages": -1}),
        (TokenBuffer, {"max_messages": 2.5}),
        (ObservationalMemory, {"message_tokens": -1}),
        (ObservationalMemory, {"observation_tokens": 0}),
        (ObservationalMemory, {"buffer": 0}),
        (ObservationalMemory, {"buffer": 1.5}),
        (ObservationalMemory, {"buffer": float("nan")}),
        (RollingSummary, {"fraction": 0}),
        (RollingSummary, {"fraction": 80}),
        (RollingSummary, {"max_window": 0}),
        (RollingSummary, {"tail": -20}),
        (SemanticRecall, {"top_k": 0}),
        (SemanticRecall, {"before": -1}),
        (SemanticRecall, {"after": True}),
        (SemanticRecall, {"scope": "user"}),
        (EpisodicMemory, {"top_k": 0}),
        (EpisodicMemory, {"inject": -1}),
        (EpisodicMemory, {"per_turn": -1}),
        (EpisodicMemory, {"max_length": 0}),
        (EpisodicMemory, {"half_life_days": 0}),
        (EpisodicMemory, {"half_life_days": math.nan}),
        (EpisodicMemory, {"assistant_evidence": "maybe"}),
        (EpisodicMemory, {"instructions": " "}),
        (WorkingMemory, {"scope": "agent"}),
        (WorkingMemory, {"schema": {"type": "object"}}),
        (WorkingMemory, {"scope": "thread", "shared": True}),
        (NodeMemory, {"node_id": ""}),
        (NodeMemory, {"node_id": None}),
        (Memory, {"last_messages": 0}),
        (Memory, {"last_messages": -5}),
        (Memory, {"profile": "yes"}),
        (Memory, {"episodic": True}),
        (Memory, {"compaction": "rolling"}),
        (Memory, {"history": "node"}),
        (Memory, {"query_template": "Answer this."}),
        (Memory, {"role_prefix": {"human": "Human"}}),
        (Memory, {"token_buffer": TokenBuffer(), "compaction": RollingSummary()}),
        (Memory, {"history": NodeMemory("n"), "compaction": ObservationalMemory()}),
        (Memory, {"history": "none", "compaction": ObservationalMemory()}),
        (Memory, {"history": "none", "token_buffer": TokenBuffer()}),
        (Memory, {"history": "none", "last_messages": 5}),
        (Memory, {"history": "nothing"}),
    ],
    ids=lambda v: getattr(v, "__name__", None) or "-".join(v),
)
def test_settings_that_make_no_sense_are_refused(kind: type, settings: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=kind.__name__):
        kind(**settings)


def test_everything_is_off_but_the_window_and_titles() -> None:
    memory = Memory()
    named = ("token_buffer", "compaction", "semantic_recall", "episodic", "working_memory")
    assert [getattr(memory, n) for n in named] == [None] * 5
    assert (memory.profile, memory.session, memory.plan, memory.titles) == (
        False,
        False,
        False,
        True,
    )
    assert memory.history == "thread"


def test_what_is_not_named_is_the_deployments() -> None:
    few = Settings(
        last_messages=4,
        semantic_recall_top_k=2,
        observer_message_tokens=100,
        reflector_observation_tokens=200,
    )
    assert Memory().window(few) == 4
    assert SemanticRecall().matches(few) == 2
    assert ObservationalMemory().message_limit(few) == 100
    assert ObservationalMemory().observation_limit(few) == 200


def test_what_an_agent_names_wins() -> None:
    few = Settings(last_messages=4)
    assert Memory(last_messages=20).window(few) == 20
    assert SemanticRecall(top_k=7).matches(few) == 7
    assert ObservationalMemory(message_tokens=30_000).message_limit(few) == 30_000


def test_the_numbers_of_the_contract_are_the_defaults() -> None:
    settings = Settings()
    assert Memory().window(settings) == 20
    assert (TokenBuffer().max_tokens, TokenBuffer().max_messages) == (2000, 500)
    observational = ObservationalMemory()
    assert observational.message_limit(settings) == 30_000
    assert observational.observation_limit(settings) == 40_000
    assert observational.buffer == 0.2
    assert RollingSummary() == RollingSummary(fraction=0.8, max_window=None, tail=20)
    assert SemanticRecall().matches(settings) == 5
    assert SemanticRecall() == SemanticRecall(before=2, after=1, scope="thread")
    assert EpisodicMemory() == EpisodicMemory(
        top_k=5,
        inject=12,
        per_turn=5,
        max_length=2000,
        half_life_days=180,
        embedder=None,
        embedding_model=None,
        assistant_evidence="label",
        instructions=None,
    )
    assert WorkingMemory() == WorkingMemory(schema=None, scope="resource", shared=False)


@pytest.mark.parametrize(
    ("days", "half_life"),
    [
        (0.5, timedelta(hours=12)),
        (1e-15, timedelta.resolution),
        (1e12, timedelta(days=timedelta.max.days)),
        (math.inf, timedelta(days=timedelta.max.days)),
    ],
)
def test_any_half_life_above_zero_can_be_reckoned_with(days: float, half_life: timedelta) -> None:
    assert EpisodicMemory(half_life_days=days).half_life == half_life


def test_all_of_it_together_is_fine() -> None:
    memory = Memory(
        last_messages=10,
        compaction=ObservationalMemory(message_tokens=1, observation_tokens=1, buffer=1),
        semantic_recall=SemanticRecall(top_k=1, before=0, after=0, scope="resource"),
        episodic=EpisodicMemory(inject=0, per_turn=0),
        working_memory=WorkingMemory(schema=Profile, shared=True),
        profile=True,
        session=True,
        plan=True,
        titles=False,
        query_template="Q: {{query}}",
        role_prefix={"user": "Customer", "assistant": "Clerk"},
    )
    assert memory.working_memory is not None
    assert memory.working_memory.schema is Profile
