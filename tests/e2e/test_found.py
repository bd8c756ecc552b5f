"""What the simulation found first and a real system showed as well (`tests/simulation/test_found.py`)."""

import time

from support.providers.openai import calls, say
from support.system.system import Brain, Caller, at_once, unique


def test_the_next_model_knows_what_an_approved_call_has_done(ann: Caller, brain: Brain) -> None:
    """A call waits next to one that has run, and another message is answered meanwhile."""
    thread, key = ann.thread("foreman"), unique()
    both = calls(("refund", {"order": key}), ("look_up", {"order": key}))
    waits = ann.ask(thread, brain.plan(both, say("done")))
    assert waits["status"] == "suspended"
    assert ann.ask(thread, brain.plan(say("it rains")))["status"] == "success"
    ann.decide(waits["id"], waits["pending"][0]["tool_call_id"], "approve")
    assert ann.over(waits["id"])["status"] == "success"
    text = brain.plan(say("I did"), text="did you pay it back?")
    assert ann.ask(thread, text)["status"] == "success"
    assert f"{key} paid back" in str(brain.requests(text)[-1].body)
    assert f"{key} paid back" in str(ann.messages(thread))


def test_a_thread_keeps_its_history_if_the_run_before_is_cancelled(
    ann: Caller, brain: Brain
) -> None:
    """The second of two calls has not begun when another message takes the thread."""
    for number in range(12):
        thread, name = ann.thread("foreman"), unique()
        ann.ask(thread, brain.plan(say("hello"), text=f"my name is {name}"))
        both = calls(("refund", {"order": name}), ("refund", {"order": f"{name} too"}))
        waits = ann.ask(thread, brain.plan(both, say("done")))
        assert waits["status"] == "suspended"
        text = brain.plan(say("I know"), text="what is my name?")

        def cancel(run_id: str = waits["id"], delay: float = number * 0.004) -> str:
            time.sleep(delay)
            return str(ann.call("POST", f"/runs/{run_id}/cancel").status)

        def ask(thread: str = thread, text: str = text) -> str:
            """Refused while the run before is being ended: it still has the thread then."""
            body = {"input": text}
            return str(ann.call("POST", f"/threads/{thread}/runs", body, prefer="wait=5").status)

        assert set(at_once(ask, cancel)) <= {"200", "202", "409"}
        assert name in str(ann.messages(thread))
