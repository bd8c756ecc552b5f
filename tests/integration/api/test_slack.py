"""`POST /channels/slack`: whose requests are refused, who may decide, and what whoever pressed sees."""

import base64
import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.api.app import answer
from functions.api.routes_channels import MAX_BODY
from integration.api.kit import Api, Response, TestHost, http_event
from layover.clock import rfc3339
from layover.errors import RetryableError
from layover.inmemory.table import InMemoryTable
from layover.plugins.people.channels.slack.block_kit import APPROVE, DENY, CallRef
from layover.plugins.people.channels.slack.requests import is_signed
from layover.plugins.people.channels.slack.twin import PressFailed
from layover.plugins.people.press_book import TablePressBook
from layover.ports.channels import ChannelPorts, PressPorts
from layover.values.channels import Address, Notice, NoticeKind, SlackTeam
from layover.values.decision import ApprovalRule
from layover.values.deployment.access import SLACK
from layover.values.runs.run import CallRecord, SuspensionKind
from layover.values.runs.views import OpenApproval, Run
from support.examples import examples
from support.slack import (
    FINANCE,
    LINKS,
    SIGNING_SECRET,
    TOKEN,
    TOKEN_VARIABLE,
    SlackBench,
    buttons,
)
from support.worlds.services import ServiceBench

PAYOUTS = Address(channel="slack", to="#payouts")
RULE = ApprovalRule(by=("finance",))
ANN, BOB, CAROL, DAVE, EVE = "U1ANN", "U2BOB", "U3CAROL", "U4DAVE", "U9EVE"
APPROVE_FORM, DENY_FORM, ANSWER_FORM = (
    "layover_approve_form",
    "layover_deny_form",
    "layover_answer_form",
)
SLACKS_EXAMPLE = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
    "channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
    "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
    "96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)


class Office:
    """The API, the workspace, and a person who presses."""

    def __init__(self, world: ServiceBench, host: TestHost) -> None:
        self.world, self.api = world, Api(world, host)
        self.bench = SlackBench(world.clock)
        self.slack = self.bench.slack
        self.headers: dict[str, str] = {}
        """More headers of each request of Slack's."""

        async def signing_secret() -> str:
            return SIGNING_SECRET

        ports = PressPorts(signing_secret, self.bench.sender, TablePressBook(InMemoryTable()))
        channels = ChannelPorts(config=FINANCE, presses={"slack": ports})
        world.runtime = replace(world.runtime, channels=channels)

    def ask(self, **options: Any) -> tuple[Run, CallRecord]:
        """Let a call wait, and tell #payouts."""
        run, call = self.api.do(self.world.suspended(**{"approval": RULE, **options}))
        self.api.do(self.world.token(call))
        self.tell(run)
        return run, call

    def tell(self, run: Run) -> None:
        """Send the message about the run's call."""
        pending = self.api.get(f"/runs/{run.id}").json["pending"][0]
        ids = {"run_id": run.id, "thread_id": run.thread_id, "agent": run.agent}
        call = OpenApproval.model_validate({**pending, **ids})
        now = self.world.clock.now()
        notice = Notice(kind=NoticeKind.REQUESTED, owner="ann", call=call, at=now)
        self.bench.pass_a_second()
        self.api.do(self.bench.sender.send(PAYOUTS, notice, LINKS, once=run.id, unsure=False))

    def send(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Bring one request of Slack's to the API."""
        response = self.post(body.decode(), headers)
        return response.status, response.body.encode()

    def post(self, body: str, headers: Mapping[str, str]) -> Response:
        return self.api.send(
            "POST", SLACK, text=body, sub=None, headers={**headers, **self.headers}
        )

    def press(self, action: str, user: str) -> None:
        self.slack.press(self.send, "#payouts", action, user)

    def submit(self, inputs: Mapping[str, Any], user: str) -> Any:
        """Send the one open form."""
        [view] = self.slack.views
        return self.slack.submit(self.send, view, inputs, user)

    def signed(self, interaction: Any) -> tuple[str, dict[str, str]]:
        body = urlencode({"payload": json.dumps(interaction)})
        return body, self.slack.sign(body.encode())

    @property
    def woken(self) -> list[str]:
        return self.world.callbacks.woken

    def decisions(self, run: Run) -> list[tuple[str, str, str | None]]:
        events = self.api.get(f"/runs/{run.id}/events").json["items"]
        return [
            (e["decision"], e["decided_by"], e["reason"])
            for e in events
            if e["type"] == "tool-call-decided"
        ]


@pytest.fixture
def office(world: ServiceBench, api: Api, monkeypatch: pytest.MonkeyPatch) -> Office:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    return Office(world, api.host)


def test_slacks_own_example_is_signed() -> None:
    secret, timestamp = "8f742231b10e8888abcd99yyyzzz85a5", "1531420618"
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    at = datetime.fromtimestamp(int(timestamp), UTC)
    body = SLACKS_EXAMPLE.encode()
    assert is_signed(secret, timestamp, signature, body, at)
    assert is_signed(secret, timestamp, signature, body, at + timedelta(minutes=5))
    assert not is_signed(secret, timestamp, signature, body + b"&", at)
    assert not is_signed(secret, "1531420619", signature, body, at)


def test_nobody_signs_with_an_empty_secret() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    timestamp = str(int(at.timestamp()))
    digest = hmac.new(b"", f"v0:{timestamp}:x".encode(), sha256).hexdigest()
    assert not is_signed("", timestamp, f"v0={digest}", b"x", at)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-slack-signature": ""},
        {"x-slack-signature": "v0="},
        {"x-slack-signature": "v0=" + "0" * 64},
        {"x-slack-signature": "v1=" + "0" * 64},
        {"x-slack-signature": "ünsigned"},
        {"x-slack-request-timestamp": ""},
        {"x-slack-request-timestamp": "now"},
        {"x-slack-request-timestamp": "-1"},
        {"x-slack-request-timestamp": "\u0661"},
        {"x-slack-request-timestamp": "1" * 5_000},
        {"content-type": "application/json"},
        {"content-type": "text/plain"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": ""},
    ],
)
def test_forged_request_is_refused_without_a_word_of_the_reason(
    office: Office, headers: dict[str, str]
) -> None:
    run, _ = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, BOB)
    body, signed = office.signed(interaction)
    refused = office.post(body, {**signed, **headers})
    problem = refused.problem(401, "unsigned")
    assert problem["detail"] == "the request is not accepted"
    assert office.woken == []
    assert office.decisions(run) == []


