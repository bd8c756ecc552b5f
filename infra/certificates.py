"""Amazon's roots of RDS certificates, and the check whether a deployment can trust a bundle of them."""

import re
import ssl
from datetime import UTC, datetime, timedelta

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
