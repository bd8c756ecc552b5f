"""Executions in the store: their inputs, positions, tokens and histories."""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from layover.desk.local.aws.states.errors import StatesError
from layover.desk.local.aws.storage import Storage

SCHEMA = """
CREATE TABLE IF NOT EXISTS sfn_machines (
    arn TEXT PRIMARY KEY, name TEXT NOT NULL, definition TEXT NOT NULL, role TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS sfn_executions (
    arn TEXT PRIMARY KEY, machine TEXT NOT NULL, name TEXT NOT NULL, definition TEXT NOT NULL,
    input TEXT NOT NULL, status TEXT NOT NULL, started REAL NOT NULL, stopped REAL,
    output TEXT, error TEXT, cause TEXT
);
CREATE INDEX IF NOT EXISTS sfn_by_status ON sfn_executions (status, started);
CREATE INDEX IF NOT EXISTS sfn_by_machine ON sfn_executions (machine, started);
CREATE TABLE IF NOT EXISTS sfn_definitions (id TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sfn_frames (
    execution TEXT NOT NULL, path TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (execution, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sfn_tokens (
    token TEXT PRIMARY KEY, execution TEXT NOT NULL, path TEXT NOT NULL, outcome TEXT,
    over INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS sfn_tokens_by_place ON sfn_tokens (execution, path);
CREATE TABLE IF NOT EXISTS sfn_events (
    execution TEXT NOT NULL, id INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (execution, id)
) WITHOUT ROWID;
"""
RUNNING = "RUNNING"
_KEPT_S = 90 * 86_400.0
"""Closed executions are kept as long as AWS keeps them: until then their names stay taken."""
_COLUMNS = "arn, machine, name, definition, input, status, started, stopped, output, error, cause"


@dataclass
class Frame:
    """The position of a program or a branch: the state, and its input as the state before left it."""

    path: str
    state: str
    data: Any
    attempts: dict[str, int] = field(default_factory=dict)
    """Retrier -> how often it was used in this state."""
    entered: float = 0.0
    deadline: float | None = None
    """Epoch seconds at which a Wait ends, or a task that waits for its token gives up."""
    token: str | None = None
    is_delivered: bool = False
    """The task's function has the token."""
    is_over: bool = False
    """`data` is the branch's output."""


@dataclass(frozen=True)
class Record:
    """One execution. `definition`: the id of the definition that it was started with."""

    arn: str
    machine: str
    name: str
    definition: str
    input: str
    status: str
    started: float
    stopped: float | None
    output: str | None
    error: str | None
    cause: str | None