def test_a_request_is_bound_to_its_body(office: Office) -> None:
    run, _ = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, BOB)
    body, signed = office.signed(interaction)
    as_carol = body.replace(BOB, CAROL)
    assert as_carol != body
    office.post(as_carol, signed).problem(401, "unsigned")
    assert office.decisions(run) == []


@pytest.mark.parametrize("minutes", [-6, -60, 6, 60])
def test_old_and_future_requests_are_refused(office: Office, minutes: int) -> None:
    run, _ = office.ask()
    body, _ = office.signed(office.slack.pressing("#payouts", APPROVE, BOB))
    at = office.world.clock.now() + timedelta(minutes=minutes)
    office.post(body, office.slack.sign(body.encode(), at.timestamp())).problem(401, "unsigned")
    assert office.decisions(run) == []


def test_a_replayed_request_is_refused(office: Office) -> None:
    run, _ = office.ask()
    body, signed = office.signed(office.slack.pressing("#payouts", APPROVE, BOB))
    assert office.post(body, signed).status == 200
    office.post(body, signed).problem(401, "unsigned")
    office.world.clock.advance(timedelta(minutes=4))
    office.post(body, signed).problem(401, "unsigned")
    assert office.decisions(run) == [("approved", "bob", None)]
    assert office.slack.private == []


def test_a_copy_that_slack_sends_is_passed_over(office: Office) -> None:
    run, _ = office.ask()
    body, signed = office.signed(office.slack.pressing("#payouts", APPROVE, BOB))
    assert office.post(body, signed).status == 200
    again = office.post(body, {**signed, "x-slack-retry-num": "1"})
    assert (again.status, again.json) == (200, {})
    assert office.decisions(run) == [("approved", "bob", None)]


def test_a_press_that_is_sent_again_does_not_fail_in_front_of_the_person(office: Office) -> None:
    run, _ = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, BOB)
    for _ in range(2):
        body, signed = office.signed(interaction)
        assert office.post(body, signed).status == 200
        office.bench.pass_a_second()
    assert office.decisions(run) == [("approved", "bob", None)]
    assert office.slack.private == [
        (BOB, "You had decided this in the same way before. It counts once.")
    ]


