"""Tables that break one promise each, for tests of the contract itself.

`tests/contract/test_contracts.py` runs the contract on them in a separate pytest."""

import asyncio
from collections.abc import Sequence

from examples.sqlite_table import SqliteTable
from layover.ports.table import (
    Action,
    Check,
    ConditionFailed,
    Delete,
    Item,
    Put,
    TransactionFailed,
    Write,
    apply,
    holds,
)


class Torn(SqliteTable):
    """Its transactions are writes one after the other, up to the first condition that fails."""

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        for index, action in enumerate(actions):
            old = await self.get(action.pk, action.sk)
            if action.when is not None and not holds(action.when, old):
                raise TransactionFailed({index: old})
            if not isinstance(action, Check):
                await self.write(action)


class Forgetful(SqliteTable):
    """Does a repeated transaction again."""

    _repeats = 0

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        self._repeats += 1
        await super().transact(actions, f"{token}-{self._repeats}")


class Hasty(SqliteTable):
    """Another task may write between its read and its write."""

    async def write(self, action: Write) -> Item | None:
        old = await self.get(action.pk, action.sk)
        await asyncio.sleep(0)
        new = apply(action, old)
        self._store(action, new)
        return None if isinstance(action, Put) else old if isinstance(action, Delete) else new


class Silent(SqliteTable):
    """Refuses a write, and does not say what stood in its way."""

    async def write(self, action: Write) -> Item | None:
        try:
            return await super().write(action)
        except ConditionFailed:
            raise ConditionFailed(None) from None


class Exclusive(SqliteTable):
    """Leaves out the last place of a range."""

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        found = await super().query(pk, low, high, limit=limit, forward=forward)
        return [item for item in found if item["sk"] != high]


class Stale(SqliteTable):
    """Its indexes show an item as first written."""

    def _store(self, action: Action, item: Item | None) -> None:
        index = "gsi1pk, gsi1sk, gsi2pk, gsi2sk"
        where = "pk = ? AND sk = ?"
        places = self._rows(index, where, action.pk, action.sk)
        super()._store(action, item)
        if places and item is not None:
            change = f"UPDATE items SET ({index}) = (?, ?, ?, ?) WHERE {where}"
            self._db.execute(change, (*places[0], action.pk, action.sk))
