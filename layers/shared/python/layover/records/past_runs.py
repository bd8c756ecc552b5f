"""Runs whose records have expired: their trees, as they are kept with their threads (docs/sub-agents.md)."""

from itertools import pairwise
from typing import Any

from layover.errors import check_version
from layover.ids import made_at
from layover.records.views import last_text
from layover.runtime import Runtime
from layover.values.memory.context import PastRun
from layover.values.runs.views import Run

VERSION = 3
"""The version of a tree. Before version 3 a tree named all messages of its run; before 2 it had the run's ids
and text, and also fields at their defaults."""
_ELSEWHERE = {"id", "thread_id", "input", "messages", "text"}
"""Fields that are columns, or rows of the thread."""


def tree_of(run: Run) -> dict[str, Any]:
    """Return the tree of a run as the database keeps it. The run's own messages are rows of the thread; those
    of its sub-agents are nowhere else. `messages`: the last of the run's own, and their number;
    `message_ids`: all of them, if they do not follow each other."""
    own = run.model_dump(mode="json", exclude=_ELSEWHERE | {"children"}, exclude_defaults=True)
    children = [child.model_dump(mode="json") for child in run.children]
    messages = (run.input, *run.messages)
    tree = {"version": VERSION, "run": {**own, "children": children} if children else own}
    if all(m.parent_id == before.id for before, m in pairwise(messages)):
        return {**tree, "messages": [messages[-1].id, len(messages)]}
    # Others have spoken between: the run was set aside, or a call in the middle was never made.
    return {**tree, "message_ids": [message.id for message in messages]}


async def past_run(runtime: Runtime, owner: str, run_id: str) -> Run | None:
    """Return a run that the journal no longer has; None if it does not exist. The database is not read if the
    id is so recent that the journal would still have its run."""
    created_at = made_at(run_id)
    retention = runtime.settings.run_retention
    if created_at is not None and created_at + retention > runtime.clock.now():
        return None
    past = await runtime.threads.past_run(owner, run_id)
    if past is None:
        return None
    head = await runtime.journal.heads.get(owner, past.thread_id)
    if head is not None and head.deleted:
        return None
    return _read(past, run_id)


def _read(past: PastRun, run_id: str) -> Run | None:
    version = past.tree.get("version", 0)
    check_version("the trees of past runs", version, VERSION)
    if version < 1 or not past.messages:
        return None
    input_message, *response = past.messages
    return Run.model_validate(
        {
            "id": run_id,
            "thread_id": past.thread_id,
            "text": last_text(tuple(response)),
            **past.tree["run"],
            "input": input_message.model_dump(),
            "messages": [m.model_dump() for m in response],
        }
    )
