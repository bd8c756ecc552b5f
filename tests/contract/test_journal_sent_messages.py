"""Clients' own ids of messages in the journal: one run each, until another takes its place."""

from typing import Any

import pytest

from contract.test_journal import key
from layover.errors import Conflict, ThreadBusy
from layover.keys import HEAD, Keys, message_key
from layover.ports import RequestKey, SentMessage, StaleHead
from layover.values.runs.run import OnBusy
from support.worlds.journal import JournalBench

ENQUEUE, REJECT = OnBusy.ENQUEUE, OnBusy.REJECT
ODD = ["", "a/b#c\0", "\ud800", "é" * 1000, "MESSAGE#", "x" * 5000]


def sent(
    thread_id: str, id: str = "m1", body: str = "hash", replaces: str | None = None
) -> RequestKey:
    return RequestKey(id, body, None, thread_id, replaces)


async def over(world: JournalBench, run_id: str) -> None:
    await world.end(await world.take(run_id))


async def stands_for(world: JournalBench, thread_id: str, id: str = "m1") -> str | None:
    found = await world.journal.commands.sent_message(world.owner, thread_id, id)
    return found.run_id if found else None


async def test_message_that_says_something_else_is_refused(world: JournalBench) -> None:
    head = await world.thread()
    first = await world.accept(head.id, sent=sent(head.id))
    with pytest.raises(Conflict, match="id"):
        await world.accept(head.id, ENQUEUE, sent=sent(head.id, body="other"))
    assert await stands_for(world, head.id) == first.run_id
    assert (await world.head(head.id)).queue == ()


async def test_refused_run_leaves_the_id_unused(world: JournalBench) -> None:
    old = await world.thread()
    await world.accept(old.id)
    for head, error in ((old, StaleHead), (await world.head(old.id), ThreadBusy)):
        with pytest.raises(error):
            await world.journal.commands.accept(
                world.new_run(old), head, REJECT, None, sent(old.id)
            )
    assert await stands_for(world, old.id) is None


async def test_id_of_another_thread_or_owner_is_another_one(world: JournalBench) -> None:
    head, other = await world.thread(), await world.thread()
    run = await world.accept(head.id, sent=sent(head.id))
    assert not (await world.accept(other.id, sent=sent(other.id))).replayed
    stranger = JournalBench(world.table, world.blobs, f"not {world.owner}", world.clock)
    assert await stands_for(stranger, head.id) is None
    assert await stands_for(world, head.id) == run.run_id


@pytest.mark.both_stores
async def test_repeated_message_answers_its_run_for_good(world: JournalBench) -> None:
    head = await world.thread()
    first = await world.accept(head.id, sent=sent(head.id))
    world.tick(400 * 24 * 3600)
    again = await world.accept(head.id, ENQUEUE, sent=sent(head.id))
    assert (again.run_id, again.started, again.replayed) == (first.run_id, False, True)
    known = await world.journal.commands.sent_message(world.owner, head.id, "m1")
    assert known == SentMessage(first.run_id, f"in_{first.run_id}", "hash")
    found = await world.journal.commands.find_request(world.owner, sent(head.id), world.clock.now())
    assert found == first.run_id


@pytest.mark.both_stores
async def test_run_takes_the_place_of_the_one_it_replaces_once(world: JournalBench) -> None:
    head = await world.thread()
    first = await world.accept(head.id, sent=sent(head.id))
    await over(world, first.run_id)
    edit = sent(head.id, body="other", replaces=first.run_id)
    commands = world.journal.commands
    assert await commands.find_request(world.owner, edit, world.clock.now()) is None
    second = await world.accept(head.id, sent=edit)
    assert not second.replayed
    again = await world.accept(head.id, ENQUEUE, sent=edit)
    assert (again.run_id, again.replayed) == (second.run_id, True)
    assert await commands.find_request(world.owner, edit, world.clock.now()) == second.run_id
    third = sent(head.id, body="third", replaces=first.run_id)
    with pytest.raises(Conflict):
        await world.accept(head.id, ENQUEUE, sent=third)
    assert await stands_for(world, head.id) == second.run_id


async def test_both_keys_of_a_request_are_kept_or_none(world: JournalBench) -> None:
    head = await world.thread()
    both: dict[str, Any] = {"request": key(world), "sent": sent(head.id)}
    first = await world.accept(head.id, **both)
    for repeated in (both, {"sent": both["sent"]}, {"request": both["request"]}):
        assert (await world.accept(head.id, ENQUEUE, **repeated)).run_id == first.run_id
    fresh = key(world, "k2")
    again = await world.accept(head.id, ENQUEUE, fresh, sent=both["sent"])
    assert again.replayed
    commands = world.journal.commands
    assert await commands.find_request(world.owner, fresh, world.clock.now()) is None


@pytest.mark.parametrize("id", ODD, ids=range(len(ODD)))
async def test_odd_id_is_an_id_like_any_other(world: JournalBench, id: str) -> None:
    head = await world.thread()
    first = await world.accept(head.id, sent=sent(head.id, id))
    assert await stands_for(world, head.id, id) == first.run_id
    assert await stands_for(world, head.id, f"{id} ") is None


@pytest.mark.both_stores
async def test_ids_go_with_their_thread(world: JournalBench) -> None:
    head, other = await world.thread(), await world.thread()
    kept = await world.accept(other.id, sent=sent(other.id))
    for n in range(30):
        run = await world.accept(head.id, sent=sent(head.id, f"m{n}"))
        await over(world, run.run_id)
    pk = Keys(world.owner).thread(head.id)
    assert await world.table.get(pk, message_key("m29"))
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    for _ in range(2):
        await world.journal.erasure.erase_runs(world.owner, head.id)
    await world.journal.erasure.erase_late(world.owner, head.id)
    assert [item["sk"] for item in await world.table.query(pk, " ", "~")] == [HEAD]
    assert await stands_for(world, other.id) == kept.run_id
