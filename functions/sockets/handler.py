"""Requests of WebSockets, and deliveries of events."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from functions.sockets.routes import answer
    from layover import wiring
    from layover.sockets.subscriptions import push
    from layover.values.socket import Subscription


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """API Gateway's `$connect`, `$disconnect` and `$default` -> `{statusCode}`; or
    `{v, op: push, owner, run_id, connection_id}` -> `{}`."""
    if event.get("op") == "push":
        line = Subscription(event["owner"], event["run_id"], event["connection_id"])
        wiring.run(push(wiring.runtime(), line))
        return {}
    return {"statusCode": wiring.run(answer(wiring.runtime(), event))}
