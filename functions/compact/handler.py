"""Compact: condense the messages of a thread's branch, ahead of time."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.plugins.memory.condenses.compact import compact
    from layover.values.runs.payload import CompactPayload


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """`{op, owner, run_id, after_id?, through_id?}` -> `{status}`."""
    return wiring.run(compact(wiring.runtime(), CompactPayload.model_validate(event)))
