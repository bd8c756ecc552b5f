"""Operators are told of runs that fail: by one message for all failures of a kind in a window, and one when
they are over (docs/behaviour.md#operators-told). Told are ids, names of agents and types of errors."""

import logging
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from urllib.parse import quote

from layover.clock import rfc3339
from layover.errors import NotFound, RetryableError
from layover.keys import OPERATORS
from layover.plugins.people.tries import try_each
from layover.plugins.people.turns import Turns
from layover.ports.channels import AlreadyCounted, ChannelRefused, Outages
from layover.runtime import Runtime
from layover.values.channels import OPERATORS_GROUP, Address, NoticeLinks
from layover.values.notices import OutageNotice
from layover.values.outages import WINDOW, Outage, id_of
from layover.values.runs.run import Status

logger = logging.getLogger("layover")

TRIES = 20
"""Attempts to change a record that other failures of the same moment change as well."""


async def tell_of_failure(runtime: Runtime, owner: str, run_id: str, turns: Turns) -> None:
    """Count a run that failed, once, and tell operators if a message is due. Raises RetryableError if the
    event has to come again.

    Args:
        runtime: The ports.
        owner: The run's.
        run_id: The run, which the journal is asked about.
        turns: The turns of the invocation.
    """
    run = await runtime.journal.runs.get(owner, run_id)
    if run is None or run.status is not Status.FAILED or run.error is None:
        return
    provider = run.error_detail.provider if run.error_detail else None
    kind = (run.agent, run.error.type, provider)
    outages, id = _outages(runtime), id_of(*kind)
    try:
        for _ in range(TRIES):
            now = runtime.clock.now()
            read = await outages.get(id) or Outage.begin(*kind, at=now)
            counted = read.with_failure(run_id, now)
            if await outages.count_run(counted, owner, run_id):
                break
        else:
            raise RetryableError("an outage changes too fast to be counted", run_id=run_id)
    except AlreadyCounted:
        # Its message may not be sent yet.
        await _tell(runtime, id, turns)
        return
    except NotFound:
        logger.info("a run is gone of which operators were to be told", extra={"run_id": run_id})
        return
    if counted.message != read.message:
        await _send(runtime, counted, turns)


async def tell_if_over(runtime: Runtime, id: str, turns: Turns) -> None:
    """Tell operators that an outage is over, if it is; otherwise have the sweeper ask again. Raises as
    `tell_of_failure` does."""
    now, outages = runtime.clock.now(), _outages(runtime)
    outage = await outages.get(id)
    if outage is None:
        return
    ended = outage.ended(now)
    if ended is None and not outage.over:
        await _look_again(runtime, outage)
        return
    if ended is None:
        await _tell(runtime, id, turns)
    elif await outages.keep(ended):
        await _send(runtime, ended, turns)
    else:
        raise RetryableError("a failure came as the outage was to be over")


async def _tell(runtime: Runtime, id: str, turns: Turns) -> None:
    """Send the newest message of an outage to the addresses that lack it, unless another process does."""
    outage = await _outages(runtime).get(id)
    if outage is None or not outage.is_due:
        return
    claimed = outage.claimed(runtime.clock.now())
    if claimed is None or not await _outages(runtime).keep(claimed):
        raise RetryableError("another process sends this message")
    await _send(runtime, claimed, turns, unsure=True)


async def _look_again(runtime: Runtime, outage: Outage) -> None:
    """Have the sweeper ask whether the outage is over, once it may be."""
    at = outage.last_at + WINDOW
    # Each look has another name: the sweeper that removes the last one does not remove this.
    name = f"{outage.id}@{rfc3339(at)}"
    await runtime.journal.dues.schedule(OPERATORS, "outage", name, at)


async def _send(runtime: Runtime, outage: Outage, turns: Turns, *, unsure: bool = False) -> None:
    """Send the message of an outage whose sending this process has claimed. `unsure`: another process had the
    claim before, and may have sent it."""
    if not outage.over:
        # Before the message: whoever repeats this has it, too.
        await _look_again(runtime, outage)
    notice, links = OutageNotice.of(outage, runtime.clock.now()), _links(runtime, outage)
    sent = set(outage.sent)

    async def send(address: Address) -> None:
        place = _digest(address)
        sender = runtime.channels.senders.get(address.channel)
        if sender is None:
            raise ChannelRefused(f"{address.channel} is not set up in this deployment")
        # A service that can be asked finds a message by this id, whoever has sent it.
        once = f"{outage.id}-{outage.message}-{place}"
        make = partial(sender.send, address, notice, links, once=once, unsure=unsure)
        await turns.take(address, make)
        sent.add(place)

    addresses = runtime.channels.config.addresses((OPERATORS_GROUP,))
    rest = [each for each in addresses if _digest(each) not in sent]
    run_id = outage.runs[0]
    failure = await try_each(runtime, run_id, [(each, partial(send, each)) for each in rest])
    number = outage.message

    def note(now: Outage) -> Outage | None:
        is_newest = now.message == number
        return now.with_sent(frozenset(sent), whole=failure is None) if is_newest else None

    await _change(_outages(runtime), outage.id, note)
    if failure is not None:
        raise failure


async def _change(outages: Outages, id: str, change: Callable[[Outage], Outage | None]) -> None:
    for _ in range(TRIES):
        outage = await outages.get(id)
        changed = change(outage) if outage is not None else None
        if changed is None or await outages.keep(changed):
            return
    raise RetryableError("an outage changes too fast to note what was sent")


def _links(runtime: Runtime, outage: Outage) -> NoticeLinks:
    run_id = quote(outage.runs[0], safe="")
    return NoticeLinks(console=f"{runtime.channels.base_url}/#/operations/{run_id}")


def _digest(address: Address) -> str:
    return sha256(f"{address.channel}\n{address.to}".encode()).hexdigest()[:16]


def _outages(runtime: Runtime) -> Outages:
    assert runtime.channels.outages is not None
    return runtime.channels.outages
