"""A short walk through the real one-machine system: what `make test` sees of processes.

Every wait here is for an event, and every death happens at a point that the dying process itself counts: how
fast a process is scheduled changes how long the walk takes and nothing else."""

import json

import pytest

from support.kills import learning
from support.kills.judge import judge
from support.kills.scenarios import FOLLOWED, WINDING
from support.kills.story import Death, Point, Scenario
from support.kills.torture import DEADLINE_S, Client, Torture
from support.providers.openai import calls, say
from support.system.system import Json, eventually

REFUND = Scenario(
    "walked", (calls(("refund", {"order": "o1"}, "c1")), say("paid back")), "please pay it back"
)
KILLS = (
    Point("api", "POST /threads/runs DynamoTable.transact META *", 1, "after"),
    Point("turn", "OpenAIChat.complete turn", 1, "after"),
    Point("resume", "DynamoTable.transact *#CALL#c3=settled *", 1, "after"),
    Point("sweep", "DynamoTable.due", 1, "before"),
)
"""One for each function that takes part in every run."""
MEMORY_KILLS = (
    Point("compact", "DynamoTable.query INPUT", 1, "before"),
    Point("extract", "DynamoTable.query INPUT", 1, "before"),
)
"""One for each function that follows a run whose agent learns."""
SETTLE = Point("settle", "DynamoTable.write META", 1, "after")
POISONED = Scenario(
    "poisoned",
    (say("never"),),
    "please say nothing",
    deaths=(Death(Point("turn", "DynamoTable.write META", 1, "after"), times=5),),
)
"""Five attempts die before their first step: the run is given up."""
SOCKETS = Point("sockets", "DynamoTable.transact SUB META CONNECTION", 1, "after")


def test_a_decision_by_token_lets_the_run_go_on(system: Torture) -> None:
    with system.client() as client:
        run_id = client.start(client.thread(), REFUND)
        client.suspended(run_id, 1)
        (request,) = system.published(run_id)
        output = json.dumps({"approved": False, "reason": "no"})
        system.states.send_task_success(taskToken=request["detail"]["task_token"], output=output)
        assert client.over(run_id)["text"] == "paid back"
        assert system.ledger_of(client.name) == []


def test_a_run_survives_the_death_of_each_of_its_functions(system: Torture) -> None:
    with system.client() as client:
        baseline = client.story(WINDING)
    with system.client() as client:
        for point in KILLS:
            system.order_death(client.name, point)
        story = client.story(WINDING)
        judge(story, baseline)
        # Whatever the sweeper looked at before, it has to look at a thread that was deleted.
        client.caller.want(204, "DELETE", f"/threads/{story.thread['id']}")
        every = {point.function for point in KILLS}
        eventually(lambda: _dead(system, client.name), every.__eq__, DEADLINE_S)


@pytest.mark.kill
def test_what_a_run_teaches_is_kept_though_the_functions_that_keep_it_die(system: Torture) -> None:
    with system.client() as client:
        for point in MEMORY_KILLS:
            system.order_death(client.name, point)
        learning.judge(learning.live(client, client.thread("learner")))
        assert _dead(system, client.name) == {point.function for point in MEMORY_KILLS}


@pytest.mark.kill
def test_a_run_that_cannot_go_on_is_ended_though_settle_dies(system: Torture) -> None:
    with system.client() as client:
        system.order_death(client.name, SETTLE)
        story = client.story(POISONED)
        assert story.run["status"] == "failed"
        assert [e["type"] for e in story.events if e["type"] in ("error", "finish")] == [
            "error",
            "finish",
        ]
        assert story.thread["active_run"] is None
        assert system.deaths(client.name, "settle") == 1


def test_a_follower_misses_nothing_though_sockets_dies(system: Torture) -> None:
    with system.client() as client:
        system.order_death(client.name, SOCKETS)
        client.story(FOLLOWED)  # compares what the follower got with the log
        assert system.deaths(client.name, "sockets") == 1


def test_what_was_said_and_decided_survives_a_restart(system: Torture) -> None:
    with system.client() as client:
        thread = client.thread()
        said = _refunded(system, client, thread)
    system.stop()
    system.start()
    with system.client(client.name) as client:
        assert client.caller.messages(thread) == said
        assert _refunded(system, client, thread)[: len(said)] == said


def _refunded(system: Torture, client: Client, thread: str) -> list[Json]:
    """The thread's messages after a run whose call a person approved over HTTP."""
    before = len(system.ledger_of(client.name))
    run_id = client.start(thread, REFUND)
    (pending,) = client.suspended(run_id, 1)["pending"]
    assert len(system.ledger_of(client.name)) == before
    client.decide(run_id, pending)
    assert client.over(run_id)["text"] == "paid back"
    assert [e["what"] for e in system.ledger_of(client.name)[before:]] == ["refund"]
    client.finished(run_id)
    return client.caller.messages(thread)


def _dead(system: Torture, owner: str) -> set[str]:
    return {line.function for line in system.trace(owner) if line.died}
