"""Writes down that it was called."""

import os
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: Any) -> None:
    """The toy of `compact`."""
    with (Path(os.environ["LAYOVER_TOYS"]) / event["run_id"]).open("a") as file:
        file.write(event["op"] + "\n")
