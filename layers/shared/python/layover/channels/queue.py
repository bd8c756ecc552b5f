"""The queue behind the bus: a batch of events, of which those that failed come again."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from layover.channels.notify import notify
from layover.runtime import Runtime

logger = logging.getLogger("layover")


async def notify_all(runtime: Runtime, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Tell people of each event of a batch of SQS. Return the ids of the messages that have to come again.
    The queue gives up those that fail each time."""
    failures = await asyncio.gather(*(_try_notify(runtime, record) for record in records))
    return [id for id in failures if id is not None]


async def _try_notify(runtime: Runtime, record: Mapping[str, Any]) -> str | None:
    try:
        await notify(runtime, json.loads(record["body"]))
    except Exception as error:  # whatever is wrong with one event: the others of the batch are told
        context = {"message_id": record["messageId"], "cause": type(error).__name__}
        logger.warning("an event of the bus comes again", extra=context)
        return str(record["messageId"])
    return None
