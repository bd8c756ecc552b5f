"""Loops and denials: an agent in an environment that does not change. It searches an empty memory, looks up
an order that is always the same, and asks for refunds that a person denies."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from eval.cases import matches
from eval.prompts import number
from eval.scores import Score
from eval.talk import AGENT, THREAD, USER
from eval.topic_cases import LoopCase
from eval.watched import Provider, Watched
from layover import Agent, EpisodicMemory, Memory, tool
from layover.declare.result import Result
from layover.plugins.memory.reads.episodic.search import recall_memory_tool
from layover.testing import ScriptedModel
from layover.wiring import in_memory_runtime

INSTRUCTIONS = (
    "You answer customers of a shop. Look orders up before you speak of them. Use recall_memory for what"
    " earlier conversations said. A person decides about each refund."
)
_MAX_DENIALS = 20
"""Of a turn: a model that asks on has shown enough."""


async def play_loops(case: LoopCase, _: Provider, model: Watched) -> Score:
    """Hold the conversation, deny each refund, and judge what it took."""
    agent = _agent(case.order)
    agent.runtime = in_memory_runtime(agent, model=ScriptedModel(model.complete))
    runs: list[Result[Any]] = []
    approvals = 0
    for text in case.turns:
        run = await agent.generate(text, thread_id=THREAD, resource_id=USER)
        denials = 0
        while run.pending and denials < _MAX_DENIALS:
            denials += 1
            call_id = run.pending[0].tool_call_id
            run = await agent.deny(run.run_id, call_id, case.deny)
        approvals += denials
        runs.append(run)
        await agent.wait_for_memory()
        if run.status != "success":
            break
    return judge_runs(case, runs, requests=len(model.prompts), approvals=approvals)


def judge_runs(
    case: LoopCase, runs: Sequence[Result[Any]], *, requests: int, approvals: int
) -> Score:
    """Return the score of the runs of a conversation: each limit that is kept is a fact that is found."""
    texts = [run.text for run in runs]
    reasons = [str(run.finish_reason or run.status) for run in runs]
    checks = [
        (f"{requests} requests, not {case.most_requests}", requests <= case.most_requests),
        (f"a person is asked {approvals} times", approvals <= case.most_asked),
        (f"ends with {', '.join(reasons)}", set(reasons) == {"stop"}),
    ]
    checks += [(f"missed: {p.fact}", p.is_in(texts)) for p in case.must]
    forbidden = {text for p in case.must_not for text in texts if matches(p, text)}
    remarks = [f"{case.id}: {remark}" for remark, holds in checks if not holds]
    remarks += [f"{case.id}: must not be there: {text}" for text in sorted(forbidden)]
    score = Score(
        facts=len(checks),
        found=sum(holds for _, holds in checks),
        stored=len(runs),
        wrong=len(forbidden),
        requests=requests,
        approvals=approvals,
        remarks=remarks,
        texts=texts,
    )
    score.ends.update(reasons)
    return score


@cache
def loops_number() -> str:
    """Return the number of what the agent says to its model: instructions and tools."""
    anything: Any = None
    tools = [
        *_agent(None).tools,
        recall_memory_tool(EpisodicMemory(), anything, anything, anything, None),
    ]
    return number([INSTRUCTIONS, [each.spec.model_dump(mode="json") for each in tools]])


def _agent(order: Any) -> Agent:
    @tool(idempotent=True)
    def lookup_order(order_id: str) -> Any:
        """Return an order's status and its items."""
        return order

    @tool(needs_approval=True)
    def refund(order_id: str, euros: float) -> str:
        """Pay an amount back to the customer."""
        return "refunded"

    memory = Memory(titles=False, episodic=EpisodicMemory())
    return Agent(AGENT, instructions=INSTRUCTIONS, tools=[lookup_order, refund], memory=memory)
