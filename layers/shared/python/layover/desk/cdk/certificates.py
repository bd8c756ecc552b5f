"""Amazon's roots of RDS certificates, and the check whether a deployment can trust a bundle of them:
`python -m layover.desk.cdk.certificates` fetches them for the current project."""

import os
import re
import ssl
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from layover.desk.shipped import sources

BUNDLE = sources().build / "rds-global-bundle.pem"
"""The file that commands fetch and builds read: of the checkout, or below the folder of the current
project."""
URL = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
"""AWS's own list of them, for all regions."""
MAX_AGE = timedelta(days=30)
"""After that the bundle is fetched again; without a network an older one does, as long as its roots live."""
MAX_FETCH_S = 60
ROOT = re.compile(r"Amazon RDS (\S+) Root CA")
"""The common name of a root; each region has its own roots."""
MIN_LIFETIME = timedelta(days=90)
"""A root has to be valid for longer, because a layer may run for months before the next deployment."""


def problem(bundle: str, now: datetime, region: str | None = None) -> str | None:
    """Return why a PEM bundle is not to be deployed (to this region, if it is known); None: it is fine.

    No hash is pinned: AWS decides which certificates the bundle holds, and new regions bring new ones. The
    bundle comes over TLS from AWS itself."""
    ends = _ends(bundle)
    if ends is None:
        return "is not a list of certificates"
    if not ends:
        return "has no roots of RDS"
    if region is not None and region not in ends:
        return f"has no roots of {region}"
    last = ends[region] if region is not None else max(ends.values())
    if last < now + MIN_LIFETIME:
        return f"is old: its roots end on {last:%Y-%m-%d}"
    return None


def fetch(
    path: Path, now: datetime | None = None, download: Callable[[str], bytes] | None = None
) -> str:
    """Put the bundle at `path`, unless one that is young enough is there, and return what was done. Raises
    OSError with what to do if there is none and none comes. `download`: of a URL; it raises OSError."""
    at_s = (now or datetime.now(UTC)).timestamp()
    if path.is_file() and at_s - path.stat().st_mtime < MAX_AGE.total_seconds():
        return f"{path} is there"
    try:
        content = (download or _download)(URL)
        if b"BEGIN CERTIFICATE" not in content:
            raise OSError("the answer has no certificates")
    except OSError as error:
        why = getattr(error, "reason", error)
        if path.is_file() and path.stat().st_size:
            return f"{path} is older than {MAX_AGE.days} days, and no newer one could be fetched ({why})"
        raise OSError(
            f"{URL} could not be fetched ({why}), and without RDS's roots no function trusts the database: "
            f"fetch it where there is a network, and put it at {path}"
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)
    return f"fetched {path}"


def _download(url: str) -> bytes:
    from urllib.request import urlopen

    with urlopen(url, timeout=MAX_FETCH_S) as response:
        content: bytes = response.read()
    return content


def _ends(bundle: str) -> dict[str, datetime] | None:
    """Return the end of the last root of each region; None for a bundle that is incomplete."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=bundle)
    except (ssl.SSLError, ValueError):
        return None
    if bundle.count("-----BEGIN CERT") != bundle.count("-----END CERT"):
        return None
    ends: dict[str, datetime] = {}
    for certificate in context.get_ca_certs():
        end = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)
        for match in ROOT.finditer(str(certificate["subject"])):
            ends[match[1]] = max(end, ends.get(match[1], end))
    return ends


def main() -> int:
    """Fetch them, and return the exit code."""
    try:
        print(fetch(BUNDLE))
    except OSError as error:
        print(f"layover: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
