"""Replies that are asked for again: what they cost is journaled at once, whatever becomes of their step
(docs/behaviour.md#unused-replies). Each is a settled call that no model made, stored with the next step."""

from layover.engine.work import RunWork
from layover.runtime import Runtime
from layover.values.prompt import Reply
from layover.values.runs.run import REPLIES_TOOL, UnusedReply
from layover.values.runs.usage import Usage

MAX_RECORDS = 9
"""Records of one step. A record counts as progress, and a step must not be tried for ever."""


class UnusedReplies:
    """The replies of one frame that are asked for again."""

    def __init__(self, work: RunWork) -> None:
        self._work = work

    async def add(self, reply: Reply) -> None:
        """Count a reply in its user's day, and journal it. One that costs nothing known is left out."""
        usage = priced(self._work.runtime, reply.model, reply.usage)
        if not usage.total_tokens and not usage.cost_usd:
            return
        work, state = self._work, self._work.state
        work.runtime.allowance.note(state.meta.owner, usage)
        _, step_key = state.next_key()
        prefix = f"{step_key}#CALL#"
        records = (c for c in state.below() if c.tool_name == REPLIES_TOOL)
        if sum(record.key.startswith(prefix) for record in records) >= MAX_RECORDS:
            return
        now = work.clock.now()
        entry = UnusedReply(agent=work.agent.name, model=reply.model, usage=usage, at=now)
        facts = {"args": {}, "result": entry.model_dump(mode="json"), "settled_at": now}
        await work.note(state.new_call(step_key, "replies", REPLIES_TOOL, **facts))


def priced(runtime: Runtime, model: str, usage: Usage) -> Usage:
    """Return the usage with its cost, if the provider has told none and the model's price is known."""
    price = runtime.price
    if price is None or usage.cost_usd is not None:
        return usage
    return usage.model_copy(update={"cost_usd": price(model, usage)})
