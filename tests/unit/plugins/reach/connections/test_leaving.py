"""The end of a grant: no erasure leaves live tokens behind, whatever is on its way, and a service that was
away is told later."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent
from layover.clock import rfc3339
from layover.errors import LimitReached, NotFound, RetryableError
from layover.keys import GRANT_PREFIX, Keys
from layover.plugins.reach.connections.consent import (
    ASKED_FOR,
    MAX_OPEN,
    begin_consent,
    finish_consent,
)
from layover.plugins.reach.connections.leaving import TOLD_WITHIN, disconnect
from layover.plugins.reach.connections.tokens import token_of
from layover.retention.expire import expire
from layover.retention.forget import forget
from layover.values.grant import Grant
from support.worlds.builder import build_runtime
from unit.plugins.reach.connections.test_tokens import ANN, REVOCABLE, SERVICE, Shop

BOB = "bob"


class Place(Shop):
    """A shop whose processes share a journal as well."""

    def __init__(self, **server: Any) -> None:
        super().__init__(**server)
        agents = (Agent("clerk", connections=[REVOCABLE]),)
        ports = self.runtime.connections
        self.runtime = build_runtime(*agents, clock=self.clock, connections=ports)

    async def ask(self, owner: str = ANN) -> dict[str, str]:
        """Consent at the service; return what the browser comes back with."""
        page = await begin_consent(self.runtime, REVOCABLE, owner)
        return self.server.consent(page["authorize_url"], owner)

    async def bring(self, back: dict[str, str], owner: str = ANN) -> Grant:
        return await finish_consent(
            self.runtime, {"github": REVOCABLE}, owner, back["code"], back["state"]
        )

    async def order_erasure(self) -> None:
        """Do what a process does that dies as soon as it has taken the order."""
        now = self.clock.now()
        await self.runtime.journal.dues.schedule(ANN, "owner", rfc3339(now), now)

    async def sweep(self, later: timedelta = timedelta(minutes=5)) -> None:
        self.clock.advance(later)
        end = asyncio.get_running_loop().time() + 60
        await expire(self.runtime, self.clock.now(), end)

    async def left(self, owner: str = ANN) -> list[str]:
        """Return the keys of what is in the owner's partition."""
        return [item["sk"] for item in await self.table.query(Keys(owner).grants, " ", "~")]

    async def grants_left(self) -> list[str]:
        return [key for key in await self.left() if key.startswith(GRANT_PREFIX)]

    def live(self) -> set[str]:
        """Return the refresh tokens that the service would take."""
        used = {token for token, (_, was_used) in self.server.refresh.items() if was_used}
        return self.server.refresh.keys() - used - {*self.server.revoked}


async def _until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0)


# Erasure


async def test_consent_that_is_exchanged_during_an_erasure_leaves_no_tokens() -> None:
    place = Place()
    back = await place.ask()
    place.endpoints.gate = asyncio.Event()
    task = asyncio.ensure_future(place.bring(back))
    await _until(lambda: place.server.forms)
    place.clock.advance(timedelta(seconds=1))
    await forget(place.runtime, ANN)
    place.clock.advance(timedelta(seconds=1))
    place.endpoints.gate.set()
    with pytest.raises(NotFound):
        await task
    assert place.live() == set()
    assert await place.left() == []


async def test_consent_that_comes_between_the_order_and_the_erasure_is_erased_by_the_sweeper() -> (
    None
):
    place = Place()
    back = await place.ask()
    place.clock.advance(timedelta(seconds=1))
    await place.order_erasure()
    place.clock.advance(timedelta(seconds=1))
    await place.bring(back)
    await place.sweep()
    assert place.live() == set()
    assert await place.left() == []


async def test_request_from_before_an_erasure_connects_nobody_after_it() -> None:
    place = Place()
    back = await place.ask()
    place.clock.advance(timedelta(seconds=1))
    await forget(place.runtime, ANN)
    with pytest.raises(NotFound):
        await place.bring(back)
    assert place.server.forms == []


async def test_renewal_during_an_erasure_leaves_no_tokens() -> None:
    place = Place()
    await place.connect(REVOCABLE)
    place.clock.advance(timedelta(hours=2))
    place.endpoints.gate = asyncio.Event()
    task = asyncio.ensure_future(token_of(place.runtime, REVOCABLE, ANN))
    await _until(lambda: place.server.renewals)
    await forget(place.runtime, ANN)
    place.endpoints.gate.set()
    assert await task is None
    assert place.live() == set()


