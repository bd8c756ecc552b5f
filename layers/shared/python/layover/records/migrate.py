"""Bring the database to the schema of this release: on every deploy, and at each local start."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)
from tenacity.wait import wait_base

from layover.errors import RetryableError

RESOURCE_ID = "layover-schema"
"""Physical id of the custom resource: always the same, so CloudFormation never replaces it."""
MIGRATION_TIMEOUT = timedelta(minutes=5)
"""Time limit for a paused or just created database."""


class Migrator(Protocol):
    """Applies migrations."""

    async def apply(self) -> tuple[str, ...]:
        """Apply the missing migrations, and return their names. Raises RetryableError."""
        ...


async def migrate(
    event: Mapping[str, Any],
    migrator: Migrator,
    *,
    patience: timedelta = MIGRATION_TIMEOUT,
    pause: wait_base | None = None,
) -> dict[str, Any]:
    """Answer a CloudFormation event (Create, Update, Delete) or a plain `{}`.

    Deleting the stack leaves the data to the cluster's own removal policy: it connects to nothing."""
    if event.get("RequestType") == "Delete":
        return _answer(())
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(RetryableError),
        stop=stop_after_delay(patience),
        wait=pause or wait_exponential_jitter(initial=1, max=15),
        reraise=True,
    )
    return _answer(await retrying(migrator.apply))


def _answer(applied: tuple[str, ...]) -> dict[str, Any]:
    return {"PhysicalResourceId": RESOURCE_ID, "Data": {"Applied": ",".join(applied)}}
