"""An upgrade with data on one machine: from the first release that was a package to this one."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from layover.desk.cli.client import Api
from layover.desk.shipped import release
from support.own_project import Installation, Serving, approved, asked_refund, over
from support.system.folders import folder
from support.wheels import ROOT, build_wheel

WITNESS = """
alter table messages add column witness text;
alter table messages alter column witness set default 'after';
"""
"""A migration of the newer release. Only what is stored after it has a witness."""
FIRST = "411ca50beaffdcd2b3077e39363183ae9f7fc490"
"""The first commit whose wheel makes projects."""


def wheel_of(commit: str, place: Path) -> Path:
    """Build the wheel of a commit."""
    archived = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit], capture_output=True, timeout=60, check=False
    )
    if archived.returncode:
        pytest.skip(f"this copy of the repository has no commit {commit[:8]}")
    sources = place / "sources"
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(sources, filter="data")
    return build_wheel(place, sources)


@pytest.fixture
def place() -> Iterator[Path]:
    with folder("upgrade") as made:
        yield made


def messages(api: Api, thread: str) -> list[tuple[str, Any]]:
    """Return role and content of each message, as they are answered."""
    items = api.get(f"/threads/{thread}/messages", limit=100)["items"]
    return [(each["role"], each["content"]) for each in items]


def witnessed(api: Api, run: str) -> list[tuple[str, str | None]]:
    """Return role and witness of each message in the thread of Ada's run, oldest first."""
    thread = api.get(f"/runs/{run}")["thread_id"]
    query = """select m.role, m.witness from messages m join threads t on t.key = m.thread
        where t.id = %s order by m.depth"""
    with psycopg.connect(api.get("/_local/services")["postgres_admin"]) as connection:
        connection.execute("select set_config('app.resource_id', 'ada', true)")
        return connection.execute(query, (thread,)).fetchall()


def test_run_that_waits_and_all_data_outlive_an_upgrade_from_the_first_package(place: Path) -> None:
    for name in ("old", "new"):
        (place / name).mkdir()
    old = Installation(place / "old", wheel_of(FIRST, place / "old"))
    new = Installation(place / "new")
    (new.migrations / "9999_pre_witness.sql").write_text(WITNESS)
    old.run(place, "init", "shop")
    project = place / "shop"

    with Serving(old, project, place / "old.log") as serving:
        api = Api(serving.told(r"^ready (\S+)$"), "dev:ada")
        done, call = asked_refund(api, 60)
        assert "60.00 euros" in approved(api, done, call)
        thread = str(api.get(f"/runs/{done}")["thread_id"])
        said_before = messages(api, thread)
        waiting, decided_later = asked_refund(api, 70)
    assert "runs that were still open: 1" in (place / "old.log").read_text()

    with Serving(new, project, place / "new.log") as serving:
        api = Api(serving.told(r"^ready (\S+)$"), "dev:ada")
        (pending,) = over(api, waiting, "suspended")["pending"]
        assert pending["tool_call_id"] == decided_later
        assert messages(api, thread) == said_before
        assert api.get(f"/runs/{done}")["status"] == "success"
        assert len(api.get("/threads")["items"]) == 2
        assert "70.00 euros" in approved(api, waiting, decided_later)
        assert "80.00 euros" in approved(api, *asked_refund(api, 80))
        # The schema was the newer release's before any of its code wrote.
        assert {witness for _, witness in witnessed(api, done)} == {None}
        assert witnessed(api, waiting) == [
            ("user", None),
            ("assistant", "after"),
            ("tool", "after"),
            ("assistant", "after"),
        ]
    assert (project / ".layover" / "release").read_text().strip() == release()
    # What the older release made of the project still holds.
    assert "2 passed" in new.run(project, "test")
