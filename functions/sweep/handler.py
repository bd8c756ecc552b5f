"""Sweep: watches over runs, on a schedule. Imports no user code."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.recovery.sweep import sweep


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """`{}` -> the work done, counted."""
    return wiring.run(sweep(wiring.runtime()))
