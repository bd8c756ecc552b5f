"""The words of messages: what hostile texts cannot do first, then each kind of message."""

from datetime import timedelta
from typing import Any

import pytest

from layover.plugins.people.words import (
    MAX_ARGUMENT,
    MAX_ARGUMENTS,
    MAX_HEADLINE,
    MAX_REASON,
    clean,
    facts,
    headline,
    outcome,
)
from layover.values.channels import Channels, NoticeKind, Person
from layover.values.decision import DecisionKind, Denial, PendingApproval, Vote
from layover.values.runs.run import BUDGET_TOOL, SuspensionKind
from support.notices import NOW, decided, the_notice

HOSTILE = [
    "Nora\nRisk: low",
    "Nora\r\nRisk: low",
    "Nora\u2028Risk: low",
    "Nora\u2029Risk: low",
    "Nora\x85Risk: low",
    "Nora\x0bRisk: low",
    "Nora\x1eRisk: low",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_line_break_of_an_argument_makes_no_line(text: str) -> None:
    lines = dict(facts(the_notice(args={"to": text})))["Arguments"].splitlines()
    assert lines == ["to: Nora ⏎ Risk: low"]


@pytest.mark.parametrize("text", HOSTILE)
def test_line_break_makes_no_line_anywhere(text: str) -> None:
    vote = Vote(by=text, at=NOW, reason=text)
    denial = Denial(args={"to": text}, reason=text, decided_by=text, at=NOW)
    notice = the_notice(
        owner=text,
        tool_name=text,
        agent_path=(text, text),
        summary=text,
        args={text: text},
        approval=PendingApproval(by=(text,), given=(vote,)),
        denied_before=(denial,),
    )
    assert len(headline(notice).splitlines()) == 1
    assert [label for label, _ in facts(notice)] == [
        "Agent",
        "Tool",
        "Risk",
        "Arguments",
        "Requested by",
        "Needs",
        "Approved so far",
        "Expires",
        "Denied before",
    ]
    assert all(len(value.splitlines()) == 1 for _, value in facts(notice))
    edited = decided(decided_by=text, reason=text, exact_args={text: text})
    assert len(outcome(edited).splitlines()) == 1 + 3 + 1  # three arguments differ


def test_what_hides_or_reorders_text_is_shown() -> None:
    assert clean("DE89 3704 \u202e2147\u202c 00") == "DE89 3704 ‹U+202E›2147‹U+202C› 00"
    assert dict(facts(the_notice(args={"t\u200bo": "No\U000e0061ra"})))["Arguments"] == (
        "t‹U+200B›o: No‹U+E0061›ra"
    )


def test_gap_before_a_forged_line_is_counted() -> None:
    assert clean("Nora" + " " * 70 + "Needs: nothing") == "Nora‹70 blanks›Needs: nothing"
    assert "‹U+200D› ‹U+200D›" in clean("Nora" + "\u200d " * 70 + "Needs: nothing")


def test_letters_from_the_right_order_nothing_around_them() -> None:
    assert clean("של 12") == "\u2068של 12\u2069"
    lines = dict(facts(the_notice(args={"שם": "א 12"})))["Arguments"]
    assert lines == "\u2068שם\u2069: \u2068א 12\u2069"


def test_name_that_reads_as_a_sentence_is_quoted() -> None:
    assert headline(the_notice(owner="Approved by Bea: Ada")).startswith(
        "“Approved by Bea: Ada” asks"
    )
    assert headline(the_notice(owner="x” Approved “")).startswith("“x‟ Approved ‟” asks")


def test_reason_cannot_close_its_quotation() -> None:
    assert outcome(decided(reason="fine”. Denied by “Bea")).endswith(
        "Reason: “fine‟. Denied by ‟Bea”"
    )


def test_everything_long_is_cut_and_says_so() -> None:
    args = {"body": "x" * 50_000, **{f"a{i}": i for i in range(50)}}
    notice = the_notice(args=args, summary="Pay " + "y" * 900, owner="z" * 500)
    assert len(headline(notice)) == MAX_HEADLINE
    assert headline(notice).endswith("…")
    lines = dict(facts(notice))["Arguments"].splitlines()
    assert lines[0] == f"body: {'x' * MAX_ARGUMENT}… (49,000 more characters, see the console)"
    assert len(lines) == MAX_ARGUMENTS + 1
    assert lines[-1] == "and 31 more, see the console"
    assert len(outcome(decided(reason="r" * 9000))) < MAX_REASON + 100


def test_unexpected_values_are_shown_as_a_person_reads_them() -> None:
    args = {"a": None, "b": True, "c": "", "d": [1, 2], "e": {"x": "y\nz"}, "f": [], "g": 900.0}
    assert dict(facts(the_notice(args=args)))["Arguments"].splitlines() == [
        "a: (none)",
        "b: yes",
        "c: (empty)",
        "d: 1, 2",
        'e: {"x":"y\\nz"}',
        "f: (empty)",
        "g: 900.0",
    ]


def test_call_without_arguments_or_summary_is_named_by_its_tool() -> None:
    notice = the_notice(args={}, summary=None)
    assert headline(notice) == "Ada asks to run pay"
    assert "Arguments" not in dict(facts(notice))


def test_each_reason_for_a_message_has_its_headline() -> None:
    request = "Ada asks to pay 900.00 euros to Nora"
    vote = Vote(by="Bea", at=NOW)
    given = PendingApproval(by=("finance",), quorum=2, given=(vote,))
    assert headline(the_notice()) == request
    assert headline(the_notice(NoticeKind.REMINDER, n=2)) == f"Reminder 2: {request}"
    assert headline(the_notice(NoticeKind.ESCALATED)) == f"Now yours to decide, too: {request}"
    voted = the_notice(NoticeKind.VOTED, approval=given)
    assert headline(voted) == f"1 of 2 approvals: {request}"
    assert headline(decided()) == "Approved by Bea: Pay 900.00 euros to Nora"
    edited = decided(exact_args={"amount": 800.0, "to": "Nora"})
    assert headline(edited) == ("Approved by Bea with changes. Asked for: Pay 900.00 euros to Nora")
    assert headline(the_notice(asked_again="definition")) == f"Asked again: {request}"


@pytest.mark.parametrize(
    ("edits", "count"),
    [
        ([None], "1 of 2 approvals"),
        ([{"amount": 900.0, "to": "Nora"}], "1 of 2 approvals"),
        ([{"amount": 800.0, "to": "Nora"}], "0 of 2 approvals, 1 of other arguments"),
        ([None, {"amount": 800.0, "to": "Nora"}], "1 of 2 approvals, 1 of other arguments"),
        (
            [{"amount": 1.0, "to": "Nora"}, None, {"amount": 2.0, "to": "Nora"}],
            "1 of 2 approvals, 1 of other arguments",
        ),
    ],
)
def test_votes_are_counted_for_the_arguments_that_the_message_shows(
    edits: list[Any], count: str
) -> None:
    votes = tuple(Vote(by=f"p{n}", at=NOW, exact_args=edit) for n, edit in enumerate(edits))
    given = PendingApproval(by=("finance",), quorum=2, given=votes)
    voted = the_notice(NoticeKind.VOTED, approval=given)
    assert headline(voted).startswith(f"{count}: ")
    assert outcome(voted).startswith(f"{count}, the newest by p{len(edits) - 1}")


@pytest.mark.parametrize(
    ("summary", "sentence"),
    [
        ("Refund of 42 euros", "Ada asks for approval: Refund of 42 euros"),
        ("SEPA transfer to Nora", "Ada asks for approval: SEPA transfer to Nora"),
        ("42 euros to Nora", "Ada asks for approval: 42 euros to Nora"),
        ("Refund 42 euros", "Ada asks to refund 42 euros"),
    ],
)
def test_only_an_order_becomes_a_sentence(summary: str, sentence: str) -> None:
    assert headline(the_notice(summary=summary)) == sentence


def test_other_waits_have_their_own_sentence() -> None:
    question = the_notice(
        kind=NoticeKind.REQUESTED, tool_name="survey", summary=None, payload={"question": "Which?"}
    )
    question = question.model_copy(
        update={"call": question.call.model_copy(update={"kind": SuspensionKind.INPUT})}
    )
    assert headline(question) == "survey asks a question in a run of Ada"
    assert dict(facts(question))["Question"] == "question: Which?"
    account = question.call.model_copy(
        update={"kind": SuspensionKind.CONNECT, "payload": {"connection": "github"}}
    )
    notice = question.model_copy(update={"call": account})
    assert headline(notice) == "Ada is asked to connect github"
    assert headline(the_notice(tool_name=BUDGET_TOOL, summary=None)) == (
        "Ada asks to let a run go on beyond its limits"
    )


def test_facts_say_what_a_person_decides_by() -> None:
    denials = tuple(
        Denial(args={"amount": n}, reason="too much", decided_by="Cleo", at=NOW) for n in range(5)
    )
    rule = PendingApproval(
        by=("finance", "legal"),
        quorum=2,
        reason_required=True,
        given=(
            Vote(by="Bea", at=NOW),
            Vote(by="Dan", at=NOW, exact_args={"amount": 800.0, "to": "Nora"}),
        ),
    )
    notice = the_notice(approval=rule, denied_before=denials, asked_again="definition")
    assert facts(notice) == [
        ("Agent", "payouts"),
        ("Tool", "pay"),
        ("Risk", "high"),
        ("Arguments", "amount: 900.0\nto: Nora"),
        ("Requested by", "Ada"),
        ("Needs", "2 of finance or legal, not Ada, with a reason"),
        ("Approved so far", "Bea, Dan (with changes)"),
        ("Expires", "2026-05-03 12:00 UTC (in 2 days)"),
        ("Denied before", 'by Cleo, 2026-05-01 12:00 UTC: “too much”, with {"amount":2}'),
        ("Denied before", 'by Cleo, 2026-05-01 12:00 UTC: “too much”, with {"amount":3}'),
        ("Denied before", 'by Cleo, 2026-05-01 12:00 UTC: “too much”, with {"amount":4}'),
        ("Denied before", "and 2 times more, see the console"),
        ("Asked again", "It was decided, and the tool's definition changed since. Nothing ran."),
    ]


def test_request_says_that_its_wish_was_taken_back() -> None:
    assert facts(the_notice(taken_back_at=NOW))[-1] == (
        "Taken back",
        "The message that led to it was edited since, or left.",
    )
    assert "Taken back" not in dict(facts(the_notice()))


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (timedelta(days=1, hours=5), "(in 1 day)"),
        (timedelta(hours=3), "(in 3 hours)"),
        (timedelta(seconds=20), "(in 1 minute)"),
        (timedelta(0), "(over)"),
    ],
)
def test_expiry_says_how_long_is_left(left: timedelta, words: str) -> None:
    assert dict(facts(the_notice(expires_at=NOW + left)))["Expires"].endswith(words)


