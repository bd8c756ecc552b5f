"""Grants and requests for consent (`ports.grants.Grants`) in the journal's table: one partition of each
owner."""

import logging
from datetime import datetime, timedelta

from layover.adapters.once import write_once, written_by
from layover.dice import SYSTEM_DICE
from layover.keys import CONSENT_PREFIX, GRANT_PREFIX, Keys, consent_key, grant_key
from layover.ports import Dice
from layover.ports.table import (
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Table,
    TransactionFailed,
    Update,
    all_of,
)
from layover.values.grant import Consent, Grant

logger = logging.getLogger("layover")

_HIGHEST = "~"
_SLACK = timedelta(days=1)
_LEFT_LIVES = timedelta(days=2)
"""A table may forget a grant that was left then: whoever tells services gave it up before."""
_ERASED_AT_ONCE = 100


class TableGrants:
    """`Grants`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table, dice: Dice = SYSTEM_DICE) -> None:
        self._table = table
        self._dice = dice

    async def get(self, owner: str, connection: str) -> Grant | None:
        """See `ports.grants.Grants`."""
        grant = _read(owner, await self._item(owner, connection))
        return None if grant is None or grant.left_at is not None else grant

    async def list_grants(self, owner: str) -> list[Grant]:
        """See `ports.grants.Grants`."""
        return [grant for grant in await self._grants(owner) if grant.left_at is None]

    async def list_left(self, owner: str) -> list[Grant]:
        """See `ports.grants.Grants`."""
        return [grant for grant in await self._grants(owner) if grant.left_at is not None]

    async def _grants(self, owner: str) -> list[Grant]:
        high = GRANT_PREFIX + _HIGHEST
        items = await self._table.query(Keys(owner).grants, GRANT_PREFIX, high)
        return [grant for item in items if (grant := _read(owner, item)) is not None]

    async def put(self, grant: Grant, state: str) -> Grant | None:
        """See `ports.grants.Grants`."""
        pk = Keys(grant.owner).grants
        is_wanted = Check(pk, consent_key(state), Exists("pk"))
        while True:
            old = await self._item(grant.owner, grant.connection)
            # A version is never used again, not even by a grant that was removed: a writer that read the one
            # before must not replace this one. The first is above every version of a removed one.
            first = int(grant.connected_at.timestamp() * 1_000_000)
            version = old["v"] + 1 if old is not None else first
            new = grant.model_copy(update={"version": version})
            as_read = Missing("pk") if old is None else Equals("v", old["v"])
            put = Put(pk, grant_key(grant.connection), _item_of(new), when=as_read)
            try:
                await self._table.transact([is_wanted, put], self._dice.hex(16))
            except TransactionFailed as failure:
                if 0 in failure.failed:
                    return None
            else:
                return new

    async def put_left(self, grant: Grant) -> None:
        """See `ports.grants.Grants`."""
        old = _read(grant.owner, await self._item(grant.owner, grant.connection))
        if old is None:
            await self._write(grant, Missing("pk"))
        elif old.left_at is not None and old.connected_at == grant.connected_at:
            await self.replace(old, grant)

    async def replace(self, old: Grant, new: Grant) -> Grant | None:
        """See `ports.grants.Grants`."""
        new = new.model_copy(update={"version": old.version + 1})
        return new if await self._write(new, Equals("v", old.version)) else None

    async def remove(self, grant: Grant) -> bool:
        """See `ports.grants.Grants`."""
        as_read = Equals("v", grant.version)
        try:
            await self._table.write(
                Delete(Keys(grant.owner).grants, grant_key(grant.connection), when=as_read)
            )
        except ConditionFailed as failure:
            return failure.old is None
        return True

    async def list_consents(self, owner: str, now: datetime) -> list[Consent]:
        """See `ports.grants.Grants`."""
        high = CONSENT_PREFIX + _HIGHEST
        items = await self._table.query(Keys(owner).grants, CONSENT_PREFIX, high)
        unused = [Consent.model_validate_json(item["b"]) for item in items if "used" not in item]
        return [each for each in unused if each.owner == owner and now < each.expires_at]

    async def put_consent(self, state: str, consent: Consent) -> None:
        """See `ports.grants.Grants`."""
        item = {
            "b": consent.model_dump_json(),
            "expires": int((consent.expires_at + _SLACK).timestamp()),
        }
        await self._table.write(Put(Keys(consent.owner).grants, consent_key(state), item))

    async def get_consent(self, owner: str, state: str, now: datetime) -> Consent | None:
        """See `ports.grants.Grants`."""
        item = await self._table.get(Keys(owner).grants, consent_key(state))
        if item is None:
            return None
        consent = Consent.model_validate_json(item["b"])
        if now >= consent.expires_at or consent.owner != owner:
            return None
        return consent.model_copy(update={"is_used": "used" in item})

    async def use_consent(self, owner: str, state: str) -> bool:
        """See `ports.grants.Grants`."""
        place = (Keys(owner).grants, consent_key(state))
        once = all_of(Exists("pk"), Missing("used"))
        try:
            await write_once(self._table, Update(*place, when=once), {"used": self._dice.hex(8)})
        except ConditionFailed:
            return False
        return True

    async def erase(self, owner: str, until: datetime) -> None:
        """See `ports.grants.Grants`."""
        pk, high = Keys(owner).grants, _HIGHEST
        low = ""
        while items := await self._table.query(pk, low, high, limit=_ERASED_AT_ONCE):
            for item in items:
                if _may_go(item, until):
                    await self._table.write(Delete(pk, item["sk"]))
            low = items[-1]["sk"] + "\0"

    async def _item(self, owner: str, connection: str) -> Item | None:
        return await self._table.get(Keys(owner).grants, grant_key(connection))

    async def _write(self, grant: Grant, when: Condition) -> bool:
        key = grant_key(grant.connection)
        try:
            put = Put(Keys(grant.owner).grants, key, _item_of(grant), when=when)
            await write_once(self._table, put, written_by(self._dice))
        except ConditionFailed:
            return False
        return True


def _item_of(grant: Grant) -> Item:
    item = {"b": grant.model_dump_json(), "v": grant.version}
    if grant.left_at is not None:
        item["expires"] = int((grant.left_at + _LEFT_LIVES).timestamp())
    return item


def _may_go(item: Item, until: datetime) -> bool:
    """Return whether the erasure of what began until then takes an item along."""
    if item["sk"].startswith(CONSENT_PREFIX):
        return Consent.model_validate_json(item["b"]).asked_at <= until
    grant = Grant.model_validate_json(item["b"])
    return grant.left_at is None and grant.began_at <= until


def _read(owner: str, item: Item | None) -> Grant | None:
    """Return the grant that an item of this owner's has. None: there is none, or the record is another
    owner's or of another connection, so somebody has copied it here."""
    if item is None:
        return None
    grant = Grant.model_validate_json(item["b"])
    if grant.owner == owner and grant_key(grant.connection) == item["sk"]:
        return grant
    logger.warning("a grant is refused: it is not the one of its key", extra={"key": item["sk"]})
    return None
