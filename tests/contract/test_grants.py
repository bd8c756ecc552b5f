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
    await grants.put(grant(owner))
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
    await grants.put(grant(theirs, name))
    item = await table.get(Keys(theirs).grants, grant_key(name))
    assert item is not None
    verbatim = {key: value for key, value in item.items() if key not in ("pk", "sk")}
    await table.write(Put(Keys(owner).grants, grant_key("github"), verbatim))
    assert await grants.get(owner, "github") is None
    assert [
        each.connection for each in await grants.list_grants(owner) if each.owner != owner
    ] == []
    own = await grants.put(grant(owner, sealed="own"))
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
    old = await grants.put(grant(owner))
    newer = await grants.replace(old, grant(owner, sealed="newer"))
    assert newer is not None
    assert await grants.replace(old, grant(owner, sealed="late")) is None
    assert await grants.get(owner, "github") == newer


async def test_writer_that_read_a_grant_which_was_removed_replaces_no_other(
    grants: TableGrants, owner: str
) -> None:
    old = await grants.put(grant(owner))
    renewed = await grants.replace(old, grant(owner, sealed="renewed"))
    assert renewed is not None
    assert not await grants.remove(old)
    assert await grants.get(owner, "github") == renewed
    for _ in range(2):
        assert await grants.remove(renewed)
    assert await grants.replace(old, grant(owner, sealed="late")) is None
    assert await grants.get(owner, "github") is None
    newer = await grants.put(grant(owner, at=NOW + timedelta(seconds=1), sealed="newer"))
    assert await grants.replace(old, grant(owner, sealed="late")) is None
    assert await grants.get(owner, "github") == newer


async def test_newer_consent_takes_the_place_of_the_older(grants: TableGrants, owner: str) -> None:
    first = await grants.put(grant(owner))
    second = await grants.put(grant(owner, sealed="second"))
    assert second.version > first.version
    assert await grants.list_grants(owner) == [second]


async def test_grants_are_listed_by_their_names_and_requests_are_not_among_them(
    grants: TableGrants, owner: str
) -> None:
    for name in ("slack", "erp", "github"):
        await grants.put(grant(owner, name))
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
        await grants.put(grant(owner, f"c{n:03}"))
        await grants.put_consent(f"state{n}", consent(owner))
    kept = await grants.put(grant(owner, "later", at=later))
    await grants.put_consent("later", consent(owner, at=later))
    await grants.put(grant(f"{owner}-other"))
    await grants.erase(owner, NOW)
    await grants.erase(owner, NOW)
    assert await grants.list_grants(owner) == [kept]
    assert await grants.get_consent(owner, "later", later) is not None
    assert await grants.get_consent(owner, "state1", NOW) is None
    assert len(await grants.list_grants(f"{owner}-other")) == 1
