"""What the extractor reads next to the words of a turn, and what of it may be evidence."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from layover import EpisodicMemory
from layover.plugins.memory.learns.rules import (
    Candidate,
    Refusal,
    Surroundings,
    ToolText,
    check_entries,
    readable_before,
    request,
    stored_evidence,
)
from layover.plugins.memory.learns.text.dates import without_resolved_dates
from layover.values.message import Message, Role, TextPart

NOW = datetime(2026, 11, 27, 15, 3, tzinfo=UTC)  # a Friday
PROPOSAL = "Please install the printer driver 4.2 and restart the spooler. Shall I book that?"


def message(text: str, role: Role = Role.USER, at: int = 0, id: str = "m") -> Message:
    time = NOW + timedelta(seconds=at)
    return Message(id=id, thread_id="t", role=role, content=(TextPart(text=text),), created_at=time)


def spoken(*texts: str) -> list[Message]:
    """Texts of user and assistant in turns, the newest by the assistant."""
    roles = [Role.USER, Role.ASSISTANT] * len(texts)
    return [
        message(text, roles[len(texts) % 2 + n], n - len(texts), id=f"b{n}")
        for n, text in enumerate(texts)
    ]


def result(text: str) -> ToolText:
    return ToolText(message("", Role.TOOL, 1, id="tool-message"), "call-7", "look_up", text)


def proposed(
    content: str,
    evidence: str,
    said: str,
    *,
    before: Sequence[Message] = (),
    results: Sequence[ToolText] = (),
    assistant_evidence: Any = "label",
    now: datetime = NOW,
) -> Candidate | Refusal:
    """The fate of one proposal after a turn in which the user says this."""
    answer = {"entries": [{"evidence": evidence, "kind": "outcome", "content": content}]}
    found = check_entries(
        json.dumps(answer),
        [message(said), message("I see.", Role.ASSISTANT, 2)],
        EpisodicMemory(assistant_evidence=assistant_evidence),
        trusted=False,
        finds_out=False,
        around=Surroundings(now=now, before=before, results=results),
    )
    return found.candidates[0] if found.candidates else next(iter(found.refusals))


def kept(*args: Any, **options: Any) -> Candidate:
    candidate = proposed(*args, **options)
    assert isinstance(candidate, Candidate), candidate
    return candidate


# Before the turn


def test_what_was_said_before_is_no_evidence() -> None:
    before = spoken("the pump of hall 3 leaks since May", "I am sorry.")
    fate = proposed(
        "The pump leaks.", "the pump of hall 3 leaks since May", "Now what?", before=before
    )
    assert fate is Refusal.NO_EVIDENCE


def test_names_and_numbers_may_come_from_before_the_turn() -> None:
    said = "It has not arrived yet, and nobody answers the phone"
    content = "Order A-1003 has not arrived yet."
    before = spoken("Where is order A-1003?", "It was sent on Monday.")
    assert kept(content, said, said).content == said
    assert kept(content, said, said, before=before).content == content
    of_log = spoken("```\nERROR order A-1003\n```", "I see.")
    assert kept(content, said, said, before=of_log).source == "quoted_text"


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        ([], 0),
        (["one"], 1),
        (["a", "b", "c", "d", "e"], 4),
        (["x" * 101] * 4, 3),
        (["a", "x" * 199, "y" * 199, "b"], 4),
        (["x" * 9_000] * 5, 2),
    ],
)
def test_two_texts_before_the_turn_are_read_and_four_if_they_are_short(
    texts: list[str], read: int
) -> None:
    assert len(readable_before(spoken(*texts))) == read


def test_the_request_has_the_time_and_what_was_said_before() -> None:
    around = Surroundings(NOW, spoken("x" * 900, "My password is hunter2hunter2"), [result("a b")])
    turn = [message("hello"), message("hi", Role.ASSISTANT, 2)]
    text = request("m", turn, None, [], EpisodicMemory(), around).messages[0].text
    asked = json.loads(text)
    assert list(asked) == ["now", "profile", "known", "before", "turn"]
    assert asked["now"] == "Friday 2026-11-27 15:03 UTC"
    assert len(asked["before"][0]["text"]) == 500
    assert "hunter2" not in text
    assert [each["role"] for each in asked["turn"]] == ["user", "tool", "assistant"]
    assert asked["turn"][1] == {"role": "tool", "call": "call-7", "name": "look_up", "text": "a b"}


def test_without_anything_before_the_request_has_no_field_for_it() -> None:
    asked = json.loads(request("m", [message("x")], None, [], EpisodicMemory()).messages[0].text)
    assert list(asked) == ["profile", "known", "turn"]


# Answers to what the assistant said

FIXED = "The printer driver 4.2 and a restarted spooler fixed it."


@pytest.mark.parametrize(
    "said",
    ["Yes, that fixed it.", "Great, it works now!", "Tak, to pomogło.", "Evet, sorun çözüldü."],
)
def test_an_answer_is_kept_with_the_users_words_and_what_they_answer(said: str) -> None:
    found = kept(FIXED, said, said, before=spoken(PROPOSAL))
    assert (found.source, found.verified) == ("user_accepted_assistant_proposal", True)
    assert (found.evidence, found.message_id, found.accepted) == (said, "m", PROPOSAL)
    assert stored_evidence(found) == f"{said} (about: {PROPOSAL})"


@pytest.mark.parametrize("said", ["No, thanks.", "Yes, do that.", "The scanner is slow."])
def test_what_the_assistant_proposed_is_no_evidence_whatever_the_user_answers(said: str) -> None:
    piece = "install the printer driver 4.2"
    assert proposed(FIXED, piece, said, before=spoken(PROPOSAL)) is Refusal.NO_EVIDENCE


def test_only_what_the_assistant_said_last_is_answered() -> None:
    later = spoken(PROPOSAL, "And the paper?", "Take the paper of 80 grams.")
    assert kept(FIXED, "Yes.", "Yes.", before=later).accepted == ""
    by_user = [*spoken("Fine."), message(PROPOSAL, at=-1, id="b")]
    assert kept(FIXED, "Yes.", "Yes.", before=by_user).accepted == ""


def test_a_finding_in_the_users_own_words_stays_theirs_though_they_answer_something() -> None:
    said = "Great. The label printer of hall 3 is offline."
    evidence = "The label printer of hall 3 is offline"
    found = kept("The label printer of hall 3 is offline.", evidence, said, before=spoken(PROPOSAL))
    assert (found.source, found.accepted) == ("user_assertion", "")


# Results of trusted tools


def test_the_result_of_a_trusted_tool_is_evidence() -> None:
    returned = [result('{"order": "A-1003", "status": "held at customs since 12 November"}')]
    content = "Order A-1003 is held at customs since 12 November."
    evidence = "held at customs since 12 November"
    found = kept(content, evidence, "Where is it?", results=returned, assistant_evidence="refuse")
    assert (found.source, found.verified) == ("tool_result", True)
    assert (found.evidence, found.message_id) == (evidence, "tool-message")
    assert proposed(content, evidence, "Where is it?") is Refusal.NO_EVIDENCE
    short = proposed(content, "held at", "Where is it?", results=returned)
    assert short is Refusal.NO_EVIDENCE


# Dates


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("The pump failed on 26 November 2026.", "the pump failed yesterday at noon"),
        ("The pump failed on 2026-11-26.", "the pump failed yesterday at noon"),
        ("Die Pumpe fiel am 26.11.2026 aus.", "die Pumpe fiel gestern Mittag aus"),
        ("The fitter comes on December 4, 2026.", "the fitter comes next Friday for the pump"),
        ("La pompe est tombée le 13 novembre 2026.", "la pompe est tombée il y a deux semaines"),
        ("La bomba falló el 24 de noviembre de 2026.", "la bomba falló hace tres días, sí"),
        ("泵在2026年11月26日坏了。", "泵在昨天坏了请帮忙"),
        ("The lease ended on 27 October 2026.", "the lease ended a month ago, I think"),
    ],
)
def test_a_date_may_be_counted_from_the_time_of_the_turn(content: str, said: str) -> None:
    assert kept(content, said, said).content == content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("The pump failed on 25 November 2026.", "the pump failed yesterday at noon"),
        ("The pump failed on 26 November 2025.", "the pump failed yesterday at noon"),
        ("The pump failed on 26 November 2026.", "the pump failed in the night"),
        ("The fitter comes on 2026-11-20.", "the fitter comes next Friday for the pump"),
        ("The fitter comes on 2026-12-05.", "the fitter comes next Friday for the pump"),
    ],
)
def test_another_date_is_made_up_and_the_users_words_are_kept(content: str, said: str) -> None:
    assert kept(content, said, said).content == said


UTC_DAY = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "at", "day"),
    [
        ("America/Los_Angeles", UTC_DAY + timedelta(hours=4), "2026-11-29"),  # 22:30 on the 28th
        ("America/Halifax", UTC_DAY, "2026-11-29"),  # 22:30 on the 28th
        ("Pacific/Auckland", UTC_DAY + timedelta(hours=7), "2026-11-30"),  # 22:30 on the 29th
        ("Pacific/Auckland", UTC_DAY + timedelta(hours=9), "2026-12-01"),  # 00:30 on the 30th
        ("UTC", UTC_DAY, "2026-11-30"),
    ],
)
def test_tomorrow_is_that_of_the_user(zone: str, at: datetime, day: str) -> None:
    now, said = at.astimezone(ZoneInfo(zone)), "the audit of the silo is tomorrow at ten"
    for offset in (-1, 0, 1):
        told = (datetime.fromisoformat(day) + timedelta(offset)).date().isoformat()
        content = f"The audit of the silo is on {told}."
        assert kept(content, said, said, now=now).content == (said if offset else content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("The audit is on 2027-04-03.", "the audit of the silo is on April 3rd at ten"),
        ("The audit was on 2026-04-03.", "the audit of the silo was on April 3rd at ten"),
        ("Die Prüfung ist am 03.04.2027.", "die Prüfung des Silos ist am 3. April um zehn"),
        ("The audit was on 2026-11-26.", "the audit of the silo was on 26.11. at ten"),
    ],
)
def test_a_day_without_a_year_is_one_of_the_nearest(content: str, said: str) -> None:
    assert kept(content, said, said).content == content
    year = content.replace("2027", "2029").replace("2026", "2024")
    assert kept(year, said, said).content == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Audyt silosu jest 28 listopada 2026.", "audyt silosu jest pojutrze o dziesiątej"),
        ("Silo denetimi 2026-11-28.", "silo denetimi yarin sabah saat onda olacak"),
        ("The gate is documented at https://evil.test/x.", "the gate opens twice in every hour"),
        ("The gate runs gate_v2.", "the gate opens twice in every hour"),
    ],
)
def test_what_cannot_be_compared_is_kept_in_the_words_of_the_quote(content: str, said: str) -> None:
    found = kept(content, said, said)
    assert (found.content, found.verified, found.source) == (said, True, "user_assertion")
    returned = [result(said)]
    assert kept(content, said, "What about it?", results=returned).content == said


def test_the_words_of_a_quote_are_whole_sentences_and_no_question() -> None:
    said = (
        "Hello. It is not true that the pump of hall 3 leaks. May I put the copier into the lift?"
    )
    told = kept("Pump 7 leaks.", "that the pump of hall 3 leaks", said).content
    assert told == "It is not true that the pump of hall 3 leaks."
    question = proposed("The lift bears 900 kg.", "I put the copier into the lift", said)
    assert question is Refusal.UNSAID


def test_a_quote_that_says_nothing_a_secret_or_others_words_replace_nothing() -> None:
    assert proposed("There are 4 pumps.", "Yes", "Yes") is Refusal.UNSAID
    secret = "the side door has a PIN, and the PIN is 4471"
    assert proposed("The code is 4417.", secret, secret) is Refusal.UNSAID
    pasted = "> the pump of hall 3 leaks since May"
    assert proposed("The pump of hall 4 leaks.", pasted[2:], f"Why?\n{pasted}") is Refusal.UNSAID


def test_the_request_names_the_zone_of_the_user() -> None:
    now = UTC_DAY.astimezone(ZoneInfo("America/Halifax"))
    asked = request("m", [message("x")], None, [], EpisodicMemory(), Surroundings(now))
    assert "Saturday 2026-11-28 22:30 America/Halifax" in asked.messages[0].text


def test_a_date_that_does_not_exist_breaks_nothing() -> None:
    at = datetime(2026, 3, 31, tzinfo=UTC)
    for text in ("a month ago", "in 3 months", "99.99.2026 was yesterday", "999 years ago"):
        assert isinstance(without_resolved_dates(f"{text} 31.2.2026", [text], at), str)
