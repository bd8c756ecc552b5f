"""Limits of the times that other systems tell."""

from datetime import UTC, datetime, timedelta

CLOCK_LEEWAY = timedelta(minutes=1)
"""The lead that another system's clock may have: a time within it counts as now."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest time that is taken over."""
