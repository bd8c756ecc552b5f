"""Everything that an author declares: each kind of tool, each part of memory."""

import math
from datetime import date, timedelta
from typing import Any, Literal

from pydantic import BaseModel

from layover import (
    Agent,
    EpisodicMemory,
    Hook,
    HookContext,
    Memory,
    NodeMemory,
    ObservationalMemory,
    Refuse,
    RollingSummary,
    SemanticRecall,
    TokenBuffer,
    ToolCall,
    ToolContext,
    WorkingMemory,
    tool,
)
from support.agents.ledger import gate, note


class SlotOffer(BaseModel):
    """The slots that a booking offers."""

    slots: list[str]


class SlotChoice(BaseModel):
    """The slot that a person chooses."""

    slot: str


@tool
def look_up(key: str) -> dict[str, str]:
    """Look up what is known of an order."""
    note("look_up", key=key)
    return {"key": key, "state": "on its way"}


@tool
def breaks(key: str) -> str:
    """A tool that fails."""
    print("breaks was asked")
    raise LookupError(f"no {key}")


@tool
def tells(ctx: ToolContext, key: str) -> str:
    """Sends data while it runs."""
    ctx.emit({"progress": 1})
    ctx.emit({"progress": 2})
    return key


@tool(
    needs_approval=True,
    summary=lambda args, ctx: f"Pay {args['amount']:g} euros back for {args['order_id']}",
    risk=lambda args, ctx: "high" if args["amount"] > 50 else "low",
)
def refund(order_id: str, amount: float) -> str:
    """Pay back."""
    note("refund", key=order_id, amount=amount)
    return f"paid {amount:g} for {order_id}"


@tool(suspend=SlotOffer, resume=SlotChoice)
def book(ctx: ToolContext, key: str) -> Any:
    """Book a slot; the slot `other` makes it ask again."""
    if ctx.resume is None:
        return ctx.suspend(SlotOffer(slots=["10:00", "11:00"]))
    if ctx.resume.slot == "other":
        return ctx.suspend(SlotOffer(slots=["12:00"]))
    note("book", key=key, slot=ctx.resume.slot)
    return {"booked": ctx.resume.slot}


@tool(needs_approval=True, expires_after=timedelta(seconds=4))
def urgent(key: str) -> str:
    """Has to be approved soon."""
    note("urgent", key=key)
    return "done"


@tool
async def slow(ctx: ToolContext, key: str) -> str:
    """Takes as long as the test wants; must not be repeated."""
    note("slow", key=key, idempotency_key=ctx.idempotency_key)
    await gate(key)
    note("slow-done", key=key)
    return "slowly done"


@tool(idempotent=True)
async def slow_again(ctx: ToolContext, key: str) -> str:
    """Takes as long as the test wants; may be repeated."""
    note("slow_again", key=key, idempotency_key=ctx.idempotency_key)
    await gate(key)
    note("slow_again-done", key=key)
    return "slowly done again"


@tool(needs_approval=True)
async def slow_refund(ctx: ToolContext, key: str) -> str:
    """Approved first, then as long as the test wants; must not be repeated."""
    note("slow_refund", key=key, idempotency_key=ctx.idempotency_key)
    await gate(key)
    note("slow_refund-done", key=key)
    return "refunded"


@tool
def dump(key: str) -> str:
    """Answers more than a model can read."""
    return "a" * 250_000 + key


@tool
async def draw(ctx: ToolContext, key: str) -> Any:
    """Makes a file."""
    return await ctx.save_file(f"{key}.csv", "text/csv", b"1,2\n")


@tool
async def remember(ctx: ToolContext, key: str) -> list[str]:
    """Adds to its own node."""
    node = ctx.node_memory("notes")
    await node.add([{"role": "user", "content": key}])
    await node.flush()
    return [message["content"] for message in await node.history()]


@tool(needs_approval=True, expires_after=timedelta(days=2))
def count_out(order_id: str, points: int) -> str:
    """Give whole points."""
    return f"{points} points for {order_id}"


@tool(needs_approval=True)
def ship(
    order_id: str,
    speed: Literal["slow", "fast", "now"],
    day: date,
    boxes: list[int],
    gift: bool = False,
    card: str | None = None,
) -> str:
    """Send an order: an argument of each kind."""
    return f"{order_id} goes {speed} on {day} in {boxes}, gift: {gift}, card: {card!r}"


FILES: list[Any] = [dump, draw, remember]
TOOLS: list[Any] = [look_up, breaks, tells, refund, book, urgent, slow, slow_again, slow_refund]