class Records:
    """All executions. Every method is one transaction."""

    def __init__(self, storage: Storage, now: Callable[[], float] = time.time) -> None:
        """`now`: the time in seconds since 1970."""
        self._storage = storage
        self._now = now
        storage.create(SCHEMA)
        with storage.transaction() as connection:
            query = "SELECT arn FROM sfn_executions WHERE status <> ? AND stopped < ?"
            for (arn,) in connection.execute(query, (RUNNING, now() - _KEPT_S)).fetchall():
                connection.execute("DELETE FROM sfn_executions WHERE arn = ?", (arn,))
                for table in ("sfn_tokens", "sfn_events"):
                    connection.execute(f"DELETE FROM {table} WHERE execution = ?", (arn,))

    def machines(self) -> list[dict[str, Any]]:
        """Return `{arn, name, definition, role, created}` of each machine."""
        query = "SELECT arn, name, definition, role, created FROM sfn_machines ORDER BY name"
        names = ("arn", "name", "definition", "role", "created")
        with self._storage.reading() as connection:
            return [dict(zip(names, row, strict=True)) for row in connection.execute(query)]

    def save_machine(self, arn: str, name: str, definition: str, role: str) -> float:
        """Save a new machine, or a new definition of one; return the time at which it was made."""
        query = (
            "INSERT INTO sfn_machines VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "definition = excluded.definition, role = excluded.role RETURNING created"
        )
        with self._storage.transaction() as connection:
            row = (arn, name, definition, role, self._now())
            ((created_at,),) = connection.execute(query, row).fetchall()
            return float(created_at)

    def start(self, machine: dict[str, Any], arn: str, name: str, text: str) -> tuple[Record, bool]:
        """Return an execution, and whether it is new. The same name and input give the open execution again,
        so that a start can be repeated. Raises StatesError if the name is taken."""
        with self._storage.transaction() as connection:
            query = f"SELECT {_COLUMNS} FROM sfn_executions WHERE arn = ?"
            if row := connection.execute(query, (arn,)).fetchone():
                execution = Record(*row)
                if (execution.status, execution.input) != (RUNNING, text):
                    raise StatesError(
                        "ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'"
                    )
                return execution, False
            # An execution keeps the definition that it began with, however often the machine changes. Most
            # have the same one, so it is stored once, under a hash.
            identifier = str(uuid.uuid5(uuid.NAMESPACE_OID, machine["definition"]))
            connection.execute(
                "INSERT OR IGNORE INTO sfn_definitions VALUES (?, ?)",
                (identifier, machine["definition"]),
            )
            record = Record(
                arn=arn,
                machine=machine["arn"],
                name=name,
                definition=identifier,
                input=text,
                status=RUNNING,
                started=self._now(),
                stopped=None,
                output=None,
                error=None,
                cause=None,
            )
            connection.execute(
                "INSERT INTO sfn_executions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                tuple(asdict(record).values()),
            )
            return record, True

    def definition(self, record: Record) -> str:
        """Return the definition that the execution was started with."""
        query = "SELECT text FROM sfn_definitions WHERE id = ?"
        with self._storage.reading() as connection:
            return str(connection.execute(query, (record.definition,)).fetchone()[0])

    def get(self, arn: str) -> Record:
        """Return one execution. Raises StatesError."""
        query = f"SELECT {_COLUMNS} FROM sfn_executions WHERE arn = ?"
        with self._storage.reading() as connection:
            row = connection.execute(query, (arn,)).fetchone()
        if row is None:
            raise StatesError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return Record(*row)

    def list_executions(self, machine: str | None, status: str | None) -> list[Record]:
        """Return the executions of a machine, or of all machines, newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM sfn_executions WHERE (? IS NULL OR machine = ?) "
            "AND (? IS NULL OR status = ?) ORDER BY started DESC, arn"
        )
        with self._storage.reading() as connection:
            rows = connection.execute(query, (machine, machine, status, status))
            return [Record(*row) for row in rows]

    def close(self, arn: str, status: str, events: list[dict[str, Any]], **outcome: Any) -> bool:
        """End an execution, with `output`, or `error` and `cause`; return False if it was over already."""
        values = tuple(outcome.get(name) for name in ("output", "error", "cause"))
        with self._storage.transaction() as connection:
            cursor = connection.execute(
                "UPDATE sfn_executions SET status = ?, stopped = ?, output = ?, error = ?, cause = ? "
                "WHERE arn = ? AND status = ?",
                (status, self._now(), *values, arn, RUNNING),
            )
            if not cursor.rowcount:
                return False
            connection.execute("DELETE FROM sfn_frames WHERE execution = ?", (arn,))
            connection.execute("UPDATE sfn_tokens SET over = 1 WHERE execution = ?", (arn,))
            _append(connection, arn, events, self._now())
            return True

    def frames(self, arn: str) -> dict[str, Frame]:
        """Return the frames of an open execution, by path."""
        query = "SELECT document FROM sfn_frames WHERE execution = ?"
        with self._storage.reading() as connection:
            rows = connection.execute(query, (arn,)).fetchall()
        frames = (Frame(**json.loads(document)) for (document,) in rows)
        return {frame.path: frame for frame in frames}

    def save(
        self, arn: str, frame: Frame, events: list[dict[str, Any]], *, is_transition: bool
    ) -> None:
        """Save a branch's position, with the events of its history. `is_transition`: it left a state, which
        ends that state's branches and tokens."""
        with self._storage.transaction() as connection:
            if is_transition:
                below = (arn, f"{frame.path}/%")
                connection.execute(
                    "DELETE FROM sfn_frames WHERE execution = ? AND path LIKE ?", below
                )
                connection.execute(
                    "UPDATE sfn_tokens SET over = 1 WHERE execution = ? AND (path = ? OR path LIKE ?)",
                    (arn, frame.path, below[1]),
                )
            query = "INSERT OR REPLACE INTO sfn_frames VALUES (?, ?, ?)"
            connection.execute(query, (arn, frame.path, json.dumps(asdict(frame))))
            if frame.token is not None:
                query = "INSERT OR IGNORE INTO sfn_tokens (token, execution, path) VALUES (?, ?, ?)"
                connection.execute(query, (frame.token, arn, frame.path))
            _append(connection, arn, events, self._now())

    def retire(self, token: str) -> None:
        """End the token of a task that has given up: nobody can answer it any more."""
        with self._storage.transaction() as connection:
            connection.execute("UPDATE sfn_tokens SET over = 1 WHERE token = ?", (token,))

    def settle(self, token: str, outcome: dict[str, Any]) -> None:
        """Store the answer to a token. The first one counts. Raises StatesError for an unknown token, and for
        one that is answered or over."""
        with self._storage.transaction() as connection:
            query = "SELECT outcome, over FROM sfn_tokens WHERE token = ?"
            row = connection.execute(query, (token,)).fetchone()
            if row is None:
                raise StatesError("InvalidToken", "Invalid Token: 'Invalid token'")
            if row[0] is not None or row[1]:
                message = "Task Timed Out: 'Provided task does not exist anymore'"
                raise StatesError("TaskTimedOut", message)
            query = "UPDATE sfn_tokens SET outcome = ? WHERE token = ?"
            connection.execute(query, (json.dumps(outcome), token))

    def outcome(self, token: str) -> dict[str, Any] | None:
        """Return the answer to a token; None if there is none yet."""
        query = "SELECT outcome FROM sfn_tokens WHERE token = ?"
        with self._storage.reading() as connection:
            row = connection.execute(query, (token,)).fetchone()
        return json.loads(row[0]) if row and row[0] else None

    def history(self, arn: str) -> list[dict[str, Any]]:
        """Return the events of an execution in order."""
        query = "SELECT document FROM sfn_events WHERE execution = ? ORDER BY id"
        with self._storage.reading() as connection:
            return [json.loads(row[0]) for row in connection.execute(query, (arn,))]


def _append(connection: Any, arn: str, events: list[dict[str, Any]], now: float) -> None:
    if not events:
        return
    query = "SELECT coalesce(max(id), 0) FROM sfn_events WHERE execution = ?"
    (last,) = connection.execute(query, (arn,)).fetchone()
    for number, event in enumerate(events, last + 1):
        whole = {"timestamp": now, "id": number, "previousEventId": number - 1, **event}
        row = (arn, number, json.dumps(whole))
        connection.execute("INSERT INTO sfn_events VALUES (?, ?, ?)", row)
