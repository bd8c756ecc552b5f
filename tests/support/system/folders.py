"""Folders for systems under test.

Not pytest's `tmp_path`: whenever another pytest of this user starts, it takes everybody else's right to enter
the common parent, and a Postgres that runs as its own user can no longer reach its data."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """An empty folder that is gone afterwards, as far as that is possible."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)
