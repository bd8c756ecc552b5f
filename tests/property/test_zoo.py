"""Conversations that change their provider again and again: no provider's rule refuses a request."""

from collections import Counter
from itertools import permutations

import pytest

from support.examples import share
from support.providers.zoo.conversations import Conversation, play
from support.providers.zoo.fakes import NAMES
from support.worlds.loops import played


def play_all(seeds: range) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        total += play(seed)
    return total


def missing_pairs(total: Counter[str]) -> list[str]:
    return [f"{a} > {b}" for a, b in permutations(NAMES, 2) if not total[f"{a} > {b}"]]


def test_no_rule_refuses_a_request_whichever_provider_follows_which() -> None:
    fourth = share(4) > 1
    total = play_all(range(250 // share(4)))
    assert len(missing_pairs(total)) <= (40 if fourth else 5)
    happened = (
        "away",
        "both",
        "structured",
        "cut",
        "refused",
        "empty",
        "approve",
        "deny",
        "observer",
    )
    assert min(total[each] for each in happened) > (0 if fourth else 5), total
    assert total["success max-iterations"] > 5
    assert total["cancelled cancelled"] > 0
    # Only an answer that does not fit the form, said twice, ends a run.
    assert total["failed error"] == total["OutputInvalid"] + total["InvalidResponse"]


@pytest.mark.torture
def test_no_rule_refuses_a_request_in_five_thousand_conversations() -> None:
    total = play_all(range(10_000, 15_000))
    assert missing_pairs(total) == []


def test_a_refusal_is_seen() -> None:
    broken = Conversation(0)
    visit = broken.zoo.visits["mistral"]
    user = {"role": "user", "content": "hi"}
    call = {"id": "call_1", "function": {"name": "look", "arguments": "{}"}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    seen = {"role": "tool", "tool_call_id": "call_1", "content": "seen"}
    raw = visit.refusal({"messages": [user, asks, seen]})
    assert raw is not None
    assert raw.status == 422
    assert b"length of 9" in raw.chunks[0]
    assert broken.refusals() == ["mistral: Tool call id must be a-z, A-Z, 0-9, with a length of 9."]


def test_what_no_name_of_a_model_tells_is_learned_by_one_refusal() -> None:
    learned: Counter[str] = Counter()
    for seed in range(30):
        conversation = Conversation(seed)
        played(conversation.play())
        for visit in conversation.zoo.visits.values():
            # A picture is left out of its thread, not of all.
            once = Counter(rule.says for rule in visit.broken if "image_url" not in rule.says)
            assert set(once.values()) <= {1}, seed
            learned += once
    assert len(learned) > 3
