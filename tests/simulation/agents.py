"""The deployment of a story: agents whose tools have effects in the world, and a model that does what it is
told.

A message names the calls that its answer makes: `pay 1 2 look 3` asks for three. Numbers are never used
twice, so each call has an id of its own in the whole story."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from layover import (
    Agent,
    Approval,
    Connection,
    Hook,
    Limits,
    Memory,
    ObservationalMemory,
    ToolContext,
    tool,
)
from layover.context.rendering import HEARD
from layover.inmemory.model import call, calls, say
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply
from simulation.world import Crash, Effect, World, current
from support.worlds.talk import check_prompt

PAYS = ("pay", "soon", "big")
"""Tools that pay, each by a rule of its own."""
ACTS = ("look", "mail")
"""Tools that act, and that nobody is asked about."""
_CALLS: Mapping[str, Callable[[str], Reply]] = {
    "pay": lambda n: call("pay", amount=int(n), tool_call_id=f"pay-{n}"),
    "soon": lambda n: call("soon", amount=int(n), tool_call_id=f"soon-{n}"),
    "big": lambda n: call("big", amount=int(n), tool_call_id=f"big-{n}"),
    "look": lambda n: call("look", amount=int(n), tool_call_id=f"look-{n}"),
    "book": lambda n: call("book", day=n, tool_call_id=f"book-{n}"),
    "mail": lambda n: call("mail", n=int(n), tool_call_id=f"mail-{n}"),
    "pass": lambda n: call("transfer_to_clerk", tool_call_id=f"pass-{n}"),
    "desk": lambda n: call("desk", input=f"pay {n.replace('+', ' ')}", tool_call_id=f"desk-{n}"),
    "aide": lambda n: call("aide", input=f"pay {n.replace('+', ' ')}", tool_call_id=f"aide-{n}"),
}


class Offer(BaseModel):
    """The offer that a person is shown."""

    slots: list[str]


class Choice(BaseModel):
    """The choice that a person makes."""

    slot: str


class SlowEnd(Hook):
    """A hook that takes its time when a run ends."""

    async def at_end(self, ctx: Any, result: Any) -> None:
        world = current.get().world
        await world.pause()
        await asyncio.sleep(world.chance().uniform(0, 0.5))
        await world.pause()


def reply(prompt: Prompt) -> Reply:
    """Return the calls that the newest message asks for; to anything else, words."""
    world = current.get().world
    try:
        check_prompt(prompt.messages)
    except AssertionError as error:
        shown = [(m.role.value, m.text[:30]) for m in prompt.messages]
        world.complain("a provider takes each prompt", f"{error} {shown}")
    last = prompt.messages[-1]
    if last.role is Role.TOOL or last.text == HEARD or "background-result" in last.text:
        return say("done")
    word, *words = last.text.split()
    if word not in _CALLS:
        return say(f"re {last.text}")
    asked = []
    for each in words:
        if each in _CALLS:
            word = each
        else:
            asked.append(_CALLS[word](each))
    return calls(*asked)


async def take_effect(ctx: ToolContext, name: str, given: Any) -> None:
    """Do something in the world that cannot be undone. The process may die before it, and right after."""
    process = current.get()
    world = process.world
    await world.pause()
    dice = world.chance()
    await asyncio.sleep(dice.uniform(0, 0.4) if dice.random() < 0.9 else dice.uniform(1, 20))
    await world.pause()
    if not world.is_quiet and process.requests + 1 == process.dies_at:
        process.dies_at = 0
        world.counts["deaths in tools"] += 1
        process.kill()
        raise Crash
    world.take_effect(Effect(ctx.run_id, ctx.tool_call_id, name, given))
    await asyncio.sleep(dice.uniform(0, 0.2))
    await world.pause()


@dataclass(frozen=True)
class _Deployed:
    """What a deployment decides about its agents."""

    account: str
    without: tuple[str, ...]
    concurrency: int
    compacts: bool
    hooks: bool
    limits: int | None
    mail_asks: bool
    passes: bool


def make_agents(world: World, account: str, without: tuple[str, ...] = ()) -> Mapping[str, Agent]:
    """Return the agents of a deployment, without those named. `account`: a default of the tools."""
    features = world.features
    return _agents_of(
        _Deployed(
            account=account,
            without=without,
            concurrency=features.concurrency,
            compacts=features.memory and world.story.seed % 2 == 1,
            hooks=features.hooks,
            limits=features.limits,
            mail_asks=features.mail_asks,
            passes="pass" in features.words,
        )
    )


# Agents are what was declared, and keep nothing of a story: a process plays hundreds with the same.
@functools.lru_cache(maxsize=256)
def _agents_of(deployed: _Deployed) -> Mapping[str, Agent]:
    account, without = deployed.account, deployed.without

    @tool(needs_approval=True)
    async def pay(ctx: ToolContext, amount: int, account: str = account) -> str:
        """Pay."""
        await take_effect(ctx, "pay", {"amount": amount, "account": account})
        return f"paid {amount}"

    @tool(needs_approval=True, expires_after=timedelta(seconds=40))
    async def soon(ctx: ToolContext, amount: int, account: str = account) -> str:
        """Pay, if it is approved soon."""
        await take_effect(ctx, "soon", {"amount": amount, "account": account})
        return f"paid {amount}"

    rule = Approval(
        by=["boss"],
        quorum=2,
        remind_after=timedelta(minutes=1),
        escalate_after=timedelta(minutes=2),
        escalate_to=["chief"],
    )

    @tool(needs_approval=rule, expires_after=timedelta(minutes=10))
    async def big(ctx: ToolContext, amount: int, account: str = account) -> str:
        """Pay much."""
        await take_effect(ctx, "big", {"amount": amount, "account": account})
        return f"paid {amount}"

    @tool
    async def look(ctx: ToolContext, amount: int) -> str:
        """Look."""
        await take_effect(ctx, "look", {"amount": amount})
        return f"saw {amount}"

    @tool(suspend=Offer, resume=Choice)
    async def book(ctx: ToolContext, day: str) -> Any:
        """Book."""
        chosen = ctx.resume
        if chosen is None or chosen.slot == "full":
            return ctx.suspend(Offer(slots=[f"{day}-a"]))
        await take_effect(ctx, "book", {"slot": chosen.slot})
        return "booked"

    @tool(needs_approval=deployed.mail_asks)
    async def mail(ctx: ToolContext, n: int) -> str:
        """Mail."""
        token = await ctx.token("box")
        await take_effect(ctx, "mail", {"has_token": bool(token)})
        return "mailed"

    own = [each for each in (pay, soon, big, look, book, mail) if each.name not in without]
    paying: list[Any] = [each for each in own if each.name in PAYS]
    more: list[Any] = []
    if "desk" not in without:
        desk = Agent("desk", model="m", tools=paying, tool_concurrency=3)
        more.append(desk.as_tool("Pays."))
    if "aide" not in without:
        aide = Agent("aide", model="m", tools=paying, tool_concurrency=3)
        more.append(aide.as_tool("Pays later.", background=True))
    options: dict[str, Any] = {"tool_concurrency": deployed.concurrency}
    if deployed.compacts:
        short = ObservationalMemory(message_tokens=200)
        options["memory"] = Memory(compaction=short, last_messages=2)
    if deployed.hooks:
        options["hooks"] = [SlowEnd()]
    if deployed.limits is not None:
        options["limits"] = Limits(tool_calls=deployed.limits)
    box = Connection(
        "box",
        token_url="https://box.example/token",
        client_id="client",
        authorize_url="https://box.example/authorize",
        scopes=["mail"],
    )
    clerk = Agent("clerk", model="m", tools=[*own, *more], connections=[box], **options)
    shop = Agent(
        "shop",
        model="m",
        tools=[*own, *more],
        connections=[box],
        handoffs=[clerk] if deployed.passes else [],
        **options,
    )
    return {"shop": shop, **({"clerk": clerk} if deployed.passes else {})}
