"""The end of a run whose model makes the same failing call again and again
(docs/behaviour.md#repeated-failures)."""

from layover.engine.state import RunState
from layover.errors import RunFailed
from layover.values.base import compact_json
from layover.values.runs.run import CallRecord, StepRecord

MAX_EQUAL_FAILURES = 3
"""Steps of a run in which the same call may fail with the same error."""


def check_repeated_failure(state: RunState, step: StepRecord) -> None:
    """Raise RunFailed if a call of this step, whose calls are settled, failed for the third time as before:
    the model does not mend it, and each further step costs as much. Counted from the journal, so every
    process that goes on with the run counts the same."""
    failed = {_identity(call): call for call in state.calls_of(step) if _counts(call)}
    for identity, call in failed.items():
        steps = [s for s in state.steps if s.index <= step.index and _fails_in(state, s, identity)]
        if len(steps) >= MAX_EQUAL_FAILURES:
            raise RunFailed(
                f"{call.tool_name} was called in {len(steps)} steps with the same arguments and failed each "
                "time with the same error: say in the tool's description what it takes, or mend the tool",
                type="SameCallFailed",
                run_id=state.meta.id,
                tool_call_id=call.tool_call_id,
            )


def _fails_in(state: RunState, step: StepRecord, identity: tuple[str, str, str]) -> bool:
    return any(_counts(call) and _identity(call) == identity for call in state.calls_of(step))


def _counts(call: CallRecord) -> bool:
    """Return whether a call failed. One whose tool asks for another attempt has limits of its own."""
    return call.is_error and not call.retry


def _identity(call: CallRecord) -> tuple[str, str, str]:
    return call.tool_name, compact_json(call.args), compact_json(call.result)
