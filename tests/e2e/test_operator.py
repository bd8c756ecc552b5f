"""The operator's means: backends that name users, limits of a day, a switch, and a doctor."""

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest

from support.providers.openai import call, say
from support.system.documented import Response
from support.system.folders import folder
from support.system.system import LAYOVER, Brain, Caller, System, eventually, unique

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def limited(brain: Brain) -> Iterator[System]:
    """A system whose users may spend one token a day: their first run begins, and no other."""
    little = {"LAYOVER_DAILY_TOKENS": "1"}
    with folder("limited") as data, System(data, brain, variables=little) as running:
        yield running


def switch(system: System, *, stopped: bool) -> None:
    """Turn the switch as an operator does, with the commands of docs/deploy/limits.md."""
    words = ("stop", "--reason", "a test") if stopped else ("start",)
    told = subprocess.run(
        [LAYOVER, "ops", *words, "--url", system.url, "--user", "olga"],
        env={k: v for k, v in os.environ.items() if k != "LAYOVER_TOKEN"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert ("by olga: a test" in told.stdout) == stopped


def test_user_may_not_name_another(ann: Caller, bob: Caller) -> None:
    thread = bob.thread()
    refused = ann.call("GET", f"/threads/{thread}", x_layover_resource=bob.name)
    assert refused.status == 403
    assert refused.body["type"].endswith(":forbidden")


def test_backend_acts_for_the_user_whom_it_names(system: System, bob: Caller) -> None:
    thread = bob.thread()
    backend, name = system.caller("-"), unique("backend")
    token = {"authorization": f"Bearer dev+act-as:{name}"}
    found = backend.want(200, "GET", f"/threads/{thread}", x_layover_resource=bob.name, **token)
    assert found["id"] == thread
    assert backend.call("GET", f"/threads/{thread}", **token).status == 404


def test_user_whose_day_is_used_up_waits_for_tomorrow(limited: System, brain: Brain) -> None:
    (ann, thread, refused), bob = used_up(limited, brain), limited.caller()
    assert refused.status == 429
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert ann.get(f"/threads/{thread}")["id"] == thread
    # No other user pays for it.
    assert bob.ask(bob.thread(), brain.plan(say("one")))["status"] == "success"


def used_up(limited: System, brain: Brain) -> tuple[Caller, str, Response]:
    """A user who has spent the day's tokens on a thread, and the answer to its next run that day."""
    day: date | None = None
    while day != today():
        # Again if midnight fell into it: another day has tokens of its own.
        day, ann = today(), limited.caller()
        thread = ann.thread()
        assert ann.ask(thread, brain.plan(say("one")))["status"] == "success"
        refused = ann.call("POST", f"/threads/{thread}/runs", {"input": "more"})
    return ann, thread, refused


def today() -> date:
    """The day of daily limits."""
    return datetime.now(UTC).date()


def test_a_decision_is_carried_out_after_the_day_is_used_up_and_no_step_follows(
    limited: System, brain: Brain
) -> None:
    ann, key = limited.caller(), unique()
    text = brain.plan(call("refund", order_id=key, amount=1), say("never"))
    run = ann.suspended(ann.ask(ann.thread(), text)["id"])
    ann.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
    over = ann.over(run["id"])
    assert (over["status"], over["error"]["type"]) == ("failed", "LimitReached")
    assert [line["what"] for line in limited.ledger(key)] == ["refund"]


def test_nothing_begins_while_the_switch_is_there(limited: System, brain: Brain) -> None:
    ann = limited.caller()
    switch(limited, stopped=True)
    try:
        # Each look begins a run until the switch is seen.
        refused = eventually(lambda: begun(ann), lambda answer: answer.status == 503, every=0.5)
        assert refused.body["type"].endswith(":stopped")
        assert refused.headers["retry-after"] == "60"
    finally:
        switch(limited, stopped=False)
    eventually(lambda: begun(ann), lambda answer: answer.status == 202, every=0.5)


def begun(caller: Caller) -> Response:
    """Start a run on a new thread, and return the answer."""
    return caller.call("POST", f"/threads/{caller.thread()}/runs", {"input": "hello"})


def test_doctor_finds_a_running_system_well(system: System) -> None:
    told = subprocess.run(
        [LAYOVER, "doctor", "--url", system.url, "--user", unique("doctor"), "--no-run"],
        env={**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    checked = [line.split()[1] for line in told.stdout.splitlines()]
    assert checked == ["releases:", "health:", "strangers:", "sign-in:", "database:", "sockets:"]