support = Agent(name="support", model="openai/fake-1", instructions="You help.", tools=TOOLS)
wide = Agent(
    name="wide",
    model="openai/fake-1",
    instructions="You do much at once.",
    tools=[*TOOLS, count_out, ship],
    tool_concurrency=math.inf,
)
clerk = Agent(
    name="clerk",
    model="openai/fake-1",
    instructions="You file.",
    tools=FILES,
    tool_concurrency=10,
    memory=Memory(history=NodeMemory("desk")),
)
plain = Agent(name="plain", model="openai/fake-1", instructions="You chat.")


class Refusal(Hook):
    """Refuses large refunds."""

    def before_tool(self, ctx: HookContext, call: ToolCall) -> Refuse | None:
        too_large = call.tool_name == "refund" and call.args["amount"] > 100
        return Refuse("more than 100 euros") if too_large else None


class Report(BaseModel):
    """The output of an inspector."""

    order: str
    verdict: str


inspector = Agent(
    name="inspector", model="openai/fake-1", tools=TOOLS, hooks=[Refusal()], output=Report
)


class Notes(BaseModel):
    """The notes that a keeper writes down."""

    name: str | None = None
    pets: list[str] | None = None


@tool
async def tries(ctx: ToolContext, action: str) -> str:
    """Tries something, in vain, and says so in the log."""
    await ctx.log_attempt("deploy", action, error="no disk", diagnosis="it is full")
    return "in vain"


@tool(to_message=lambda result: {"name": "card", "data": {"drawn": result}})
def card(key: str) -> str:
    """Shows people something that no model sees."""
    return f"card of {key}"


@tool
def page(number: int) -> str:
    """A page of a book: 5,000 characters, 1,250 tokens."""
    return f"page {number} ".ljust(5_000, ".")


def chatty(name: str, memory: Memory, *tools: Any) -> Agent:
    """An agent that differs from others in what it remembers."""
    return Agent(
        name=name, model="openai/fake-1", instructions="You chat.", tools=tools, memory=memory
    )


keeper = chatty(
    "keeper",
    Memory(working_memory=WorkingMemory(schema=Notes), profile=True, session=True, plan=True),
    tries,
    refund,
)
diarist = chatty("diarist", Memory(working_memory=WorkingMemory(scope="thread"), titles=False))
finder = chatty(
    "finder",
    Memory(
        last_messages=2,
        semantic_recall=SemanticRecall(top_k=1, before=0, after=0),
        role_prefix={"user": "Customer"},
        titles=False,
    ),
)
seeker = chatty(
    "seeker",
    Memory(
        last_messages=2,
        semantic_recall=SemanticRecall(top_k=2, before=0, after=0, scope="resource"),
        titles=False,
    ),
    refund,
)
scholar = chatty("scholar", Memory(episodic=EpisodicMemory(), titles=False))
forgetful = chatty("forgetful", Memory(last_messages=4, titles=False), look_up, card, page)
framed = chatty("framed", Memory(query_template="<asked>{{query}}</asked>", titles=False))
thrifty = chatty(
    "thrifty", Memory(token_buffer=TokenBuffer(max_tokens=1_000), titles=False), look_up, page
)


@tool(idempotent=True)
def read_page(page: int) -> str:
    """One page of a long book: about 2,000 tokens. The code is where it begins, the seal in its middle."""
    words = "words of a page " * 250
    return f"page {page}: the code is K-{page * 7919}. {words}the seal is S-{page * 6271}. {words}"


page_reader = Agent("page-reader", tools=[read_page], max_iterations=60)
page_keeper = Agent(
    "page-keeper",
    tools=[read_page],
    max_iterations=60,
    memory=Memory(compaction=ObservationalMemory(), result_tokens=math.inf),
)
page_observer = Agent(
    "page-observer",
    tools=[read_page],
    max_iterations=60,
    memory=Memory(compaction=ObservationalMemory()),
)


@tool(idempotent=True)
def read_note(page: int) -> str:
    """One short page: about 300 tokens."""
    return f"page {page}: the code is K-{page * 7919}. " + "words of a page " * 75


note_observer = Agent(
    "note-observer",
    tools=[read_note],
    max_iterations=60,
    memory=Memory(
        last_messages=4,
        compaction=ObservationalMemory(message_tokens=2_000, observation_tokens=4_000),
    ),
)
note_summariser = Agent(
    "note-summariser",
    tools=[read_note],
    max_iterations=60,
    memory=Memory(compaction=RollingSummary(max_window=12_000, tail=4)),
)
