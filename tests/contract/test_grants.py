"""Users' grants in the table: one owner's are nobody else's, and no writer replaces what it has not
read."""

from datetime import datetime, timedelta

import pytest

from layover.clock import ManualClock
from layover.keys import Keys, consent_key, grant_key
from layover.plugins.reach.adapters.grants import TableGrants
from layover.ports import Blobs
from layover.ports.table import Put, Table
from layover.values.grant import Consent, Grant
from support.oauth import keep

pytestmark = pytest.mark.both_stores(in_every_tier=True)
NOW = ManualClock().now()


@pytest.fixture
def grants(journal_stores: tuple[Table, Blobs]) -> TableGrants:
    table, _ = journal_stores
    return TableGrants(table)


def grant(owner: str, connection: str = "github", at: datetime = NOW, sealed: str = "s") -> Grant:
    return Grant(owner=owner, connection=connection, sealed=sealed, connected_at=at)


def consent(owner: str, at: datetime = NOW) -> Consent:
    return Consent(
        owner=owner,
        connection="github",
        scopes=("repo",),
        redirect_url="https://layover.example.com/connected",
        sealed_verifier="v",
        asked_at=at,
        expires_at=at + timedelta(hours=1),
    )


async def test_grant_of_another_owner_is_not_there(grants: TableGrants, owner: str) -> None:
    await keep(grants, grant(owner))
    assert await grants.get(f"{owner}-other", "github") is None
    assert await grants.list_grants(f"{owner}-other") == []
    assert await grants.remove(grant(f"{owner}-other"))
    assert await grants.get(owner, "github") is not None


@pytest.mark.parametrize("copied", ["from another owner", "from another connection"])
async def test_grant_that_was_copied_from_another_place_is_not_there(
    grants: TableGrants, owner: str, journal_stores: tuple[Table, Blobs], copied: str
) -> None:
    table, _ = journal_stores
    theirs = f"{owner}-other" if copied == "from another owner" else owner
    name = "github" if copied == "from another owner" else "slack"
    await keep(grants, grant(theirs, name))
    item = await table.get(Keys(theirs).grants, grant_key(name))
    assert item is not None
    verbatim = {key: value for key, value in item.items() if key not in ("pk", "sk")}
    await table.write(Put(Keys(owner).grants, grant_key("github"), verbatim))
    assert await grants.get(owner, "github") is None
    assert [
        each.connection for each in await grants.list_grants(owner) if each.owner != owner
    ] == []
    own = await keep(grants, grant(owner, sealed="own"))
    assert await grants.get(owner, "github") == own
    assert await grants.get(theirs, name) == grant(theirs, name).model_copy(
        update={"version": item["v"]}
    )


async def test_request_that_was_copied_from_another_owner_is_not_there(
    grants: TableGrants, owner: str, journal_stores: tuple[Table, Blobs]
) -> None:
    table, _ = journal_stores
    await grants.put_consent("state", consent(f"{owner}-other"))
    item = await table.get(Keys(f"{owner}-other").grants, consent_key("state"))
    assert item is not None
    verbatim = {key: value for key, value in item.items() if key not in ("pk", "sk")}
    await table.write(Put(Keys(owner).grants, consent_key("state"), verbatim))
    assert await grants.get_consent(owner, "state", NOW) is None


async def test_writer_that_read_an_older_grant_replaces_nothing(
    grants: TableGrants, owner: str
) -> None:
    old = await keep(grants, grant(owner))
    newer = await grants.replace(old, grant(owner, sealed="newer"))
    assert newer is not None
    assert await grants.replace(old, grant(owner, sealed="late")) is None
    assert await grants.get(owner, "github") == newer


async def test_writer_that_read_a_grant_which_was_removed_replaces_no_other(
    grants: TableGrants, owner: str
) -> None:
    old = await keep(grants, grant(owner))
    renewed = await grants.replace(old, grant(owner, sealed="renewed"))
    assert renewed is not None
    assert not await grants.remove(old)
    assert await grants.get(owner, "github") == renewed
    for _ in range(2):
        assert await grants.remove(renewed)
    assert await grants.replace(old, grant(owner, sealed="late")) is None
    assert await grants.get(owner, "github") is None
    newer = await keep(grants, grant(owner, at=NOW + timedelta(seconds=1), sealed="newer"))
    assert await grants.replace(old, grant(owner, sealed="late")) is None
    assert await grants.get(owner, "github") == newer


async def test_newer_consent_takes_the_place_of_the_older(grants: TableGrants, owner: str) -> None:
    first = await keep(grants, grant(owner))
    second = await keep(grants, grant(owner, sealed="second"))
    assert second.version > first.version
    assert await grants.list_grants(owner) == [second]


async def test_grants_are_listed_by_their_names_and_requests_are_not_among_them(
    grants: TableGrants, owner: str
) -> None:
    for name in ("slack", "erp", "github"):
        await keep(grants, grant(owner, name))
    await grants.put_consent("state", consent(owner))
    names = [each.connection for each in await grants.list_grants(owner)]
    assert names == ["erp", "github", "slack"]


