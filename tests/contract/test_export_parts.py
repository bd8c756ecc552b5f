"""A large export on S3: parts as large as S3 wants them, and uploads that a restart has lost. In `make test`
S3 takes a part of an eighth."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent
from layover.adapters.blobs.s3 import S3Blobs
from layover.inmemory.model import say
from layover.keys import Keys
from layover.ports.blobs import MIN_PART
from layover.recovery.sweep import sweep
from layover.retention import export_job
from layover.retention.export import export
from layover.retention.export_job import ExportStatus, list_exports
from layover.runtime import Runtime
from support.aws.emulator import LocalAws
from support.examples import share
from support.worlds.runs import Bench

SHARE = share(8)
TEXT = "ü" + "x" * (900_000 // SHARE)
COUNT = 14


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What S3 takes as a part, and how large Layover makes one."""
    from moto.s3 import models

    assert vars(models)["S3_UPLOAD_PART_MIN_SIZE"] == MIN_PART
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", MIN_PART // SHARE)
    monkeypatch.setattr(export_job, "PART_BYTES", export_job.PART_BYTES // SHARE)


@pytest.fixture
async def bench(aws: LocalAws) -> AsyncIterator[Bench]:
    """A user with more than two parts of data, whose files and exports are on S3."""
    made = Bench(Agent("helper", model="m"), [say("fine")] * COUNT)
    for n in range(COUNT):
        await made.go(TEXT, thread=f"t{n}")
    blobs = S3Blobs(lambda: aws.client("s3"), aws.bucket)
    made.plain = replace(made.plain, blobs=blobs)
    await blobs.delete_prefix(Keys("ann").blob("exports"))
    yield made
    await blobs.delete_prefix(Keys("ann").blob("exports"))


async def swept(bench: Bench, runtime: Runtime) -> ExportStatus:
    bench.clock.advance(timedelta(minutes=1))
    await sweep(runtime)
    [facts] = await list_exports(runtime, "ann")
    return facts.status


async def document(runtime: Runtime, export_id: str) -> dict[str, Any]:
    key = Keys("ann").blob("exports", export_id, "document.json")
    read: dict[str, Any] = json.loads(await runtime.blobs.get(key) or b"")
    return read


def uploads(aws: LocalAws) -> list[dict[str, Any]]:
    client: Any = aws.client("s3")
    prefix = Keys("ann").blob("exports")
    found = client.list_multipart_uploads(Bucket=aws.bucket, Prefix=prefix)
    return list(found.get("Uploads", []))


async def test_a_large_export_is_put_together_of_its_parts(bench: Bench, aws: LocalAws) -> None:
    job = (await export(bench.plain, "ann", lambda text: True, timedelta(0))).job
    assert job is not None
    assert await swept(bench, bench.plain) is ExportStatus.READY
    [facts] = await list_exports(bench.plain, "ann")
    assert (facts.size or 0) > 2 * MIN_PART // SHARE
    threads = (await document(bench.plain, job.id))["threads"]
    assert [thread["messages"][0]["content"][0]["text"] for thread in threads] == [TEXT] * COUNT
    assert uploads(aws) == []


async def test_an_upload_that_a_restart_has_lost_begins_again(
    bench: Bench, aws: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_job, "SLICE_S", 0.0)
    job = (await export(bench.plain, "ann", lambda text: True, timedelta(0))).job
    assert job is not None
    assert await swept(bench, bench.plain) is ExportStatus.MAKING
    [upload] = uploads(aws)
    await bench.plain.blobs.drop_parts(upload["Key"], upload["UploadId"])
    for _ in range(30):
        if await swept(bench, bench.plain) is ExportStatus.READY:
            break
    assert len((await document(bench.plain, job.id))["threads"]) == COUNT
