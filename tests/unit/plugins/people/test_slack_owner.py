"""A call that only its owner decides, in the owner's direct messages."""

import json
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from layover.inmemory.table import InMemoryTable
from layover.plugins.people.channels.slack.block_kit import APPROVE
from layover.plugins.people.channels.slack.presses import answer_interaction
from layover.plugins.people.channels.slack.twin import PressFailed
from layover.plugins.people.press_book import TablePressBook
from layover.ports.channels import PressPorts
from support.slack import SIGNING_SECRET, TOKEN, TOKEN_VARIABLE, SlackBench, buttons, visible
from support.worlds.channels import ANN, BEA, Told, asked, refund


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)


async def _signing_secret() -> str:
    return SIGNING_SECRET


async def asked_in_slack() -> tuple[Told, str, SlackBench, PressPorts]:
    """A run of Ann's, of which she is told in Slack."""
    told, run_id = await asked(refund)
    office = SlackBench(told.bench.clock)
    slack = PressPorts(_signing_secret, office.sender, TablePressBook(InMemoryTable()))
    senders = {**told.ports.senders, "slack": office.sender}
    told.ports = replace(told.ports, senders=senders, presses={"slack": slack})
    told.runtime = replace(told.runtime, channels=told.ports)
    await told.tell()
    return told, run_id, office, slack


async def test_somebody_else_who_presses_there_decides_nothing() -> None:
    told, run_id, office, slack = await asked_in_slack()
    press = office.slack.pressing(ANN.places["slack"], APPROVE, BEA.places["slack"])
    await answer_interaction(told.runtime, slack, press)
    assert (await told.bench.call(run_id, "call_1")).decision is None


async def test_its_buttons_decide_and_it_says_so_then() -> None:
    told, run_id, office, slack = await asked_in_slack()
    [message] = office.slack.messages(ANN.places["slack"])
    assert buttons(message) == ["Approve", "Deny", "Open in the console"]
    await answer_interaction(
        told.runtime,
        slack,
        office.slack.pressing(ANN.places["slack"], APPROVE, ANN.places["slack"]),
    )
    decision = (await told.bench.call(run_id, "call_1")).decision
    assert decision is not None
    assert (decision.kind, decision.decided_by) == ("approved", "ann")
    await told.tell()
    [message] = office.slack.messages(ANN.places["slack"])
    assert "Approved by" in visible(message)
    with pytest.raises(PressFailed, match="no such button"):
        office.slack.pressing(ANN.places["slack"], APPROVE, ANN.places["slack"])


def test_slack_takes_a_user_for_the_apps_chat_with_them() -> None:
    slack = SlackBench().slack
    body = urlencode(
        {"channel": "U0000009", "text": "hello", "blocks": json.dumps([{"type": "divider"}])}
    )
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = slack.respond("POST", "/api/chat.postMessage", headers, body.encode())
    reply = json.loads(answer[2])
    assert (reply["ok"], reply["channel"]) == (True, "D0000009")
    assert [m["text"] for m in slack.messages("U0000009")] == ["hello"]
