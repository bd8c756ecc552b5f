"""The one file of the local AWS on a disk without room: it says so, and works again once there is some."""

import sqlite3
from pathlib import Path

import pytest

from layover.desk.local.aws.storage import Storage

LARGE = "x" * 500_000
FEW, MANY = 40, 1_000_000
"""Pages that the file may have: SQLite then fails as on a full disk."""


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    made = Storage(tmp_path / "aws.sqlite")
    made.create("CREATE TABLE item (key TEXT PRIMARY KEY, body TEXT)")
    return made


def give_room(storage: Storage, pages: int) -> None:
    with storage.reading() as connection:
        connection.execute(f"PRAGMA max_page_count={pages}")


def write(storage: Storage, key: str, body: str = "") -> None:
    with storage.transaction() as connection:
        connection.execute("INSERT INTO item VALUES (?, ?)", (key, body))


def test_write_that_finds_no_room_is_a_problem_until_there_is_room(storage: Storage) -> None:
    give_room(storage, FEW)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        write(storage, "a", LARGE)
    said = storage.problem()
    assert said is not None
    assert "aws.sqlite" in said
    assert "database or disk is full" in said
    give_room(storage, MANY)
    assert storage.problem() is None
    write(storage, "a", LARGE)


def test_problem_stays_while_small_writes_still_fit(storage: Storage) -> None:
    give_room(storage, 8)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        write(storage, "a", LARGE)
    write(storage, "b")
    assert storage.problem() is not None


def test_trial_leaves_nothing(storage: Storage) -> None:
    give_room(storage, FEW)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        write(storage, "a", LARGE)
    give_room(storage, MANY)
    assert storage.problem() is None
    with storage.reading() as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
    assert names == [("item",)]


def test_storage_that_took_every_write_has_no_problem(storage: Storage) -> None:
    write(storage, "a")
    assert storage.problem() is None


def test_write_that_a_rule_refuses_is_no_problem_of_the_disk(storage: Storage) -> None:
    write(storage, "a")
    with pytest.raises(sqlite3.IntegrityError):
        write(storage, "a")
    assert storage.problem() is None
