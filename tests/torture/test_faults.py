"""Services that refuse, fail, throttle, or answer into the void: the run ends well, or fails cleanly."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from support.kills.judge import IDEMPOTENT, interrupted_in, judge, judge_interrupted
from support.kills.proxy import (
    WRITES,
    AwsProxy,
    Failed,
    Fault,
    Lost,
    PostgresProxy,
    Refused,
    Request,
)
from support.kills.scenarios import STREAMED, WINDING
from support.kills.story import Scenario, Story
from support.kills.torture import Client, Torture
from support.system.folders import folder
from support.system.system import Brain, eventually

OUTAGE_S = 3.0
DYNAMODB, STATES, EVENTS = "DynamoDB_20120810", "AWSStepFunctions", "AWSEvents"


@dataclass
class Faulty:
    """A system behind proxies."""

    system: Torture
    aws: AwsProxy
    postgres: PostgresProxy


@pytest.fixture(scope="module")
def faulty(brain: Brain) -> Iterator[Faulty]:
    """It works as long as a test does not disturb it."""
    with folder("faulty") as data:
        control = data / "control"
        aws = AwsProxy(control / "behind-AWS_ENDPOINT_URL")
        postgres = PostgresProxy(control / "behind-LAYOVER_DATABASE_URL")
        proxies = {"AWS_ENDPOINT_URL": aws.url, "LAYOVER_DATABASE_URL": postgres.url}
        try:
            with Torture(data, brain, LAYOVER_TORTURE_PROXIES=json.dumps(proxies)) as system:
                yield Faulty(system, aws, postgres)
        finally:
            aws.stop()
            postgres.stop()


@pytest.fixture(autouse=True)
def _calm(faulty: Faulty) -> Iterator[None]:
    yield
    faulty.aws.choose = lambda _: None
    faulty.postgres.up = True


def undisturbed(faulty: Faulty, scenario: Scenario) -> Story:
    """The baseline."""
    with faulty.system.client() as client:
        story = client.story(scenario)
    judge(story, story)
    return story


def lose_first_answers(request: Request) -> Fault | None:
    """Every write is done twice, as far as the service can tell."""
    retires = request.action == "UpdateItem" and '"ttl"' in request.body
    first = request.attempt == 1 and request.action in WRITES
    return Lost() if first and not retires else None


@pytest.mark.parametrize("scenario", [STREAMED, WINDING], ids=lambda s: s.name)
def test_a_write_whose_answer_was_lost_is_not_done_twice(
    faulty: Faulty, scenario: Scenario
) -> None:
    baseline = undisturbed(faulty, scenario)
    before = faulty.aws.spoilt
    faulty.aws.choose = lose_first_answers
    with faulty.system.client() as client:
        story = client.story(scenario)
    faulty.aws.choose = lambda _: None
    print(f"\n{faulty.aws.spoilt - before} answers lost, over in {story.seconds:.1f} s")
    judge_interrupted(story, baseline, set())


OUTAGES: dict[str, Callable[[Request], Fault | None]] = {
    "dynamodb-refuses": lambda r: Refused() if r.service == DYNAMODB else None,
    "dynamodb-loses-answers": lambda r: Lost() if r.service == DYNAMODB else None,
    "dynamodb-fails": lambda r: (
        Failed(500, "InternalServerError") if r.service == DYNAMODB else None
    ),
    "dynamodb-throttles": lambda r: (
        Failed(400, "ProvisionedThroughputExceededException") if r.service == DYNAMODB else None
    ),
    "states-refuse": lambda r: Refused() if r.service == STATES else None,
    "states-throttle": lambda r: (
        Failed(400, "ThrottlingException") if r.service == STATES else None
    ),
    "events-fail": lambda r: Failed(500, "InternalException") if r.service == EVENTS else None,
    "all-refuse": lambda _: Refused(),
}


@pytest.mark.parametrize(
    "kind", [*(pytest.param(k, marks=pytest.mark.torture) for k in OUTAGES), "postgres"]
)
def test_a_run_outlives_an_outage_in_its_midst(faulty: Faulty, kind: str) -> None:
    baseline = undisturbed(faulty, WINDING)
    with faulty.system.client() as client:
        thread = client.thread()
        run_id = client.start(thread, WINDING)
        eventually(lambda: faulty.system.ledger_of(client.name))
        outage = threading.Thread(target=_outage, args=(faulty, kind))
        outage.start()
        story = Story(WINDING, client.name)
        began = time.monotonic()
        client.drive(run_id)
        took = time.monotonic() - began
        outage.join()
        client.finished(run_id)
        client.look(story, thread, run_id)
    print(
        f"\n{kind}: {story.run['status']} after {took:.1f} s, interrupted {interrupted_in(story)}"
    )
    judge_disturbed(story, baseline)
    if kind == "postgres":
        assert story.run["status"] == "success"


def _outage(faulty: Faulty, kind: str) -> None:
    if kind == "postgres":
        faulty.postgres.go_down()
    else:
        faulty.aws.choose = OUTAGES[kind]
    time.sleep(OUTAGE_S)
    faulty.aws.choose = lambda _: None
    faulty.postgres.up = True


@pytest.mark.torture
def test_runs_outlive_faults_at_random(faulty: Faulty) -> None:
    baseline = undisturbed(faulty, WINDING)
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    kinds: list[Refused | Lost | Failed] = [
        Refused(),
        Lost(),
        Failed(500, "InternalServerError"),
        Failed(400, "ThrottlingException"),
    ]
    faulty.aws.choose = lambda _: dice.choice(kinds) if dice.random() < 0.08 else None
    before = faulty.aws.spoilt

    def one(_: int) -> Story:
        with faulty.system.client() as client:
            return _story(client)

    with ThreadPoolExecutor(4) as pool:
        stories = list(pool.map(one, range(16)))
    faulty.aws.choose = lambda _: None
    told = sum(len(interrupted_in(s)) for s in stories)
    print(f"\nseed {seed}: {faulty.aws.spoilt - before} requests spoilt, {told} calls interrupted")
    for story in stories:
        judge_disturbed(story, baseline)


def _story(client: Client) -> Story:
    return client.story(WINDING)


def judge_disturbed(story: Story, baseline: Story) -> None:
    """It ended as the baseline, but for calls that were interrupted; or it failed and says why."""
    interrupted = interrupted_in(story)
    assert all(story.tools[c] not in IDEMPOTENT for c in interrupted)
    if story.run["status"] == "success":
        judge_interrupted(story, baseline, interrupted)
        return
    assert story.run["status"] == "failed", story.run
    assert story.run["error"]["type"], story.run
    assert story.thread["active_run"] is None
    assert story.approvals == []
    assert [e["type"] for e in story.events[-2:]] == ["error", "finish"]
    keys = [e["idempotency_key"] for e in story.ledger if e["what"] not in IDEMPOTENT]
    assert len(set(keys)) == len(keys), story.ledger
