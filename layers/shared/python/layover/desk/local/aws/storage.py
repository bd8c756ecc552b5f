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
_TRIAL_BYTES = 256 * 1024
"""About the largest item with its indexes. What is left of a full disk often takes a small one."""


class StorageFailed(Exception):
    """The file cannot be used; the text says what to do."""


class Storage:
    """A connection that threads share, one transaction at a time. Without a path it is in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.RLock()
        self._path = path
        self._fault: sqlite3.OperationalError | None = None
        """Of the last write that failed for want of room, or the like."""
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
                self._connection.execute("COMMIT")
            except BaseException as error:
                if isinstance(error, sqlite3.OperationalError):
                    self._fault = error
                # SQLite has rolled back by itself after some faults, a full disk among them.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def problem(self) -> str | None:
        """Return why writes fail; None if they work. After a failed write, a trial tells whether they do."""
        with self._lock:
            if self._fault is None:
                return None
            try:
                self._try_to_write()
            except sqlite3.OperationalError as error:
                self._fault = error
                return f"writes to {self._path} fail ({error}): make room on its disk"
            self._fault = None
            return None

    def _try_to_write(self) -> None:
        with self.transaction() as connection:
            connection.execute("CREATE TABLE trial AS SELECT zeroblob(?) AS body", (_TRIAL_BYTES,))
        with self.transaction() as connection:
            connection.execute("DROP TABLE trial")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read the committed state; no write happens meanwhile."""
        with self._lock:
            yield self._connection

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._connection.close()
