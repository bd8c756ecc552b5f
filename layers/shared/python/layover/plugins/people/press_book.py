"""Requests of Slack's that were accepted (`ports.channels.PressBook`), in the journal's table."""

from datetime import datetime, timedelta

from layover.adapters.once import write_once, written_by
from layover.dice import SYSTEM_DICE
from layover.keys import META, press_key
from layover.ports import Dice
from layover.ports.table import Below, ConditionFailed, Missing, Put, Table, any_of

REMEMBERED_FOR = timedelta(minutes=10)
"""Twice the age up to which a signature counts, so a clock that is behind does not accept one again."""


class TablePressBook:
    """`PressBook`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table, dice: Dice = SYSTEM_DICE) -> None:
        self._table = table
        self._dice = dice

    async def accept_once(self, signature: str, now: datetime) -> bool:
        """See `ports.channels.PressBook`."""
        # DynamoDB removes what has expired within days, so the condition looks at the time itself.
        is_new = any_of(Missing("pk"), Below("expires", int(now.timestamp())))
        item = {"expires": int((now + REMEMBERED_FOR).timestamp())}
        try:
            accept = Put(press_key(signature), META, item, when=is_new)
            await write_once(self._table, accept, written_by(self._dice))
        except ConditionFailed:
            return False
        return True
