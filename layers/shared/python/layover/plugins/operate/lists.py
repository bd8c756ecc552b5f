"""Lists of all owners' runs, for operators, and of their actions, for auditors. They need no Postgres."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

from layover.batches import batched
from layover.plugins.operate.views import glance_at
from layover.ports import RunFacts, RunFilter
from layover.runtime import Runtime
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.page import Page
from layover.values.runs.operated import (
    AgentSpend,
    ErrorCount,
    OldestWait,
    OperatedRun,
    OperatedSummary,
    RunCount,
    RunPeriod,
)
from layover.values.runs.operations import OperationRow
from layover.values.runs.run import Status

SUMMARY_SPAN = timedelta(days=1)
"""The span of a summary that names no beginning."""
BY_HOUR = timedelta(days=2)
"""The longest span that is counted by hours."""
MAX_COUNTED = 5_000
"""Runs that are not over, and runs that are, that one summary counts."""
MAX_LOOKS = 10
"""Pages that one request reads for runs that it may show. A page may be short, and still have a next."""
_RUNS, _OPERATIONS = "operate", "operations"
_MAX_CONCURRENT_READS = 16


async def list_runs(
    runtime: Runtime,
    only: RunFilter,
    limit: int,
    cursor: str | None,
    definition: str | None = None,
) -> Page[OperatedRun]:
    """Return runs of all owners, the newest first. `definition`: only those that go by the agent's definition
    of this hash. A page may be short, and still have a next one."""
    start = decode_cursor_field(_RUNS, cursor)
    items: list[OperatedRun] = []
    for _ in range(MAX_LOOKS):
        page = await runtime.journal.overview.page(only, limit - len(items), start)
        for some in batched(page.items, _MAX_CONCURRENT_READS):
            runs = await asyncio.gather(*(_glance(runtime, facts) for facts in some))
            items += [
                run
                for run in runs
                if run is not None and _passes(only, run) and definition in (None, run.definition)
            ]
        start = page.next_cursor
        if start is None or len(items) == limit:
            break
    return Page(items=tuple(items), next_cursor=encode_cursor(_RUNS, start))


async def _glance(runtime: Runtime, facts: RunFacts) -> OperatedRun | None:
    """Return the run as it is now; None: it or its thread is gone."""
    snapshot = await runtime.journal.overview.read(facts)
    if snapshot is None:
        return None
    head = await runtime.journal.heads.get(snapshot.meta.owner, snapshot.meta.thread_id)
    return None if head is not None and head.deleted else glance_at(snapshot)


def _passes(only: RunFilter, run: OperatedRun) -> bool:
    """Return whether the run, as it is now, is one of those that are asked for."""
    wishes = (
        (only.status, run.status),
        (only.agent, run.agent),
        (only.owner, run.owner),
        (only.error, run.error),
    )
    return all(wish in (None, fact) for wish, fact in wishes) and only.takes_time(run.created_at)


async def summarise(runtime: Runtime, since: datetime | None) -> OperatedSummary:
    """Return counts of all owners' runs. `since`: the earliest acceptance of runs that are over; None:
    `SUMMARY_SPAN` before now."""
    now = runtime.clock.now()
    since = since or now - SUMMARY_SPAN
    day = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    tally = await runtime.journal.overview.tally(min(since, day), MAX_COUNTED)
    over = [facts for facts in tally.over if facts.created_at >= since]
    period: Literal["hour", "day"] = "hour" if now - since <= BY_HOUR else "day"
    recent = [facts for facts in tally.live if facts.created_at >= since]
    return OperatedSummary(
        at=now,
        since=since,
        runs=_counts([*tally.live, *over]),
        period=period,
        over_time=_periods([*recent, *over], period),
        oldest_wait=await _oldest_wait(runtime, tally.live),
        errors=_errors(over),
        spent_since=day,
        spent=_spent(facts for facts in tally.over if facts.created_at >= day),
        complete=tally.live_whole and tally.over_whole,
    )


def _counts(runs: Sequence[RunFacts]) -> tuple[RunCount, ...]:
    counts = Counter((facts.status, facts.agent) for facts in runs)
    ordered = sorted(counts.items(), key=lambda pair: (list(Status).index(pair[0][0]), pair[0][1]))
    return tuple(RunCount(status=s, agent=agent, count=n) for (s, agent), n in ordered)


def _periods(runs: Sequence[RunFacts], period: Literal["hour", "day"]) -> tuple[RunPeriod, ...]:
    """Return the counts of each UTC hour or day that has runs, the earliest first."""
    counts = Counter((_begin(facts.created_at, period), facts.status) for facts in runs)
    ordered = sorted(counts.items(), key=lambda pair: (pair[0][0], list(Status).index(pair[0][1])))
    return tuple(RunPeriod(at=at, status=status, count=n) for (at, status), n in ordered)


def _begin(at: datetime, period: Literal["hour", "day"]) -> datetime:
    at = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return at if period == "hour" else at.replace(hour=0)


def _errors(over: Sequence[RunFacts]) -> tuple[ErrorCount, ...]:
    """Return failures by type and provider, the most frequent first. The runs are the newest first."""
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for facts in over:
        if facts.error is not None:
            kinds[facts.error, facts.provider or ""].append(facts.id)
    ordered = sorted(kinds.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return tuple(
        ErrorCount(error=error, provider=provider or None, count=len(ids), newest_run_id=ids[0])
        for (error, provider), ids in ordered
    )


def _spent(runs: Iterable[RunFacts]) -> tuple[AgentSpend, ...]:
    by_agent: dict[str, list[RunFacts]] = defaultdict(list)
    for facts in runs:
        by_agent[facts.agent].append(facts)
    return tuple(
        AgentSpend(
            agent=agent,
            runs=len(each),
            tokens=sum(facts.tokens for facts in each),
            cost_usd=sum((facts.cost for facts in each if facts.cost is not None), Decimal(0)),
            unpriced=sum(facts.cost is None and facts.tokens > 0 for facts in each),
        )
        for agent, each in sorted(by_agent.items())
    )


async def _oldest_wait(runtime: Runtime, live: Sequence[RunFacts]) -> OldestWait | None:
    oldest: OldestWait | None = None
    # No call waits longer than its run exists, so most records need no read.
    for facts in sorted(live, key=lambda each: each.created_at):
        if oldest is not None and facts.created_at >= oldest.waiting_since:
            break
        owner = str(facts.owner)
        for key in sorted(facts.waiting):
            call = await runtime.journal.runs.call(owner, facts.id, key)
            if call is None or not call.undecided or call.suspension is None:
                continue
            since = call.suspension.requested_at
            if oldest is None or since < oldest.waiting_since:
                place = {"run_id": facts.id, "owner": owner, "agent": facts.agent}
                oldest = OldestWait(**place, waiting_since=since)
    return oldest


async def list_operations(
    runtime: Runtime, since: date | None, until: date | None, limit: int, cursor: str | None
) -> Page[OperationRow]:
    """Return what operators did to runs of all users on these UTC days (both included; None: no bound), the
    oldest first."""
    page = await runtime.journal.operations.page_actions(
        since, until, limit, decode_cursor_field(_OPERATIONS, cursor)
    )
    return Page(items=page.items, next_cursor=encode_cursor(_OPERATIONS, page.next_cursor))
