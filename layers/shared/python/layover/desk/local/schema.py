"""The migrations that a data folder's database has: recorded in its folder, and deleted with it.

A start with the same migrations therefore invokes no function to find that there is nothing to do, which
saves a process before `ready`. With any other record, or without one, the function checks."""

import hashlib
from contextlib import suppress
from pathlib import Path

_NOTE = "layover-migrations"


def digest_of(migrations: Path) -> str:
    """A digest of the files' names and contents; "" if there are none."""
    paths = sorted(migrations.glob("*.sql"))
    if not paths:
        return ""
    digest = hashlib.sha256()
    for path in paths:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()


def is_applied(database: Path, digest: str) -> bool:
    """Return whether these migrations were the last ones to be applied to the database in this folder."""
    try:
        return bool(digest) and (database / _NOTE).read_text() == digest
    except OSError:
        return False


def note(database: Path, digest: str) -> None:
    """Record that these migrations were applied. A folder that cannot be written is checked each time."""
    with suppress(OSError):
        (database / _NOTE).write_text(digest)
