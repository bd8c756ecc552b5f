"""Thousands of threads of one user are erased while runs of others need the sweeper."""

import asyncio
import statistics
import time
from datetime import UTC, datetime

import psycopg
import pytest

from layover.adapters.aws.services import AwsServices
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.adapters.journal.journal import table_journal
from layover.batches import batched
from layover.clock import SystemClock
from layover.desk.local.aws.access_key import AccessKey
from layover.inmemory.blobs import InMemoryBlobs
from layover.keys import Keys, due_key
from layover.values.thread import ThreadHead
from support.kills.scenarios import LOST
from support.kills.torture import Torture
from support.system.system import unique

THREADS = 10_000
ROUNDS = 3
"""Runs that are lost, one after another, while nothing is erased."""
DELAY_S = 10.0
"""The most that is added to the wait of a lost run. Each of the two looks that it takes may be one sweep's
interval of 2 s later; the rest is for two cores that erase meanwhile. A sweep erases for 45 s."""
ERASED_WITHIN_S = 3_600.0
"""On two cores at load 5 to 15, they took 1,565 s."""
BETWEEN_S = 5.0
"""From the end of a lost run to the next: it is no load."""
_AT_ONCE = 25
_ROWS = """
insert into threads (id, agent, created_at, updated_at)
    select unnest(%(ids)s::text[]), 'torture', %(at)s, %(at)s;
insert into branches (thread_id, id, path, path_depths)
    select id, 0, array[0], array[2147483647] from threads where resource_id = %(owner)s;
insert into messages (thread, branch_id, depth, id, role, created_at, content)
    select t.key, 0, d, t.id || '.' || d, 'user', t.created_at, '[{"type": "text", "text": "hello"}]'
    from threads t, generate_series(0, 1) d where t.resource_id = %(owner)s;
insert into message_embeddings (thread, thread_id, message_id, agent, branch_id, depth, created_at, words)
    select t.key, t.id, m.id, 'torture', m.branch_id, m.depth, m.created_at, ''
    from messages m join threads t on t.key = m.thread where t.resource_id = %(owner)s;
"""


@pytest.mark.torture
def test_ten_thousand_threads_are_erased_and_lost_runs_of_others_go_on_in_time(
    system: Torture,
) -> None:
    alone = [recovered_s(system) for _ in range(ROUNDS)]
    with system.client() as greedy:
        greedy.give_until(ERASED_WITHIN_S)
        system.leave_untraced(greedy.name)
        made_s = fill(system, greedy.name)
        assert len(items_of(system, greedy.name)) == THREADS
        began = time.monotonic()
        greedy.want(202, "DELETE", "/me")
        hidden_s = time.monotonic() - began
        assert greedy.want(200, "GET", "/threads")["items"] == []
        beside = []
        while system.watched(Keys(greedy.name).partition, due_key("owner", "")):
            assert time.monotonic() < began + ERASED_WITHIN_S, left(system, greedy.name)
            beside.append(recovered_s(system))
            print(f"\n{time.monotonic() - began:.0f} s: a lost run over after {beside[-1]:.1f} s")
            time.sleep(BETWEEN_S)
        erased_s = time.monotonic() - began
        assert left(system, greedy.name) == []
        assert system.trace(greedy.name) == []
    print(
        f"\n{THREADS} threads made in {made_s:.0f} s, hidden in {hidden_s:.0f} s, erased in {erased_s:.0f} s"
    )
    print(f"lost runs over after {shown(alone)}; beside the erasure after {shown(beside)}")
    assert len(beside) >= ROUNDS, "it was over too soon to measure anything"
    assert statistics.median(beside) < statistics.median(alone) + DELAY_S


def recovered_s(system: Torture) -> float:
    """Return the seconds from a decision whose execution is gone to the end of its run."""
    with system.client() as client:
        run_id = client.start(client.thread(), LOST)
        assert LOST.act is not None
        LOST.act(client, "", run_id)
        began = time.monotonic()
        run = client.over(run_id)
        assert (run["status"], run["text"]) == ("success", "paid back"), run
        assert len(system.executions(run_id)) >= 2
        return time.monotonic() - began


def fill(system: Torture, owner: str) -> float:
    """Make the user's threads, whose runs' records have expired. Return the seconds that it took."""
    began, at = time.monotonic(), datetime.now(UTC)
    heads = [
        ThreadHead(id=unique("old"), owner=owner, agent="torture", created_at=at, updated_at=at)
        for _ in range(THREADS)
    ]
    asyncio.run(put(system.services, heads))
    values = {"owner": owner, "ids": [head.id for head in heads], "at": at}
    with psycopg.connect(system.services["postgres_admin"]) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (owner,))
        for statement in _ROWS.split(";\n")[:-1]:
            used = {k: v for k, v in values.items() if f"%({k})s" in statement}
            connection.execute(statement.encode(), used)
    return time.monotonic() - began


async def put(services: dict[str, str], heads: list[ThreadHead]) -> None:
    """Write heads as a request does that makes a thread."""
    key = AccessKey(services["access_key_id"], services["secret_access_key"])
    aws = AwsServices(
        {"AWS_ENDPOINT_URL": services["endpoint_url"], "AWS_REGION": "us-east-1", **key.variables()}
    )
    table = DynamoTable(aws.client("dynamodb"), services["table"])
    journal = table_journal(table, InMemoryBlobs(), SystemClock())
    try:
        for some in batched(heads, _AT_ONCE):
            await asyncio.gather(*map(journal.heads.put, some))
    finally:
        await aws.aclose()


def items_of(system: Torture, owner: str) -> list[str]:
    """Return the keys of all items of the user in the journal's table."""
    pages = (
        system.aws("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=system.services["table"],
            ConsistentRead=True,
        )
    )
    keys = [(item["pk"]["S"], item["sk"]["S"]) for page in pages for item in page["Items"]]
    return [f"{pk} {sk}" for pk, sk in keys if pk.startswith(Keys(owner).partition)]


def left(system: Torture, owner: str) -> list[str]:
    """Return what is left of the user anywhere: items, objects, and tables with rows."""
    objects = system.aws("s3").list_objects_v2(
        Bucket=system.services["bucket"], Prefix=f"u/{Keys(owner).hash}/"
    )
    items = items_of(system, owner)
    return [*items, *(o["Key"] for o in objects.get("Contents", ())), *system.tables_with(owner)]


def shown(seconds: list[float]) -> str:
    """Return the number of measurements, their median and the longest."""
    return f"{statistics.median(seconds):.1f} s (longest of {len(seconds)}: {max(seconds):.1f} s)"
