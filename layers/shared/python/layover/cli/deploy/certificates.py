"""Amazon's root certificates of RDS, without which no function trusts the database: `python -m
layover.cli.deploy.certificates` fetches them for the current project."""

import os
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

URL = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
"""AWS's own list of them, for all regions."""
NAME = Path("build") / "rds-global-bundle.pem"
MAX_AGE_S = 30 * 86_400.0
_ANSWER_S = 30.0
_BEGIN = b"-----BEGIN CERTIFICATE-----"


class NotFetched(Exception):
    """There are no certificates. The message says where to put them."""


def download() -> bytes:
    """Return AWS's bundle. Raises OSError."""
    with urllib.request.urlopen(URL, timeout=_ANSWER_S) as answer:
        return bytes(answer.read())


def keep_fresh(
    root: Path,
    fetch: Callable[[], bytes] = download,
    now: Callable[[], float] = time.time,
) -> str:
    """Fetch the bundle if there is none of the last 30 days; without a network an older one does, as long as
    its roots live. Return what was done. Raises NotFetched."""
    file = root / NAME
    try:
        if now() - file.stat().st_mtime < MAX_AGE_S:
            return f"{NAME} is there"
    except FileNotFoundError:
        pass
    try:
        content = fetch()
        why = "" if _BEGIN in content else "the answer has no certificate"
    except OSError as error:
        why = str(getattr(error, "reason", error))
    if not why:
        _write(file, content)
        return f"fetched {NAME}"
    if file.is_file():
        return f"{NAME} is older than 30 days, and no newer one could be fetched ({why})"
    raise NotFetched(f"{URL} cannot be fetched ({why}): bring that file, and put it at {file}")


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(file)


def main() -> int:
    """Fetch them for the current folder, and return the exit code."""
    try:
        print(keep_fresh(Path.cwd()))
    except NotFetched as error:
        print(f"layover: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
