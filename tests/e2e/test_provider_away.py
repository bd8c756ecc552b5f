"""A provider that is away, on the one-machine system. The simulation moves the clock until it is back."""

from collections.abc import Iterator

from support.providers.openai import Reply, fail, say
from support.system.system import Brain, Caller, Json, eventually, unique

AWAY_S = 1_200


def away() -> Reply:
    """A refusal that names a wait which no invocation waits for."""
    return fail(503, "overloaded", retry_after=str(AWAY_S))


def paused(ann: Caller, run_id: str) -> Json:
    """What a run waits for, once it does."""

    def look() -> Json | None:
        return ann.run(run_id).get("waiting_for")

    found = eventually(look)
    assert found is not None
    return found


def begun(ann: Caller, brain: Brain, *steps: Reply) -> Json:
    answers: Iterator[Reply] = iter(steps)
    return ann.start(ann.thread(), brain.mind(lambda _: next(answers), f"please {unique()}"))


def test_a_pause_ends_with_a_cancel(ann: Caller, brain: Brain) -> None:
    run = begun(ann, brain, away())
    assert paused(ann, run["id"])["error"] == "InternalServerError"
    assert ann.run(run["id"])["status"] == "running"
    assert "model-waiting" in [event["type"] for event in ann.events(run["id"])]
    ann.want(202, "POST", f"/runs/{run['id']}/cancel")
    assert ann.over(run["id"])["status"] == "cancelled"
    again = ann.ask(run["thread_id"], brain.plan(say("Hello.")))
    assert again["text"] == "Hello."
