"""A provider that is away, on the one-machine system."""

from collections.abc import Iterator

from support.providers.openai import Reply, fail, say
from support.system.system import Brain, Caller, Json, System, eventually, unique

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


def told(ann: Caller, run_id: str) -> list[str]:
    """Types of the events so far: those of a run that pauses have no end."""
    return [event["type"] for event in ann.get(f"/runs/{run_id}/events")["items"]]


def test_a_pause_ends_with_a_cancel(ann: Caller, brain: Brain) -> None:
    run = begun(ann, brain, away())
    assert paused(ann, run["id"])["error"] == "InternalServerError"
    assert ann.run(run["id"])["status"] == "running"
    assert "model-waiting" in told(ann, run["id"])
    ann.want(202, "POST", f"/runs/{run['id']}/cancel")
    assert ann.over(run["id"])["status"] == "cancelled"
    again = ann.ask(run["thread_id"], brain.plan(say("Hello.")))
    assert again["text"] == "Hello."


def test_a_run_goes_on_by_itself_once_its_provider_is_back(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = begun(ann, brain, away(), say("Back again."))
    paused(ann, run["id"])
    begins = system.advance_clock(0)

    def moved() -> bool:
        system.advance_clock(AWAY_S, timers=True)
        return bool(ann.run(run["id"], 5)["status"] == "success")

    try:
        eventually(moved)
    finally:
        # The other tests of the session compare the system's clock with their own.
        system.advance_clock(begins - system.advance_clock(0))
    assert ann.run(run["id"])["text"] == "Back again."
    types = told(ann, run["id"])
    assert (types.count("model-waiting"), types.count("finish"), "error" in types) == (1, 1, False)
    assert [m["role"] for m in ann.messages(run["thread_id"])] == ["user", "assistant"]