async def test_request_is_its_owners_works_once_and_has_a_time(
    grants: TableGrants, owner: str
) -> None:
    asked = consent(owner)
    await grants.put_consent("state", asked)
    assert await grants.get_consent(f"{owner}-other", "state", NOW) is None
    assert await grants.get_consent(owner, "another", NOW) is None
    assert await grants.get_consent(owner, "\ud800", NOW) is None
    assert await grants.get_consent(owner, "state", asked.expires_at) is None
    assert await grants.get_consent(owner, "state", NOW) == asked
    assert not await grants.use_consent(f"{owner}-other", "state")
    assert not await grants.use_consent(owner, "another")
    assert await grants.use_consent(owner, "state")
    assert not await grants.use_consent(owner, "state")
    once_more = await grants.get_consent(owner, "state", NOW)
    assert once_more == asked.model_copy(update={"is_used": True})


async def test_state_itself_is_not_stored(
    grants: TableGrants, owner: str, journal_stores: tuple[Table, Blobs]
) -> None:

    await grants.put_consent("the-state-itself", consent(owner))
    [item] = await journal_stores[0].query(Keys(owner).grants, " ", "~")
    assert "the-state-itself" not in repr(item)


async def test_erasing_takes_all_from_before_its_time_and_nothing_else(
    grants: TableGrants, owner: str
) -> None:
    later = NOW + timedelta(seconds=1)
    for n in range(120):
        await keep(grants, grant(owner, f"c{n:03}"))
        await grants.put_consent(f"state{n}", consent(owner))
    kept = await keep(grants, grant(owner, "later", at=later))
    await grants.put_consent("later", consent(owner, at=later))
    await keep(grants, grant(f"{owner}-other"))
    await grants.erase(owner, NOW)
    await grants.erase(owner, NOW)
    assert await grants.list_grants(owner) == [kept]
    assert await grants.get_consent(owner, "later", later) is not None
    assert await grants.get_consent(owner, "state1", NOW) is None
    assert len(await grants.list_grants(f"{owner}-other")) == 1


async def test_grant_whose_request_is_gone_is_not_kept(grants: TableGrants, owner: str) -> None:
    """Its owner was erased while its service was asked."""
    assert await grants.put(grant(owner), "never asked") is None
    first = await keep(grants, grant(owner))
    await grants.erase(owner, NOW)
    assert await grants.put(first, "kept") is None
    await grants.put_consent("state", consent(f"{owner}-other"))
    assert await grants.put(first, "state") is None
    assert await grants.list_grants(owner) == []


async def test_grant_of_a_request_from_before_an_erasure_is_erased(
    grants: TableGrants, owner: str
) -> None:
    later = NOW + timedelta(seconds=2)
    asked_before = grant(owner, at=later).model_copy(update={"asked_at": NOW})
    asked_after = grant(owner, "slack", at=later).model_copy(update={"asked_at": later})
    await keep(grants, asked_before)
    kept = await keep(grants, asked_after)
    await grants.erase(owner, NOW + timedelta(seconds=1))
    assert await grants.list_grants(owner) == [kept]


async def test_grant_that_was_left_is_in_no_list_but_that_of_those_left(
    grants: TableGrants, owner: str, journal_stores: tuple[Table, Blobs]
) -> None:
    kept = await keep(grants, grant(owner))
    left = await grants.replace(kept, kept.model_copy(update={"left_at": NOW}))
    assert left is not None
    assert await grants.get(owner, "github") is None
    assert await grants.list_grants(owner) == []
    await grants.erase(owner, NOW + timedelta(days=1))
    assert await grants.list_left(owner) == [left]
    assert await grants.list_left(f"{owner}-other") == []
    item = await journal_stores[0].get(Keys(owner).grants, grant_key("github"))
    assert item is not None
    assert item["expires"] == (NOW + timedelta(days=2)).timestamp()
    again = await keep(grants, grant(owner, sealed="again"))
    assert await grants.list_left(owner) == []
    assert await grants.get(owner, "github") == again
    assert not await grants.remove(left)


async def test_tokens_that_are_left_take_the_place_of_older_ones_of_their_grant_only(
    grants: TableGrants, owner: str
) -> None:
    def left(sealed: str, at: datetime = NOW) -> Grant:
        return grant(owner, at=at, sealed=sealed).model_copy(update={"left_at": NOW})

    await grants.put_left(left("1"))
    await grants.put_left(left("2"))
    await grants.put_left(left("of another consent", NOW + timedelta(seconds=1)))
    assert [each.sealed for each in await grants.list_left(owner)] == ["2"]
    kept = await keep(grants, grant(owner, sealed="kept"))
    await grants.put_left(left("3"))
    assert await grants.get(owner, "github") == kept


async def test_open_requests_are_those_that_may_still_be_brought_back(
    grants: TableGrants, owner: str
) -> None:
    asked = consent(owner)
    for state in ("one", "two"):
        await grants.put_consent(state, asked)
    await grants.put_consent("of another", consent(f"{owner}-other"))
    assert await grants.use_consent(owner, "two")
    assert await grants.list_consents(owner, NOW) == [asked]
    assert await grants.list_consents(owner, asked.expires_at) == []
