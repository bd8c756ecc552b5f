"""One run of a case: an agent in this process, with its own stores and stubs."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from layover.approvals.decide import ACCEPTS, Verdict
from layover.declare.agent import Agent
from layover.declare.result import Result
from layover.declare.schemas.render import as_text
from layover.desk.evals.cases import Case, ScriptStep
from layover.desk.evals.check import failures_of
from layover.desk.evals.compare import is_part
from layover.desk.evals.outcome import Asked, Call, Outcome
from layover.desk.evals.stubs import Stubs, with_stubs
from layover.ports import ChatModel
from layover.runtime import Runtime
from layover.testing import ScriptedModel, call, calls, fail, say
from layover.values.message import Message, Role, ToolCallPart, ToolResultPart
from layover.values.thread import ThreadHead
from layover.wiring import in_memory_runtime

OWNER, THREAD = "eval", "eval"
_REASON = "the case expects it"


@dataclass(frozen=True)
class Play:
    """The way in which cases are run. `model`: None is the environment's. `stubs_only`: no tool without a
    stub runs."""

    agent: Agent
    model: ChatModel | None = None
    model_name: str | None = None
    stubs_only: bool = False
    timer: Callable[[], float] = time.monotonic


async def play(how: Play, case: Case, repeat: int = 1) -> Outcome:
    """Run the case once, and hold it against what it expects, apart from the judges."""
    stubs = Stubs(case.stubs, only=how.stubs_only)
    agent = with_stubs(how.agent, stubs)
    if how.model_name is not None:
        agent.model, agent.fallbacks = how.model_name, ()
    script = ScriptedModel([_step(s) for s in case.script]) if case.script is not None else None
    runtime = agent.runtime = in_memory_runtime(agent, model=script or how.model)
    await _lay_down(runtime, agent, case)
    started, approvals = how.timer(), list[Asked]()
    limit = case.expect.max.seconds if case.expect.max is not None else None
    outcome = Outcome(case=case.name, repeat=repeat, metadata=case.metadata)
    try:
        async with asyncio.timeout(limit):
            result = await _drive(agent, case, approvals)
    except TimeoutError:
        problem = f"max.seconds: it was cut off after {limit:g} s"
        return outcome.model_copy(update={"failures": (problem,), "seconds": limit})
    except Exception as error:
        problem = f"the run could not be made: {type(error).__name__}: {error}"
        return outcome.model_copy(update={"failures": (problem,)})
    seconds = how.timer() - started
    snapshot = await runtime.journal.runs.snapshot(OWNER, result.run_id)
    outcome = outcome.model_copy(
        update={
            "status": str(result.status),
            "finish_reason": result.finish_reason and str(result.finish_reason),
            "text": result.text,
            "output": _plain(result.output),
            "calls": tuple(_calls(result)),
            "approvals": tuple(approvals),
            "steps": len(snapshot.steps) if snapshot is not None else 0,
            "tokens": result.usage.total_tokens,
            "cost_usd": result.usage.cost_usd,
            "seconds": round(seconds, 3),
        }
    )
    failures = [*_own_failures(result, stubs, script), *failures_of(case, outcome)]
    await agent.wait_for_memory()
    return outcome.model_copy(update={"failures": tuple(failures)})


def _own_failures(result: Result[Any], stubs: Stubs, script: ScriptedModel | None) -> Iterator[str]:
    """Yield what fails a case whatever it expects."""
    if result.error is not None:
        words = result.error_detail or result.error
        yield f"the run failed: {result.error.type}: {words.message}"
    elif result.status == "cancelled":
        yield "the run was cancelled"
    for name in stubs.misses:
        yield f"stubs: no stub fits a call of {name}: add one"
    if script is not None and script.unused and result.status == "success":
        yield f"script: {len(script.unused)} steps are left: the run did not ask for them"


async def _drive(agent: Agent, case: Case, approvals: list[Asked]) -> Result[Any]:
    """Run until the end, or until a call waits that the case does not expect."""
    left = list(case.expect.approvals)
    result = await agent.generate(case.input, thread_id=THREAD, resource_id=OWNER)
    while result.status == "suspended":
        pending = result.pending[0]
        fitting = (e for e in left if e.tool == pending.tool_name and is_part(e.args, pending.args))
        expected = next(fitting, None)
        is_taken = expected is not None and Verdict(expected.decide) in ACCEPTS[pending.kind]
        decision = expected.decide if expected is not None and is_taken else None
        args = pending.args if isinstance(pending.args, dict) else {}
        kind = str(pending.kind)
        approvals.append(Asked(tool=pending.tool_name, args=args, kind=kind, decision=decision))
        if expected is None or decision is None:
            return result
        left.remove(expected)
        decide = agent.approve if decision == "approve" else agent.deny
        result = await decide(result.run_id, pending.tool_call_id, reason=_REASON)
    return result


async def _lay_down(runtime: Runtime, agent: Agent, case: Case) -> None:
    """Write the thread with the messages before the run."""
    now = runtime.clock.now()
    head = ThreadHead(
        id=THREAD,
        owner=OWNER,
        agent=agent.name,
        created_at=now,
        updated_at=now,
        metadata=case.metadata,
    )
    messages: list[Message] = []
    for number, each in enumerate(case.history):
        part = each.content[0]
        message = Message(
            id=f"before_{number}",
            thread_id=THREAD,
            parent_id=messages[-1].id if messages else None,
            role=Role(each.role),
            content=each.content,
            created_at=head.next_time(now),
            model_output=as_text(part.result) if isinstance(part, ToolResultPart) else None,
        )
        messages.append(message)
        head = head.model_copy(
            update={"leaf_id": message.id, "last_created_at": message.created_at}
        )
    await runtime.journal.heads.put(head)
    if messages:
        await runtime.threads.save_messages(head, messages)


def _calls(result: Result[Any]) -> list[Call]:
    parts = [part for message in result.messages for part in message.content]
    results = {part.tool_call_id: part for part in parts if isinstance(part, ToolResultPart)}
    calls_in_order = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            end = results.get(part.tool_call_id)
            calls_in_order.append(
                Call(
                    name=part.tool_name,
                    args=part.args,
                    result=end.result if end else None,
                    is_error=end.is_error if end else False,
                )
            )
    return calls_in_order


def _plain(output: Any) -> Any:
    return output.model_dump(mode="json") if hasattr(output, "model_dump") else output


def _step(step: ScriptStep) -> Any:
    if step.fail is not None:
        return fail(step.fail, status=step.status)
    if step.calls is not None:
        return calls(*(call(c.call, **c.args) for c in step.calls), text=step.say or "")
    return call(step.call, **step.args) if step.call is not None else say(step.say or "")
