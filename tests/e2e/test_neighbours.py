"""A user who holds every connection that one user may have gets no more of them, and takes none from
another."""

from itertools import takewhile

import pytest
from websockets.exceptions import InvalidStatus

from support.providers.openai import call, say
from support.system.follower import Follower, Returning
from support.system.greedy import FILE, Greedy, streamed
from support.system.system import Brain, Caller, System, eventually


def without_waiting(system: System, caller: Caller, run_id: str) -> list[str] | None:
    """All lines of a stream of which none is a heartbeat; None if it waited for more."""
    with streamed(system, caller, run_id) as lines:
        said = list(takewhile(lambda line: not line.startswith(":"), lines))
        return said if next(lines, None) is None else None


def test_a_user_who_holds_all_that_one_may_gets_no_more_and_another_everything(
    system: System, brain: Brain, bob: Caller
) -> None:
    text = brain.plan(call("refund", order_id="neighbour", amount=1), say("refunded"))
    with Greedy(system, brain) as greedy:
        ann = greedy.caller
        # One stream more says what there is, and ends though the run goes on. If one of the others has just
        # ended, this one takes its place.
        said = eventually(lambda: without_waiting(system, ann, greedy.run_id))
        assert said is not None
        assert "event: turn-start" in said
        assert "event: finish" not in said
        with pytest.raises(InvalidStatus) as refused:
            Follower.of(ann)
        assert refused.value.response.status_code == 429
        assert ann.call("POST", "/files", FILE).status == 429
        # The other one opens a thread, runs, streams, polls, has a socket and a file.
        run = bob.ask(bob.thread(), text)
        bob.want(201, "POST", "/files", FILE)
        with Returning(bob) as socket:
            socket.subscribe(run["id"])
            bob.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
            assert bob.over(run["id"])["text"] == "refunded"
            # A stream ends where a call waits, so this one begins behind the decision.
            with streamed(system, bob, run["id"]) as lines:
                assert "event: finish" in "\n".join(lines)
            socket.wait(lambda frames: "finish" in [f.get("type") for f in frames])
        assert ann.run(greedy.run_id)["status"] == "running"
