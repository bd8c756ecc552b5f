"""Data that AWS expires is expired on one machine as well, by the clock that the system reads."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from layover.clock import SystemClock
from layover.desk.local.aws.emulator import BUCKET_NAME, TABLE_NAME

from .conftest import Served

LIMIT_S = 60.0


def until(done: Callable[[], bool]) -> None:
    """Wait for something that the runner does by itself."""
    give_up = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def put(client: Any, name: str, expires: datetime | None) -> None:
    item = {"pk": {"S": name}, "sk": {"S": "x"}}
    if expires is not None:
        item["expires"] = {"N": str(int(expires.timestamp()))}
    client.put_item(TableName=TABLE_NAME, Item=item)


def names(client: Any) -> set[str]:
    found = client.scan(TableName=TABLE_NAME)["Items"]
    return {item["pk"]["S"] for item in found if item["pk"]["S"].startswith("ttl")}


async def test_items_go_when_the_clock_has_passed_their_time_to_live(served: Served) -> None:
    client, day = served.client("dynamodb"), timedelta(days=1)

    def work() -> None:
        now = SystemClock().now()
        for name, at in (("ttl 1", now + day), ("ttl 3", now + day * 3), ("ttl none", None)):
            put(client, name, at)
        served.runner.clock.advance((day * 2).total_seconds())
        until(lambda: names(client) == {"ttl 3", "ttl none"})
        served.runner.clock.advance((day * 2).total_seconds())
        until(lambda: names(client) == {"ttl none"})

    await asyncio.to_thread(work)


async def test_an_object_is_as_old_as_the_clock_says(served: Served) -> None:
    client = served.client("s3")

    def work() -> timedelta:
        served.runner.clock.advance(timedelta(days=40).total_seconds())
        client.put_object(Bucket=BUCKET_NAME, Key="u/h/aged", Body=b"x")
        head = client.head_object(Bucket=BUCKET_NAME, Key="u/h/aged")
        served.runner.clock.advance(timedelta(days=1).total_seconds())
        written: datetime = head["LastModified"]
        return SystemClock().now() - written.astimezone(UTC)

    age = await asyncio.to_thread(work)
    assert timedelta(days=1) <= age < timedelta(days=2)
