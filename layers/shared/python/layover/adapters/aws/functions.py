"""Lambda's functions, invoked without waiting."""

from urllib.parse import quote

from layover.adapters.aws.client import AwsClient


async def invoke_later(client: AwsClient, function: str, payload: bytes) -> None:
    """Have Lambda accept an event. `function`: name or ARN. Raises as AwsClient does."""
    path = f"/2015-03-31/functions/{quote(function, safe='')}/invocations"
    await client.send("POST", path, {"x-amz-invocation-type": "Event"}, payload)
