"""Messages to several addresses, of which one that fails keeps no other from being told."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from layover.errors import NotFound, RetryableError
from layover.ports.channels import ChannelRefused
from layover.runtime import Runtime
from layover.values.channels import Address
from layover.values.metrics import Metric

logger = logging.getLogger("layover")

MAX_AT_ONCE = 8
"""Messages of one event that are sent side by side."""


async def try_each(
    runtime: Runtime,
    run_id: str,
    work: Iterable[tuple[Address, Callable[[], Awaitable[object]]]],
) -> Exception | None:
    """Do the work at each address. Return the failure for which the event has to come again, if there is one.
    Raises NotFound: the run is gone.

    Args:
        runtime: The ports.
        run_id: The run, for the log.
        work: What tells each address.
    """
    room = asyncio.Semaphore(MAX_AT_ONCE)

    async def try_one(address: Address, tell: Callable[[], Awaitable[object]]) -> Exception | None:
        context = {"run_id": run_id, "channel": address.channel}
        try:
            async with room:
                await tell()
        except ChannelRefused as error:
            # The same would be refused again. The error says what the deployer has to do.
            logger.error("a channel refused a message: %s", error, extra=context)
            runtime.metrics.count(Metric.CHANNEL_REFUSED, channel=address.channel)
        except NotFound as error:
            return error
        except RetryableError as error:
            logger.warning("a message is sent later: %s", error, extra=context)
            return error
        except Exception as error:  # whatever is wrong with one address: the others are told
            logger.exception("a message was not sent", extra=context)
            return error
        return None

    failures = [f for f in await asyncio.gather(*(try_one(*each) for each in work)) if f]
    missing = next((failure for failure in failures if isinstance(failure, NotFound)), None)
    if missing is not None:
        raise missing
    return next(iter(failures), None)
