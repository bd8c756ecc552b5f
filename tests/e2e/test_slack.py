"""A request reaches Slack, a press there decides it, and the message says so: by the whole system."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx2
import pytest

from layover.plugins.people.channels.slack.block_kit import APPROVE, CallRef
from layover.plugins.people.channels.slack.twin import FakeSlack
from layover.plugins.people.channels.twins import Outbox
from support.providers.openai import call, say
from support.system.folders import folder
from support.system.system import Brain, Json, System, eventually

CHANNELS = {
    "finance": [{"slack": "#payouts"}],
    "owner": [{"slack": "@owner"}],
    "people": {
        "bea@example.com": {"id": "bea", "groups": ["finance"], "slack": "U0BEA"},
        "dora@example.com": {"id": "dora", "slack": "U0DORA"},
    },
}


@pytest.fixture(scope="module")
def office(brain: Brain) -> Iterator[System]:
    """A system with a channel in Slack."""
    variables = {"LAYOVER_CHANNELS": json.dumps(CHANNELS)}
    with (
        folder("slack") as data,
        System(data, brain, agents="support.agents.deciding", variables=variables) as running,
    ):
        yield running


def press(system: System, run: Json, user: str) -> int:
    """Press the button of the run's message; the status of the answer."""
    ref = CallRef(run["id"], run["pending"][0]["tool_call_id"], 1)
    action = {"type": "button", "action_id": APPROVE, "value": ref.encode()}
    interaction = {"type": "block_actions", "user": {"id": user}, "actions": [action]}
    body = urlencode({"payload": json.dumps(interaction)}).encode()
    headers = FakeSlack(Outbox()).sign(body)
    url = f"{system.url}/channels/slack"
    answer = httpx2.post(url, content=body, headers=headers, timeout=30)
    return int(answer.status_code)


def test_a_press_decides_and_the_message_says_so(office: System, brain: Brain) -> None:
    ann = office.caller("ann")
    text = brain.plan(call("pay_by_others", amount=900.25), say("done"))
    run = ann.ask(ann.thread(agent="treasurer"), text)
    [message] = eventually(lambda: [m for m in office.outbox() if m["to"] == "#payouts"])
    assert (message["channel"], message["to"], message["kind"]) == ("slack", "#payouts", "message")
    assert press(office, run, "U0EVE") == 200
    assert ann.run(run["id"])["status"] == "suspended"
    assert press(office, run, "U0BEA") == 200
    assert ann.over(run["id"])["status"] == "success"
    changed = eventually(office.outbox, lambda messages: len(messages) > 1)[-1]
    assert (changed["to"], changed["kind"]) == ("#payouts", "update")
    assert "Approved by bea@example.com" in changed["text"]


def test_a_call_that_only_its_owner_decides_reaches_the_owners_direct_messages(
    office: System, brain: Brain
) -> None:
    dora = office.caller("dora")
    text = brain.plan(call("pay", amount=12.5), say("done"))
    run = dora.ask(dora.thread(agent="treasurer"), text)

    def of_dora() -> list[Json]:
        return [m for m in office.outbox() if m["to"] == "U0DORA"]

    [message] = eventually(of_dora)
    assert (message["kind"], run["id"] in message["link"]) == ("message", True)
    assert press(office, run, "U0BEA") == 200
    assert dora.run(run["id"])["status"] == "suspended"
    assert press(office, run, "U0DORA") == 200
    assert dora.over(run["id"])["status"] == "success"
    changed = eventually(of_dora, lambda messages: len(messages) > 1)[-1]
    assert changed["kind"] == "update"
    assert "Approved by dora@example.com" in changed["text"]
