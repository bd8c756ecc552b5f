"""Writes down the error and ends the run as failed."""

import os
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """The toy of `settle`."""
    with (Path(os.environ["LAYOVER_TOYS"]) / event["run_id"]).open("a") as file:
        file.write("settle " + event["error"]["Error"] + "\n")
    return {"status": "failed"}
