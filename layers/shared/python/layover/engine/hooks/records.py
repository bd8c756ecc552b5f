"""Records of hooks' answers that fit into no step or call: each is a settled call that no model made, stored
with the next step (docs/hooks.md#stored)."""

from itertools import count
from typing import Any, Literal

from layover.engine.state import RunState
from layover.keys import call_key
from layover.ports import Clock, RunLog
from layover.values.runs.run import HOOKS_TOOL, CallRecord, CallState

Kind = Literal["before_model", "at_end"]


def answers_of(state: RunState, kind: Kind) -> list[Any]:
    """Return the answers that were journaled with the next step."""
    _, key = state.next_key()
    # Only answers of these kinds are recorded before their step.
    return [
        call.result
        for call in state.calls.values()
        if call.tool_name == HOOKS_TOOL
        and call.key.startswith(f"{key}#CALL#")
        and call.args == {"point": kind}
    ]


async def put_answers(
    log: RunLog, state: RunState, clock: Clock, kind: Kind, answers: dict[str, Any]
) -> None:
    """Journal hooks' answers, in one write."""
    _, key = state.next_key()
    # A provider may have given this id to one of its own calls.
    names = (f"hooks_{n}" for n in count(1))
    call_id = next(name for name in names if name not in state.call_ids)
    record = CallRecord(
        key=call_key(key, call_id),
        run_id=state.meta.id,
        tool_call_id=call_id,
        tool_name=HOOKS_TOOL,
        args={"point": kind},
        agent_path=state.agent_path,
        result=answers,
        settled_at=clock.now(),
    )
    await log.close_call(record)
    state.update(record.written(state=CallState.SETTLED))
