"""Tools whose effects are counted while processes die."""

import asyncio
from datetime import timedelta
from typing import Any

from layover import (
    Agent,
    Allow,
    Approval,
    Connection,
    EpisodicMemory,
    Hook,
    HookContext,
    Limits,
    Memory,
    ModelRequest,
    ObservationalMemory,
    Refuse,
    Result,
    RunContext,
    SemanticRecall,
    ToolCall,
    ToolContext,
    mcp,
    tool,
)
from support.agents.ledger import accounts_address, gate, note, tools_address
from support.agents.shop import SlotChoice, SlotOffer


@tool(idempotent=True)
async def look_up(ctx: ToolContext, order: str) -> str:
    """May be repeated."""
    note("look_up", ctx)
    await asyncio.sleep(0.01)
    return f"{order} is on its way"


@tool
def charge(ctx: ToolContext, order: str) -> str:
    """Must not be repeated."""
    note("charge", ctx)
    return f"{order} charged"


@tool(needs_approval=True)
def refund(ctx: ToolContext, order: str) -> str:
    """Must not be repeated, and needs approval."""
    note("refund", ctx)
    return f"{order} paid back"


@tool(needs_approval=Approval(by=["finance"], quorum=2))
def wire(ctx: ToolContext, order: str) -> str:
    """Must not be repeated, and two others have to approve."""
    note("wire", ctx)
    return f"{order} wired"


@tool(suspend=SlotOffer, resume=SlotChoice)
def book(ctx: ToolContext, order: str) -> Any:
    """Asks once more if the answer is `other`."""
    if ctx.resume is None:
        return ctx.suspend(SlotOffer(slots=["10:00", "11:00"]))
    if ctx.resume.slot == "other":
        return ctx.suspend(SlotOffer(slots=["12:00"]))
    note("book", ctx)
    return f"{order} booked at {ctx.resume.slot}"


@tool(suspend=SlotOffer, resume=SlotChoice, idempotent=True)
def offer(ctx: ToolContext, order: str) -> Any:
    """May be repeated: a death before it has asked makes it ask."""
    if ctx.resume is None:
        return ctx.suspend(SlotOffer(slots=["10:00"]))
    note("offer", ctx)
    return f"{order} comes at {ctx.resume.slot}"


@tool
async def hold(ctx: ToolContext, order: str) -> str:
    """Must not be repeated, and lasts until the test lets it go."""
    note("hold", ctx)
    await gate(order)
    note("held", ctx)
    return f"{order} held"


TOOLS: list[Any] = [look_up, charge, refund, wire, book, offer, hold]


class Watches(Hook):
    """Has something journaled at each step: before its request is sent, and with each charge."""

    async def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest:
        settings = request.settings.model_copy(update={"seed": len(request.messages)})
        return request.model_copy(update={"settings": settings})

    async def before_tool(self, ctx: HookContext, call: ToolCall) -> Allow | None:
        return Allow(reason="charges are fine") if call.tool_name == "charge" else None

    async def at_end(self, ctx: HookContext, result: Result) -> None:
        return None


deputy, aide = (
    Agent(
        name=name,
        model="openai/fake-1",
        instructions="You are deterministic.",
        tools=TOOLS,
        tool_concurrency=2,
        hooks=[Watches()],
    )
    for name in ("deputy", "aide")
)

cashier = Agent(
    name="cashier",
    model="openai/fake-1",
    instructions="You are deterministic, too.",
    tools=TOOLS,
    tool_concurrency=2,
)

crew = Agent(name="crew", model="openai/fake-1", tools=TOOLS, tool_concurrency=40)

foreman = Agent(
    name="foreman",
    model="openai/fake-1",
    tools=[*TOOLS, crew.as_tool("Does much at once.")],
    tool_concurrency=40,
)
"""More calls of its crews wait at once than one transaction can cancel."""

torture = Agent(
    name="torture",
    model="openai/fake-1",
    instructions="You are deterministic.",
    tools=[
        *TOOLS,
        deputy.as_tool("Does it in its own name."),
        aide.as_tool("Does it beside.", background=True),
    ],
    handoffs=[cashier],
    tool_concurrency=2,
)


class NamesItsUser(Hook):
    """Tells the provider whose request it is."""

    async def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest:
        settings = request.settings.model_copy(update={"extra": {"user": ctx.resource_id}})
        return request.model_copy(update={"settings": settings})


patient = Agent(
    name="patient",
    model="openai/fake-1",
    instructions="You are deterministic.",
    tools=TOOLS,
    tool_concurrency=2,
    hooks=[NamesItsUser()],
    # Each story moves the clock of all.
    limits=Limits(provider_patience=timedelta(days=30)),
)
"""Its provider refuses the requests of some users."""


class NoContraband(Hook):
    """Refuses what users may not ask for. Its answers are journaled."""

    once_per_input = True

    async def before_model(self, ctx: HookContext, request: ModelRequest) -> Refuse | None:
        if any("contraband" in message.text for message in request.unanswered):
            return Refuse("contraband", reply="I have nothing of that kind.")
        return None


bouncer = Agent(
    name="bouncer",
    model="openai/fake-1",
    instructions="You are deterministic.",
    tools=TOOLS,
    tool_concurrency=2,
    hooks=[NoContraband()],
)


def tools_of_server(ctx: RunContext[Any]) -> Any:
    """The tools of the server that outlives all processes of this system. It notes whose calls it gets."""
    return mcp(
        tools_address(),
        name="shop",
        private=True,
        headers=lambda ctx: {"x-owner": ctx.resource_id, "x-run": ctx.run_id},
        approve=lambda each: each.name == "refund",
    )


broker = Agent(
    name="broker",
    model="openai/fake-1",
    instructions="You are deterministic.",
    tools=tools_of_server,
    tool_concurrency=2,
)
"""Its tools are a server's."""


hub = Connection(
    "hub",
    authorize_url=f"{accounts_address()}/authorize",
    token_url=f"{accounts_address()}/token",
    revoke_url=f"{accounts_address()}/revoke",
    client_id="layover",
    scopes=["stars"],
)


@tool(idempotent=True)
async def star(ctx: ToolContext, order: str) -> str:
    """May be repeated, and needs the user's account."""
    token = await ctx.token("hub")
    note("star", ctx, is_token=token.startswith("access-"))
    return f"{order} starred"


stargazer = Agent(
    name="stargazer",
    model="openai/fake-1",
    instructions="You are deterministic.",
    tools=[*TOOLS, star],
    tool_concurrency=2,
    connections=[hub],
)
"""Its users have accounts elsewhere."""


@tool
def read_note(ctx: ToolContext, page: int) -> str:
    """One short page: about 300 tokens."""
    note(f"page {page}", ctx)
    return f"page {page}: the code is K-{page * 7919}. " + "words of a page " * 75


learner = Agent(
    name="learner",
    model="openai/fake-1",
    tools=[read_note],
    memory=Memory(
        last_messages=4,
        compaction=ObservationalMemory(message_tokens=1_500, observation_tokens=120),
        result_tokens=600,
        episodic=EpisodicMemory(),
        semantic_recall=SemanticRecall(),
        profile=True,
        session=True,
    ),
)
