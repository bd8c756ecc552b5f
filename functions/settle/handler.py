"""Settle: another attempt for a run whose turn failed, or its end. Imports no user code."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.recovery.give_up import give_up
    from layover.values.runs.payload import SettlePayload


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """`{owner, run_id, execution, error}` -> `{status, pause_s}`: again, over or left."""
    return dict(wiring.run(give_up(wiring.runtime(), SettlePayload.model_validate(event))))
