"""The one DynamoDB table, as data: `infra/` and the local runner create it from the same dict."""

from typing import Any

TTL_ATTRIBUTE = "expires"
"""Epoch seconds. AWS deletes late (up to days), so every condition checks the expiry itself."""

OWNER_INDEX = "gsi1"
"""One partition for each owner: open approvals, threads by time."""

WATCH_INDEX = "gsi2"
"""Runs that are not over, by the time of the sweeper's next look. Sparse: a finished run leaves it. It has
only keys, so that a run's many writes never touch it."""

LISTED = (
    "id",
    "thread_id",
    "agent",
    # A thread.
    "title",
    "metadata",
    "created_at",
    "leaf_id",
    "last_created_at",
    "active_run",
    "queue",
    "interrupts",
    "waiting_runs",
    "ready",
    "unsaved",
    "unplaced",
    "windows",
    "deleted",
    "forget_profile",
    "empty_again_at",
    # A call that waits.
    "b",
    "blob",
    "sha256",
    "size",
    "state",
    "attempt",
    "votes",
    "voted",
    "escalated",
    "extended_to",
    "taken_back_at",
)
"""Attributes that lists show in addition to the keys. They do not change while a run runs, so its many writes
never touch the index."""


def _keys(index: str) -> list[dict[str, str]]:
    kinds = {"pk": "HASH", "sk": "RANGE"}
    return [{"AttributeName": f"{index}{key}", "KeyType": kind} for key, kind in kinds.items()]


TABLE: dict[str, Any] = {
    "AttributeDefinitions": [
        {"AttributeName": f"{index}{key}", "AttributeType": "S"}
        for index in ("", OWNER_INDEX, WATCH_INDEX)
        for key in ("pk", "sk")
    ],
    "KeySchema": _keys(""),
    "GlobalSecondaryIndexes": [
        {
            "IndexName": OWNER_INDEX,
            "KeySchema": _keys(OWNER_INDEX),
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": sorted(LISTED)},
        },
        {
            "IndexName": WATCH_INDEX,
            "KeySchema": _keys(WATCH_INDEX),
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        },
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
"""Parameters of `create_table`, without `TableName`."""

TIME_TO_LIVE: dict[str, Any] = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
"""`TimeToLiveSpecification` of `update_time_to_live`."""
