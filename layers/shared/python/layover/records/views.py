"""Views for owners (docs/reference/http-api.md#objects), made from the journal's records. No I/O, except that
the user's agents are imported on first use, where a waiting approval is shown with its schema."""

from collections.abc import Mapping, Sequence

from layover import keys
from layover.context.frames import calls_at, steps_at, usage_at
from layover.context.transcript import own_steps, response_messages, step_messages
from layover.context.withheld import input_of, refused_ids, with_marks
from layover.records.deployed import Agents, with_args_schema
from layover.values.message import Message, Role
from layover.values.runs.child import ChildRun
from layover.values.runs.run import CallRecord, CallState, RunMeta, RunSnapshot, Status, StepRecord
from layover.values.runs.views import Pending, Run, UnexecutedCall
from layover.values.thread import ActiveRun, Thread, ThreadHead


def run_view(snapshot: RunSnapshot, agents: Agents | None = None) -> Run:
    """Return the run with its messages, its waiting calls, its usage so far, and its sub-agents'. `agents`:
    what is deployed, for the schemas of arguments that wait for approval; None: nobody is to edit them."""
    meta = snapshot.meta
    steps = own_steps(snapshot)
    messages = response_messages(snapshot)
    waits = pending_calls(snapshot, agents)
    calls = {call.key: call for call in snapshot.calls}
    return Run(
        id=meta.id,
        thread_id=meta.thread_id,
        agent=meta.agent,
        status=meta.shown_status,
        finish_reason=meta.finish_reason,
        text=last_text(messages),
        output=meta.output,
        messages=messages,
        pending=waits,
        unexecuted=_unexecuted(steps, calls) if waits else (),
        usage=usage_at(snapshot.steps, calls),
        model=meta.model or last_model(steps),
        error=meta.error,
        waiting_for=snapshot.waiting_for,
        input=input_of(snapshot),
        children=_children(snapshot, calls, "", waits),
        created_at=meta.created_at,
        updated_at=meta.updated_at,
    )


def _children(
    snapshot: RunSnapshot,
    calls: Mapping[str, CallRecord],
    path: str,
    run_waits: tuple[Pending, ...],
) -> tuple[Run, ...]:
    """Return the runs of a frame's sub-agents, in the order of their calls. `run_waits`: the waiting calls of
    the whole run."""
    own = steps_at(snapshot.steps, path)
    return tuple(
        _child(snapshot, calls, call, call.child, run_waits)
        for call in calls_at(own, calls)
        if call.child is not None
    )


def _child(
    snapshot: RunSnapshot,
    calls: Mapping[str, CallRecord],
    call: CallRecord,
    child: ChildRun,
    run_waits: tuple[Pending, ...],
) -> Run:
    path = keys.child_path(call.key)
    steps = steps_at(snapshot.steps, path)
    refused = refused_ids(steps)
    messages = tuple(with_marks([m for step in steps for m in step_messages(step, calls)], refused))
    ids_below = {call.tool_call_id for call in calls.values() if call.key.startswith(path)}
    waits = tuple(p for p in run_waits if p.tool_call_id in ids_below)
    running = Status.SUSPENDED if waits else child.status
    # A call may be settled although its child has not ended, if its tool no longer existed by then.
    ended = child.status if child.status.over else Status.CANCELLED
    is_over = snapshot.meta.status.over or child.answer is not None
    at_work = not is_over if child.background else call.state is not CallState.SETTLED
    return Run(
        id=child.id,
        thread_id=snapshot.meta.thread_id,
        agent=child.agent,
        status=running if at_work else ended,
        finish_reason=child.finish_reason,
        text=last_text(messages),
        output=child.output,
        messages=messages,
        pending=waits,
        unexecuted=_unexecuted(steps, calls) if waits else (),
        usage=usage_at(snapshot.steps, calls, path),
        model=last_model(steps),
        error=child.error,
        input=with_marks([child.input], refused)[0],
        children=_children(snapshot, calls, path, run_waits),
        created_at=child.started_at,
        updated_at=child.ended_at or (steps[-1].message.created_at if steps else child.started_at),
    )


def last_model(steps: Sequence[StepRecord]) -> str | None:
    """Return the model that answered last; None if none has. A hook that replied is none."""
    return next((step.model for step in reversed(steps) if step.model), None)


def last_text(messages: tuple[Message, ...]) -> str:
    """Return the assistant's newest text, "" before the first."""
    texts = (m.text for m in reversed(messages) if m.role is Role.ASSISTANT)
    return next((text for text in texts if text), "")


def pending_calls(snapshot: RunSnapshot, agents: Agents | None = None) -> tuple[Pending, ...]:
    """Return the calls that wait undecided, at any depth, in the order of the calls; none once the run is
    over. `agents`: as for `run_view`."""
    if snapshot.meta.status.over:
        return ()
    waiting = {call.key: call for call in snapshot.calls if call.undecided}
    calls = {call.key: call for call in snapshot.calls}
    ordered = [key for key in _in_order(snapshot, calls, "") if key in waiting]
    ordered += [key for key in waiting if key not in ordered]
    views = (Pending.of(waiting[key], snapshot.meta.agent) for key in ordered)
    if agents is None:
        return tuple(views)
    return tuple(with_args_schema(agents, snapshot.meta.agent, view) for view in views)


def _in_order(snapshot: RunSnapshot, calls: Mapping[str, CallRecord], path: str) -> list[str]:
    """Return the keys of the calls that have a record. A sub-agent's calls follow the call that it works
    in."""
    ordered: list[str] = []
    for call in calls_at(steps_at(snapshot.steps, path), calls):
        ordered.append(call.key)
        if call.child is not None:
            ordered += _in_order(snapshot, calls, keys.child_path(call.key))
    return ordered


def _unexecuted(
    steps: Sequence[StepRecord], calls: Mapping[str, CallRecord]
) -> tuple[UnexecutedCall, ...]:
    """Return the calls of a frame's last step that have not begun (they stay planned while a sibling
    waits)."""
    if not steps:
        return ()
    step = steps[-1]
    started_keys = {key for key, c in calls.items() if c.state is not CallState.PLANNED}
    parts = {part.tool_call_id: part for part in step.message.tool_calls}
    return tuple(
        UnexecutedCall(tool_call_id=p.tool_call_id, tool_name=p.tool_name, args=p.args)
        for slot in step.slots
        if keys.call_key(step.key, slot.tool_call_id) not in started_keys
        and (p := parts.get(slot.tool_call_id))
    )


def thread_view(
    head: ThreadHead, active: RunMeta | None, waiting: Sequence[RunMeta] = ()
) -> Thread:
    """Return the thread. `active`: the run that holds it, unless it is gone or over; `waiting`: those that
    were set aside, in the same way."""
    runs = {
        "active_run": _glance(active),
        "waiting_runs": tuple(filter(None, map(_glance, waiting))),
    }
    return Thread.model_validate({**vars(head), "title": head.title or None, **runs})


def _glance(run: RunMeta | None) -> ActiveRun | None:
    if run is None or run.status.over:
        return None
    return ActiveRun(id=run.id, status=run.shown_status)
