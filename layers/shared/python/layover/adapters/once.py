"""Plain writes that know their own repetition.

A client sends a request again if its answer was lost. A transaction has a token for that. A plain write finds
what its first attempt wrote, and would take it for another's: it refuses itself, or counts twice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from layover.ports import Dice
from layover.ports.table import AllOf, ConditionFailed, Differs, Item, Put, Table, Update


async def write_once(table: Table, action: Put | Update, by: Mapping[str, Any]) -> Item | None:
    """Make a plain write that takes effect once however often it is sent, and return what `Table.write`
    returns. Raises ConditionFailed if another writer was faster.

    Args:
        table: The table.
        action: The write. Deletions are not among them: an item that is gone does not say who deleted it.
        by: Attributes that tell this write from every other write of the item, which it sets as well:
            `written_by`, or what the item says anyway.
    """
    if isinstance(action, Put):
        item = {**action.item, **by}
        marked: Put | Update = Put(action.pk, action.sk, item, action.when)
    else:
        # Whatever is set is set again to the same. An addition would count twice.
        unwritten = [Differs(*pair) for pair in by.items()] if action.add else []
        parts = unwritten if action.when is None else [action.when, *unwritten]
        when = AllOf(tuple(parts)) if unwritten else action.when
        marked = replace(action, set={**action.set, **by}, when=when)
    try:
        return await table.write(marked)
    except ConditionFailed as failure:
        old = failure.old
        if old is None or any(old.get(name) != value for name, value in by.items()):
            raise
        return None if isinstance(action, Put) else old


async def change_once(table: Table, update: Update, dice: Dice) -> Item | None:
    """Make a plain update that takes effect once, and return the item as it is then; None: the condition does
    not hold."""
    try:
        return await write_once(table, update, written_by(dice))
    except ConditionFailed:
        return None


def written_by(dice: Dice) -> dict[str, str]:
    """Return the mark of one write, for items that do not say themselves who wrote them. The next marked
    write replaces it."""
    return {"by": dice.hex(8)}
