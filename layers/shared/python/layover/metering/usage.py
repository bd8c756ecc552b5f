"""A user's usage by day, as far as it is stored: a run's once it is over, or yields to compaction."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime

from layover.runtime import Runtime
from layover.values.cursor import bad_cursor, decode_cursor, encode_cursor
from layover.values.memory.context import StepUsage
from layover.values.page import Page
from layover.values.runs.run import StepRecord, UnusedReply
from layover.values.runs.usage import DayUsage, Usage

_CURSOR = "usage"
_NAME_LENGTH = 12


def usage_of_steps(
    steps: Iterable[tuple[str, StepRecord]], unused: Iterable[UnusedReply] = ()
) -> tuple[StepUsage, ...]:
    """Return a run's usage in the form that is stored, from its steps with the names of their agents, and
    from the replies that were asked for again: a row for each UTC day, agent and model, however many steps
    there are."""
    groups = defaultdict[tuple[str, str, str], list[tuple[Usage, datetime]]](list)
    # Where a hook replied, no model did.
    paid = [
        (agent, s.model, s.usage, s.message.created_at) for agent, s in steps if s.replied is None
    ]
    paid += [(reply.agent, reply.model, reply.usage, reply.at) for reply in unused]
    for agent, model, usage, at in paid:
        groups[at.date().isoformat(), agent, model].append((usage, at))
    return tuple(
        StepUsage(
            # Named by the group, so that the name stays the same when the run grows: a group's first step may
            # change.
            step=hashlib.sha256("\n".join((day, agent, model)).encode()).hexdigest()[:_NAME_LENGTH],
            agent=agent,
            model=model,
            usage=Usage.total([usage for usage, _ in group]),
            at=max(at for _, at in group),
        )
        for (day, agent, model), group in groups.items()
    )


async def list_usage(
    runtime: Runtime,
    owner: str,
    since: date | None,
    until: date | None,
    limit: int,
    cursor: str | None,
) -> Page[DayUsage]:
    """Return the owner's spending on these UTC days (both included; None: no bound), the newest day first, a
    row for each agent, model and kind. Raises RetryableError (DatabaseWaking)."""
    after = _row(cursor)
    rows = await runtime.memory.usage_by_day(owner, since, until, after, limit + 1)
    items = tuple(rows[:limit])
    last = items[-1] if len(rows) > limit else None
    place = (None,) * 4 if last is None else (str(last.day), last.agent, last.model, last.kind)
    return Page(items=items, next_cursor=encode_cursor(_CURSOR, *place))


def _row(cursor: str | None) -> list[str] | None:
    """Return day, agent, model and kind of the row before the page."""
    place = [part for part in decode_cursor(_CURSOR, cursor, 4) if part is not None]
    if not place:
        return None
    try:
        date.fromisoformat(place[0])
    except ValueError as error:
        raise bad_cursor() from error
    if len(place) != 4:
        raise bad_cursor()
    return place
