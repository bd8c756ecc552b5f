"""Extract: learn from a run after it is over."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.plugins.memory.learns.extract import extract
    from layover.values.runs.payload import RunPayload


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """`{owner, run_id}` -> `{status}`."""
    return wiring.run(extract(wiring.runtime(), RunPayload.model_validate(event)))
