"""Random runs: random scripts of model replies and tool outcomes, random suspensions and decisions in any
order, the process dying at random port calls, a cancel at a random time."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from layover import Agent, Hook, Refuse, ToolCall, ToolContext, tool
from layover.errors import RetryableError
from layover.runs.cancel import cancel
from layover.testing import ScriptedModel, call, calls, say
from layover.values.message import Role
from layover.values.prompt import Prompt
from layover.values.runs.views import Run
from support.worlds.runs import ANN, Bench, Crash, Power

SIMPLE = ("plain", "once", "raises", "approve", "offer", "unknown", "invalid")
KINDS = (*SIMPLE, "desk", "aide", "refuse", "hand")
"""`hand` gives the conversation to the other of the two agents."""
BRIEFED = ("desk", "aide")
"""Sub-agents; the second works in the background."""
OTHER = {"agent": "other", "other": "agent"}
"""The agents of the run itself, each with the one that it hands over to."""
VERDICTS = ("yes", "no", "edited")
NEVER_TWICE = ("once", "approve")
BELOW = ("plain", "approve", "once")
"""Tools that a sub-agent calls in its only step."""


class Offer(BaseModel):
    """The offer that the suspending tool shows."""

    slots: list[str]


class Choice(BaseModel):
    """The choice that the suspending tool takes."""

    slot: str


class Numbering(Hook):
    """Gives "once" other arguments each time that it is asked, and refuses "refuse"; both below, too."""

    def __init__(self) -> None:
        self.asked = 0

    async def before_tool(self, ctx: Any, call: ToolCall) -> ToolCall | Refuse | None:
        self.asked += 1
        if call.tool_name == "refuse":
            return Refuse(f"asked {self.asked}")
        if call.tool_name != "once":
            return None
        return call.model_copy(update={"args": {"key": f"{call.args['key']} by {self.asked}"}})


@dataclass(frozen=True)
class Script:
    """`steps`: kinds of the calls of each step. `cuts`: how many port calls after the last restart the
    process dies. `cancel_after`: after so many rounds of the driver; None: never."""

    steps: list[list[str]]
    concurrency: int
    verdicts: list[str]
    cuts: list[int]
    after: list[bool]
    order: int
    cancel_after: int | None


@dataclass
class SideEffects:
    """The side effects of a script's tools."""

    ran: list[str] = field(default_factory=list)

    def agents(self, concurrency: int) -> dict[str, Agent]:
        """Two agents with a tool of each kind, each of which may hand over to the other."""

        @tool(idempotent=True)
        def plain(key: str) -> str:
            self.ran.append(f"plain {key}")
            return f"did {key}"

        @tool
        def once(key: str) -> str:
            self.ran.append(f"once {key}")
            return f"did {key}"

        @tool
        def refuse(key: str) -> str:
            raise AssertionError("a refused call ran")

        @tool(idempotent=True)
        def raises(key: str) -> str:
            raise ValueError(key)

        @tool(needs_approval=True)
        def approve(key: str) -> str:
            self.ran.append(f"approve {key}")
            return f"did {key}"

        @tool(suspend=Offer, resume=Choice, expires_after=timedelta(days=1), idempotent=True)
        def offer(ctx: ToolContext, key: str) -> str:
            if ctx.resume is None:
                return ctx.suspend(Offer(slots=["a", "b"]))
            self.ran.append(f"offer {key}")
            return f"chose {ctx.resume.slot}"

        hooks = [Numbering()]
        desk, aide = (
            Agent(
                name,
                instructions=name,
                tools=[plain, once, approve],
                tool_concurrency=concurrency,
                hooks=hooks,
            )
            for name in BRIEFED
        )
        briefed = [
            desk.as_tool("Does it for you."),
            aide.as_tool("Does it for you.", background=True),
        ]
        agent, other = (
            Agent(
                name,
                instructions=name,
                tools=[plain, once, raises, approve, offer, refuse, *briefed],
                tool_concurrency=concurrency,
                hooks=hooks,
                max_iterations=20,
            )
            for name in OTHER
        )
        agent.handoffs, other.handoffs = [other], [agent]
        return {"agent": agent, "other": other}


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Any script."""
    kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=4)
    return Script(
        steps=draw(st.lists(kinds, max_size=4)),
        concurrency=draw(st.integers(1, 3)),
        verdicts=draw(st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=6)),
        cuts=draw(st.lists(st.integers(1, 25), max_size=4)),
        after=draw(st.lists(st.booleans(), min_size=4, max_size=4)),
        order=draw(st.integers(0, 5)),
        cancel_after=draw(st.none() | st.integers(0, 6)),
    )


def _replies(script: Script, agent: str) -> list[Any]:
    """Return the replies, as far as this agent gives them."""
    replies = []
    for n, kinds in enumerate(script.steps):
        step = []
        for i, kind in enumerate(kinds):
            named = "input" if kind in BRIEFED else "key"
            args: dict[str, Any] = (
                {"nonsense": f"{n}.{i}"} if kind == "invalid" else {named: f"{n}.{i}"}
            )
            name = "plain" if kind == "invalid" else kind
            if kind == "hand":
                name, args = f"transfer_to_{OTHER[agent]}", {}
            step.append(call(name, tool_call_id=f"c{n}_{i}", **args))
        replies.append(calls(*step))
    return [*replies, say("the end")]


def _model(script: Script) -> Any:
    """The script's replies, the last again and again; a sub-agent's are made of its briefing."""
    replies_of = {agent: _replies(script, agent) for agent in OTHER}

    def reply(prompt: Prompt) -> Any:
        step = sum(m.role is Role.ASSISTANT for m in prompt.messages)
        if prompt.system not in BRIEFED:
            replies = replies_of[str(prompt.system)]
            return replies[min(step, len(replies) - 1)]
        key = prompt.messages[0].text
        wanted = (call(kind, tool_call_id=f"{kind} {key}", key=f"{key} below") for kind in BELOW)
        return [calls(*wanted), say("that was it")][step]

    return ScriptedModel(reply)


class Driver:
    """Plays a script against a bench, restarting what dies."""

    def __init__(self, script: Script, power: Power | None = None) -> None:
        self.script = script
        self.effects = SideEffects()
        agents = self.effects.agents(script.concurrency)
        self.bench = Bench(agents["agent"], _model(script), power=power)
        self.bench.agents = agents
        self.cuts = list(zip(script.cuts, script.after, strict=False))
        self.rounds = 0
        self.decided = 0

    def rearm(self) -> None:
        """The next process dies later, or never."""
        power = self.bench.power
        power.restore()
        power.calls = 0
        power.cut_at, power.after = self.cuts.pop() if self.cuts else (0, False)

    async def play(self) -> Run:
        """A run from its start to its end."""
        return await self.drive(await self.bench.start())

    async def drive(self, run_id: str) -> Run:
        """The run, driven to its end."""
        self.rearm()
        for self.rounds in range(80):
            if self.rounds == self.script.cancel_after:
                await cancel(self.bench.plain, ANN, run_id, holder_has_s=0)
            status = await self._round(run_id)
            if status == "over":
                return await self.bench.run(run_id)
            if status == "suspended":
                await self._decide(run_id)
        raise AssertionError("the run comes to no end")

    async def _round(self, run_id: str) -> str:
        try:
            return str((await self.bench.turn(run_id))["status"])
        except (Crash, RetryableError) as death:
            self.rearm()
            settled = await self.bench.settle(run_id, Error=type(death).__name__)
            over = (await self.bench.meta(run_id)).status.over
            return "over" if over else settled

    async def _decide(self, run_id: str) -> None:
        """One of the waiting calls, in an order of the script's choosing; its branch settles it."""
        pending = (await self.bench.run(run_id)).pending
        if not pending:
            return
        waiting = pending[self.script.order % len(pending)]
        verdict = self.script.verdicts[self.decided % len(self.script.verdicts)]
        self.decided += 1
        if waiting.kind == "input":
            given: tuple[str, dict[str, Any]] = ("resume", {"data": {"slot": "a"}})
        elif verdict == "edited":
            given = ("approve", {"args": {"key": f"{waiting.args['key']} edited"}})
        else:
            given = ("approve" if verdict == "yes" else "deny", {})
        for step in (
            lambda: self.bench.decide(run_id, waiting.tool_call_id, given[0], **given[1]),
            lambda: self.bench.branch(run_id, waiting.tool_call_id),
        ):
            try:
                await step()
            except (Crash, RetryableError):
                self.rearm()
                return  # the sweeper, or the next Turn, takes it up
