"""Records that it was called; waits, if it is told to, until a test opens a gate."""

import os
import time
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: Any) -> None:
    """The toy of `compact`."""
    folder = Path(os.environ["LAYOVER_TOYS"])
    with (folder / event["run_id"]).open("a") as file:
        file.write(event["op"] + "\n")
    while "gate" in event and not (folder / event["gate"]).exists():
        time.sleep(0.02)
