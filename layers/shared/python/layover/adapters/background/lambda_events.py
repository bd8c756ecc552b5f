"""Background work as Lambda events, which are accepted at once and tried up to three times."""

import json
import logging

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.functions import invoke_later

logger = logging.getLogger("layover")


class LambdaEvents:
    """`ports.Background`. `client`: Lambda's; `compact`: name or ARN of that function."""

    def __init__(self, client: AwsClient, compact: str) -> None:
        self._client = client
        self._compact = compact

    async def observe(self, owner: str, run_id: str, after_id: str | None, through_id: str) -> None:
        """Invoke `compact` for a slice. If Lambda does not accept the event, only the slice is lost."""
        event = {
            "v": 1,
            "op": "observe",
            "owner": owner,
            "run_id": run_id,
            "after_id": after_id,
            "through_id": through_id,
        }
        try:
            await invoke_later(self._client, self._compact, json.dumps(event).encode())
        except Exception as error:
            extra = {"run_id": run_id, "cause": type(error).__name__}
            logger.warning("a slice was not requested", extra=extra)
