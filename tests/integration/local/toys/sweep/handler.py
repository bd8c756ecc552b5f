"""Writes down that it was called; before that, hangs while a note says so."""

import os
import time
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: Any) -> None:
    """The toy of `sweep`."""
    notes = Path(os.environ["LAYOVER_TOYS"])
    while (notes / "sweep-hangs").exists():
        if not (notes / "sweep-waits").exists():
            (notes / "sweep-waits").write_text(str(os.getpid()))
        time.sleep(0.02)
    with (notes / "sweeps").open("a") as file:
        file.write("sweep\n")
