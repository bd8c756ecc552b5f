"""Messages about calls and their links in the table: one sender at a time, and all goes with the run."""

from datetime import timedelta

import pytest

from layover.adapters.journal.deliveries import CLAIMED, TableDecisionLinks, TableDeliveries
from layover.errors import NotFound, RetryableError
from layover.keys import Keys
from layover.ports.channels import Claim, Delivery, Link
from layover.values.channels import Address
from support.worlds.journal import JournalBench

pytestmark = pytest.mark.both_stores(in_every_tier=True)
CALL = "STEP#0000#CALL#c1"
BEA = Address(channel="mail", to="bea@example.com")
PAYOUTS = Address(channel="slack", to="#payouts")


@pytest.fixture
def deliveries(world: JournalBench) -> TableDeliveries:
    return TableDeliveries(world.table, world.clock)


@pytest.fixture
def links(world: JournalBench) -> TableDecisionLinks:
    return TableDecisionLinks(world.table, world.clock)


@pytest.fixture
async def run(world: JournalBench) -> str:
    return await world.started()


async def test_nothing_is_claimed_in_a_run_that_is_not_there(
    deliveries: TableDeliveries, owner: str, run: str
) -> None:
    for who, which in ((owner, "gone"), (f"{owner}-other", run)):
        with pytest.raises(NotFound):
            await deliveries.claim(who, which, CALL, "a", BEA)
        assert await deliveries.of_call(who, which, CALL) == []


async def test_a_second_sender_waits_a_minute_and_is_then_unsure(
    deliveries: TableDeliveries, world: JournalBench, owner: str, run: str
) -> None:
    place = (owner, run, CALL, "a", BEA)
    assert await deliveries.claim(*place) == Claim(unsure=False)
    with pytest.raises(RetryableError):
        await deliveries.claim(*place)
    world.clock.advance(CLAIMED)
    assert await deliveries.claim(*place) == Claim(unsure=True)
    with pytest.raises(RetryableError):
        await deliveries.claim(*place)


@pytest.mark.parametrize("unsure", [False, True])
async def test_a_claim_that_is_given_back_is_free_at_once_and_no_surer_than_it_was(
    deliveries: TableDeliveries, world: JournalBench, owner: str, run: str, unsure: bool
) -> None:
    place = (owner, run, CALL, "a", BEA)
    claim = await deliveries.claim(*place)
    if unsure:
        world.clock.advance(CLAIMED)
        claim = await deliveries.claim(*place)
    assert claim == Claim(unsure=unsure)
    for _ in range(2):
        await deliveries.give_back(owner, run, CALL, "a", claim)
    assert [d.is_free for d in await deliveries.of_call(owner, run, CALL)] == [not unsure]
    assert await deliveries.claim(*place) == claim
    assert [d.is_free for d in await deliveries.of_call(owner, run, CALL)] == [False]
    with pytest.raises(RetryableError):
        await deliveries.claim(*place)
    world.clock.advance(CLAIMED)
    assert await deliveries.claim(*place) == Claim(unsure=True)


async def test_a_sender_that_took_too_long_does_not_give_back_the_next_ones_claim(
    deliveries: TableDeliveries, world: JournalBench, owner: str, run: str
) -> None:
    place = (owner, run, CALL, "a", BEA)
    late = await deliveries.claim(*place)
    assert isinstance(late, Claim)
    world.clock.advance(CLAIMED)
    await deliveries.claim(*place)
    await deliveries.give_back(owner, run, CALL, "a", late)
    with pytest.raises(RetryableError):
        await deliveries.claim(*place)


async def test_a_claim_of_a_message_that_was_sent_or_erased_is_not_given_back(
    deliveries: TableDeliveries, owner: str, run: str
) -> None:
    await deliveries.give_back(owner, run, CALL, "a", Claim(unsure=False))
    assert await deliveries.of_call(owner, run, CALL) == []
    await deliveries.claim(owner, run, CALL, "a", BEA)
    await deliveries.note_sent(owner, run, CALL, "a", "ref")
    await deliveries.give_back(owner, run, CALL, "a", Claim(unsure=False))
    [sent] = await deliveries.of_call(owner, run, CALL)
    assert (sent.reference, sent.is_free) == ("ref", False)


