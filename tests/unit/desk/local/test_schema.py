"""Migrations of a data folder's database."""

from pathlib import Path

import pytest

from layover.desk.local.schema import digest_of, is_applied, note


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_pre_initial.sql").write_text("create table a ();")
    return folder


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "postgres"
    folder.mkdir()
    return folder


def test_database_without_a_note_is_looked_at(migrations: Path, database: Path) -> None:
    assert not is_applied(database, digest_of(migrations))
    assert not is_applied(database / "gone", digest_of(migrations))


def test_no_migrations_are_never_known_to_be_applied(tmp_path: Path, database: Path) -> None:
    note(database, digest_of(tmp_path))
    assert not is_applied(database, digest_of(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [("0001_pre_initial.sql", "create table b ();"), ("0002_post_more.sql", "drop table a;")],
)
def test_new_or_edited_migration_is_looked_at(
    migrations: Path, database: Path, name: str, text: str
) -> None:
    note(database, digest_of(migrations))
    assert is_applied(database, digest_of(migrations))
    (migrations / name).write_text(text)
    assert not is_applied(database, digest_of(migrations))


def test_note_that_cannot_be_kept_is_no_failure(migrations: Path, database: Path) -> None:
    note(database / "gone", digest_of(migrations))
    assert not is_applied(database / "gone", digest_of(migrations))