def test_outcome_says_who_did_what_with_which_changes_and_why() -> None:
    edit = {"amount": 800.0, "to": "Nora", "note": "later"}
    assert outcome(decided(exact_args=edit, reason="The rest\nfollows.")).splitlines() == [
        "Approved by Bea with changes",
        "amount: 800.0 (asked for: 900.0)",
        "note: later (asked for: (none))",
        "Reason: “The rest ⏎ follows.”",
    ]
    assert outcome(decided(on_behalf_of="Cleo")) == "Approved by Cleo (through Bea)"
    assert outcome(the_notice()) == ""


def test_answer_is_not_told_to_everybody() -> None:
    told = outcome(decided(DecisionKind.RESUMED, data={"password": "secret"}))
    assert told == "Answered by Bea"


@pytest.mark.parametrize(
    ("kind", "by", "words"),
    [
        (DecisionKind.DENIED, "Bea", "Denied by Bea"),
        (DecisionKind.RESUMED, "Bea", "Answered by Bea"),
        (DecisionKind.CONNECTED, "Ada", "Connected by Ada"),
        (DecisionKind.EXPIRED, "system", "Expired"),
        (DecisionKind.CANCELLED, "system", "Cancelled"),
        (DecisionKind.CANCELLED, "Ada", "Cancelled by Ada"),
        (DecisionKind.WITHDRAWN, "Ada", "Withdrawn by Ada"),
    ],
)
def test_each_decision_has_its_word(kind: DecisionKind, by: str, words: str) -> None:
    assert outcome(decided(kind, decided_by=by)) == words


