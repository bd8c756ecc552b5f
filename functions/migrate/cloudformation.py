"""CloudFormation's side of the custom resource: the outcome goes to the URL that the event names. The URL is
a permission, so it never appears in a log or an error."""

import json
import logging
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from layover.records.migrate import RESOURCE_ID

logger = logging.getLogger("layover")

ATTEMPTS = 3
ANSWER_WITHIN_S = 10.0
MAX_REASON = 1000
"""Characters; CloudFormation takes 4 KB for the whole answer."""
Send = Callable[[str, bytes], None]


def answer_cloudformation(
    event: Mapping[str, Any], work: Callable[[], dict[str, Any]], send: Send | None = None
) -> dict[str, Any]:
    """Do the work and tell CloudFormation how it went. A reported failure is not raised: Lambda repeats a
    failed invocation, and the migration would run again while CloudFormation rolls back. Raises
    ConnectionError if CloudFormation cannot be told; the deployment then hangs until CloudFormation gives
    up."""
    tell = send or put
    try:
        result = work()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:MAX_REASON]
        # The reason may hold the database's message; it is for the deployer.
        logger.error("the schema was not migrated", extra={"error": type(error).__name__})
        _tell(event, {"Status": "FAILED", "Reason": reason}, tell)
        return {}
    _tell(event, {"Status": "SUCCESS", "Data": result.get("Data", {})}, tell)
    return result


def _tell(event: Mapping[str, Any], outcome: Mapping[str, Any], send: Send) -> None:
    same = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    # Always the same id, because CloudFormation would replace a resource whose id changes.
    body = json.dumps({**same, "PhysicalResourceId": RESOURCE_ID, **outcome}).encode()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return send(event["ResponseURL"], body)
        except OSError as error:
            logger.warning(
                "CloudFormation was not told: %s, attempt %d", type(error).__name__, attempt
            )
    raise ConnectionError("CloudFormation did not get the answer; it gives up by itself")


def put(url: str, body: bytes) -> None:
    """PUT to a presigned URL, which is signed for an empty content type. Raises OSError."""
    request = urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT")
    with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S):
        pass
