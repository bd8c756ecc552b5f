"""AG-UI over HTTP: what is taken from a client, and what is not."""

import json
from datetime import timedelta
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from layover import Agent
from layover.records.threads import thread_id_of
from layover.values.lease import Lease, LeaseKind
from layover.values.runs.run import CallState, Suspension, SuspensionKind
from layover.values.runs.views import Run
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
        {"resume": [{"interruptId": "1:c1", "status": "cancelled"}]},
    ],
)
def test_what_makes_no_sense_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    assert ask(api, **wrong)["statusCode"] == 422


def test_nothing_goes_on_where_nothing_waits(api: Api) -> None:
    resumed = [{"interruptId": "1:run_none:c1", "status": "cancelled"}]
    assert ask(api, resume=resumed)["statusCode"] == 404


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
    entry = {"interruptId": f"1:{run.id}:c1", **resumed}
    assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 200
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.decision is not None
    assert call.decision.kind == kind


def test_an_edit_of_a_tool_that_no_deployed_code_knows_is_refused(
    api: Api, world: SocketBench
) -> None:
    run, waiting = api.do(world.suspended())
    world.agents["support"] = Agent("support", model="m")
    payload = {"approved": True, "args": {"amount": 5}}
    entry = {"interruptId": f"1:{run.id}:c1", "status": "resolved", "payload": payload}
    assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 422
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.undecided


async def suspended_again(world: SocketBench, run: Run) -> None:
    """Let the approved call run and ask for input, as a server's tool may."""
    log = await world.journal.writers.attach(ANN, run.id, f"{run.id}-1")
    assert log is not None
    [key] = [call.key for call in log.snapshot.calls]
    approved = log.snapshot.call(key)
    assert approved is not None
    assert approved.decision is not None
    await log.open_calls([approved])
    past = ({"attempt": 1, **approved.decision.model_dump(mode="json")},)
    form = Suspension(
        kind=SuspensionKind.INPUT,
        payload={},
        resume_schema={},
        requested_at=world.clock.now(),
        args={},
    )
    changes = {"state": CallState.OPEN, "opener": log.opener, "past": past, "suspension": form}
    await log.suspend_calls([approved.written(**changes)])


@pytest.mark.parametrize(
    ("resumed", "kind"),
    [
        ({"status": "cancelled"}, "denied"),
        ({"status": "resolved", "payload": {"slot": "9:00"}}, "resumed"),
    ],
)
def test_a_form_is_answered_or_declined(
    api: Api, world: SocketBench, resumed: dict[str, Any], kind: str
) -> None:
    run, waiting = api.do(world.suspended(SuspensionKind.INPUT))
    entry = {"interruptId": f"1:{run.id}:c1", **resumed}
    for _ in range(2):
        assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 200
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.decision is not None
    assert call.decision.kind == kind


@pytest.mark.parametrize("payload", [{"approved": False}, {"approved": True}])
def test_a_forms_own_field_is_no_verdict(
    api: Api, world: SocketBench, payload: dict[str, Any]
) -> None:
    """A form may ask whether something is approved: whoever answers `false` does not decline."""
    run, waiting = api.do(world.suspended(SuspensionKind.INPUT))
    entry = {"interruptId": f"1:{run.id}:c1", "status": "resolved", "payload": payload}
    refused = ask(api, threadId=run.thread_id, resume=[entry])
    assert refused["statusCode"] == 422
    assert "does not fit what the call waits for" in refused["body"]
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.undecided


def test_an_approval_that_is_repeated_while_its_call_waits_for_input_is_known(
    api: Api, world: SocketBench
) -> None:
    run, _ = api.do(world.suspended())
    entry = {"interruptId": f"1:{run.id}:c1", "status": "resolved", "payload": {"approved": True}}
    assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 200
    api.do(suspended_again(world, run))
    assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 200


def test_a_run_that_can_have_no_such_id_is_not_there(api: Api, world: SocketBench) -> None:
    run, _ = api.do(world.suspended())
    for id in ("run_" + "x" * 3_000, "run_#", "run_\x00"):
        entry = {"interruptId": f"1:{id}:c1", "status": "resolved", "payload": {"approved": True}}
        assert ask(api, threadId=run.thread_id, resume=[entry])["statusCode"] == 404


def test_an_interrupt_of_another_user_is_not_there(api: Api, world: SocketBench) -> None:
    run, waiting = api.do(world.suspended(SuspensionKind.INPUT))
    for payload in ({"approved": False}, {"slot": "9:00"}):
        entry = {"interruptId": f"1:{run.id}:c1", "status": "resolved", "payload": payload}
        assert ask(api, BOB, resume=[entry])["statusCode"] == 404
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.undecided