def test_a_large_body_is_refused_before_it_is_read(office: Office) -> None:
    body = "payload=" + "x" * MAX_BODY
    office.post(body, office.slack.sign(body.encode())).problem(413, "too-large")


def test_a_deployment_without_slack_answers_like_one_that_was_sent_a_forgery(api: Api) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = api.post(SLACK, sub=None, headers=form).problem(401, "unsigned")
    assert refused["detail"] == "the request is not accepted"


def test_a_bearer_token_is_no_signature(office: Office) -> None:
    office.api.post(SLACK, {"payload": "{}"}).problem(401, "unsigned")
    office.api.get(SLACK, sub=None).problem(405, "method-not-allowed")


def test_a_table_that_is_down_is_an_error_that_passes(office: Office) -> None:
    class Down:
        async def accept_once(self, signature: str, now: datetime) -> bool:
            raise RetryableError("throttled")

    run, _ = office.ask()
    channels = office.world.runtime.channels
    slack = replace(channels.presses["slack"], book=Down())
    down = replace(channels, presses={"slack": slack})
    office.world.runtime = replace(office.world.runtime, channels=down)
    with pytest.raises(PressFailed, match="503"):
        office.press(APPROVE, BOB)
    assert office.decisions(run) == []


@pytest.mark.parametrize(("action", "verdict"), [(APPROVE, "approved"), (DENY, "denied")])
def test_a_press_is_the_decision_of_the_person_who_pressed(
    office: Office, action: str, verdict: str
) -> None:
    run, call = office.ask()
    office.press(action, BOB)
    assert office.decisions(run) == [(verdict, "bob", None)]
    assert office.woken == [f"token of {run.id}"]
    record = office.api.do(office.world.journal.runs.call("ann", run.id, call.key))
    assert record is not None
    assert record.decision is not None
    assert record.decision.via == "slack"
    assert office.slack.private == []


@pytest.mark.parametrize(
    ("user", "words"),
    [
        (EVE, "Layover does not know you in Slack"),
        (DAVE, "you may not decide this call, or it is not there any more"),
        (ANN, "this call waits for a member of finance who does not own the run"),
    ],
)
@pytest.mark.parametrize("action", [APPROVE, DENY])
def test_a_press_without_the_right_changes_nothing_and_only_that_person_is_told(
    office: Office, action: str, user: str, words: str
) -> None:
    run, _ = office.ask()
    before = json.dumps(office.slack.messages("#payouts"))
    office.press(action, user)
    assert office.decisions(run) == []
    assert office.woken == []
    [(to, text)] = office.slack.private
    assert to == user
    assert text.startswith("Nothing has changed: ")
    assert words in text
    assert json.dumps(office.slack.messages("#payouts")) == before


def test_a_display_name_makes_nobody_an_approver(office: Office) -> None:
    run, _ = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, EVE)
    interaction["user"] |= {"username": "bob", "name": "bob@example.com"}
    body, signed = office.signed(interaction)
    assert office.post(body, signed).status == 200
    assert office.decisions(run) == []


def test_a_call_that_was_decided_stays_so(office: Office) -> None:
    run, _ = office.ask()
    office.press(DENY, BOB)
    office.press(APPROVE, CAROL)
    assert office.decisions(run) == [("denied", "bob", None)]
    assert office.slack.private == [(CAROL, "Nothing has changed: the call was denied already.")]


def test_an_expired_call_takes_no_press(office: Office) -> None:
    at = office.world.clock.now() + timedelta(hours=1)
    run, _ = office.ask(expires_at=at)
    office.world.clock.advance(timedelta(hours=2))
    office.press(APPROVE, BOB)
    assert office.decisions(run) == []
    assert office.slack.private == [(BOB, "Nothing has changed: the call has expired.")]


def test_a_press_on_an_earlier_attempt_decides_nothing(office: Office) -> None:
    run, _ = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, BOB)
    [action] = interaction["actions"]
    action["value"] = CallRef(run.id, "c1", 7).encode()
    body, signed = office.signed(interaction)
    assert office.post(body, signed).status == 200
    assert office.decisions(run) == []
    assert office.slack.private == [
        (BOB, "Nothing has changed: attempt 1 of the call waits, not 7.")
    ]