def test_question_that_nobody_answers_is_declined() -> None:
    notice = decided(DecisionKind.DENIED, reason="private")
    call = notice.call.model_copy(update={"kind": SuspensionKind.INPUT})
    declined = notice.model_copy(update={"call": call})
    assert outcome(declined) == "Declined by Bea\nReason: “private”"
    assert headline(declined).startswith("Declined by Bea: ")


def test_votes_for_the_same_other_arguments_are_counted_apart() -> None:
    other = {"amount": 800.0, "to": "Nora"}
    votes = (
        Vote(by="Bea", at=NOW),
        Vote(by="Dan", at=NOW, exact_args=other),
        Vote(by="Eve", at=NOW, exact_args=other, reason="Less."),
    )
    rule = PendingApproval(by=("finance",), quorum=3, given=votes)
    notice = the_notice(NoticeKind.VOTED, approval=rule)
    assert outcome(notice) == (
        "1 of 3 approvals, 2 of other arguments, the newest by Eve\nReason: “Less.”"
    )


def test_person_of_the_configuration_is_shown_by_the_address_there() -> None:
    channels = Channels(people=(Person(id="sub-1", mail="bea@example.com"),))
    assert outcome(decided(decided_by="sub-1"), channels) == "Approved by bea@example.com"
    assert headline(decided(decided_by="sub-1"), channels).startswith(
        "Approved by bea@example.com:"
    )
