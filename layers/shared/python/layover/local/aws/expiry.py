"""What goes by itself on AWS goes on one machine as well, by the clock that the system reads: moto gives
objects the machine's own time."""

from datetime import UTC
from typing import Any

import moto.s3.models

from layover.clock import SystemClock


def install() -> None:
    """Objects of S3 are as old as the system's clock says."""
    models: Any = moto.s3.models
    models.utcnow = lambda: SystemClock().now().astimezone(UTC).replace(tzinfo=None)