def test_a_call_that_is_not_there_is_told_like_one_that_is_anothers(office: Office) -> None:
    run, _ = office.ask()
    for run_id, call_id in (("run_404", "c1"), (run.id, "c404"), ("run_1#x", "c1")):
        interaction = office.slack.pressing("#payouts", APPROVE, BOB)
        interaction["actions"][0]["value"] = CallRef(run_id, call_id, 1).encode()
        body, signed = office.signed(interaction)
        assert office.post(body, signed).status == 200
        office.bench.pass_a_second()
    assert {text for _, text in office.slack.private} == {
        "Nothing has changed: you may not decide this call, or it is not there any more."
    }
    assert len(office.slack.private) == 3


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "{}",
        "[]",
        "[" * 2_000,
        '{"run": "", "call": "", "attempt": 1}',
        '{"run": "\\ud800", "call": "c1", "attempt": 1}',
        '{"run": "run_1", "call": "c\\u0000", "attempt": 1}',
        '{"run": "run_1", "call": "c1", "attempt": true}',
        '{"run": "run_1", "call": "c1"}',
    ],
)
def test_a_button_that_names_no_call_is_passed_over(office: Office, value: str | None) -> None:
    run, _ = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, BOB)
    interaction["actions"][0]["value"] = value
    body, signed = office.signed(interaction)
    assert office.post(body, signed).json == {}
    assert (office.decisions(run), office.slack.private) == ([], [])


def test_two_people_who_press_make_a_quorum_of_two(office: Office) -> None:
    run, _ = office.ask(approval=RULE.model_copy(update={"quorum": 2}))
    office.press(APPROVE, BOB)
    assert office.woken == []
    office.press(APPROVE, BOB)  # one person, however often
    assert office.woken == []
    [(to, text)] = office.slack.private
    assert (to, text.split(".")[0]) == (BOB, "You had decided this in the same way before")
    office.press(APPROVE, CAROL)
    assert office.woken == [f"token of {run.id}"]
    assert office.decisions(run) == [("approved", "carol", None)]


def test_what_was_decided_stands_if_slack_takes_no_answer(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    run, _ = office.ask()
    office.press(DENY, BOB)
    office.bench.client.down = True
    office.press(APPROVE, CAROL)  # 200 all the same
    assert office.decisions(run) == [("denied", "bob", None)]
    assert "a person was not told in Slack" in caplog.text


def test_a_link_that_somebody_follows_decides_nothing(office: Office) -> None:
    run, _ = office.ask()
    office.press("layover_console", BOB)
    assert office.decisions(run) == []
    assert office.slack.private == []


def test_an_answer_that_takes_four_seconds_fails_the_press(office: Office) -> None:
    office.ask()

    def slow(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        office.world.clock.advance(timedelta(seconds=4))
        return office.send(headers, body)

    with pytest.raises(PressFailed, match="three seconds"):
        office.slack.press(slow, "#payouts", APPROVE, BOB)


def test_a_reason_is_asked_for_by_a_form(office: Office) -> None:
    run, _ = office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    [message] = office.slack.messages("#payouts")
    assert buttons(message)[:2] == ["Approve with a reason", "Deny with a reason"]
    office.press(DENY_FORM, BOB)
    assert office.decisions(run) == []
    blank = office.submit({"reason": "   "}, BOB)
    assert blank["errors"] == {"reason": "a decision about this call needs a reason"}
    assert office.decisions(run) == []
    assert office.submit({"reason": "too much"}, BOB) == {"response_action": "clear"}
    assert office.decisions(run) == [("denied", "bob", "too much")]
    assert office.slack.views == {}


def test_a_press_without_the_reason_that_is_needed_decides_nothing(office: Office) -> None:
    """A message of before the rule was made stricter still has the plain buttons."""
    run, _ = office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    interaction = office.slack.pressing("#payouts", APPROVE_FORM, BOB)
    interaction["actions"][0]["action_id"] = APPROVE
    body, signed = office.signed(interaction)
    assert office.post(body, signed).status == 200
    assert office.decisions(run) == []
    [(_, text)] = office.slack.private
    assert text == "Nothing has changed: a decision about this call needs a reason."


@pytest.mark.parametrize("user", [EVE, DAVE, ANN])
def test_a_form_opens_for_nobody_who_may_not_decide(office: Office, user: str) -> None:
    office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    office.press(APPROVE_FORM, user)
    assert office.slack.views == {}
    [(to, _)] = office.slack.private
    assert to == user


def test_a_form_opens_for_no_call_that_was_decided(office: Office) -> None:
    run, _ = office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    body = {"attempt": 1, "reason": "no"}
    url = f"/runs/{run.id}/tool-calls/c1/deny"
    claims = {"cognito:groups": "[finance]"}
    assert office.api.post(url, body, sub="carol", claims=claims).status == 202
    office.press(APPROVE_FORM, BOB)
    assert office.slack.views == {}
    assert office.slack.private == [(BOB, "Nothing has changed: the call was denied already.")]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        # An answer to an earlier question is not held against the schema of the newer one.
        ({"private_metadata": {"attempt": 7}}, "attempt 1 of the call waits, not 7"),
        ({"private_metadata": {"verdict": "grant"}}, None),
        ({"private_metadata": None}, None),
        ({"callback_id": "anothers"}, None),
        ({"state": None}, "This is needed"),
    ],
)
def test_a_form_that_is_not_this_one_decides_nothing(
    office: Office, change: dict[str, Any], told: str | None
) -> None:
    run, _ = office.ask(kind=SuspensionKind.INPUT)
    office.press(ANSWER_FORM, BOB)
    [view] = office.slack.views
    inputs = {} if "private_metadata" in change else {"data.slot": "9:00"}
    interaction = office.slack.submitting(view, inputs, BOB)
    metadata = change.get("private_metadata")
    if metadata:
        sent = json.loads(interaction["view"]["private_metadata"])
        change = {"private_metadata": json.dumps(sent | metadata)}
    interaction["view"] |= change
    body, signed = office.signed(interaction)
    answered = office.post(body, signed)
    assert answered.status == 200
    assert (told in answered.body) if told else (answered.json == {})
    assert office.decisions(run) == []


