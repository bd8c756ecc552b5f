"""A queue of SQS behind a rule of EventBridge, and Lambda's poller that empties it: at least once, with
pauses, and a list of what was tried in vain."""

import asyncio
import json
import logging
import sqlite3
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from layover.clock import SystemClock
from layover.desk.local.aws.storage import Storage
from layover.desk.local.functions.invocation import ACCOUNT, REGION, InvokeResult
from layover.values.channels import QUEUED, QUEUED_FOR_OPERATORS

logger = logging.getLogger(__name__)

MAX_RECEIVES = 10
"""A message that was received so often is put aside."""
BATCH = 5
FIRST_PAUSE, MAX_PAUSE = timedelta(seconds=1), timedelta(seconds=60)
"""Before a message comes again: 1, 2, 4 ... 60 s."""
LOOK_EVERY_S = 1.0
"""The clock may be moved on while nothing is sent."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS queue (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, body TEXT NOT NULL, receives INTEGER NOT NULL,
    due_at REAL NOT NULL, dead INTEGER NOT NULL
)
"""


@dataclass(frozen=True)
class Message:
    """A message that was received. `receives`: how often, this time included."""

    number: int
    id: str
    body: str
    receives: int

    def record(self) -> dict[str, Any]:
        """Return the message as a function gets it."""
        return {
            "messageId": self.id,
            "receiptHandle": str(self.number),
            "body": self.body,
            "attributes": {"ApproximateReceiveCount": str(self.receives)},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:notify",
            "awsRegion": REGION,
        }


class Queue:
    """Messages in the storage. `takes`: the types of events that the rule passes on."""

    def __init__(self, storage: Storage, takes: Collection[str]) -> None:
        self._storage = storage
        self._takes = frozenset(takes)
        self.on_send: Callable[[], None] = lambda: None
        """Is called after a message was sent, in any thread."""
        storage.create(_SCHEMA)

    def takes(self, event: dict[str, Any]) -> bool:
        """Return whether the rule passes this event on."""
        return event["source"] == "layover" and event["detail-type"] in self._takes

    def send(self, connection: sqlite3.Connection, event: dict[str, Any], now: datetime) -> None:
        """Keep what the rule passes on of an event, in the transaction of whoever has received it."""
        names = QUEUED_FOR_OPERATORS.get(event["detail-type"], QUEUED)
        detail = {name: event["detail"].get(name, "") for name in names}
        passed_on = {"detail-type": event["detail-type"], "detail": detail}
        query = "INSERT INTO queue (id, body, receives, due_at, dead) VALUES (?, ?, 0, ?, 0)"
        connection.execute(query, (str(uuid.uuid4()), json.dumps(passed_on), now.timestamp()))

    def receive(self, now: datetime) -> list[Message]:
        """Return messages that are due, the oldest first. A process that dies with them leaves them due."""
        query = "SELECT number, id, body, receives FROM queue WHERE NOT dead AND due_at <= ?"
        with self._storage.transaction() as connection:
            rows = connection.execute(f"{query} ORDER BY number LIMIT ?", (now.timestamp(), BATCH))
            messages = [Message(n, id, body, count + 1) for n, id, body, count in rows.fetchall()]
            counts = [(message.receives, message.number) for message in messages]
            connection.executemany("UPDATE queue SET receives = ? WHERE number = ?", counts)
        return messages

    def delete(self, messages: Sequence[Message]) -> None:
        """Forget messages that were handled."""
        with self._storage.transaction() as connection:
            numbers = [(message.number,) for message in messages]
            connection.executemany("DELETE FROM queue WHERE number = ?", numbers)

    def put_back(self, messages: Sequence[Message], now: datetime) -> None:
        """Let messages that were not handled come again after a pause, or put them aside."""
        with self._storage.transaction() as connection:
            for message in messages:
                pause = min(FIRST_PAUSE * 2 ** (message.receives - 1), MAX_PAUSE)
                is_dead = message.receives >= MAX_RECEIVES
                query = "UPDATE queue SET due_at = ?, dead = ? WHERE number = ?"
                due_at = (now + pause).timestamp()
                connection.execute(query, (due_at, is_dead, message.number))

    def dead(self) -> list[dict[str, Any]]:
        """Return the events that were tried in vain, the oldest first."""
        with self._storage.reading() as connection:
            rows = connection.execute("SELECT body FROM queue WHERE dead ORDER BY number")
            return [json.loads(row[0]) for row in rows]


class _Functions(Protocol):
    async def invoke(self, name: str, payload: bytes) -> InvokeResult: ...


class Poller:
    """Invokes a function with the messages of a queue."""

    def __init__(self, queue: Queue, functions: _Functions, function: str) -> None:
        self._queue = queue
        self._functions = functions
        self._function = function
        self._clock = SystemClock()

    async def poll(self) -> None:
        """Empty the queue, for as long as the task lives."""
        loop, bell = asyncio.get_running_loop(), asyncio.Event()
        self._queue.on_send = lambda: _ring(loop, bell)
        while True:
            bell.clear()
            if await self.poll_once():
                continue
            try:
                await asyncio.wait_for(bell.wait(), LOOK_EVERY_S)
            except TimeoutError:
                continue

    async def poll_once(self) -> bool:
        """Handle one batch. Return False if nothing is due."""
        messages = self._queue.receive(self._clock.now())
        if not messages:
            return False
        payload = json.dumps({"Records": [message.record() for message in messages]})
        result = await self._functions.invoke(self._function, payload.encode())
        failed = _failed(result, messages)
        self._queue.delete([message for message in messages if message not in failed])
        self._queue.put_back(failed, self._clock.now())
        for message in failed:
            if message.receives >= MAX_RECEIVES:
                logger.error("an event was tried in vain by %s: %s", self._function, message.id)
        return True


def _failed(result: InvokeResult, messages: Sequence[Message]) -> list[Message]:
    """Return the messages that were not handled. An answer that says nothing readable handled none."""
    if result.function_error is not None:
        return list(messages)
    try:
        failures = json.loads(result.payload)["batchItemFailures"]
        ids = {failure["itemIdentifier"] for failure in failures}
    except (ValueError, KeyError, TypeError):
        return list(messages)
    return [message for message in messages if message.id in ids]


def _ring(loop: asyncio.AbstractEventLoop, bell: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(bell.set)
