"""The turns of messages to one address: a service that takes no more for the moment is waited for, within the
time of the invocation.

A thousand requests in a minute are a thousand seconds of one Slack channel. An event that went back to the
queue at each refusal would use up its attempts there, while the channel takes whichever event asks next."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from layover.ports import Clock, Deadline
from layover.ports.channels import ChannelBusy
from layover.values.channels import Address

T = TypeVar("T")

KEPT_BACK = timedelta(seconds=12)
"""Of the invocation's time: a service may take ten seconds to answer, and the answer has to be noted."""


class Turns:
    """Turns of one invocation: one message at a time for each address.

    Args:
        clock: The time, also to wait by.
        deadline: The end of the invocation.
    """

    def __init__(self, clock: Clock, deadline: Deadline) -> None:
        self._clock = clock
        self._deadline = deadline
        self._turns: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def take(self, address: Address, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `send` once the service takes the message. Raises ChannelBusy if it asks for
        more time than there is.

        Args:
            address: The address, for which one message at a time is sent.
            send: Sends, and raises ChannelBusy if nothing was sent.
        """
        async with self._turns[address]:
            while True:
                try:
                    return await send()
                except ChannelBusy as busy:
                    if busy.after > self._deadline.remaining() - KEPT_BACK:
                        raise
                    await self._clock.sleep(busy.after)
