"""Events published to EventBridge."""

import json
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from layover.clock import rfc3339
from layover.desk.local.aws.queue import Queue
from layover.desk.local.aws.storage import Storage

MAX_EVENTS = 10_000
"""The oldest go first."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, document TEXT NOT NULL)"


EventListener = Callable[[dict[str, Any]], object]


class Events:
    """The operation PutEvents, and the events that it has received. It calls `on_event` for each. `queue`:
    the target of a rule; it has an event as soon as PutEvents has accepted that."""

    def __init__(
        self, storage: Storage, on_event: EventListener | None = None, queue: Queue | None = None
    ) -> None:
        self._storage = storage
        self._queue = queue
        self._on_event = on_event or (lambda _: None)
        storage.create(_SCHEMA)

    def put(self, entries: list[dict[str, Any]], now: datetime) -> list[dict[str, str]]:
        """Record the entries of PutEvents. Return EventBridge's result for each: an id, or an error."""
        return [self._put(entry, now) for entry in entries]

    def list(self) -> list[dict[str, object]]:
        """Return the events, newest last: `{id, source, detail-type, detail, time, event_bus, resources}`."""
        with self._storage.reading() as connection:
            rows = connection.execute("SELECT document FROM events ORDER BY number")
            return [json.loads(row[0]) for row in rows]

    def _put(self, entry: dict[str, Any], now: datetime) -> dict[str, str]:
        try:
            detail = json.loads(entry["Detail"])
            source, detail_type = entry["Source"], entry["DetailType"]
        except KeyError as error:
            return {"ErrorCode": "InvalidArgument", "ErrorMessage": f"Parameter {error} is missing"}
        except ValueError:
            return {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}
        # EventBridge's own spelling, and the one of `GET /_local/events` and the terminal.
        event = {"id": str(uuid.uuid4()), "source": source, "detail-type": detail_type}
        event["detail_type"] = detail_type
        event |= {"event_bus": entry.get("EventBusName", "default"), "time": rfc3339(now)}
        whole = event | {"detail": detail, "resources": entry.get("Resources", [])}
        queue = self._queue if self._queue is not None and self._queue.takes(whole) else None
        with self._storage.transaction() as connection:
            query = "INSERT INTO events (document) VALUES (?) RETURNING number"
            ((number,),) = connection.execute(query, (json.dumps(whole),)).fetchall()
            connection.execute("DELETE FROM events WHERE number <= ?", (number - MAX_EVENTS,))
            if queue is not None:
                queue.send(connection, whole, now)
        if queue is not None:
            queue.on_send()
        self._on_event(whole)
        return {"EventId": event["id"]}
