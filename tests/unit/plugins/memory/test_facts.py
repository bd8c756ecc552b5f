"""Changes that a model's answer may make to a profile and to session memory."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from layover.plugins.memory.profile.facts import (
    MAX_FACTS,
    MAX_KEYS,
    Fact,
    Turn,
    latest,
    profile_change,
    request,
    session_facts,
    turn_of,
    with_facts,
)
from layover.values.message import Message, Role, TextPart

SAID = "I moved to Bern last month and my password is hunter2."
TURN = Turn([SAID], ["Noted: you live in Zug and like cheese fondue very much."])
BERN = {"key": "City", "content": "lives in Bern", "evidence": "I moved to Bern last month"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def facts(*items: Any) -> str:
    return json.dumps({"facts": list(items)})


def message(text: str, role: Role = Role.USER) -> Message:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Message(
        id=text[:4], thread_id="t", role=role, content=(TextPart(text=text),), created_at=at
    )


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "no JSON at all",
        "[1, 2]",
        '{"facts": ',
        '{"facts": 5}',
        '{"facts": ["x", null, 1]}',
        "{" * 5_000,
        '{"entries": {}}',
        "<think>{",
    ],
)
def test_a_garbage_answer_changes_nothing(answer: str) -> None:
    assert profile_change(answer, TURN, {"city": "Rome"}) == {}
    assert session_facts(answer, TURN) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"evidence": "I live in Bern since last month"},
        {"evidence": "you live in Zug and like cheese"},
        {"evidence": ""},
        {"evidence": 5},
        {"evidence": None},
        {"content": "lives in Bern since 2019"},
        {"content": ["lives in Bern"]},
        {"content": " \n "},
        {"content": None},
        {"key": "?!"},
        {"key": None},
        {"key": "api_key"},
        {"key": "address_4711"},
    ],
)
def test_a_fact_without_a_ground_is_dropped(changed: dict[str, Any]) -> None:
    assert profile_change(facts({**BERN, **changed}, "x"), TURN, {}) == {}


def test_what_only_the_assistant_said_is_no_fact() -> None:
    zug = {"key": "city", "content": "lives in Zug", "evidence": "you live in Zug and like cheese"}
    assert profile_change(facts(zug), TURN, {}) == {}
    assert session_facts(facts({**zug, "field": "state", "key": None}), TURN) == []


def test_a_fact_that_the_user_said_is_kept_under_a_plain_name() -> None:
    answer = f"<think>hm</think>Sure:\n```json\n{facts(BERN)}\n```"
    assert profile_change(answer, TURN, {}) == {"city": "lives in Bern"}


def test_secrets_are_redacted() -> None:
    secret = {
        "key": "login",
        "content": "password is hunter2",
        "evidence": "and my password is hunter2",
    }
    assert profile_change(facts(secret), TURN, {}) == {"login": "password is [redacted]"}


def test_a_known_fact_is_taken_away_and_an_unknown_one_is_not() -> None:
    gone = {**BERN, "content": None}
    assert profile_change(facts(gone), TURN, {"city": "Rome"}) == {"city": None}
    assert profile_change(facts(gone), TURN, "a text") == {}


def test_facts_are_bounded() -> None:
    many = [{**BERN, "key": f"k{c}"} for c in "abcdefghijklmnop"]
    assert len(profile_change(facts(*many), TURN, {})) == MAX_FACTS
    full = {f"k{n}": "x" for n in range(MAX_KEYS)}
    known = {**BERN, "key": "k7"}
    assert profile_change(facts(*many, known), TURN, full) == {}
    assert profile_change(facts(known), TURN, full) == {"k7": "lives in Bern"}
    long = {**BERN, "content": "Bern " * 500}
    assert len(profile_change(facts(long), TURN, {})["city"] or "") <= 500


def test_session_memory_takes_its_own_parts_alone() -> None:
    evidence = BERN["evidence"]
    answer = facts(
        {"field": "objective", "content": "settle in Bern", "evidence": evidence},
        {"field": "mood", "content": "fine", "evidence": evidence},
        {"field": "follow_ups", "content": None, "replaces": "find a flat", "evidence": evidence},
        {"field": "state", "content": None, "replaces": "x", "evidence": evidence},
    )
    assert session_facts(answer, TURN) == [
        Fact("objective", "settle in Bern"),
        Fact("follow_ups", None, "find a flat"),
    ]


def test_lists_grow_without_repeating_and_texts_are_replaced() -> None:
    session = {"objective": "a", "decisions": ["one", "two"], "follow_ups": ["x"]}
    made = with_facts(
        session,
        [
            Fact("objective", "b"),
            Fact("decisions", "three", "one"),
            Fact("decisions", "two"),
            Fact("follow_ups", None, "x"),
            Fact("state", "going"),
        ],
    )
    assert made == {
        "objective": "b",
        "decisions": ["three", "two"],
        "follow_ups": [],
        "state": "going",
    }
    assert session["decisions"] == ["one", "two"]
    assert with_facts(None, []) == {}


def test_facts_of_an_older_turn_do_not_replace_those_of_a_newer_one() -> None:
    session = {"objective": "new", "state": "old", "decisions": ["two"], "follow_ups": ["x"]}
    said = {"objective": NOON, "decisions": NOON, "state": NOON - timedelta(minutes=9)}
    facts = [
        Fact("objective", "older"),
        Fact("state", "going"),
        Fact("decisions", "one and a half", "one"),
        Fact("decisions", "three", "two"),
        Fact("decisions", "four"),
        Fact("follow_ups", None, "y"),
    ]
    earlier = NOON - timedelta(minutes=1)
    assert latest(session, said, facts, earlier) == [*facts[1:2], *facts[3:]]
    assert latest(session, said, facts, NOON) == facts
    assert latest(None, {}, facts, earlier) == facts


def test_the_oldest_entries_of_a_list_go() -> None:
    made = with_facts(None, [Fact("decisions", str(n)) for n in range(30)])
    assert made["decisions"] == [str(n) for n in range(10, 30)]


def test_a_turn_is_what_was_said_in_it() -> None:
    turn = turn_of([message("hello"), message("result", Role.TOOL), message("hi", Role.ASSISTANT)])
    assert (turn.user, turn.assistant) == (["hello"], ["hi"])


@pytest.mark.parametrize("task", ["profile", "session"])
def test_the_request_shows_the_turn_as_data_without_secrets(task: str) -> None:
    prompt = request(task, "m", TURN, {"city": "Rome"}, message(SAID))
    assert (prompt.task, prompt.model, prompt.stream) == (task, "m", False)
    (asked,) = prompt.messages
    shown = json.loads(asked.text)
    assert shown["known"] == {"city": "Rome"}
    assert [t["role"] for t in shown["turn"]] == ["user", "assistant"]
    assert "hunter2" not in asked.text
    assert "evidence" in (prompt.system or "")
