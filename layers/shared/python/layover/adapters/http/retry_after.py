"""The time after which a server wants to be asked again."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `Retry-After` (seconds or an HTTP date)."""
    try:
        if (ms := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(ms) / 1000)
        value = headers.get("retry-after")
        return None if value is None else max(0.0, _until(value))
    except (ValueError, OverflowError):
        return None


def _until(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        at = parsedate_to_datetime(value)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        # The server's date is real time: the local runner's moved clock has no say in it.
        return (at - datetime.now(UTC)).total_seconds()
