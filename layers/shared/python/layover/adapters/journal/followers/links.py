"""Links that decide calls (`ports.channels.DecisionLinks`) in the journal's table: beside the records of their
run, and erased with them."""

from datetime import timedelta

from layover.clock import from_rfc3339, rfc3339
from layover.keys import Keys, link_key, run_partition
from layover.ports.channels import Link
from layover.ports.table import Put, Table

_KEPT = timedelta(days=90)
"""The time for which a link that is over still leads to its outcome, if its run lives on. The end of the run
gives it the expiry of the run's records."""


class TableDecisionLinks:
    """`DecisionLinks`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def put_link(self, secret: str, link: Link) -> None:
        """See `ports.channels.DecisionLinks`."""
        item = {
            "owner": link.owner,
            "person": link.person,
            "tool_call_id": link.tool_call_id,
            "attempt": link.attempt,
            "until": rfc3339(link.expires_at),
            "expires": int((link.expires_at + _KEPT).timestamp()),
        }
        await self._table.write(Put(Keys(link.owner).run(link.run_id), link_key(secret), item))

    async def get_link(self, owner_hash: str, run_id: str, secret: str) -> Link | None:
        """See `ports.channels.DecisionLinks`."""
        item = await self._table.get(run_partition(owner_hash, run_id), link_key(secret))
        if item is None:
            return None
        return Link(
            person=item["person"],
            owner=item["owner"],
            run_id=run_id,
            tool_call_id=item["tool_call_id"],
            attempt=int(item["attempt"]),
            expires_at=from_rfc3339(item["until"]),
        )
