"""AG-UI over HTTP: what is taken from a client, and what is not."""

import json
from datetime import timedelta
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from layover.records.threads import thread_id_of
from layover.values.lease import Lease, LeaseKind
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


def ask(api: Api, sub: str = ANN, **more: Any) -> dict[str, Any]:
    """Return the answer of `streams` to a RunAgentInput."""
    hello = {"id": "m1", "role": "user", "content": "hello"}
    given = {"threadId": "t1", "runId": "r1", "messages": [hello], "state": {"x": 1}, **more}
    event = http_event("POST", "/ag-ui/support", json.dumps(given), {}, sub)
    return answer(event, None, api.host, streams=True)


def test_a_thread_is_bound_to_its_user(api: Api, world: SocketBench) -> None:
    assert ask(api)["statusCode"] == 200
    other = [{"id": "m2", "role": "user", "content": "hello"}]
    assert ask(api, messages=other)["statusCode"] == 409
    assert ask(api, BOB)["statusCode"] == 200
    (run_id,) = api.do(world.journal.runs.page_ids(ANN, thread_id_of(ANN, "t1"), 2, None)).items
    run = api.do(world.journal.runs.get(ANN, run_id))
    assert run is not None
    assert (run.input.text, run.stream) == ("hello", True)
    assert ask(api, BOB, threadId=run.thread_id)["statusCode"] == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": []},
        {"messages": [{"role": "assistant", "content": "x"}]},
        {"threadId": ""},
        {"resume": [{"interruptId": "x", "status": "maybe"}]},
    ],
)
def test_what_makes_no_sense_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    assert ask(api, **wrong)["statusCode"] == 422


def test_nothing_goes_on_where_nothing_waits(api: Api) -> None:
    resumed = [{"interruptId": "1:c1", "status": "cancelled"}]
    assert ask(api, resume=resumed)["statusCode"] == 409


def test_a_run_that_could_not_be_streamed_is_not_started(api: Api, world: SocketBench) -> None:
    now, most = world.clock.now(), world.runtime.settings.max_user_streams
    for n in range(most):
        lease = Lease(ANN, LeaseKind.STREAM, str(n), now + timedelta(minutes=1))
        assert api.do(world.runtime.leases.take(lease, most, now))
    refused = ask(api)
    assert (refused["statusCode"], refused["headers"]["Retry-After"]) == (429, "5")
    assert api.do(world.journal.heads.get(ANN, thread_id_of(ANN, "t1"))) is None
    assert ask(api, BOB)["statusCode"] == 200


@pytest.mark.parametrize(
    ("resumed", "kind"),
    [
        ({"status": "cancelled"}, "denied"),
        ({"status": "resolved", "payload": {"approved": False, "reason": "no"}}, "denied"),
        ({"status": "resolved", "payload": {"approved": True}}, "approved"),
    ],
)
def test_an_interrupt_is_answered_on_the_same_run(
    api: Api, world: SocketBench, resumed: dict[str, Any], kind: str
) -> None:
    run, waiting = api.do(world.suspended())
    entry = {"interruptId": "1:c1", **resumed}
    assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 200
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.decision is not None
    assert call.decision.kind == kind
