"""Data that `DELETE /me` hides at once, before it is erased."""

from datetime import datetime

from layover.clock import from_rfc3339
from layover.runtime import Runtime


async def is_forgotten(runtime: Runtime, owner: str, made_at: datetime) -> bool:
    """Return whether data of the owner that was made then is to be erased. The order is written before
    anything else and removed after everything else (`retention.forget`), so every process sees it as long as
    some data may be left."""
    orders = await runtime.journal.dues.of(owner, "owner")
    return any(made_at <= from_rfc3339(order.name) for order in orders)
