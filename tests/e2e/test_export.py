"""An export that takes longer than its request: made by the sweeper of a running system."""

import asyncio

import httpx2

from layover.adapters.blobs.s3 import S3Blobs
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.adapters.journal.journal import table_journal
from layover.clock import ManualClock, from_rfc3339
from layover.desk.local.aws.access_key import AccessKey
from layover.retention.export_job import begin
from support.aws.emulator import services_at
from support.providers.openai import say
from support.system.system import Brain, Caller, System, eventually
from support.worlds.builder import build_runtime


async def begun(system: System, user: Caller) -> str:
    """Do what a request does that has taken too long; the path at which its export is fetched."""
    names, s3 = system.services, system.aws("s3")
    key = AccessKey(names["access_key_id"], names["secret_access_key"])
    services = services_at(names["endpoint_url"], key)
    blobs = S3Blobs(lambda: s3, names["bucket"])
    # By the system's clock, which other tests move. The sweeper waits a moment for what is announced.
    clock = ManualClock(from_rfc3339(user.get("/me/export")["exported_at"]))
    table = DynamoTable(services.client("dynamodb"), names["table"])
    journal = table_journal(table, blobs, clock)
    try:
        runtime = build_runtime(journal=journal, blobs=blobs, clock=clock)
        return f"/me/exports/{(await begin(runtime, user.name)).id}"
    finally:
        await services.aclose()


def test_the_sweeper_makes_an_export_and_its_owner_fetches_it(
    system: System, brain: Brain, ann: Caller, bob: Caller
) -> None:
    thread_id = ann.thread()
    assert ann.ask(thread_id, brain.plan(say("hello")))["status"] == "success"
    expected = ann.get("/me/export")
    path = asyncio.run(begun(system, ann))
    assert path.endswith(ann.get("/me/exports")["items"][0]["id"])

    def is_ready() -> bool:
        return ann.call("GET", path).status == 303

    eventually(is_ready)
    location = ann.call("GET", path).headers["location"]
    with httpx2.Client(timeout=40, trust_env=False, verify=False) as browser:
        document = browser.get(location).json()
    document["exported_at"] = expected["exported_at"]
    assert document == expected
    bob.want(404, "GET", path)
    ann.want(202, "DELETE", "/me")
    ann.want(404, "GET", path)
    with httpx2.Client(timeout=40, trust_env=False, verify=False) as browser:
        # moto answers a signed request for a missing object with 403, S3 with 404.
        assert browser.get(location).status_code in (403, 404)
