"""`layover dev` is killed with everything open, and starts again over the same data."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.providers.openai import call, say
from support.system.system import Brain, System, eventually, unique


@pytest.fixture
def own(brain: Brain, tmp_path: Path) -> Iterator[System]:
    """A system of the test's own."""
    with System(tmp_path, brain) as running:
        yield running


def test_open_approvals_a_run_in_mid_tool_and_a_queue_go_on_after_a_kill(
    own: System, brain: Brain
) -> None:
    ann = own.caller("ann")
    key = unique()
    plans = [
        brain.plan(call("refund", order_id=f"{key}-{n}", amount=n), say(f"refunded {n}"))
        for n in (1, 2, 3)
    ]
    waiting = [ann.ask(ann.thread(), plan) for plan in plans]
    busy = ann.thread()
    in_tool = ann.start(busy, brain.plan(call("slow", key=key), say("told of the doubt")))
    eventually(lambda: own.ledger(key))
    queued = [ann.start(busy, brain.plan(say(f"queued {n}")), on_busy="enqueue") for n in (1, 2)]
    published = {run["id"]: eventually(partial(own.published, run["id"])) for run in waiting}
    events = {run["id"]: ann.get(f"/runs/{run['id']}/events")["items"] for run in waiting}
    own.crash()

    own.start()
    again = own.caller("ann")
    # What was in the middle of a tool: as after a crash, the model is told, and nothing runs twice.
    over = again.over(in_tool["id"])
    assert (over["status"], over["text"]) == ("success", "told of the doubt")
    assert "may or may not have taken effect" in str(again.messages(busy))
    assert [each["what"] for each in own.ledger(key)].count("slow") == 1
    assert [again.over(run["id"])["text"] for run in queued] == ["queued 1", "queued 2"]
    # What waited, waits: by the API, with the token of before, and again by the API.
    pending = {item["run_id"]: item for item in again.get("/approvals")["items"]}
    assert pending.keys() == {run["id"] for run in waiting}
    for run in waiting:
        assert again.get(f"/runs/{run['id']}/events")["items"] == events[run["id"]]
        assert own.published(run["id"]) == published[run["id"]]
    by_token = waiting[1]["id"]
    for run in waiting:
        if run["id"] == by_token:
            token = published[by_token][-1]["detail"]["task_token"]
            answer = {"taskToken": token, "output": '{"approved": true}'}
            own.aws("stepfunctions").send_task_success(**answer)
        else:
            again.decide(run["id"], pending[run["id"]]["tool_call_id"], "approve")
    texts = [again.over(run["id"])["text"] for run in waiting]
    assert texts == ["refunded 1", "refunded 2", "refunded 3"]
