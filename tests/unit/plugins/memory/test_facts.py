"""Changes that a model's answer may make to a profile and to session memory."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from layover.plugins.memory.learns.facts import (
    MAX_FACTS,
    MAX_KEYS,
    Fact,
    Turn,
    latest,
    number_entries,
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
    assert session_facts(answer, TURN, {}) == []


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
    assert session_facts(facts({**zug, "field": "state", "key": None}), TURN, {}) == []


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


SESSION = {"state": "saw 1 flat", "decisions": ["take the train"], "follow_ups": ["find a flat"]}


def noted(**fact: Any) -> list[Fact]:
    """The changes that one proposal makes of `SESSION`, as it was shown."""
    answer = facts({"content": None, "evidence": BERN["evidence"], **fact})
    return session_facts(answer, TURN, number_entries(SESSION))


def test_session_memory_takes_its_own_parts_alone() -> None:
    assert noted(field="objective", content="settle in Bern") == [
        Fact("objective", "settle in Bern")
    ]
    assert noted(field="mood", content="fine") == []
    assert noted(field="state", replaces=1) == []


def test_the_entries_of_session_memory_are_shown_with_numbers() -> None:
    assert number_entries(SESSION) == {
        "state": "saw 1 flat",
        "decisions": {"1": "take the train"},
        "follow_ups": {"2": "find a flat"},
    }
    assert number_entries(None) == {}


@pytest.mark.parametrize("number", [2, "2", [2], [9, 2]])
def test_an_entry_is_replaced_by_its_number(number: Any) -> None:
    assert noted(field="follow_ups", replaces=number) == [Fact("follow_ups", None, "find a flat")]
    assert noted(field="follow_ups", content="move in", replaces=number) == [
        Fact("follow_ups", "move in", "find a flat")
    ]


@pytest.mark.parametrize("number", [0, 1, 3, -2, 2.0, True, None, "find a flat", {}, "9" * 5_000])
def test_a_number_that_was_not_shown_there_replaces_nothing(number: Any) -> None:
    assert noted(field="follow_ups", replaces=number) == []
    assert noted(field="follow_ups", content="move in", replaces=number) == [
        Fact("follow_ups", "move in")
    ]


def test_an_entry_stays_if_what_is_to_replace_it_names_what_nobody_said() -> None:
    assert noted(field="follow_ups", content="pay invoice 4711", replaces=2) == []


def test_an_entry_that_has_changed_since_it_was_shown_stays_with_the_new_one() -> None:
    (fact,) = noted(field="follow_ups", content="move in", replaces=2)
    made = with_facts({"follow_ups": ["find a flat in Bern"]}, [fact])
    assert made == {"follow_ups": ["find a flat in Bern", "move in"]}


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
