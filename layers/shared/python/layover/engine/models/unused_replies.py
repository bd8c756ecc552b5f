"""Replies that are asked for again: what they cost is journaled at once, whatever becomes of their step
(docs/behaviour.md#unused-replies). Each is a settled call that no model made, stored with the next step."""

from itertools import count

from layover.engine.frame_core import FrameCore
from layover.keys import call_key
from layover.values.prompt import Reply
from layover.values.runs.run import REPLIES_TOOL, CallRecord, CallState, UnusedReply
from layover.values.runs.usage import Usage

MAX_RECORDS = 9
"""Records of one step. A record counts as progress, and a step must not be tried for ever."""


class UnusedReplies:
    """The replies of one frame that are asked for again."""

    def __init__(self, core: FrameCore) -> None:
        self._core = core

    async def add(self, reply: Reply) -> None:
        """Count a reply in its user's day, and journal it. One that costs nothing known is left out."""
        usage = priced(self._core, reply.model, reply.usage)
        if not usage.total_tokens and not usage.cost_usd:
            return
        core, state = self._core, self._core.state
        core.runtime.allowance.note(state.meta.owner, usage)
        _, step_key = state.next_key()
        prefix = f"{step_key}#CALL#"
        records = (c for c in state.below() if c.tool_name == REPLIES_TOOL)
        if sum(record.key.startswith(prefix) for record in records) >= MAX_RECORDS:
            return
        now = core.clock.now()
        entry = UnusedReply(agent=core.agent.name, model=reply.model, usage=usage, at=now)
        # A provider may have given this id to one of its own calls.
        call_id = next(name for n in count(1) if (name := f"replies_{n}") not in state.call_ids)
        state.call_ids.add(call_id)
        record = CallRecord(
            key=call_key(step_key, call_id),
            run_id=state.meta.id,
            tool_call_id=call_id,
            tool_name=REPLIES_TOOL,
            args={},
            agent_path=state.agent_path,
            result=entry.model_dump(mode="json"),
            settled_at=now,
        )
        await core.log.close_call(record)
        state.update(record.written(state=CallState.SETTLED))


def priced(core: FrameCore, model: str, usage: Usage) -> Usage:
    """Return the usage with its cost, if the provider has told none and the model's price is known."""
    price = core.runtime.price
    if price is None or usage.cost_usd is not None:
        return usage
    return usage.model_copy(update={"cost_usd": price(model, usage)})
