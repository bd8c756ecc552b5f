"""The queue behind the bus: what PutEvents has accepted reaches its function, also over a restart."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from layover.clock import SystemClock, install_offset
from layover.desk.local.aws.events import Events
from layover.desk.local.aws.queue import BATCH, MAX_PAUSE, MAX_RECEIVES, Poller, Queue
from layover.desk.local.aws.storage import Storage
from layover.desk.local.functions.invocation import InvokeResult, failure
from layover.values.channels import QUEUED

TAKES = ["ApprovalRequested", "ApprovalDecided"]


@dataclass
class Function:
    """Stands for `notify`. `answer` makes its answer of the ids of a batch."""

    answer: Any = lambda ids: {"batchItemFailures": []}
    batches: list[list[dict[str, Any]]] = field(default_factory=list)

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        records = json.loads(payload)["Records"]
        self.batches.append(records)
        answer = self.answer([record["messageId"] for record in records])
        if isinstance(answer, InvokeResult):
            return answer
        return InvokeResult(json.dumps(answer).encode())

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(record["body"]) for batch in self.batches for record in batch]


class Bus:
    """EventBridge with the queue behind it, over one store."""

    def __init__(self, path: Path | None = None) -> None:
        self.storage = Storage(path)
        self.queue = Queue(self.storage, TAKES)
        self.events = Events(self.storage, queue=self.queue)

    def put(self, kind: str, detail: Any = None, source: str = "layover") -> None:
        entry = {"Source": source, "DetailType": kind, "Detail": json.dumps(detail or {})}
        (answer,) = self.events.put([entry], SystemClock().now())
        assert "EventId" in answer

    async def empty(self, function: Function) -> int:
        """Poll until nothing is due; the batches."""
        poller = Poller(self.queue, function, "notify")
        count = 0
        while await poller.poll_once():
            count += 1
        return count


@pytest.fixture
def clock() -> Iterator[list[timedelta]]:
    """The time that the clock is moved on."""
    moved = [timedelta(0)]
    install_offset(lambda: moved[0])
    yield moved
    install_offset(None)


async def test_only_the_rules_events_are_queued() -> None:
    bus, function = Bus(), Function()
    bus.put("ApprovalReminder")
    bus.put("ApprovalRequested", source="shop")
    assert await bus.empty(function) == 0
    bus.put("ApprovalRequested", {"run_id": "r", "args": {"euros": 900}, "task_token": "secret"})
    assert await bus.empty(function) == 1
    (event,) = function.bodies()
    ids = dict.fromkeys(QUEUED, "") | {"run_id": "r"}
    assert event == {"detail-type": "ApprovalRequested", "detail": ids}


async def test_events_come_in_batches_and_once() -> None:
    bus, function = Bus(), Function()
    for n in range(BATCH + 1):
        bus.put("ApprovalRequested", {"n": n})
    assert await bus.empty(function) == 2
    assert [event["detail"]["n"] for event in function.bodies()] == list(range(BATCH + 1))
    assert await bus.empty(function) == 0


async def test_an_event_that_fails_comes_again_alone_after_a_pause(clock: list[timedelta]) -> None:
    bus, function = Bus(), Function(lambda ids: {"batchItemFailures": [{"itemIdentifier": ids[0]}]})
    bus.put("ApprovalRequested", {"n": 1})
    bus.put("ApprovalRequested", {"n": 2})
    assert await bus.empty(function) == 1
    function.answer = lambda ids: {"batchItemFailures": []}
    clock[0] += timedelta(seconds=2)
    assert await bus.empty(function) == 1
    assert [event["detail"]["n"] for event in function.bodies()] == [1, 2, 1]
    counts = [r["attributes"]["ApproximateReceiveCount"] for b in function.batches for r in b]
    assert counts == ["1", "1", "2"]


@pytest.mark.parametrize(
    "answer", [failure("Boom", "it broke"), None, {}, {"batchItemFailures": 1}]
)
async def test_an_answer_that_says_nothing_handled_nothing(answer: Any) -> None:
    bus, function = Bus(), Function(lambda ids: answer)
    bus.put("ApprovalRequested")
    await bus.empty(function)
    with bus.storage.reading() as connection:
        assert connection.execute("SELECT count(*) FROM queue").fetchone() == (1,)


async def test_an_event_that_fails_ten_times_is_put_aside(clock: list[timedelta]) -> None:
    bus, function = Bus(), Function(lambda ids: failure("Boom", "it broke"))
    bus.put("ApprovalDecided", {"n": 1})
    for n in range(MAX_RECEIVES):
        assert bus.queue.dead() == []
        assert await bus.empty(function) == 1, n
        clock[0] += MAX_PAUSE
    assert await bus.empty(function) == 0
    assert [event["detail"]["n"] for event in bus.queue.dead()] == [1]


async def test_a_runner_that_ends_loses_nothing(tmp_path: Path) -> None:
    before = Bus(tmp_path / "aws.sqlite")
    before.put("ApprovalRequested", {"n": 1})
    # It was received by a runner that then died.
    assert len(before.queue.receive(SystemClock().now())) == 1
    before.put("ApprovalRequested", {"n": 2})
    before.storage.close()
    function = Function()
    assert await Bus(tmp_path / "aws.sqlite").empty(function) == 1
    assert [event["detail"]["n"] for event in function.bodies()] == [1, 2]