def test_a_form_that_another_sends_is_decided_by_whoever_sends_it(office: Office) -> None:
    run, _ = office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    office.press(APPROVE_FORM, BOB)
    told = office.submit({"reason": "mine"}, DAVE)
    assert told["response_action"] == "update"
    assert "you may not decide this call" in json.dumps(told["view"])
    assert office.decisions(run) == []


def test_a_form_that_opens_too_late_says_so(office: Office) -> None:
    office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    body, signed = office.signed(office.slack.pressing("#payouts", APPROVE_FORM, BOB))
    office.world.clock.advance(timedelta(seconds=4))
    assert office.post(body, signed).status == 200
    assert office.slack.views == {}
    assert office.slack.private == [
        (BOB, "Slack did not open the form. Press again: a button is good for three seconds.")
    ]


def test_a_call_that_waits_for_an_answer_gets_it_by_a_form(office: Office) -> None:
    run, call = office.ask(kind=SuspensionKind.INPUT)
    office.press(ANSWER_FORM, BOB)
    missing = office.submit({}, BOB)
    assert missing == {"response_action": "errors", "errors": {"data.slot": "This is needed."}}
    assert office.decisions(run) == []
    assert office.submit({"data.slot": "9:00"}, BOB) == {"response_action": "clear"}
    record = office.api.do(office.world.journal.runs.call("ann", run.id, call.key))
    assert record is not None
    assert record.decision is not None
    assert (record.decision.data, record.decision.decided_by) == ({"slot": "9:00"}, "bob")


def test_a_call_that_waits_for_an_answer_is_declined_by_a_press(office: Office) -> None:
    run, _ = office.ask(kind=SuspensionKind.INPUT)
    [message] = office.slack.messages("#payouts")
    assert buttons(message)[:2] == ["Answer", "Decline"]
    office.press(DENY, EVE)
    assert office.decisions(run) == []
    office.press(ANSWER_FORM, BOB)
    office.press(DENY, BOB)
    assert office.decisions(run) == [("denied", "bob", None)]
    told = office.submit({"data.slot": "9:00"}, BOB)
    assert "the call was denied already" in json.dumps(told["view"])
    assert office.decisions(run) == [("denied", "bob", None)]


def test_a_decline_that_needs_a_reason_is_made_by_a_form(office: Office) -> None:
    rule = RULE.model_copy(update={"reason_required": True})
    run, _ = office.ask(kind=SuspensionKind.INPUT, approval=rule)
    office.press(DENY_FORM, BOB)
    [view] = office.slack.views.values()
    assert view["title"]["text"] == view["submit"]["text"] == "Decline"
    assert office.submit({"reason": "private"}, BOB) == {"response_action": "clear"}
    assert office.decisions(run) == [("denied", "bob", "private")]


