"""The mapping of the database's faults to `layover.errors`."""

from typing import TYPE_CHECKING

from layover.adapters.store.chains import UnknownParent
from layover.errors import (
    Conflict,
    DatabaseWaking,
    LayoverError,
    NewerFormat,
    NotFound,
    RetryableError,
)

if TYPE_CHECKING:
    from psycopg import Error

CONSTRAINTS: dict[str, tuple[type[LayoverError], str]] = {
    "branches_thread_fkey": (NotFound, "the thread is gone"),
    "messages_thread_fkey": (NotFound, "the thread is gone"),
    "messages_pkey": (Conflict, "another message is at this place of the branch"),
    "message_embeddings_thread_fkey": (NotFound, "the thread is gone"),
    "message_embeddings_message_fkey": (NotFound, "the message is gone"),
    "memory_entries_thread_fkey": (NotFound, "the thread is gone"),
    "memory_entries_hash_key": (Conflict, "the same entry is remembered already"),
    "compactions_pkey": (Conflict, "another compaction came first"),
    "compactions_id_key": (Conflict, "this compaction is stored already"),
    "compactions_thread_fkey": (NotFound, "the thread is gone"),
    "compactions_through_fkey": (NotFound, "the message is gone"),
    "observations_generation_fkey": (NotFound, "the generation is gone"),
    "working_memory_thread_fkey": (NotFound, "the thread is gone"),
    "thread_state_thread_fkey": (NotFound, "the thread is gone"),
    "extractions_thread_fkey": (NotFound, "the thread is gone"),
    "iteration_log_thread_fkey": (NotFound, "the thread is gone"),
    "iteration_log_pkey": (Conflict, "this attempt is logged already"),
    "iteration_log_id_key": (Conflict, "this attempt is logged already"),
    "files_thread_fkey": (NotFound, "the thread is gone"),
    "run_snapshots_thread_fkey": (NotFound, "the thread is gone"),
}
"""The constraints that a statement can violate, and the meaning of each for its caller."""

_ASLEEP = (
    "starting up",
    "shutting down",
    "not yet accepting connections",
    "recovery mode",
    "refused",
    "timeout expired",
    "timed out",
    "No such file or directory",
)
# 25006: after a failover, the connection leads to a reader.
_CONNECTION_STATES = ("08", "57P", "25006")
_PASSING = ("40", "53", "55P03", "57014")
_OTHER_SCHEMA = frozenset({"42P01", "42703", "42883", "42804", "42P10", "428C9"})
"""A table, a column, a function, a type, a constraint, or a column to write is not as the statement has it.
Each release's statements fit its own schema, so the schema is another release's: a deployment migrates the
database before it replaces the functions."""

_UNKNOWN_PARENT = ("23502", "messages", "depth")
"""A message behind one that is not there has no depth (`insert_chain.sql`)."""


class ConnectionLost(Exception):
    """The connection was found dropped; a fresh one may do."""


def connection_error(error: Exception) -> RetryableError:
    """The error of a connection that failed. A paused database does not answer."""
    text = str(error)
    if isinstance(error, TimeoutError) or any(sign in text for sign in _ASLEEP):
        return DatabaseWaking("the database is waking up")
    return RetryableError("the database accepts no connection")


def of_statement(error: "Error", query: str) -> Exception:
    """Return the error of a statement that the server refused: `ConnectionLost` if the server closes the
    connection, or has prepared the statement for another schema; NewerFormat for a schema that it does not
    fit; RetryableError for a passing fault; the domain's error for a known constraint. Any other error is a
    defect and stays unchanged."""
    state = error.sqlstate or ""
    if state.startswith(_CONNECTION_STATES) or _is_stale_plan(error):
        return ConnectionLost(query)
    if state in _OTHER_SCHEMA:
        return NewerFormat(
            f"the schema of the database does not fit {query} of this release: deploy the release that has "
            "migrated it",
            sqlstate=state,
        )
    if state.startswith(_PASSING):
        return RetryableError(f"the database could not run {query} now", sqlstate=state)
    if (state, error.diag.table_name, error.diag.column_name) == _UNKNOWN_PARENT:
        return UnknownParent()
    constraint = CONSTRAINTS.get(error.diag.constraint_name or "")
    return constraint[0](constraint[1]) if constraint else error


def _is_stale_plan(error: "Error") -> bool:
    """Return whether a migration has changed the types of a statement since this connection prepared it."""
    return error.sqlstate == "0A000" and "cached plan" in str(error)
