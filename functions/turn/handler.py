"""Turn: advance a run until it ends, suspends, or has to yield."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.invocation import LambdaDeadline
    from layover.runs.turn import turn
    from layover.values.runs.payload import TurnPayload

    wiring.import_ahead("turn")


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """`{v, owner, run_id, n, execution, call?, output?}` -> `{status, waiting, call, next}`."""
    deadline = LambdaDeadline(context.get_remaining_time_in_millis)
    payload = TurnPayload.model_validate(event)
    return dict(wiring.run(turn(wiring.runtime(), payload, deadline)))
