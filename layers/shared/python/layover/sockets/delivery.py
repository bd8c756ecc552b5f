"""Delivery of events to sockets, only after they are in the log: the log is the truth, a socket a hint.

A subscription (one connection that follows one run) remembers the last seq that was sent. A writer with new
events claims the subscription, reads the log after that seq, posts, and releases it with the new seq. Two
writers never post at once, nothing is sent twice, and nothing is left out. If a process dies between claim
and release, or a post's answer is lost, it is unknown what the client saw: then the connection is closed,
and the client comes back with the last seq that it has (docs/behaviour.md#sockets)."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta

from layover.clock import loop_time
from layover.errors import LayoverError, RetryableError
from layover.ports import Clock, Journal, SocketPorts
from layover.ports.sockets import MAX_FRAME, SocketGone, SocketUnsure
from layover.values.runs.event import LoggedEvent
from layover.values.socket import Claim, Subscription

CHUNK = 100
"""Events posted under one claim."""
HOLD_S = 2.0
"""Seconds that a claim is held, up to the last post."""
STALE = timedelta(seconds=10)
"""An older claim belongs to a process that has died."""
AGAIN_S = 0.1
"""Seconds between two tries to claim a subscription, or to post events for which API Gateway had no room."""
FINISH_S = 1.0
"""Seconds that an invocation waits for its posts before it leaves the rest to another one."""
LAST_POST_S = 6.0
"""Seconds after which a post that has begun has ended, whatever its result."""
logger = logging.getLogger("layover")

KeepGoing = Callable[[], bool]
"""Returns whether to go on."""


class SocketDelivery:
    """Sends events to subscriptions."""

    def __init__(self, journal: Journal, ports: SocketPorts, clock: Clock) -> None:
        self._journal = journal
        self._ports = ports
        self._clock = clock

    async def deliver(self, subscription: Subscription, keep_going: KeepGoing) -> bool:
        """Send the log's events after the last seq that was sent. Return False if there is more. Raises
        RetryableError."""
        while keep_going():
            claim = await self._ports.connections.claim(subscription, self._clock.now())
            if claim is None:
                await self._ports.connections.forget(subscription)
                return True
            if isinstance(claim, Claim):
                if await self._send(claim, keep_going):
                    return True
            elif self._clock.now() - claim.since > STALE:
                logger.warning("a socket's sender is gone", extra={"run_id": subscription.run_id})
                await self._lose(subscription)
                return True
            else:
                await asyncio.sleep(AGAIN_S)
        return False

    async def drop(self, connection_id: str) -> None:
        """Close a connection and forget it. Raises RetryableError."""
        await self._ports.sockets.close(connection_id)
        await self._ports.connections.close(connection_id)

    async def defer(self, subscription: Subscription) -> None:
        """Leave the rest to another invocation, as best effort: the sweeper looks as well."""
        try:
            await self._ports.later.later(subscription)
        except RetryableError:
            logger.warning("a socket's events wait", extra={"run_id": subscription.run_id})

    async def _lose(self, subscription: Subscription) -> None:
        await self.drop(subscription.connection_id)
        # Even if the connection's own record was gone before.
        await self._ports.connections.unsubscribe(subscription)

    async def _send(self, claim: Claim, keep_going: KeepGoing) -> bool:
        """Send one chunk. Return True if nothing is left to send for now."""
        subscription = claim.subscription
        expires_at = claim.token_expires_at
        if expires_at is not None and expires_at <= self._clock.now():
            await self._lose(subscription)
            return True
        try:
            page = await self._journal.events.page(
                subscription.owner, subscription.run_id, claim.sent, CHUNK
            )
        except BaseException:
            # Nothing was posted, so it is known what the client has. The claim is given back: left behind, it
            # would look like that of a dead process and cost the client its connection.
            await self._ports.connections.release(claim, claim.sent)
            raise
        try:
            last_seq = await self._post(claim, page.items, keep_going)
        except (SocketGone, SocketUnsure):
            await self._lose(subscription)
            return True
        is_all = not page.items or last_seq == page.last_seq
        if is_all and page.done:
            await self._ports.connections.unsubscribe(subscription)
            return True
        return not await self._ports.connections.release(claim, last_seq) or (
            is_all and len(page.items) < CHUNK
        )

    async def _post(
        self, claim: Claim, events: Iterable[LoggedEvent], keep_going: KeepGoing
    ) -> int:
        """Post the events, and return the last seq that was posted."""
        last_seq, until = claim.sent, loop_time() + HOLD_S
        for event in events:
            if not keep_going() or loop_time() > until:
                break
            try:
                await self._ports.sockets.post(claim.subscription.connection_id, frame(event))
            except RetryableError:
                # It was refused as a whole: the client has everything before this event, and nothing of it.
                await asyncio.sleep(AGAIN_S)
                break
            last_seq = event.seq
        return last_seq


class DeliveryQueue:
    """`ports.EventSink`: delivers while an invocation works, without delaying it."""

    def __init__(self, delivery: SocketDelivery, finish_s: float = FINISH_S) -> None:
        self._delivery = delivery
        self._finish_s = finish_s
        self._tasks: dict[Subscription, asyncio.Task[None]] = {}
        self._again: set[Subscription] = set()
        self._remaining: dict[Subscription, None] = {}
        """Keys in the order in which they were left: a set has none."""
        self._is_stopping = False

    def notify(self, owner: str, run_id: str, connections: Iterable[str]) -> None:
        """Send to each subscription, in one task for each."""
        for connection_id in sorted(connections):
            subscription = Subscription(owner, run_id, connection_id)
            if subscription in self._tasks:
                self._again.add(subscription)
            else:
                self._tasks[subscription] = asyncio.create_task(self._send(subscription))

    async def finish(self) -> None:
        """Wait a moment for deliveries under way at the end of an invocation, then leave the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._finish_s)
        if self._tasks:
            self._is_stopping = True
            await asyncio.wait(self._tasks.values(), timeout=LAST_POST_S)
            self._is_stopping = False
        remaining, self._remaining = self._remaining, {}
        await asyncio.gather(*(self._delivery.defer(subscription) for subscription in remaining))

    async def _send(self, subscription: Subscription) -> None:
        try:
            while True:
                self._again.discard(subscription)
                if not await self._delivery.deliver(subscription, lambda: not self._is_stopping):
                    self._remaining[subscription] = None
                    return
                if subscription not in self._again:
                    return
        except LayoverError as error:
            # The next event tries again, and so does the sweeper.
            extra = {"run_id": subscription.run_id, "cause": type(error).__name__}
            logger.warning("events were not sent", extra=extra)
        finally:
            self._again.discard(subscription)
            del self._tasks[subscription]


def frame(event: LoggedEvent) -> str:
    """Return the event in the form that HTTP gives it. An event that is too large for a frame is only
    announced."""
    text = event.model_dump_json()
    if len(text) * 4 <= MAX_FRAME or len(text.encode()) <= MAX_FRAME:
        return text
    fields = event.model_dump(mode="json", include={"seq", "run_id", "type", "at"})
    return json.dumps({**fields, "too_large": True})
