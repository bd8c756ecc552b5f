"""Records of decisions for auditors: over all users, and kept longer than runs and threads."""

from datetime import date

from layover.runtime import Runtime
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.page import Page
from layover.values.runs.audit import AuditRow

_CURSOR = "audit"


async def list_decisions(
    runtime: Runtime, since: date | None, until: date | None, limit: int, cursor: str | None
) -> Page[AuditRow]:
    """Return votes and decisions of these UTC days (both included; None: no bound), the oldest first."""
    page = await runtime.journal.audit.page_rows(
        since, until, limit, decode_cursor_field(_CURSOR, cursor)
    )
    return Page(items=page.items, next_cursor=encode_cursor(_CURSOR, page.next_cursor))
