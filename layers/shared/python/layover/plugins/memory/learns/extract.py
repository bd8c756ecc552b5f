"""The function `extract`: it learns from a run after it is over, without delaying the user, and only once."""

import logging

from layover import logs
from layover.context.assembly import patience_of
from layover.declare.agent import Agent
from layover.errors import LayoverError, ProviderAway
from layover.plugins.memory.learns import titles
from layover.plugins.memory.learns.learning import Learning, learn
from layover.plugins.memory.learns.record import record
from layover.plugins.memory.learns.requests import ask, memory_model
from layover.plugins.memory.reads.semantic import recall
from layover.plugins.memory.usage import usage_row
from layover.records.lifetimes import set_ttl, watch_entries, watch_thread
from layover.runtime import Runtime
from layover.values.memory.context import Extraction, StepUsage
from layover.values.message import Message
from layover.values.runs.payload import RunPayload
from layover.values.runs.run import FinishReason, RunMeta, RunSnapshot, Status

logger = logging.getLogger("layover")

OPENING = 20
"""Messages that a title may come from, in addition to the newest input."""


async def extract(runtime: Runtime, payload: RunPayload) -> dict[str, str]:
    """Store the run's texts for recall, however it ended. After a successful run, title the thread, and learn
    what the agent's memory settings ask for. If a model fails, only its part is missing. While the operator
    has stopped the system, no model is called. Raises ProviderAway: nothing is learned yet."""
    snapshot = await runtime.journal.runs.snapshot(payload.owner, payload.run_id)
    if snapshot is not None:
        logs.name(thread_id=snapshot.meta.thread_id)
    if snapshot is None or not snapshot.meta.status.over:
        return {"status": "nothing"}
    # A run that still has followers may not have sent its end to all of them. The sweeper ensures that it
    # does, and retires the run.
    if snapshot.meta.saved and not snapshot.meta.sockets:
        await set_ttl(runtime, snapshot.meta)
        await watch_thread(runtime, payload.owner, snapshot.meta.thread_id)
    # Nothing is learned from what a hook refused.
    is_refused = snapshot.meta.finish_reason is FinishReason.REFUSED
    good = snapshot.meta.status is Status.SUCCESS and not is_refused
    if good and await runtime.memory.is_extracted(payload.owner, payload.run_id):
        # The process that stored the title may have died before it passed the title on.
        head = await runtime.threads.head(payload.owner, snapshot.meta.thread_id)
        await _copy_title(runtime, snapshot.meta, head.title if head else None)
        return {"status": "done before"}
    agent = runtime.agents().get(snapshot.meta.agent)
    is_stopped = await runtime.allowance.stopped()
    await recall.index(runtime, agent, snapshot, embeds=not is_stopped)
    if is_stopped or not good:
        return {"status": "nothing"}
    learning = await _learn(runtime, agent, snapshot) if agent else Learning()
    title, title_usage = await _title(runtime, snapshot)
    extraction = Extraction(
        run_id=payload.run_id,
        thread_id=snapshot.meta.thread_id,
        agent=snapshot.meta.agent,
        said_at=snapshot.meta.input.created_at,
        title=title,
        usage=title_usage + learning.usage,
    )
    if learning.entries is not None:
        await watch_entries(runtime, payload.owner)
    is_new = await record(runtime, payload.owner, extraction, learning.facts, learning.entries)
    await _copy_title(runtime, snapshot.meta, title)
    return {"status": "extracted" if is_new else "done before"}


async def _learn(runtime: Runtime, agent: Agent, snapshot: RunSnapshot) -> Learning:
    """Learn. Raises ProviderAway while the agent's runs would wait for the provider."""
    learning = await learn(runtime, agent, snapshot)
    waited = runtime.clock.now() - snapshot.meta.updated_at
    if learning.is_away and waited < patience_of(agent, runtime.settings):
        raise ProviderAway("the model that memory asks is away", run_id=snapshot.meta.id)
    return learning


async def _copy_title(runtime: Runtime, meta: RunMeta, title: str | None) -> None:
    """Copy a stored title to the journal."""
    if title is not None:
        await runtime.journal.heads.edit(
            meta.owner, meta.thread_id, title=title, untitled_only=True
        )


async def _first_messages(runtime: Runtime, meta: RunMeta) -> list[Message]:
    """Return the first input of the run's branch, and the run's input: a thread may be untitled because an
    earlier run failed. A long thread costs no more than a short one. Raises RetryableError (database)."""
    if meta.input.parent_id is None:
        return [meta.input]
    page = await runtime.threads.messages(
        meta.owner, meta.thread_id, meta.input.id, OPENING, cursor=None
    )
    return [*(page.items if page is not None else ()), meta.input]


async def _title(
    runtime: Runtime, snapshot: RunSnapshot
) -> tuple[str | None, tuple[StepUsage, ...]]:
    """Return the title, if there is to be one, and its usage."""
    meta = snapshot.meta
    head = await runtime.journal.heads.get(meta.owner, meta.thread_id)
    agent = runtime.agents().get(meta.agent)
    if head is None or head.title is not None or agent is None or not agent.memory.titles:
        return None, ()
    message = titles.source(await _first_messages(runtime, meta))
    if message is None:
        return None, ()
    model = memory_model(runtime, agent, runtime.settings.title_model)
    try:
        reply = await ask(runtime, agent, meta, titles.title_prompt(model, message))
    except LayoverError as error:
        logger.warning("no title", extra={"run_id": meta.id, "cause": type(error).__name__})
        return None, ()
    return titles.parse_title(reply.text), (usage_row(runtime, meta, "title", reply),)