def test_a_form_that_is_sent_after_another_decision_says_so(office: Office) -> None:
    run, _ = office.ask(kind=SuspensionKind.INPUT)
    office.press(ANSWER_FORM, BOB)
    url = f"/runs/{run.id}/tool-calls/c1/resume"
    claims = {"cognito:groups": "[finance]"}
    body = {"attempt": 1, "data": {"slot": "8:00"}}
    assert office.api.post(url, body, sub="carol", claims=claims).status == 202
    told = office.submit({"data.slot": "9:00"}, BOB)
    assert told["response_action"] == "update"
    assert "the call was resumed already" in json.dumps(told["view"])


def test_a_form_that_is_sent_twice_is_taken_once(office: Office) -> None:
    run, _ = office.ask(kind=SuspensionKind.INPUT)
    office.press(ANSWER_FORM, BOB)
    [view] = office.slack.views
    interaction = office.slack.submitting(view, {"data.slot": "9:00"}, BOB)
    for expected in ("clear", "update"):
        body, signed = office.signed(interaction)
        taken = office.post(body, signed)
        assert (taken.status, taken.json["response_action"]) == (200, expected)
        office.bench.pass_a_second()
    assert len(office.decisions(run)) == 1


def test_set_up_and_other_interactions_are_answered(office: Office) -> None:
    for interaction, expected in (
        ({"type": "url_verification", "challenge": "abc"}, {"challenge": "abc"}),
        ({"type": "shortcut"}, {}),
        ({"type": "view_closed"}, {}),
        ({"type": "block_actions", "actions": [{"action_id": "anothers"}]}, {}),
        ({"type": "view_submission", "view": {"callback_id": "anothers"}}, {}),
        ([], {}),
        (None, {}),
    ):
        body, signed = office.signed(interaction)
        taken = office.post(body, signed)
        assert (taken.status, taken.json) == (200, expected), interaction
        office.bench.pass_a_second()
    body = "ssl_check=1"
    assert office.post(body, office.slack.sign(body.encode())).json == {}