async def test_account_that_is_connected_after_an_erasure_stays_and_so_do_those_of_others() -> None:
    place = Place()
    await place.connect(REVOCABLE)
    await place.connect(REVOCABLE, BOB)
    place.clock.advance(timedelta(seconds=1))
    await forget(place.runtime, ANN)
    place.clock.advance(timedelta(seconds=1))
    await place.connect(REVOCABLE)
    for _ in range(40):
        await place.sweep()
    for owner in (ANN, BOB):
        assert place.server.who(await token_of(place.runtime, REVOCABLE, owner) or "") == owner
    assert len(place.server.revoked) == 1


# A service that is away


async def leaves(place: Place, way: str) -> None:
    """Leave, while the service does not answer to that."""
    if way == "an exchange":
        back = await place.ask()
    else:
        await place.connect(REVOCABLE)
    place.clock.advance(timedelta(hours=2) if way == "a renewal" else timedelta(seconds=1))
    if way in ("an exchange", "a renewal"):
        place.endpoints.gate = asyncio.Event()
        work = (
            place.bring(back) if way == "an exchange" else token_of(place.runtime, REVOCABLE, ANN)
        )
        task = asyncio.ensure_future(work)
        await _until(lambda: place.endpoints.waiting)
    place.endpoints.is_deaf = True
    if way == "disconnect":
        assert await disconnect(place.runtime, REVOCABLE, ANN, "github")
    else:
        await forget(place.runtime, ANN)
    if place.endpoints.gate is not None:
        place.endpoints.gate.set()
        await asyncio.gather(task, return_exceptions=True)
        place.endpoints.gate = None


WAYS = ["disconnect", "an erasure", "an exchange", "a renewal"]


@pytest.mark.parametrize("way", WAYS)
async def test_service_that_was_away_is_told_later(way: str) -> None:
    place = Place()
    await leaves(place, way)
    assert await token_of(place.runtime, REVOCABLE, ANN) is None
    assert await place.runtime.connections.grants.list_grants(ANN) == []
    for _ in range(3):
        await place.sweep()
    assert place.live() != set()
    place.endpoints.is_deaf = False
    await place.sweep()
    assert place.live() == set()
    assert await place.grants_left() == []
    told = list(place.server.revoked)
    await place.sweep()
    assert place.server.revoked == told
    assert await place.runtime.journal.dues.of(ANN, "grant") == []


@pytest.mark.parametrize("way", WAYS)
async def test_service_that_stays_away_is_given_up_after_a_day(way: str) -> None:
    place = Place()
    await leaves(place, way)
    await place.sweep(TOLD_WITHIN)
    assert await place.grants_left() == []
    place.endpoints.is_deaf = False
    await place.sweep()
    assert place.server.revoked == []
    assert await place.runtime.journal.dues.of(ANN, "grant") == []


async def test_erasure_that_could_not_even_list_the_accounts_is_made_up_for() -> None:
    place = Place()
    await place.connect(REVOCABLE)
    place.clock.advance(timedelta(seconds=1))
    await place.order_erasure()
    await place.sweep()
    assert place.live() == set()
    assert await place.grants_left() == []


async def test_account_that_is_connected_again_is_not_ended_by_what_was_owed() -> None:
    """Some services end all that the user has granted, whichever token they are told."""
    place = Place()
    await leaves(place, "disconnect")
    place.endpoints.is_deaf = False
    await place.connect(REVOCABLE)
    await place.sweep()
    assert place.server.revoked == []
    assert place.server.who(await token_of(place.runtime, REVOCABLE, ANN) or "") == ANN


async def test_service_that_refuses_the_word_is_not_told_again() -> None:
    place = Place()
    place.endpoints.refuses = "unsupported_token_type"
    await leaves(place, "disconnect")
    place.endpoints.is_deaf = False
    await place.sweep()
    assert await place.grants_left() == []


async def test_agents_that_cannot_be_loaded_keep_nobodys_tokens_for_more_than_a_day() -> None:
    place = Place()
    await leaves(place, "disconnect")
    place.endpoints.is_deaf = False

    def broken() -> Any:
        raise RetryableError("broken")

    object.__setattr__(place.runtime, "agents", broken)
    await place.sweep()
    assert await place.grants_left() != []
    await place.sweep(TOLD_WITHIN)
    assert await place.grants_left() == []


# Requests that nobody brings back


async def test_user_has_twenty_open_requests_and_no_more() -> None:
    place = Place()
    back = [await place.ask() for _ in range(MAX_OPEN)]
    place.clock.advance(timedelta(minutes=20))
    with pytest.raises(LimitReached) as refused:
        await place.ask()
    assert refused.value.retry_after == ASKED_FOR - timedelta(minutes=20)
    await place.ask(BOB)
    await place.bring(back[0])
    await place.ask()
    with pytest.raises(LimitReached):
        await place.ask()
    place.clock.advance(ASKED_FOR)
    assert SERVICE.service == REVOCABLE.service
    await place.ask()
