"""Notify: tells people of calls that wait for them. Imports no user code."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.invocation import LambdaDeadline
    from layover.plugins.people.queue import notify_all


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A batch of SQS with events of the bus -> `{batchItemFailures}`: those that have to come again."""
    deadline = LambdaDeadline(context.get_remaining_time_in_millis)
    failures = wiring.run(notify_all(wiring.runtime(), event["Records"], deadline))
    return {"batchItemFailures": [{"itemIdentifier": id} for id in failures]}
