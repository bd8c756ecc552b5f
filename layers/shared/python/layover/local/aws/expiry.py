"""What goes by itself on AWS goes on one machine as well, by the clock that the system reads: moto knows no
time to live, and gives objects the machine's own time."""

from datetime import UTC, datetime
from typing import Any

import moto.s3.models
from moto.dynamodb.models import dynamodb_backends

from layover.adapters.journal.items.schema import TTL_ATTRIBUTE
from layover.clock import SystemClock
from layover.local.functions.invocation import ACCOUNT, REGION


def install() -> None:
    """Objects of S3 are as old as the system's clock says."""
    models: Any = moto.s3.models
    models.utcnow = lambda: SystemClock().now().astimezone(UTC).replace(tzinfo=None)


def expire_items(table: str, now: datetime) -> int:
    """Delete what has outlived its time to live; how many items. The caller holds the lock around every
    DynamoDB request. AWS does so within some days."""
    partitions: Any = dynamodb_backends[ACCOUNT][REGION].tables[table].items
    gone = 0
    for key in list(partitions):
        old = [sk for sk, item in partitions[key].items() if _is_over(item, now.timestamp())]
        for sk in old:
            del partitions[key][sk]
        if not partitions[key]:
            del partitions[key]
        gone += len(old)
    return gone


def _is_over(item: Any, now: float) -> bool:
    expires = item.attrs.get(TTL_ATTRIBUTE)
    return expires is not None and float(expires.value) <= now
