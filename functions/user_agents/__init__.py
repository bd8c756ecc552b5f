"""Your agents. Every `Agent` at the top level of this module is served.

Run `make dev`, change something here, and talk to it at http://127.0.0.1:8787."""

from datetime import date, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from layover import Agent, EpisodicMemory, Memory, ToolContext, WorkingMemory, tool


class Order(BaseModel):
    id: str
    item: str
    amount: float
    status: Literal["packed", "shipped", "delivered"]


ORDERS = {
    order.id: order
    for order in (
        Order(id="A-1001", item="walnut desk lamp", amount=42.00, status="delivered"),
        Order(id="A-1002", item="oak bookshelf", amount=249.50, status="shipped"),
        Order(id="A-1003", item="linen curtains", amount=79.90, status="packed"),
    )
}


@tool(trusted=True)
def lookup_order(order_id: str) -> Order:
    """Look up an order by its number, for example A-1001."""
    if order_id not in ORDERS:
        raise LookupError(f"There is no order {order_id}.")  # the model reads this and goes on
    return ORDERS[order_id]


@tool(needs_approval=lambda args, ctx: args["amount"] > 50)
def refund(order_id: str, amount: Annotated[float, Field(gt=0)], ctx: ToolContext) -> str:
    """Refund an amount in euros for an order. More than 50 euros needs a person's approval."""
    order = lookup_order(order_id)
    if amount > order.amount:
        raise ValueError(f"{order_id} cost {order.amount:.2f} euros, less than {amount:.2f}.")
    # A payment service would take ctx.idempotency_key, so that no crash can pay twice.
    return (
        f"Refunded {amount:.2f} euros for the {order.item} (receipt R-{ctx.idempotency_key[-6:]})."
    )


class SlotOffer(BaseModel):
    """The guest's view while the call waits."""

    day: date
    people: int
    slots: list[str]


class SlotChoice(BaseModel):
    """The guest's answer."""

    slot: str


class Booking(BaseModel):
    day: date
    slot: str
    people: int
    code: str


@tool(suspend=SlotOffer, resume=SlotChoice, expires_after=timedelta(days=2))
async def book_table(
    ctx: ToolContext, day: date, people: Annotated[int, Field(ge=1, le=12)]
) -> Booking:
    """Book a table in the showroom's cafe. The guest chooses one of the free times."""
    slots = ["18:00", "19:30"] if day.weekday() >= 4 else ["18:00", "19:00", "20:00"]
    if ctx.resume is None or ctx.resume.slot not in slots:
        return ctx.suspend(SlotOffer(day=day, people=people, slots=slots))  # costs nothing, waits
    return Booking(
        day=day, slot=ctx.resume.slot, people=people, code=f"T-{ctx.idempotency_key[-6:]}"
    )


support = Agent(
    name="support",
    instructions=(
        "You are the friendly support of a small furniture shop. Look an order up before you say"
        " anything about it. Refund only what the customer paid. Answer in two or three sentences."
    ),
    tools=[lookup_order, refund, book_table],
    # What a customer says in one thread is known in the next one.
    memory=Memory(episodic=EpisodicMemory()),
)

concierge = Agent(
    name="concierge",
    instructions=(
        "You plan visits to the showroom: tables in the cafe, what to see, how to get here. Keep"
        " what you learn about the guest in your notes. What concerns an order is the support's."
    ),
    # A sub-agent: what it wants to refund waits as a pending call of the concierge's run.
    tools=[book_table, support.as_tool("Knows orders: where they are, and what can be refunded.")],
    memory=Memory(working_memory=WorkingMemory()),
)
