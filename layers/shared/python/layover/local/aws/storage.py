"""The one file with all that DynamoDB, Step Functions, S3 and EventBridge keep on AWS: SQLite, in `--data`.

A service commits before it acknowledges, so what it acknowledged survives the end of the runner, even
SIGKILL.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = 1
"""Of all tables together. A file of another version is refused and not migrated: it holds a development
system's data."""

_SETTINGS = (
    "PRAGMA journal_mode=WAL",
    # A commit is written and not flushed: it outlives this process, and a power cut may lose the last ones.
    "PRAGMA synchronous=NORMAL",
    "PRAGMA cache_size=-32000",
    "PRAGMA temp_store=MEMORY",
)


class StorageFailed(Exception):
    """The file cannot be used; the text says what to do."""


class Storage:
    """A connection that threads share, one transaction at a time. Without a path it is in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                path or ":memory:", check_same_thread=False, isolation_level=None
            )
            self._prepare(path)
        except sqlite3.Error as error:
            text = (
                f"{path} cannot be opened ({error}): mend that, or give another folder with --data"
            )
            raise StorageFailed(text) from error

    def _prepare(self, path: Path | None) -> None:
        for setting in _SETTINGS:
            self._connection.execute(setting)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise StorageFailed(
                f"{path} belongs to another version of Layover ({version}, this one has {VERSION}): remove "
                "it, or give another folder with --data"
            )
        self._connection.execute(f"PRAGMA user_version={VERSION}")

    def create(self, schema: str) -> None:
        """Make those tables of one service that are missing: `CREATE ... IF NOT EXISTS`."""
        with self._lock:
            self._connection.executescript(schema)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all of the block's writes, or none if it raises. No other thread reads or writes
        meanwhile."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read the committed state; no write happens meanwhile."""
        with self._lock:
            yield self._connection

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._connection.close()