async def test_a_message_that_was_sent_is_claimed_by_nobody(
    deliveries: TableDeliveries, world: JournalBench, owner: str, run: str
) -> None:
    await deliveries.claim(owner, run, CALL, "a", BEA)
    sent_at = world.clock.now()
    await deliveries.note_sent(owner, run, CALL, "a", "ref")
    world.clock.advance(2 * CLAIMED)
    await deliveries.note_sent(owner, run, CALL, "a", "another")
    sent = Delivery(id="a", address=BEA, sent_at=sent_at, reference="ref")
    assert await deliveries.claim(owner, run, CALL, "a", BEA) == sent
    assert await deliveries.of_call(owner, run, CALL) == [sent]


async def test_messages_of_a_call_are_its_own_and_in_the_order_of_their_ids(
    deliveries: TableDeliveries, owner: str, run: str
) -> None:
    await deliveries.claim(owner, run, CALL, "b", PAYOUTS)
    await deliveries.claim(owner, run, CALL, "a", BEA)
    await deliveries.note_sent(owner, run, CALL, "b", "")
    for other in (f"{CALL}0", f"{CALL}/STEP#0000#CALL#c1"):
        await deliveries.claim(owner, run, other, "a", BEA)
    found = await deliveries.of_call(owner, run, CALL)
    assert [(d.id, d.address, d.reference) for d in found] == [("a", BEA, ""), ("b", PAYOUTS, "")]
    assert [d.sent_at is None for d in found] == [True, False]


async def test_a_note_about_an_erased_message_brings_nothing_back(
    deliveries: TableDeliveries, owner: str, run: str
) -> None:
    await deliveries.note_sent(owner, run, CALL, "a", "ref")
    assert await deliveries.of_call(owner, run, CALL) == []


def link(world: JournalBench, run_id: str) -> Link:
    return Link(
        person="bea",
        owner=world.owner,
        run_id=run_id,
        tool_call_id="c1",
        attempt=1,
        expires_at=world.clock.now() + timedelta(days=7),
    )


async def test_a_link_is_found_by_its_secret_in_its_run_only(
    links: TableDecisionLinks, world: JournalBench, run: str
) -> None:
    hash, wanted = Keys(world.owner).hash, link(world, run)
    await links.put_link("secret", wanted)
    assert await links.get_link(hash, run, "secret") == wanted
    world.clock.advance(timedelta(days=8))
    assert await links.get_link(hash, run, "secret") == wanted
    strange = ("x" * 32, "a" * 32, hash + "#", "", "\ud800")
    assert [await links.get_link(each, run, "secret") for each in strange] == [None] * 5
    others = ("other", "", "\ud800", "x" * 2_000, "\0")
    assert [await links.get_link(hash, each, "secret") for each in others] == [None] * 5
    assert [await links.get_link(hash, run, each) for each in ("", "Secret", "\ud800")] == [
        None
    ] * 3


async def test_a_link_into_a_run_that_is_not_there_is_not_kept(
    links: TableDecisionLinks, world: JournalBench, run: str
) -> None:
    with pytest.raises(NotFound):
        await links.put_link("secret", link(world, "gone"))
    assert await links.get_link(Keys(world.owner).hash, "gone", "secret") is None


async def test_the_secret_itself_is_not_stored(
    links: TableDecisionLinks, world: JournalBench, run: str
) -> None:
    await links.put_link("the-secret-itself", link(world, run))
    items = await world.table.query(Keys(world.owner).run(run), " ", "~")
    assert "the-secret-itself" not in repr(items)


async def test_reading_a_run_does_not_read_its_messages_and_erasing_it_erases_them(
    deliveries: TableDeliveries, links: TableDecisionLinks, world: JournalBench, run: str
) -> None:
    before = await world.journal.runs.snapshot(world.owner, run)
    await deliveries.claim(world.owner, run, CALL, "a", BEA)
    await links.put_link("secret", link(world, run))
    assert before is not None
    assert await world.journal.runs.snapshot(world.owner, run) == before
    await world.journal.erasure.erase_run(world.owner, before.meta.thread_id, run)
    assert await deliveries.of_call(world.owner, run, CALL) == []
    assert await links.get_link(Keys(world.owner).hash, run, "secret") is None


async def test_messages_live_as_long_as_the_run_also_those_after_its_end(
    deliveries: TableDeliveries, links: TableDecisionLinks, world: JournalBench, run: str
) -> None:
    await deliveries.claim(world.owner, run, CALL, "a", BEA)
    await links.put_link("secret", link(world, run))
    expires_at = world.clock.now() + timedelta(days=30)
    await world.journal.expiry.set_ttl(world.owner, run, expires_at)
    await deliveries.claim(world.owner, run, CALL, "b", BEA)
    items = await world.table.query(Keys(world.owner).run(run), "TOLD", "TOLE")
    assert [item["expires"] for item in items] == [int(expires_at.timestamp())] * 3
