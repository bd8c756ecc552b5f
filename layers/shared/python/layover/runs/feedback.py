"""Feedback of users on their runs, and the list of it for operators."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from layover.batches import batched
from layover.errors import Conflict, NotFound
from layover.records.past_runs import past_run
from layover.records.runs import meta_of
from layover.records.threads import head_of
from layover.runtime import Runtime
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.page import Page
from layover.values.runs.feedback import Feedback, RunFeedback
from layover.values.runs.status import Status
from layover.values.runs.views import Run
from layover.values.text import sanitise

_CURSOR = "feedback"
_MAX_CONCURRENT_READS = 16


@dataclass(frozen=True)
class FeedbackFilter:
    """The feedback that an operator wants to see; None: all. `max_score`: at most so good. Both days are UTC
    days, and included."""

    agent: str | None = None
    max_score: float | None = None
    since: date | None = None
    until: date | None = None

    def shows(self, feedback: RunFeedback) -> bool:
        """Return whether this is to be seen."""
        return (
            (self.agent is None or feedback.agent == self.agent)
            and (self.max_score is None or feedback.score <= self.max_score)
            and not self.is_behind(feedback)
        )

    def is_behind(self, feedback: RunFeedback) -> bool:
        """Return whether this is later than the last day."""
        return self.until is not None and feedback.at.date() > self.until


async def give_feedback(
    runtime: Runtime, owner: str, run_id: str, score: float, comment: str | None
) -> Feedback:
    """Keep what the owner thinks of a run that is over, in place of what they thought before. `score`: from
    -1 to 1. A blank comment is none. Raises NotFound; Conflict for a run that is not over; DatabaseWaking
    only for a run whose records have expired."""
    thread_id, agent, status = await _run(runtime, owner, run_id)
    if not status.over:
        raise Conflict(
            "the run is not over: give feedback once it is",
            run_id=run_id,
            status=status.value,
        )
    feedback = RunFeedback(
        owner=owner,
        thread_id=thread_id,
        run_id=run_id,
        agent=agent,
        score=score,
        comment=sanitise(comment or "").strip() or None,
        at=runtime.clock.now(),
    )
    if not await runtime.journal.feedback.put(feedback):
        raise NotFound("there is no such run", run_id=run_id)
    return feedback.plain


async def take_back(runtime: Runtime, owner: str, run_id: str) -> None:
    """Remove the owner's feedback on a run; there may be none. Raises NotFound; DatabaseWaking only for a run
    whose records have expired."""
    thread_id, _, _ = await _run(runtime, owner, run_id)
    if not await runtime.journal.feedback.remove(owner, thread_id, run_id):
        raise NotFound("there is no such run", run_id=run_id)


async def _run(runtime: Runtime, owner: str, run_id: str) -> tuple[str, str, Status]:
    """Return the run's thread, agent and status. Raises NotFound."""
    try:
        meta = await meta_of(runtime, owner, run_id)
    except NotFound:
        past = await past_run(runtime, owner, run_id)
        if past is None:
            raise
        # A table that was restored may lack the head: it is put back.
        await head_of(runtime, owner, past.thread_id)
        return past.thread_id, past.agent, past.status
    return meta.thread_id, meta.agent, meta.shown_status


async def with_feedback(runtime: Runtime, owner: str, run: Run) -> Run:
    """Return a run with its owner's feedback. One that is not over has none, and nothing is read."""
    if not run.status.over:
        return run
    feedback = await runtime.journal.feedback.get(owner, run.thread_id, run.id)
    return run if feedback is None else run.model_copy(update={"feedback": feedback})


async def list_feedback(
    runtime: Runtime, limit: int, cursor: str | None, only: FeedbackFilter
) -> Page[RunFeedback]:
    """Return the feedback of all users, the oldest first. A page may have fewer items than `limit`, and still
    a next one. Feedback goes with its thread."""
    day = only.since
    since = datetime.combine(day, time(), UTC) if day is not None else None
    start = decode_cursor_field(_CURSOR, cursor)
    page = await runtime.journal.feedback.page(since, limit, start)
    is_past = bool(page.items) and only.is_behind(page.items[-1])
    next_cursor = None if is_past else page.next_cursor
    items = await _visible(runtime, [each for each in page.items if only.shows(each)])
    return Page(items=items, next_cursor=encode_cursor(_CURSOR, next_cursor))


async def _visible(runtime: Runtime, feedback: Sequence[RunFeedback]) -> tuple[RunFeedback, ...]:
    """Return that of threads that are there. One that is deleted disappears at once, and is erased later."""
    threads = list(dict.fromkeys((each.owner, each.thread_id) for each in feedback))
    deleted_ids = set()
    for some in batched(threads, _MAX_CONCURRENT_READS):
        heads = await asyncio.gather(*(runtime.journal.heads.get(*each) for each in some))
        pairs = zip(some, heads, strict=True)
        deleted_ids |= {thread for thread, head in pairs if head is None or head.deleted}
    return tuple(each for each in feedback if (each.owner, each.thread_id) not in deleted_ids)
