"""Compact: condense what a thread's branch holds, ahead of time."""

from typing import Any

from layover import wiring
from layover.services.compact import compact
from layover.services.payloads import RunPayload


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """`{owner, run_id}` -> `{status}`."""
    return wiring.run(compact(wiring.runtime(), RunPayload.model_validate(event)))
