"""People are told of a call that waits, and of what became of it, by the whole system on one machine."""

import json
from collections.abc import Iterator

import pytest

from support.providers.openai import call, say
from support.system.folders import folder
from support.system.system import Brain, Json, System, eventually

CHANNELS = {
    "finance": [{"mail": ["bea@example.com", "all@example.com"]}, {"teams": "FINANCE_TEAMS"}],
    "owner": [{"mail": "@owner"}, {"slack": "#asks"}],
    "people": {
        "bea@example.com": {"id": "bea", "groups": ["finance"]},
        "ann@example.com": {"id": "ann", "slack": "U0000002"},
    },
    "mail_from": "approvals@example.com",
}
MAILS = [("mail", "all@example.com"), ("mail", "bea@example.com")]


@pytest.fixture(scope="module")
def told(brain: Brain) -> Iterator[System]:
    """A system with channels."""
    variables = {"LAYOVER_CHANNELS": json.dumps(CHANNELS)}
    with (
        folder("channels") as data,
        System(data, brain, agents="support.agents.deciding", variables=variables) as running,
    ):
        yield running


def of(system: System, run: Json) -> list[Json]:
    """Return what people were sent about this run."""
    return [
        message
        for message in system.outbox()
        if run["id"] in (message["link"] or "") and message["channel"] != "slack"
    ]


def places(messages: list[Json]) -> list[tuple[str, str]]:
    return sorted({(m["channel"], m["to"]) for m in messages if m["channel"] != "teams"})


def test_the_request_and_the_outcome_reach_everybody(told: System, brain: Brain) -> None:
    ann, bea = told.caller("ann"), told.caller("bea;groups=finance")
    text = brain.plan(call("pay_by_others", amount=900.25), say("done"))
    run = ann.ask(ann.thread(agent="treasurer"), text)
    asked = eventually(lambda: of(told, run), lambda m: len(m) >= 3)
    assert (len(asked), places(asked)) == (3, MAILS)
    assert all("900.25" in message["text"] for message in asked)
    assert [m["channel"] for m in asked].count("teams") == 1
    links = {m["to"]: m["link"] for m in asked}
    assert links["bea@example.com"].startswith(f"{told.url}/decide/")
    assert "/decide/" not in links["all@example.com"]
    bea.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
    assert ann.over(run["id"])["status"] == "success"
    # Both mails and the card again, and whoever asked: by mail and in Slack.
    after = eventually(lambda: of(told, run)[3:], lambda m: len(m) >= 4)
    assert places(after) == sorted([*MAILS, ("mail", "ann@example.com")])
    assert [m["channel"] for m in after].count("teams") == 1
    in_slack = eventually(lambda: [m for m in told.outbox() if m["channel"] == "slack"])
    assert [m["to"] for m in in_slack] == ["#asks"]
    assert (len(of(told, run)), len(in_slack)) == (7, 1)


def test_a_click_in_the_mail_decides_and_the_outcome_comes_by_mail(
    told: System, brain: Brain
) -> None:
    ann, reader = told.caller("ann"), told.caller("-")
    text = brain.plan(call("pay_by_others", amount=800.5), say("done"))
    run = ann.ask(ann.thread(agent="treasurer"), text)
    asked = eventually(lambda: of(told, run), lambda m: len(m) >= 3)
    [link] = [m["link"] for m in asked if m["to"] == "bea@example.com"]
    path = link.removeprefix(told.url)
    # A scanner of mails opens it, and decides nothing.
    assert "<html" in reader.want(200, "GET", path, accept="text/html")
    page = reader.want(200, "GET", path, accept="application/json")
    assert (page["person"], page["may"]) == ("bea@example.com", ["approve", "deny"])
    assert ann.run(run["id"])["status"] == "suspended"
    answer = reader.call("POST", path, {"decision": "approve"}, content_type="application/json")
    assert answer.status in (200, 202), answer
    assert ann.over(run["id"])["text"] == "done"
    after = eventually(lambda: of(told, run)[3:], lambda m: len(m) >= 4)
    assert places(after) == sorted([*MAILS, ("mail", "ann@example.com")])
    assert all("Approved by bea@example.com" in m["text"] for m in after)
    again = reader.call("POST", path, {"decision": "deny"}, content_type="application/json")
    assert again.status == 409, again


def test_a_system_that_is_killed_tells_of_what_it_had_accepted(told: System, brain: Brain) -> None:
    ann = told.caller("ann")
    text = brain.plan(call("pay_by_others", amount=700.75), say("done"))
    run = ann.start(ann.thread(agent="treasurer"), text)
    eventually(lambda: told.published(run["id"]))
    told.crash()
    told.start()
    # A sender may have died with a claim, which holds for a minute.
    told.advance_clock(90)
    eventually(lambda: {m["to"] for m in of(told, run)}, lambda everybody: len(everybody) == 3)