def test_a_body_that_the_gateway_encoded_is_the_same_body(office: Office) -> None:
    run, _ = office.ask()
    body, signed = office.signed(office.slack.pressing("#payouts", APPROVE, BOB))
    encoded = base64.b64encode(body.encode()).decode()
    taken = office.api.send("POST", SLACK, text=encoded, sub=None, headers=signed, is_base64=True)
    assert taken.status == 200
    assert office.decisions(run) == [("approved", "bob", None)]


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Office]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN_VARIABLE, TOKEN)
        world = ServiceBench()
        host = TestHost(world)
        yield Office(world, host)
        host.close()


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from([APPROVE, DENY, APPROVE_FORM, ANSWER_FORM, BOB, "layover_form", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for key, each in inner for p in paths_of(each, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    at, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at] = changed(value[at], tuple(rest), new)
    return copy


@settings(examples(200, *HealthCheck), derandomize=True)
@given(data=st.data(), is_form=st.booleans())
def test_no_payload_breaks_the_endpoint_or_decides_for_a_stranger(
    fuzzed: Office, data: st.DataObject, is_form: bool
) -> None:
    office = fuzzed
    office.world.clock.advance(timedelta(seconds=2))
    if not office.slack.messages("#payouts"):
        office.run, _ = office.ask(kind=SuspensionKind.INPUT)  # type: ignore[attr-defined]
    run: Run = office.run  # type: ignore[attr-defined]
    # Bob may decide, but a press of these buttons decides nothing of a call that waits for an answer.
    interaction = office.slack.pressing("#payouts", ANSWER_FORM, BOB)
    if is_form:
        ref = CallRef(run.id, "c1", 1).encode(verdict="resume")
        values = {"data.slot": {"value": {"type": "plain_text_input", "value": "9:00"}}}
        view = {"callback_id": "layover_form", "private_metadata": ref, "state": {"values": values}}
        interaction = {"type": "view_submission", "user": {"id": EVE}, "view": view}
    path = data.draw(st.sampled_from(paths_of(interaction)))
    mutated = changed(interaction, path, data.draw(_JSON))
    raw = data.draw(st.sampled_from(["", "&payload=", "&x=%ff%00", "&" * 30]))
    body = urlencode({"payload": json.dumps(mutated)}) + raw
    event = http_event("POST", SLACK, body, office.slack.sign(body.encode()), None)
    result = answer(event, None, office.api.host)
    assert result["statusCode"] in (200, 401), result
    user = mutated.get("user") if isinstance(mutated, dict) else None
    if not is_form or user != {"id": BOB}:
        assert office.decisions(run) == []


def test_times_are_what_the_journal_has(office: Office) -> None:
    """The decision's time is the API's, whatever Slack says of the press."""
    run, call = office.ask()
    interaction = office.slack.pressing("#payouts", APPROVE, BOB)
    interaction["actions"][0]["action_ts"] = "1.0"
    body, signed = office.signed(interaction)
    assert office.post(body, signed).status == 200
    record = office.api.do(office.world.journal.runs.call("ann", run.id, call.key))
    assert record is not None
    assert record.decision is not None
    assert rfc3339(record.decision.at) == rfc3339(office.world.clock.now())


# Where a press comes from

HERE = SlackTeam(team="T0LOCAL", app="A0LOCAL")


def told_to(office: Office, place: SlackTeam | None) -> None:
    """Let the configuration name this installation."""
    channels = office.world.runtime.channels
    config = channels.config.model_copy(update={"slack_team": place})
    office.world.runtime = replace(office.world.runtime, channels=replace(channels, config=config))


def press_of(run: Run, **changed: Any) -> dict[str, Any]:
    """Return what Slack sends when Bob presses *Approve*, with other facts of where he is."""
    action = {"action_id": APPROVE, "value": CallRef(run.id, "c1", 1).encode()}
    return {
        "type": "block_actions",
        "user": {"id": BOB, "team_id": "T0LOCAL"},
        "team": {"id": "T0LOCAL"},
        "api_app_id": "A0LOCAL",
        "actions": [action],
        **changed,
    }


def test_presses_and_forms_of_the_named_installation_count(office: Office) -> None:
    told_to(office, HERE)
    run, _ = office.ask()
    office.press(APPROVE, BOB)
    assert [each[:2] for each in office.decisions(run)] == [("approved", "bob")]
    second, _ = office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    office.press(APPROVE_FORM, BOB)
    office.submit({"reason": "right"}, BOB)
    assert [each[0] for each in office.decisions(second)] == ["approved"]


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        (HERE, {"team": {"id": "T9OTHER"}}),
        (HERE, {"user": {"id": BOB, "team_id": "T9OTHER"}}),
        (HERE, {"team": None, "user": {"id": BOB}}),
        (HERE, {"api_app_id": "A9OTHER"}),
        (HERE, {"api_app_id": None}),
        (HERE, {"enterprise": {"id": "E9OTHER"}}),
        (HERE.model_copy(update={"enterprise": "E1"}), {}),
        (HERE.model_copy(update={"enterprise": "E1"}), {"enterprise": {"id": "E9OTHER"}}),
        (HERE, {"view": {"team_id": "T9OTHER"}}),
        # Somebody of another workspace, in a channel that both share.
        (None, {"user": {"id": BOB, "team_id": "T9OTHER"}}),
    ],
)
def test_press_from_elsewhere_decides_nothing_though_it_is_signed(
    office: Office, place: SlackTeam | None, changed: dict[str, Any]
) -> None:
    told_to(office, place)
    run, _ = office.ask()
    body, headers = office.signed(press_of(run, **changed))
    assert office.post(body, headers).status == 200
    assert office.decisions(run) == []
    told_to(office, HERE)
    body, headers = office.signed(press_of(run, trigger_id="another"))
    assert office.post(body, headers).status == 200
    assert [each[0] for each in office.decisions(run)] == ["approved"]


def test_press_in_a_workspace_of_the_named_organisation_counts(office: Office) -> None:
    told_to(office, HERE.model_copy(update={"enterprise": "E1"}))
    run, _ = office.ask()
    body, headers = office.signed(press_of(run, enterprise={"id": "E1", "name": "all"}))
    office.post(body, headers)
    assert [each[0] for each in office.decisions(run)] == ["approved"]


def test_form_that_is_sent_from_elsewhere_decides_nothing(office: Office) -> None:
    told_to(office, HERE)
    run, _ = office.ask(approval=RULE.model_copy(update={"reason_required": True}))
    office.press(APPROVE_FORM, BOB)
    told_to(office, SlackTeam(team="T9OTHER", app="A0LOCAL"))
    office.submit({"reason": "right"}, BOB)
    assert office.decisions(run) == []
