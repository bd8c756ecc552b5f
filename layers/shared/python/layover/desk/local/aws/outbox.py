"""The outbox of the services that reach people, in the storage."""

import json

from layover.desk.local.aws.storage import Storage
from layover.plugins.people.channels.twins import Outbox

_SCHEMA = "CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY, message TEXT NOT NULL)"


class StoredOutbox(Outbox):
    """An outbox that outlives the runner."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        storage.create(_SCHEMA)
        with storage.reading() as connection:
            rows = connection.execute("SELECT message FROM outbox ORDER BY number").fetchall()
        self.items = [json.loads(row[0]) for row in rows]

    def add(self, channel: str, to: str, kind: str, text: str, link: str | None) -> None:
        """See `Outbox`."""
        super().add(channel, to, kind, text, link)
        with self._storage.transaction() as connection:
            message = json.dumps(self.items[-1])
            connection.execute("INSERT INTO outbox (message) VALUES (?)", (message,))
