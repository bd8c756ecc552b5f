"""The queue behind the bus: a batch of events, of which those that failed come again."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from layover.plugins.people.notify import notify
from layover.plugins.people.turns import Turns
from layover.ports import Deadline
from layover.runtime import Runtime

logger = logging.getLogger("layover")


async def notify_all(
    runtime: Runtime, records: Sequence[Mapping[str, Any]], deadline: Deadline
) -> list[str]:
    """Tell people of each event of a batch of SQS. Return the ids of the messages that have to come again.
    The queue gives up those that fail each time.

    Args:
        runtime: The ports.
        records: The messages of the batch.
        deadline: The end of the invocation, until which it waits for services that are busy.
    """
    turns = Turns(runtime.clock, deadline)
    failures = await asyncio.gather(*(_try_notify(runtime, each, turns) for each in records))
    return [id for id in failures if id is not None]


async def _try_notify(runtime: Runtime, record: Mapping[str, Any], turns: Turns) -> str | None:
    try:
        await notify(runtime, json.loads(record["body"]), turns)
    except Exception as error:  # whatever is wrong with one event: the others of the batch are told
        context = {"message_id": record["messageId"], "cause": type(error).__name__}
        logger.warning("an event of the bus comes again", extra=context)
        return str(record["messageId"])
    return None
